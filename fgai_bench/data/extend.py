"""Extend a graph so that everything it carries still fits, and find what an extended graph changed and can reach."""

from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.fast.cached_results import OncePerTensor

GIVEN_BY_CALLER = ("x", "edge_index")


@OncePerTensor  # counting waits for a GPU, and an attack inside a captured training must not wait
def typical_row(values: Tensor) -> Tensor:
    """Return the row that a new node or edge has: the mean of numbers, the most common of integers, False of masks.

    >>> typical_row(torch.tensor([[1.0, 0.0], [0.0, 0.0]])).tolist(), int(typical_row(torch.tensor([2, 5, 5])))
    ([0.5, 0.0], 5)
    """
    if values.dtype == torch.bool:
        return torch.zeros_like(values[0])
    return values.mean(0) if values.is_floating_point() or values.is_complex() else values.mode(0).values


def with_new_rows(values: Tensor, rows: int, fill: Tensor | None = None) -> Tensor:
    """Append ``rows`` typical rows: ``(N, ...) -> (N + rows, ...)``.

    >>> with_new_rows(torch.tensor([1.0, 3.0]), 1).tolist()
    [1.0, 3.0, 2.0]
    """
    if not rows or not values.shape[0]:
        return values
    row = typical_row(values) if fill is None else fill
    return torch.cat([values, row.expand(rows, *values.shape[1:])])


def extended(data: Data, x: Tensor, edge_index: Tensor) -> Data:
    """Return a graph with more nodes or edges; what the graph carries per node and per edge grows with it.

    Original nodes and edges stay first, in their order. New nodes have the label -1 and are in no mask; all else that
    belongs to new nodes and edges is typical of the graph, see :func:`typical_row`.

    >>> graph = Data(x=torch.zeros(2, 1), edge_index=torch.tensor([[0], [1]]), edge_attr=torch.tensor([4.0]))
    >>> extended(graph, torch.zeros(3, 1), torch.tensor([[0, 2], [1, 0]])).edge_attr.tolist()
    [4.0, 4.0]
    """
    nodes, edges = data.x.shape[0], data.edge_index.shape[1]
    content: dict[str, Any] = dict(data.to_dict())
    for name, value in content.items():
        if name in GIVEN_BY_CALLER or not isinstance(value, Tensor):
            continue
        if name == "y":
            content[name] = with_new_rows(value, x.shape[0] - nodes, value.new_full((), -1))
        else:
            new = {"edge": edge_index.shape[1] - edges, "node": x.shape[0] - nodes, "graph": 0}
            content[name] = with_new_rows(value, new[one_row_per(name, value, nodes, edges)])
    return Data.from_dict({**content, "x": x, "edge_index": edge_index})


def one_row_per(name: str, value: Tensor, nodes: int, edges: int) -> Literal["edge", "node", "graph"]:
    """Tell what an attribute describes; where nodes and edges are as many, its name decides."""
    if name.endswith("index") or not value.dim() or value.layout != torch.strided:
        return "graph"
    if value.shape[0] == edges and (edges != nodes or "edge" in name):
        return "edge"
    return "node" if value.shape[0] == nodes else "graph"


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
    for layer in range(layers):
        reached[destination[reached[source]]] = True
        if not layer:
            reached[destination[edges:]] = True
    return reached[:nodes]
