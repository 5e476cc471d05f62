"""Find what an attacked graph changed, the features of existing nodes, and which nodes that can reach."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data


def row_differences(before: Tensor, after: Tensor) -> Tensor:
    """Return the largest absolute change of an entry in each original row, dense or CSR: ``(N, F), (M, F) -> (N,)``.

    >>> row_differences(torch.tensor([[0.0, 1.0], [2.0, 0.0]]), torch.tensor([[0.0, 1.0], [2.0, 3.0], [9.0, 9.0]]))
    tensor([0., 3.])
    """
    rows = before.shape[0]
    if before.layout != torch.sparse_csr:
        return before.new_zeros(rows) if before is after else (after[:rows] - before).abs().amax(1)
    kept = after.to_sparse_coo().coalesce()
    inside = kept.indices()[0] < rows
    originals = torch.sparse_coo_tensor(
        kept.indices()[:, inside], kept.values()[inside], before.shape, check_invariants=False
    )
    change = (originals - before.to_sparse_coo()).coalesce()
    return before.values().new_zeros(rows).scatter_reduce_(0, change.indices()[0], change.values().abs(), "amax")


def reached_nodes(clean: Data, attacked: Data, layers: int | None) -> Tensor:
    """Return which original nodes have something that changed within ``layers`` hops behind them: ``(N,)`` boolean.

    A node is reached by one layer if an edge into it is new, or if its own features or those of an in-neighbour have
    changed; by every further layer if an in-neighbour was reached before. A model that is not local (``layers`` is
    None), such as one with encodings of the whole graph, is reached everywhere.

    >>> path = Data(x=torch.zeros(4, 1), edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]))
    >>> longer = Data(x=torch.zeros(5, 1), edge_index=torch.tensor([[0, 1, 2, 4], [1, 2, 3, 1]]))
    >>> reached_nodes(path, longer, layers=2).tolist()
    [False, True, True, False]
    """
    nodes, size, edges = clean.x.shape[0], attacked.x.shape[0], clean.edge_index.size(1)
    if layers is None:
        return torch.ones(nodes, dtype=torch.bool, device=clean.edge_index.device)
    source, destination = attacked.edge_index
    reached = torch.zeros(size, dtype=torch.bool, device=source.device)
    reached[:nodes] = row_differences(clean.x, attacked.x).to(source.device) > 0
    if not layers:
        return reached[:nodes]
    reached[destination[reached[source]]] = True
    reached[destination[edges:]] = True
    for _ in range(layers - 1):
        reached[destination[reached[source]]] = True
    return reached[:nodes]
