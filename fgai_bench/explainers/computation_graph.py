"""Find the edges that can matter to nodes, cut computation graphs out of a graph, and keep a score for each edge.

A model of L layers sees, from a node, the edges that end within L - 1 hops behind it: its computation graph. Scores of
many nodes are kept as one list of (node, edge) pairs, block by block, never as a matrix of all nodes and edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from fgai_bench.models.sorted_edges import SortedEdges, edges_without_loops

TABLE_ENTRIES = 2**23
"""Entries of a table of (nodes of a block, nodes of the graph): what a block of nodes needs besides its own edges."""


def edges_into(edges: SortedEdges, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """Return which of the nodes, and the position of the edge, for every edge into one of them: two ``(M,)``."""
    first = edges.pointer[nodes]
    owner, place = joined_ranges(first, edges.pointer[nodes + 1] - first)
    return owner, edges.order[place]


def joined_ranges(first: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Return the ranges ``first, first + 1, ...`` of so many numbers each, side by side, and which range each is of.

    >>> joined_ranges(torch.tensor([5, 2]), torch.tensor([2, 1]))
    (tensor([0, 0, 1]), tensor([5, 6, 2]))
    """
    owner = torch.repeat_interleave(torch.arange(counts.numel(), device=counts.device), counts)
    begin = counts.cumsum(0) - counts
    return owner, torch.arange(owner.numel(), device=owner.device) - begin[owner] + first[owner]


def cuts(sizes: Sequence[int], limit: int) -> Iterator[tuple[int, int]]:
    """Yield where parts begin and end whose sizes add up to at most ``limit``, or to more where one alone has more.

    >>> list(cuts([2, 2, 1, 9], 4))
    [(0, 2), (2, 3), (3, 4)]
    """
    start, total = 0, 0
    for stop, size in enumerate(sizes):
        if total + size > limit and stop > start:
            yield start, stop
            start, total = stop, 0
        total += size
    yield start, len(sizes)


@dataclass(frozen=True)
class CutOutGraph:
    """Computation graphs cut out of a graph, side by side in one graph without edges between them."""

    edges: Tensor  # (2, M) between nodes of this graph
    rows: Tensor  # (P,) the node of the whole graph that each of its nodes is a copy of
    roots: Tensor  # (B,) its node that each computation graph belongs to


@dataclass(frozen=True)
class Field:
    """The computation graphs of some nodes, as a list of (node, edge) pairs.

    >>> path = torch.tensor([[0, 1, 2], [1, 2, 3]])
    >>> field = next(fields(path, 4, torch.tensor([3, 1]), hops=2))
    >>> field.owner.tolist(), field.edges.tolist()
    ([0, 0, 1], [1, 2, 0])
    """

    nodes: Tensor  # (B,) whose computation graphs these are
    owner: Tensor  # (M,) position in `nodes`, ascending
    edges: Tensor  # (M,) position of the edge in the graph's `edge_index`
    edge_index: Tensor  # (2, E) of the whole graph
    num_nodes: int  # of the whole graph

    @property
    def pointer(self) -> Tensor:
        """Return ``(B + 1,)`` where the edges of each node begin."""
        size = torch.arange(self.nodes.numel() + 1, device=self.owner.device)
        return torch.searchsorted(self.owner, size)

    @cached_property
    def ends(self) -> tuple[Tensor, Tensor]:
        """Return source and destination of every pair's edge in the whole graph: two ``(M,)``."""
        source, destination = self.edge_index[:, self.edges]
        return source, destination

    @property
    def leads_into_node(self) -> Tensor:
        """Tell which pairs are edges into the node itself: ``(M,)`` boolean."""
        return self.edge_index[1, self.edges] == self.nodes[self.owner]

    def split(self, limit: int) -> Iterator[Field]:
        """Yield the same pairs in parts of whole nodes, of at most ``limit`` edges where a node alone has no more."""
        begins = self.pointer.tolist()
        for start, stop in cuts(self.pointer.diff().tolist(), limit):
            inside = slice(begins[start], begins[stop])
            nodes, owner, edges = self.nodes[start:stop], self.owner[inside] - start, self.edges[inside]
            yield Field(nodes, owner, edges, self.edge_index, self.num_nodes)

    def part(self) -> CutOutGraph:
        """Return the computation graphs as one graph of their own, edges in the order of this field."""
        source, destination = self.ends
        own = torch.arange(self.nodes.numel(), device=self.nodes.device)
        keys = torch.cat([self.owner * self.num_nodes + end for end in (source, destination)])
        unique, place = torch.unique(torch.cat([keys, own * self.num_nodes + self.nodes]), return_inverse=True)
        pairs = self.owner.numel()
        return CutOutGraph(place[: 2 * pairs].view(2, pairs), unique % self.num_nodes, place[2 * pairs :])


def fields(edge_index: Tensor, num_nodes: int, nodes: Tensor, hops: int) -> Iterator[Field]:
    """Yield the computation graphs of the nodes, a block of them at a time, for a model of ``hops`` layers."""
    incoming = edges_without_loops(edge_index, num_nodes)
    for block in nodes.split(max(1, TABLE_ENTRIES // num_nodes)):
        seen = torch.zeros(block.numel(), num_nodes, dtype=torch.bool, device=block.device)
        seen[torch.arange(block.numel(), device=block.device), block] = True
        frontier = seen
        for _ in range(hops - 1):
            owner, node = frontier.nonzero(as_tuple=True)
            place, edges = edges_into(incoming, node)
            reached = torch.zeros_like(seen)
            reached[owner[place], edge_index[0, edges]] = True
            frontier = reached & ~seen
            seen = seen | reached
        owner, node = seen.nonzero(as_tuple=True)
        place, edges = edges_into(incoming, node)
        yield Field(block, owner[place], edges, edge_index, num_nodes)


def field_of(edge_index: Tensor, num_nodes: int, nodes: Tensor, hops: int) -> Field:
    """Return the computation graphs of all nodes at once; for few nodes."""
    nodes, owner, edges = _joined(fields(edge_index, num_nodes, nodes, hops))
    return Field(nodes, owner, edges, edge_index, num_nodes)


def _joined(blocks: Iterable[Field | EdgeScores]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the nodes, owners and edges of several blocks of nodes as those of one."""
    nodes, owners, edges = zip(*((block.nodes, block.owner, block.edges) for block in blocks), strict=True)
    begins = torch.tensor([0, *(part.numel() for part in nodes)]).cumsum(0).tolist()
    owner = [part + begin for part, begin in zip(owners, begins[:-1], strict=True)]
    return torch.cat(nodes), torch.cat(owner), torch.cat(edges)


@dataclass(frozen=True)
class EdgeScores:
    """A score for each edge that can matter to each node.

    >>> scores = EdgeScores(torch.tensor([7]), torch.tensor([0, 0]), torch.tensor([2, 0]), torch.tensor([0.5, 0.25]))
    >>> scores.dense(3).tolist()
    [[0.25, 0.0, 0.5]]
    """

    nodes: Tensor  # (B,) the nodes whose predictions are explained
    owner: Tensor  # (M,) position in `nodes`, ascending
    edges: Tensor  # (M,) position of the edge in the graph's `edge_index`
    values: Tensor  # (M,) the scores

    @classmethod
    def on(cls, field: Field, values: Tensor) -> EdgeScores:
        """Return values in the order of a field's pairs."""
        return cls(field.nodes, field.owner, field.edges, values)

    @classmethod
    def joined(cls, blocks: Iterable[EdgeScores]) -> EdgeScores:
        """Return the scores of several blocks of nodes as one."""
        listed = list(blocks)
        return cls(*_joined(listed), torch.cat([block.values for block in listed]))

    def dense(self, num_edges: int) -> Tensor:
        """Return ``(B, E)`` with 0 where an edge cannot matter: for few nodes."""
        whole = self.values.new_zeros(self.nodes.numel(), num_edges)
        whole[self.owner, self.edges] = self.values
        return whole

    def of(self, place: int) -> tuple[Tensor, Tensor]:
        """Return the edges that can matter to one node, and their scores: two ``(m,)``."""
        begin, end = torch.searchsorted(self.owner, torch.tensor([place, place + 1], device=self.owner.device)).tolist()
        return self.edges[begin:end], self.values[begin:end]

    def only(self, mask: Tensor) -> EdgeScores:
        """Return the scores of some pairs; ``mask`` is ``(M,)`` boolean."""
        return EdgeScores(self.nodes, self.owner[mask], self.edges[mask], self.values[mask])

    def first(self, count: int) -> EdgeScores:
        """Return the scores of the first ``count`` nodes."""
        end = int(torch.searchsorted(self.owner, count))
        return EdgeScores(self.nodes[:count], self.owner[:end], self.edges[:end], self.values[:end])
