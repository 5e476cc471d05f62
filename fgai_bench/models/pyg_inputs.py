"""Pass further inputs (``edge_attr``, ...) to a user's module, also on graphs that an attack changed."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from fgai_bench.data.extend import one_row_per, with_new_rows
from fgai_bench.models.attention import edge_keys, found_in
from fgai_bench.models.base import ModelError

WHOLE_GRAPH = ("data", "graph", "batch")  # names of a first argument that means the whole graph
NO_EXTRA_INPUT = ("x", "edge_index", "y", "self")


@dataclass(frozen=True)
class Signature:
    """The arguments that the ``forward`` of a module takes.

    Attributes:
        whole: it takes the graph itself, ``forward(data)``, and not ``forward(x, edge_index, ...)``.
        features_only: it takes no edges, ``forward(x)``.
        needed: names of further arguments without a default, in order.
        optional: names of further arguments with a default.
    """

    whole: bool = False
    features_only: bool = False
    needed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

    @classmethod
    def of(cls, module: nn.Module) -> Signature:
        """Read the signature of a module's forward.

        >>> class Net(nn.Module):
        ...     def forward(self, x, edge_index, edge_attr, batch=None): return x
        >>> Signature.of(Net())
        Signature(whole=False, features_only=False, needed=('edge_attr',), optional=('batch',))
        """
        named = getattr(module, "signature", None)  # torch_geometric.nn.Sequential says its arguments
        named = getattr(named, "param_dict", named)
        if isinstance(named, list | tuple | dict):
            return cls(needed=tuple(name for name in named if name not in NO_EXTRA_INPUT))
        parameters = list(inspect.signature(module.forward).parameters.values())
        plain = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        needed = [p for p in plain if p.default is p.empty]
        names = [p.name for p in needed]
        if names[1:2] in (["adj"], ["adj_t"]):
            raise ModelError(
                f"the network's forward takes {names[1]}; write forward(x, edge_index), as PyG's layers do"
            )
        if names == ["x"]:
            return cls(features_only="edge_index" not in [p.name for p in plain])
        if needed and (names[0] in WHOLE_GRAPH or needed[0].annotation in (Data, "Data") or len(needed) == 1):
            return cls(whole=True)
        further = [p for p in plain if p not in needed[:2]]
        return cls(
            needed=tuple(p.name for p in further if p.default is p.empty),
            optional=tuple(p.name for p in further if p.default is not p.empty),
        )

    def wanted(self, data: Data, edge_attr: bool) -> tuple[str, ...]:
        """Return the names of the graph's attributes that the module is called with, beside features and edges.

        Without ``edge_attr``, an optional argument of that name is left out.
        """
        carried = [
            name for name, value in data.to_dict().items() if isinstance(value, Tensor) and name not in NO_EXTRA_INPUT
        ]
        if self.whole:
            return tuple(carried)
        missing = [name for name in self.needed if name not in carried]
        if missing:
            raise ModelError(
                f"the network's forward needs {missing[0]}, which the graph does not carry; "
                f"it carries {', '.join(['x', 'edge_index', *carried])}"
            )
        return (*self.needed, *(n for n in self.optional if n in carried and (edge_attr or n != "edge_attr")))


@dataclass
class ExtraInputs:
    """The further inputs of a module on one graph, completed for graphs with other edges and nodes.

    A new node or edge has what is typical of the graph: the mean of numbers, the most common of integers.

    Attributes:
        edge_index: ``(2, E)`` of the graph; num_nodes: its nodes.
        per_edge, per_node, constant: tensors by name.
    """

    edge_index: Tensor
    num_nodes: int
    per_edge: dict[str, Tensor] = field(default_factory=dict)
    per_node: dict[str, Tensor] = field(default_factory=dict)
    constant: dict[str, Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Data, names: Sequence[str]) -> ExtraInputs:
        """Collect the named attributes of a graph."""
        inputs = cls(data.edge_index, data.x.shape[0])
        kinds = {"edge": inputs.per_edge, "node": inputs.per_node, "graph": inputs.constant}
        for name in names:
            if name not in data:
                raise ModelError(f"the network's inputs name {name!r}, which the graph does not carry")
            kinds[one_row_per(name, data[name], inputs.num_nodes, data.edge_index.shape[1])][name] = data[name]
        return inputs

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of everything that is handed to the module."""
        return (*self.per_edge, *self.per_node, *self.constant)

    def on(self, edge_index: Tensor, num_nodes: int) -> dict[str, Tensor]:
        """Return the inputs for a graph with these edges and so many nodes, the original nodes first."""
        new = num_nodes - self.num_nodes
        per_node = {name: with_new_rows(value, new) for name, value in self.per_node.items()}
        return {**self.constant, **per_node, **self._edges_on(edge_index, num_nodes)}

    def _edges_on(self, edge_index: Tensor, num_nodes: int) -> dict[str, Tensor]:
        if not self.per_edge or edge_index is self.edge_index:
            return self.per_edge
        edges = self.edge_index.shape[1]
        new = edge_index.shape[1] - edges
        if new >= 0 and torch.equal(edge_index[:, :edges], self.edge_index):
            return {name: with_new_rows(value, new) for name, value in self.per_edge.items()}
        # Edges were deleted or put into another order: each is looked up, new ones are typical.
        known, order = edge_keys(self.edge_index, num_nodes).sort(stable=True)
        is_known, place = found_in(known, edge_keys(edge_index, num_nodes))
        place = torch.where(is_known, order[place], edges)  # E stands for a new edge
        return {name: with_new_rows(value, 1)[place] for name, value in self.per_edge.items()}


def call(module: nn.Module, signature: Signature, x: Tensor, edge_index: Tensor, extra: dict[str, Any]) -> Any:
    """Call a module on a graph in the way that its forward is written."""
    if signature.whole:
        return module(Data(x=x, edge_index=edge_index, **extra))
    if signature.features_only:
        return module(x)
    return module(x, edge_index, **extra)
