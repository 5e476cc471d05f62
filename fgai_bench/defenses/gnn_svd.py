"""Define GNN-SVD (Entezari et al. 2020, https://doi.org/10.1145/3336191.3371789): a GCN on a low-rank graph."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from pydantic import Field
from scipy.sparse.linalg import svds
from threadpoolctl import threadpool_limits
from torch import Tensor

from fgai_bench.defenses.deeprobust_gcn import Aggregation, GCNModel, GCNOptions, inverse_root, normalised, quiet
from fgai_bench.defenses.vanilla import ReplacedModel
from fgai_bench.fast.cached_results import OncePerTensor
from fgai_bench.fast.ordered_sums import SparseRows, sum_at
from fgai_bench.options import OWN_NETWORK, Choice, Space

with quiet():
    from deeprobust.graph.defense import GCNSVD

RESIDUAL = 1e-10
"""Of the slowest pair on a GPU at the end, over the largest squared singular value."""
NEGLIGIBLE = 1e-7
"""A singular value below this share of the largest one is rounding and counts as 0."""
MAX_ROUNDS = 1000


@dataclass(frozen=True)
class LowRank:
    """A low-rank graph ``A_k = left core right``: ``(N, k), (k, k), (k, N)``."""

    left: Tensor
    core: Tensor
    right: Tensor

    def dense(self) -> Tensor:
        """Return ``A_k`` itself: ``(N, N)``."""
        return self.left @ self.core @ self.right

    def product(self, h: Tensor) -> Tensor:
        """Return ``A_k h`` through the factors: ``(N, D) -> (N, D)``."""
        return self.left @ (self.core @ (self.right @ h))


def truncated_svd(edge_index: Tensor, num_nodes: int, rank: int, edge_weight: Tensor | None = None) -> LowRank:
    """Return the ``rank`` largest singular values of the adjacency (destinations in the rows) and their vectors.

    A CPU uses scipy's ``svds``, a GPU :func:`block_svd`; a matrix that is hardly larger than the rank is made dense.

    >>> low = truncated_svd(torch.tensor([[0, 1], [1, 0]]), 2, rank=2)
    >>> low.dense().round(decimals=4).abs().tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    source, destination = edge_index
    weight = torch.ones_like(source) if edge_weight is None else edge_weight.detach()
    if num_nodes > 4 * rank and edge_index.is_cuda:
        left, values, right = block_svd(destination, source, weight.double(), num_nodes, rank)
    else:
        entries = weight.double().cpu().numpy(), edge_index.flip(0).cpu().numpy()
        left, values, right = _cpu_svd(sp.csr_array(entries, shape=(num_nodes, num_nodes)), rank)
    values = torch.where(values > NEGLIGIBLE * values[0], values, 0)
    return LowRank(*(part.float().to(source.device) for part in (left * (values > 0), values.diag(), right)))


def _cpu_svd(matrix: sp.csr_array, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return left vectors, values and right vectors, ``(N, k), (k,), (k, N)``, largest first."""
    size = matrix.shape[0]
    if size <= 4 * rank or not matrix.nnz:
        left, values, right = torch.linalg.svd(torch.from_numpy(matrix.toarray()))
        return left[:, :rank], values[:rank], right[:rank]
    start = np.random.default_rng(0).standard_normal(size)
    with threadpool_limits(1):  # so that the bits do not depend on the number of threads
        parts = svds(matrix, k=rank, v0=start)
    left, values, right = (torch.from_numpy(part.copy()) for part in parts)
    order = values.argsort(descending=True)
    return left[:, order], values[order], right[order]


def block_svd(row: Tensor, column: Tensor, values: Tensor, size: int, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    r"""Return left vectors, values and right vectors, ``(N, k), (k,), (k, N)``, largest first, for ``k = rank``.

    Subspace iteration on :math:`G = A^T A` with twice as many vectors as are wanted, whose start has a fixed seed:

    .. math:: Q = \mathrm{orth}(G X), \qquad Q^T G Q = S \Theta S^T, \qquad X \leftarrow Q S

    until :math:`\lVert G v_i - \theta_i v_i \rVert` is small for the largest ``k``, or ``MAX_ROUNDS`` times. The left
    vectors are :math:`U = A V \Theta^{-1/2}`. Sums have a fixed order, so that one graph always gives the same bits.
    """
    forward, backward = _by_row(row, column, values, size), _by_row(column, row, values, size)
    start = torch.Generator().manual_seed(0)
    block = torch.randn(size, min(2 * rank + 16, size), dtype=torch.float64, generator=start).to(values.device)
    for _ in range(MAX_ROUNDS):
        basis = torch.linalg.qr(block).Q  # (N, b)
        image = backward(forward(basis))
        squares, rotation = torch.linalg.eigh(basis.t() @ image)
        block, vectors = image @ rotation, basis @ rotation
        residuals = (block - vectors * squares).norm(dim=0)[-rank:]
        if bool((residuals <= RESIDUAL * squares[-1]).all()):
            break
    singular, right = squares[-rank:].flip(0).clamp(min=0).sqrt(), vectors[:, -rank:].flip(1)
    return forward(right) / torch.where(singular > 0, singular, torch.inf), singular, right.t()


def _by_row(row: Tensor, column: Tensor, values: Tensor, size: int) -> Aggregation:
    """Return the product with the matrix of these entries, (nnz,) each; those at the same place add up."""
    ordered, order = row.sort(stable=True)
    pointer = torch.searchsorted(ordered, torch.arange(size + 1, device=row.device))
    rows, entries = SparseRows(pointer, column[order], (size, size)), values[order]
    return lambda block: rows.product(entries, block.contiguous())


_known_low_rank = OncePerTensor(truncated_svd)


def low_rank(edge_index: Tensor, num_nodes: int, rank: int, edge_weight: Tensor | None = None) -> LowRank:
    """Return the low-rank graph, computed once per graph; with weights, differentiable in them.

    With weights the core is ``left^T A_w right^T``: its value is that of the singular values, and its gradient the
    exact gradient with the singular vectors held fixed.
    """
    if edge_weight is None:
        return _known_low_rank(edge_index, num_nodes, rank)
    factors = truncated_svd(edge_index, num_nodes, rank, edge_weight)
    messages = edge_weight.unsqueeze(1) * factors.right.t()[edge_index[0]]  # (E, k)
    spread = sum_at(edge_index[1], messages, num_nodes)  # (N, k)
    return LowRank(factors.left, factors.left.t() @ spread, factors.right)


class GNNSVDModel(GCNModel):
    """DeepRobust's GCNSVD: a GCN on ``D^(-1/2) (A_k + I) D^(-1/2)``, where ``A_k`` is the truncated SVD of the graph.

    Every input graph gets its own decomposition. Row sums of a low-rank graph may be negative: such a node
    gets degree 0 (GCNSVD gets NaN there). With ``dense``, ``A_k`` is an N x N matrix instead of two factors.
    """

    global_because = "its low-rank graph depends on all edges"

    network_class = GCNSVD
    defaults: ClassVar[dict[str, Any]] = {"rank": 15, "dense": False}

    def capturable(self, new_edges: bool) -> bool:
        return not new_edges and not self.config["dense"]

    def structure(self, profile: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Aggregation:
        low = low_rank(edge_index, profile.shape[0], self.config["rank"], edge_weight)
        if self.config["dense"]:
            adjacency = normalised(low.dense())
            return lambda h: adjacency @ h
        scale = inverse_root(low.product(torch.ones_like(low.left[:, :1])) + 1)  # (N, 1)
        return lambda h: scale * (low.product(scale * h) + scale * h)


class GNNSVDOptions(GCNOptions):
    """The size of the network, and ``rank``: how many singular values are kept."""

    rank: int = Field(15, ge=1)


class GNNSVDSparse(ReplacedModel):
    """GNN-SVD through the factors of the low-rank graph; options as in :class:`GNNSVDOptions`."""

    summary = "GNN-SVD through the factors of the low-rank graph: the same function, for large graphs"
    paper = "https://doi.org/10.1145/3336191.3371789"
    version = "4"  # singular vectors by scipy: other last bits
    tags: ClassVar[tuple[str, ...]] = ("node", "replaces-model", "no-attention")
    options_class = GNNSVDOptions
    model_class = GNNSVDModel
    search_space: ClassVar[Space | None] = {**OWN_NETWORK, "defense.rank": Choice(5, 15, 50, 150)}


class GNNSVD(GNNSVDSparse):
    """GNN-SVD with the low-rank graph as an N x N matrix; options as in :class:`GNNSVDOptions`."""

    summary = "GNN-SVD: a GCN on the truncated SVD of the graph (DeepRobust)"
    paper = "https://doi.org/10.1145/3336191.3371789"
    version = "4"  # singular vectors by scipy: other last bits
    tags = ("node", "replaces-model", "no-attention", "dense")
    matrices = 6
    form: ClassVar[dict[str, Any]] = {"dense": True}
