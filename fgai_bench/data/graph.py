"""Bring graphs into the form that the loader returns: checked, undirected, without loops and duplicates."""

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import remove_self_loops, to_undirected

from fgai_bench.data.errors import DataError

SPARSE_BELOW = 0.1
"""Features with a smaller share of non-zeros are kept as CSR, all others dense."""


def csr_tensor(indptr: Tensor, indices: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """Return a float32 CSR matrix, without torch's notice that CSR is in beta.

    >>> csr_tensor(torch.tensor([0, 1, 1]), torch.tensor([2]), torch.tensor([5.0]), (2, 3)).to_dense()
    tensor([[0., 0., 5.],
            [0., 0., 0.]])
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(indptr.long(), indices.long(), values.float(), shape, check_invariants=True)


def as_csr(x: Tensor) -> Tensor:
    """Return features of any layout as float32 CSR, entries of one place added up: ``(N, F) -> (N, F)``."""
    coo = x.to_sparse_coo().coalesce()
    rows, columns = coo.indices()
    indptr = torch.nn.functional.pad(torch.bincount(rows, minlength=x.shape[0]).cumsum(0), (1, 0))
    return csr_tensor(indptr, columns, coo.values(), (x.shape[0], x.shape[1]))


def check_edges(name: str, edges: NDArray[Any], nodes: int) -> None:
    """Raise if an end of an edge is not a node, naming the first such end."""
    wrong = edges[(edges < 0) | (edges >= nodes)]
    if wrong.size:
        raise DataError(f"{name} has an edge with node {int(wrong[0])}, out of range for its {nodes} nodes")


def canonical(data: Data) -> Data:
    """Return the same graph in the form that every part of the benchmark relies on.

    Edges in both directions, sorted by (source, destination), without loops and duplicates; features float32, as CSR if
    fewer than 10 % are non-zero and dense otherwise; labels int64.
    """
    edges = remove_self_loops(data.edge_index.long())[0]
    data.edge_index = to_undirected(edges, num_nodes=data.x.size(0))  # (2, E)
    data.x = _compact(data.x)
    data.y = data.y.long()
    return data


def select_rows(x: Tensor, rows: Tensor) -> Tensor:
    """Return rows of a dense or CSR matrix, in its layout: ``(N, F), (R,) -> (R, F)``.

    >>> x = csr_tensor(torch.tensor([0, 1, 2]), torch.tensor([2, 0]), torch.tensor([5.0, 7.0]), (2, 3))
    >>> select_rows(x, torch.tensor([1])).to_dense()
    tensor([[7., 0., 0.]])
    """
    if x.layout == torch.strided:
        return x[rows]
    counts = x.crow_indices().diff()[rows]  # (R,)
    indptr = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
    first = (x.crow_indices()[rows] - indptr[:-1]).repeat_interleave(counts)  # (nnz of the rows,)
    place = first + torch.arange(first.numel(), device=x.device)
    size = rows.numel(), x.shape[1]
    return torch.sparse_csr_tensor(indptr, x.col_indices()[place], x.values()[place], size, check_invariants=False)


def undirected_keys(edge_index: Tensor, num_nodes: int) -> NDArray[np.int64]:
    """Return one sorted number ``min * num_nodes + max`` for each undirected edge that is not a loop.

    >>> undirected_keys(torch.tensor([[0, 1, 2, 2], [1, 0, 2, 0]]), num_nodes=3)
    array([1, 2])
    """
    source, target = edge_index.cpu().numpy()
    keys = np.minimum(source, target) * np.int64(num_nodes) + np.maximum(source, target)
    return torch.from_numpy(keys[source != target]).unique().numpy()  # ten times faster than numpy's hashing


def undirected_edge_count(edge_index: Tensor) -> int:
    """Return the number of undirected edges, without loops and duplicates.

    >>> undirected_edge_count(torch.tensor([[0, 1, 2, 2], [1, 0, 2, 0]]))
    2
    """
    return len(undirected_keys(edge_index, int(edge_index.max()) + 1)) if edge_index.numel() else 0


def _compact(x: Tensor) -> Tensor:
    if x.layout != torch.strided and x.values().numel() >= SPARSE_BELOW * x.numel():
        return x.to_dense().float()
    if x.layout == torch.strided and torch.count_nonzero(x) < SPARSE_BELOW * x.numel():
        return as_csr(x)
    return x.float()
