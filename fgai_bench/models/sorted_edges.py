"""Sort edges by destination, once per graph, so that softmax and aggregation work on contiguous segments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from fgai_bench.fast.cached_results import OncePerTensor
from fgai_bench.fast.cuda_graphs import capturing

HUB = 128
"""A node with more edges than this, its self-loop included, is a hub, if some node has more than twice as many."""


class _Permuted(torch.autograd.Function):
    """Compute ``values[order]``; the gradient is that of a permutation, so nothing has to be added up."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, order: Tensor, inverse: Callable[[], Tensor]) -> Tensor:
        ctx.inverse = inverse
        return values.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return grad.index_select(0, ctx.inverse()), None, None


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
        before: the edges of the graph that :func:`append_nodes` extended to this one, or None.
    """

    edge_index: Tensor
    source: Tensor
    destination: Tensor
    pointer: Tensor
    order: Tensor
    added: int
    num_nodes: int
    before: SortedEdges | None = None

    @cached_property
    def inverse(self) -> Tensor:
        """Return ``(E,)`` the position among the sorted edges of each edge of ``edge_index``."""
        return _inverse(self.order)

    def in_order(self, values: Tensor) -> Tensor:
        """Return values of the edges of ``edge_index`` in the order of the sorted edges: ``(E,) -> (E,)``."""
        return _Permuted.apply(values, self.order, lambda: self.inverse)

    def as_given(self, values: Tensor) -> Tensor:
        """Return values of the sorted edges in the order of ``edge_index``: ``(E,) -> (E,)``."""
        return _Permuted.apply(values, self.inverse, lambda: self.order)

    @cached_property
    def hubs(self) -> Tensor:
        """Return ``(hubs,)`` nodes with many edges in or out; appended nodes do not count, so nothing is read back."""
        if self.before is not None:
            return self.before.hubs
        degree = torch.maximum(self.pointer.diff(), torch.bincount(self.source, minlength=self.num_nodes))
        return (degree > HUB).nonzero().view(-1) if degree.max() > 2 * HUB else degree.new_empty(0)

    @cached_property
    def is_hub(self) -> Tensor:
        """Return ``(N,)`` boolean, which nodes are hubs."""
        return torch.zeros(self.num_nodes, dtype=torch.bool, device=self.hubs.device).index_fill_(0, self.hubs, True)

    @cached_property
    def by_destination(self) -> tuple[Tensor, Tensor]:
        """Return ``(E,)`` sources and ``(N + 1,)`` pointers in 32 bits, as kernels read them."""
        return self.source.int(), self.pointer.int()

    @cached_property
    def arrays(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return ``(E,)`` sources and ``(N + 1,)`` pointers as arrays that share their memory, on a CPU."""
        return self.source.numpy(), self.pointer.numpy()

    @cached_property
    def by_source(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the sorted edges ordered by source instead, in 32 bits.

        ``(E,)`` destinations, ``(E,)`` the place of each sorted edge among these, ``(N + 1,)`` where a source begins,
        ``(E,)`` the place of each of these among the sorted edges.
        """
        source, order = _in_order(self.source)
        segments = _segments(source, self.num_nodes)
        return self.destination[order].int(), _inverse(order).int(), segments.int(), order.int()


@dataclass(frozen=True)
class NodeMask:
    """The nodes that a layer must compute when an attack affects only a few.

    Attributes:
        destinations: ``(N,)`` boolean, the nodes whose output is needed.
        sources: ``(N,)`` boolean, the nodes whose gradient is needed; every edge out of them ends in ``destinations``.
    """

    destinations: Tensor
    sources: Tensor


@OncePerTensor
def sorted_edges(edge_index: Tensor, num_nodes: int) -> SortedEdges:
    """Sort the edges by destination and add the missing self-loops.

    >>> edges = sorted_edges(torch.tensor([[1, 0], [0, 1]]), 2)
    >>> edges.source.tolist(), edges.destination.tolist(), edges.pointer.tolist(), edges.added
    ([1, 0, 0, 1], [0, 0, 1, 1], [0, 2, 4], 2)
    """
    _check_range(edge_index, num_nodes)
    has_loop = torch.zeros(num_nodes, dtype=torch.bool, device=edge_index.device)
    has_loop[edge_index[0, edge_index[0] == edge_index[1]]] = True
    return _sorted(edge_index, (~has_loop).nonzero().view(-1), num_nodes)


def append_nodes(edge_index: Tensor, num_nodes: int, new_edges: Tensor, new_nodes: int) -> Tensor:
    """Return the edges of a graph with ``new_nodes`` more nodes: ``(2, E), (2, M) -> (2, E + M)``, new ones last.

    Which nodes lack a self-loop is known from the graph before, so that nothing is read back from the device and the
    result can be part of a capture. New edges that are loops themselves are left to :func:`sorted_edges`.
    """
    size = num_nodes + new_nodes
    longer = torch.cat([edge_index, new_edges], dim=1)
    if not capturing():
        _check_range(new_edges, size)
        if bool((new_edges[0] == new_edges[1]).any()):
            return longer
    before = sorted_edges(edge_index, num_nodes)
    lacking = [before.edge_index[0, edge_index.size(1) :], torch.arange(num_nodes, size, device=edge_index.device)]
    sorted_edges.remember(longer, size, _sorted(longer, torch.cat(lacking), size, before))
    return longer


@OncePerTensor
def edges_without_loops(edge_index: Tensor, num_nodes: int) -> SortedEdges:
    """Sort the edges by destination as they are: no loop is added."""
    return _sorted(edge_index, edge_index[0, :0], num_nodes)


def edges_between(source: Tensor, destination: Tensor, num_nodes: int) -> SortedEdges:
    """Return edges that are sorted by destination already, ``(E,)`` both, as they are: no loop is added."""
    order = torch.arange(source.numel(), device=source.device)
    pointer = _segments(destination, num_nodes)
    return SortedEdges(torch.stack([source, destination]), source, destination, pointer, order, 0, num_nodes)


def _sorted(edge_index: Tensor, lacking: Tensor, num_nodes: int, before: SortedEdges | None = None) -> SortedEdges:
    keyed = torch.cat([edge_index, lacking.expand(2, -1)], dim=1)  # (2, E)
    destination, order = _in_order(keyed[1])
    pointer = _segments(destination, num_nodes)
    return SortedEdges(keyed, keyed[0, order], destination, pointer, order, lacking.numel(), num_nodes, before)


def _in_order(nodes: Tensor) -> tuple[Tensor, Tensor]:
    """Return nodes in ascending order and their places before, ``(E,)`` both; half as many bits are sorted sooner."""
    ordered, order = nodes.int().sort(stable=True)
    return ordered.long(), order


def _inverse(order: Tensor) -> Tensor:
    """Return the inverse of a permutation: ``(E,) -> (E,)``."""
    inverse = torch.empty_like(order)
    inverse[order] = torch.arange(order.numel(), device=order.device)
    return inverse


def _segments(sorted_nodes: Tensor, num_nodes: int) -> Tensor:
    """Return where each node's segment begins in a sorted list of nodes: ``(E,) -> (N + 1,)``."""
    return torch.searchsorted(sorted_nodes, torch.arange(num_nodes + 1, device=sorted_nodes.device))


def _check_range(edge_index: Tensor, num_nodes: int) -> None:
    if edge_index.numel() and not 0 <= int(edge_index.min()) <= int(edge_index.max()) < num_nodes:
        wrong = int(edge_index.min()) if int(edge_index.min()) < 0 else int(edge_index.max())
        raise ValueError(f"edge_index names node {wrong} in a graph of {num_nodes} nodes")
