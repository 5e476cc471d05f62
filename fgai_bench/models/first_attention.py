"""Attend once to the nodes that new nodes do not reach: the first layer's output there is that of the known graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from fgai_bench.models.sorted_edges import SortedEdges

Attend = Callable[[Tensor, SortedEdges], Tensor]
Sort = Callable[[Tensor, int], SortedEdges | None]
_reaches: WeakTensorKeyDictionary = WeakTensorKeyDictionary()  # a search asks for one graph many times


@dataclass(frozen=True)
class Reach:
    """The part of a graph that one layer must look at after nodes were added.

    Attributes:
        rows: ``(P,)`` the nodes of the part: those that the new nodes reach, and what leads to them.
        edge_index: ``(2, M)`` the edges into the reached nodes, in numbers of the part.
        places: ``(R,)`` the reached nodes in numbers of the part; nodes: in numbers of the graph.
    """

    rows: Tensor
    edge_index: Tensor
    places: Tensor
    nodes: Tensor


def reach_of(edge_index: Tensor, known: Tensor, known_nodes: int) -> Reach | None:
    """Return what one layer must look at on a graph that was made from a known one by adding nodes; else None.

    >>> ring = torch.tensor([[0, 1, 2], [1, 2, 0]])
    >>> reach_of(torch.cat([ring, torch.tensor([[3, 1], [1, 3]])], 1), ring, 3).nodes.tolist()
    [1, 3]
    """
    state = (edge_index._version, id(known), known._version)
    made = _reaches.get(edge_index)
    if made is None or made[0] != state:
        made = _reaches[edge_index] = (state, _computed_reach(edge_index, known, known_nodes))
    reach: Reach | None = made[1]
    return reach


def _computed_reach(edge_index: Tensor, known: Tensor, known_nodes: int) -> Reach | None:
    old = known.shape[1]
    new = edge_index[:, old:]
    if edge_index.shape[1] <= old or not torch.equal(edge_index[:, :old], known):
        return None
    if not bool((new >= known_nodes).any(0).all()):
        return None  # also an edge between known nodes
    nodes = torch.cat([new[1], new[new >= known_nodes]]).unique()
    into = edge_index[:, torch.isin(edge_index[1], nodes)]
    rows = torch.cat([into[0], nodes]).unique()
    return Reach(rows, torch.searchsorted(rows, into), torch.searchsorted(rows, nodes), nodes)


@dataclass
class FirstAttention:
    """The output of layers on the features of the known graph, kept while their parameters stay as they are.

    Attributes:
        edge_index: of the known graph, or None where none is known.
        num_nodes: of the known graph.
    """

    edge_index: Tensor | None = None
    num_nodes: int = 0
    _outputs: dict[int, tuple[tuple[int, ...], Tensor]] = field(default_factory=dict)

    def attended(self, number: int, layer: Any, edge_index: Tensor, size: int, sort: Sort, attend: Attend) -> Any:
        """Return a layer's output ``(size, ...)`` on a graph with new nodes, computed where they reach; None if not.

        Args:
            number: of the layer.
            layer: its parameters need no gradient.
            edge_index, size: the graph with the new nodes.
            sort: makes sorted edges of a graph.
            attend: computes the layer on some rows of the features and the edges between them.
        """
        reach = None if self.edge_index is None else reach_of(edge_index, self.edge_index, self.num_nodes)
        part = None if reach is None else sort(reach.edge_index, reach.rows.numel())
        if reach is None or part is None or self.edge_index is None:
            return None
        state = tuple(version for parameter in layer.parameters() for version in (id(parameter), parameter._version))
        kept = self._outputs.get(number)
        if kept is None or kept[0] != state:
            whole = sort(self.edge_index, self.num_nodes)
            if whole is None:
                return None
            with torch.no_grad():
                kept = self._outputs[number] = (
                    state,
                    attend(torch.arange(self.num_nodes, device=edge_index.device), whole),
                )
        changed = attend(reach.rows, part).index_select(0, reach.places)
        longer = F.pad(kept[1], (0, 0, 0, size - self.num_nodes))
        return longer.index_copy(0, reach.nodes, changed)
