"""Check a graph that somebody brings along: come here for what a user's PyG ``Data`` may look like.

Nothing about the graph is changed that a network trained on it would notice: directed edges stay directed, edge
attributes and further inputs stay with their edges. What cannot be used is answered with one sentence.
"""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, Dataset

from fgai_bench.data.errors import DataError
from fgai_bench.data.graph import as_csr
from fgai_bench.data.node_index import node_index
from fgai_bench.data.splits import PARTS, Split, split_keys

UNLABELLED = -1


def given_graph(data: Any) -> Data:
    """Return a copy of a user's graph with features float32 (dense or CSR), edges int64 and labels ``(N,)`` int64.

    A PyG dataset of one graph counts as that graph. Labels may be ``(N, 1)``; a negative or missing (NaN) one means
    that the node has none, and becomes -1.

    >>> graph = Data(x=torch.eye(2).double(), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([[1], [-7]]))
    >>> tidy = given_graph(graph)
    >>> tidy.x.dtype, tidy.y.tolist(), tidy.edge_index.tolist()
    (torch.float32, [1, -1], [[0], [1]])
    """
    tidy = Data.from_dict(dict(_one_graph(data).to_dict()))
    tidy.x = _features(tidy)
    tidy.edge_index = _edges(tidy)
    tidy.y = _labels(tidy)
    for name in ("edge_attr", "edge_weight", "edge_type"):
        value, edges = tidy.get(name), tidy.edge_index.shape[1]
        if isinstance(value, Tensor) and (not value.dim() or value.shape[0] != edges):
            raise DataError(f"data.{name} has the shape {tuple(value.shape)}, but the graph has {edges} edges")
    return tidy


def _one_graph(data: Any) -> Data:
    """Return the graph itself, or the only graph of a dataset."""
    if isinstance(data, Data):
        return data
    kind = type(data).__name__
    if isinstance(data, Dataset | list | tuple):
        if len(data) == 1 and isinstance(data[0], Data):
            return data[0]
        raise DataError(f"a graph is needed, not a {kind} of {len(data)}; choose one of it, as in [0]")
    raise DataError(
        f"a torch_geometric.data.Data with x, edge_index and y is needed, not the type {kind}; "
        "a HeteroData has to_homogeneous()"
    )


def _features(data: Data) -> Tensor:
    x: Tensor | None = data.x
    if x is None:
        raise DataError(
            "the graph has no features; set data.x, such as torch.ones(data.num_nodes, 10) where there are none"
        )
    if not isinstance(x, Tensor):
        raise DataError(f"data.x must be a tensor, dense or sparse, not the type {type(x).__name__}")
    if x.dim() != 2 or not x.shape[1] or not x.shape[0]:
        raise DataError(f"data.x must have the shape (nodes, features), not {tuple(x.shape)}")
    if x.is_complex():
        raise DataError("data.x has complex numbers; networks of this benchmark take real ones")
    x = x.detach().float()
    if x.layout != torch.strided:
        x = as_csr(x)
    values = x.values() if x.layout == torch.sparse_csr else x
    if not bool(torch.isfinite(values).all()):
        raise DataError("data.x has entries that are NaN or infinite")
    return x


def _edges(data: Data) -> Tensor:
    edges: Tensor | None = data.edge_index
    if edges is None:
        other = " (adj_t alone is not enough)" if "adj_t" in data else ""
        raise DataError(f"the graph has no edge_index{other}; give it one of shape (2, edges)")
    if not isinstance(edges, Tensor) or edges.dim() != 2 or edges.shape[0] != 2 or edges.is_floating_point():
        shape = tuple(getattr(edges, "shape", ()))
        raise DataError(f"data.edge_index must hold integers of the shape (2, edges), not {shape}")
    nodes = data.x.shape[0]
    if edges.numel() and not 0 <= int(edges.min()) <= int(edges.max()) < nodes:
        wrong = int(edges.min()) if int(edges.min()) < 0 else int(edges.max())
        raise DataError(f"an edge names the node {wrong}, but data.x has {nodes} rows")
    return edges.as_subclass(Tensor).long()


def _labels(data: Data) -> Tensor:
    y: Tensor | None = data.y
    nodes = data.x.shape[0]
    if y is None:
        raise DataError("the graph has no labels; set data.y, the class of every node")
    if not isinstance(y, Tensor):
        raise DataError(f"data.y must be a tensor, not the type {type(y).__name__}")
    if y.dim() == 2 and y.shape[1] == 1:
        y = y.squeeze(1)
    if y.shape != (nodes,):
        several = "; of several labels per node, choose one" if y.dim() == 2 and y.shape[0] == nodes else ""
        raise DataError(
            f"data.y must have one class for each of the {nodes} nodes, not the shape {tuple(y.shape)}{several}"
        )
    if y.is_floating_point():
        known = torch.isfinite(y)
        if not torch.equal(y[known], y[known].round()):
            raise DataError("data.y has fractions; the benchmark is about classes, not about regression")
        y = torch.where(known, y, UNLABELLED)
    y = y.long()
    return torch.where(y < 0, UNLABELLED, y)


def given_split(data: Data, column: int = 0) -> tuple[Split, list[str]]:
    """Return the split of a graph that :func:`given_graph` checked, and a sentence for all that was decided for it.

    Masks, or else index vectors, are used as given, without nodes that have no label. A part that is not named is
    empty, except that of the test nodes, which are then all others.

    Args:
        data: with any of ``train_mask``, ``val_mask``, ``test_mask`` or ``train_index``, ``val_index``, ``test_index``.
        column: which split, where masks hold several: ``(N, S)``.
    """
    nodes = data.x.shape[0]
    keys = split_keys(data)
    named = {part: node_index(data[key], nodes, key, column).to(data.edge_index.device) for part, key in keys.items()}
    _check_disjoint(named)
    notes = _several(data, column) + _overruled(data, keys, named)
    known = data.y != UNLABELLED
    if "test" not in named:
        others = known.clone()
        for index in named.values():
            others[index] = False
        named["test"] = others.nonzero().view(-1)
        where = f"all nodes outside the {' and '.join(keys)} nodes"
        trained_on = "all labelled nodes, which may hold nodes that the network was trained on"
        notes += [f"the graph names no test nodes: tested on {where if len(named) > 1 else trained_on}"]
    dropped = int((~known[named["test"]]).sum())
    if dropped:
        notes += [f"{dropped} of {named['test'].numel()} test nodes have no label and are left out"]
    kept = {part: index[known[index]] for part, index in named.items()}
    if not kept["test"].numel():
        reason = "its test nodes have no labels" if named["test"].numel() else "its test mask is empty"
        raise DataError(f"the graph has no node to test on: {reason}")
    empty = data.edge_index.new_empty(0)
    return Split(*(kept.get(part, empty) for part in PARTS)), notes


def _several(data: Data, column: int) -> list[str]:
    masks = [data[f"{part}_mask"] for part in PARTS if isinstance(data.get(f"{part}_mask"), Tensor)]
    widths = {mask.shape[1] for mask in masks if mask.dim() == 2}
    if len(widths) > 1:
        raise DataError(
            f"the masks of the graph hold different numbers of splits: {', '.join(map(str, sorted(widths)))}"
        )
    if column and not widths:
        raise DataError(f"the graph has one split; there is no split {column}")
    return [f"the masks hold {width} splits: this is split {column}" for width in widths if width > 1]


def _overruled(data: Data, keys: Mapping[str, str], named: Mapping[str, Tensor]) -> list[str]:
    """Return a sentence if index vectors name other nodes than the masks, as those do that a new split left behind."""
    stale = []
    for part, key in keys.items():
        index = data.get(f"{part}_index") if key.endswith("_mask") else None
        if index is not None and sorted(torch.as_tensor(index).tolist()) != named[part].tolist():
            stale.append(f"{part}_index")
    return [f"{', '.join(stale)} of the graph name other nodes than its masks: the masks are used"] if stale else []


def _check_disjoint(parts: Mapping[str, Tensor]) -> None:
    for (part, nodes), (other, others) in combinations(parts.items(), 2):
        shared = nodes[torch.isin(nodes, others)]
        if shared.numel():
            raise DataError(
                f"{shared.numel()} nodes, such as {int(shared[0])}, are both {part} and {other} nodes; "
                "each node may be in one part"
            )


def num_classes(data: Data) -> int:
    """Return the number of classes: what the graph says, else one more than its largest label."""
    largest = int(data.y.max()) + 1
    declared = data.to_dict().get("num_classes")
    return max(largest, declared) if isinstance(declared, int) else largest
