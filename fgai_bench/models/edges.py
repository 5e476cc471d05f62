"""Edges sorted by destination: built once per graph, so that softmax and aggregation work on contiguous segments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import TypeVar

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

T = TypeVar("T")


@dataclass(frozen=True)
class SortedEdges:
    """The edges of a graph, with one self-loop per node that lacks one, sorted by destination.

    Attributes:
        edge_index: ``(2, E)`` the graph's edges in their own order, then the added self-loops.
        source, destination: ``(E,)`` the same edges sorted by destination (stable).
        pointer: ``(N + 1,)`` where the segment of each destination begins.
        order: ``(E,)`` position in ``edge_index`` of each sorted edge.
        added: number of self-loops at the end of ``edge_index``.
        num_nodes: N.
    """

    edge_index: Tensor
    source: Tensor
    destination: Tensor
    pointer: Tensor
    order: Tensor
    added: int
    num_nodes: int

    @cached_property
    def inverse(self) -> Tensor:
        """``(E,)`` position among the sorted edges of each edge of ``edge_index``."""
        inverse = torch.empty_like(self.order)
        inverse[self.order] = torch.arange(self.order.numel(), device=self.order.device)
        return inverse

    @cached_property
    def by_source(self) -> tuple[Tensor, Tensor]:
        """The sorted edges ordered by source instead: ``(E,)`` their positions, ``(N + 1,)`` where a source begins."""
        order = self.source.argsort(stable=True)
        counts = torch.bincount(self.source, minlength=self.num_nodes)
        return order, torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def once_per_graph(build: Callable[[Tensor, int], T]) -> Callable[[Tensor, int], T]:
    """Remember what ``build(edge_index, num_nodes)`` gave, for as long as that very tensor lives unchanged.

    The key is the tensor object with its version counter: an edge index changed in place is built anew, and a graph
    that nobody holds any more costs no memory.
    """
    memory: WeakTensorKeyDictionary = WeakTensorKeyDictionary()

    @wraps(build)
    def remembered(edge_index: Tensor, num_nodes: int) -> T:
        state = (edge_index._version, num_nodes)
        known = memory.get(edge_index)
        if known is None or known[0] != state:
            known = (state, build(edge_index, num_nodes))
            memory[edge_index] = known
        return known[1]

    return remembered


@once_per_graph
def sorted_edges(edge_index: Tensor, num_nodes: int) -> SortedEdges:
    """Sort the edges by destination and add the missing self-loops.

    >>> edges = sorted_edges(torch.tensor([[1, 0], [0, 1]]), 2)
    >>> edges.source.tolist(), edges.destination.tolist(), edges.pointer.tolist(), edges.added
    ([1, 0, 0, 1], [0, 0, 1, 1], [0, 2, 4], 2)
    """
    if edge_index.numel() and not 0 <= int(edge_index.min()) <= int(edge_index.max()) < num_nodes:
        raise ValueError(f"edge_index names node {int(edge_index.max())} in a graph of {num_nodes} nodes")
    has_loop = torch.zeros(num_nodes, dtype=torch.bool, device=edge_index.device)
    has_loop[edge_index[0, edge_index[0] == edge_index[1]]] = True
    lacking = (~has_loop).nonzero().view(-1)
    keyed = torch.cat([edge_index, lacking.expand(2, -1)], dim=1)  # (2, E)
    destination, order = keyed[1].sort(stable=True)
    counts = torch.bincount(destination, minlength=num_nodes)
    pointer = torch.cat([counts.new_zeros(1), counts.cumsum(0)])  # (N + 1,)
    return SortedEdges(keyed, keyed[0, order], destination, pointer, order, lacking.numel(), num_nodes)
