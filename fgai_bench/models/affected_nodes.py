"""Find the nodes that new nodes affect, so that an attack computes a layer there and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fgai_bench.models.attention import Attention
from fgai_bench.models.sorted_edges import NodeMask, SortedEdges, edges_between, sorted_edges


@dataclass(frozen=True)
class LayerSubgraph:
    """The part of a graph that one layer computes, as a small graph: some nodes, and all nodes that they read.

    Attributes:
        rows: ``(P,)`` the nodes that are computed or read, ascending.
        edges: the edges into the nodes that are computed, between positions in ``rows``.
        mask: ``(P,)`` the nodes that are computed, and those whose gradient is needed.
        inside, nodes: ``(C,)`` the nodes that are computed, as positions in ``rows`` and as nodes of the graph.
        places: ``(M,)`` the position in the graph's ``edge_index`` of each edge of the part.
    """

    rows: Tensor
    edges: SortedEdges
    mask: NodeMask
    inside: Tensor
    nodes: Tensor
    places: Tensor

    @classmethod
    def of(cls, edges: SortedEdges, computed: Tensor, asked: Tensor) -> LayerSubgraph:
        """Cut the edges into the ``computed`` nodes out of a graph; both masks are ``(N,)`` boolean."""
        chosen = computed[edges.destination].nonzero().view(-1)  # (M,)
        source, destination = edges.source[chosen], edges.destination[chosen]
        used = computed.clone()
        used[source] = True
        rows, number = used.nonzero().view(-1), used.cumsum(0) - 1
        small = edges_between(number[source], number[destination], rows.numel())
        mask = NodeMask(computed[rows], asked[rows])
        inside = mask.destinations.nonzero().view(-1)
        return cls(rows, small, mask, inside, rows[inside], edges.order[chosen])


@dataclass(frozen=True)
class AffectedNodes:
    """The nodes that new nodes affect: a layer's output changes only where its neighbourhood did.

    Models use it in evaluation mode, in one of two ways. Kernels skip the nodes that a mask excludes, which can be
    captured, since the masks are not read back. Or a layer computes its :class:`LayerSubgraph` and nothing else.

    Attributes:
        edges: of the graph with the new nodes.
        hidden: ``(N, ...)`` per hidden layer, its output on the graph without the new nodes, then zeros.
        changed: ``(N,)`` boolean, the new nodes first; then per layer, the nodes where its output changes.
        logits, attention: the rest of the output without the new nodes.
    """

    edges: SortedEdges
    hidden: tuple[Tensor, ...]
    changed: tuple[Tensor, ...]
    logits: Tensor
    attention: Attention
    _known: dict[int, Tensor] = field(default_factory=dict)

    @classmethod
    def of(
        cls, logits: Tensor, attention: Attention, hidden: Sequence[Tensor], edge_index: Tensor, new_nodes: int
    ) -> AffectedNodes | None:
        """Find the nodes that ``new_nodes`` affect; None for edges that :func:`append_nodes` has not made.

        The output is that of the graph without the new nodes.

        >>> from fgai_bench.models.sorted_edges import append_nodes
        >>> nothing = torch.zeros(2, 0, dtype=torch.long)
        >>> edges = append_nodes(nothing, 3, torch.tensor([[3], [1]]), 1)  # 3 -> 1 in a graph without edges
        >>> clean = torch.zeros(3, 1), Attention(torch.arange(3).expand(2, 3), torch.ones(3), added=3), ()
        >>> [nodes.nonzero().view(-1).tolist() for nodes in AffectedNodes.of(*clean, edges, new_nodes=1).changed]
        [[3], [1, 3]]
        """
        size = logits.size(0) + new_nodes
        edges = sorted_edges(edge_index, size)
        if edges.before is None:
            return None
        padded = tuple(F.pad(h, (0, 0, 0, new_nodes)) for h in hidden)
        return cls(edges, padded, _changed(edges, new_nodes, len(hidden) + 1), logits, attention)

    def mask(self, layer: int) -> NodeMask:
        """Return the nodes whose output a layer must compute: the last one's all, since its attention is needed."""
        last = layer == len(self.hidden)
        return NodeMask(torch.ones_like(self.changed[0]) if last else self.changed[layer + 1], self.changed[layer])

    def filled(self, layer: int, h: Tensor) -> Tensor:
        """Return the output ``h`` of a hidden layer, replaced by that of the clean graph where nothing changed."""
        return torch.where(self.changed[layer + 1].unsqueeze(1), h, self.hidden[layer])

    @cached_property
    def parts(self) -> tuple[LayerSubgraph, ...]:
        """Return the part that each layer computes."""
        return tuple(LayerSubgraph.of(self.edges, after, asked) for asked, after in pairwise(self.changed))

    def next_input(self, layer: int, changed: Tensor, prepare: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the input of the layer after a hidden one: ``prepare`` of its output, row by row.

        ``changed`` is the hidden layer's output at the nodes of its part; the other rows are prepared once.
        """
        if layer not in self._known:
            with torch.no_grad():
                self._known[layer] = prepare(self.hidden[layer])
        return self._known[layer].index_copy(0, self.parts[layer].nodes, prepare(changed))

    def output(self, logits: Tensor, weights: Tensor) -> tuple[Tensor, Attention]:
        """Complete the last layer's logits ``(C, ...)`` and weights ``(M, H)`` of its part to those of the graph."""
        part, edges = self.parts[-1], self.edges
        known = F.pad(self.logits, (0, 0, 0, edges.num_nodes - self.logits.size(0)))
        graph, loops = self.attention.weight.tensor_split([self.attention.weight.numel() - self.attention.added])
        new_loops = edges.added - self.attention.added
        between = edges.order.numel() - new_loops - self.attention.weight.numel()
        attention = torch.cat([graph, graph.new_zeros(between), loops, graph.new_zeros(new_loops)])
        averaged = weights.squeeze(1) if weights.size(1) == 1 else weights.mean(1)
        weight = attention.index_copy(0, part.places, averaged)
        return known.index_copy(0, part.nodes, logits), Attention(edges.edge_index, weight, edges.added)


@dataclass(frozen=True)
class ChangedRows:
    """The rows that change with the features of new nodes in a stack of blocks, on a graph whose edges stay.

    For models that are local but for an encoding of the whole graph: new edges change the encoding of every node, and
    so every output, but then features change only what they reach. A block's input is computed anew in some rows and
    read from ``inputs`` in the others.

    Attributes:
        edges: of the graph with the new nodes.
        inputs: ``(N, ...)`` per block, its input for some features of the new nodes.
        logits, weights: ``(N, C)``, ``(E, H)`` what the last block leads to with them, and its sorted weights.
        changed: ``(N,)`` boolean per block, the nodes whose input changes; last, those whose output does.
        rows: per block, ``(R,)`` the same nodes, some of them several times: R depends on how many edges are new and on
            nothing else, so that it can be captured. None where the number is not known beforehand.
    """

    edges: SortedEdges
    inputs: tuple[Tensor, ...]
    logits: Tensor
    weights: Tensor
    changed: tuple[Tensor, ...]
    rows: tuple[Tensor | None, ...]
    _known: dict[int, Tensor] = field(default_factory=dict)

    @classmethod
    def of(
        cls, inputs: Sequence[Tensor], logits: Tensor, weights: Tensor, edges: SortedEdges, new_nodes: int
    ) -> ChangedRows:
        """Find what ``new_nodes`` at the end of a graph change; the other arguments are the attributes."""
        assert edges.before is not None, "only edges that append_nodes has made tell which of them are new"
        new = torch.arange(edges.num_nodes - new_nodes, edges.num_nodes, device=edges.source.device)
        first_new = edges.before.edge_index.size(1) - edges.before.added
        reached = edges.edge_index[1, first_new : edges.edge_index.size(1) - edges.added]
        rows = (new, torch.cat([new, reached]), *[None] * (len(inputs) - 2))
        changed = _changed(edges, new_nodes, len(inputs))
        return cls(edges, tuple(inputs), logits, weights, changed, rows[: len(inputs)])

    def mask(self, block: int) -> NodeMask:
        """Return the nodes whose output a block must compute."""
        return NodeMask(self.changed[block + 1], self.changed[block])

    def output(self, logits: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Complete logits ``(N, C)`` and weights ``(E, H)`` of the last block by known ones where nothing changed."""
        known = torch.where(self.changed[-1].unsqueeze(1), logits, self.logits)
        return known, torch.where(self._into_changed, weights, self.weights)

    @cached_property
    def _into_changed(self) -> Tensor:
        return self.changed[-1].index_select(0, self.edges.destination).unsqueeze(1)  # (E, 1)

    def prepared(self, block: int, prepare: Callable[[Tensor], Tensor]) -> Tensor:
        """Return ``prepare`` of a block's known input, row by row, computed once."""
        if block not in self._known:
            with torch.no_grad():
                self._known[block] = prepare(self.inputs[block])
        return self._known[block]

    def replaced(self, block: int, known: Tensor, new: Tensor) -> Tensor:
        """Return ``known`` with the rows that change before a block set to ``new``: ``(N, D), (R, D) -> (N, D)``."""
        rows = self.rows[block]
        return new if rows is None else _Replaced.apply(known, rows, new, self.times[block])

    def filled(self, block: int, h: Tensor) -> Tensor:
        """Return the input ``h`` of a block, ``(N, ...)``, replaced by the known one where nothing changed."""
        return torch.where(self.changed[block].unsqueeze(1), h, self.inputs[block])

    @cached_property
    def times(self) -> tuple[Tensor, ...]:
        """Return ``(R, 1)`` per block how often each of its rows is listed, as far as they are."""
        return tuple(_multiplicity(rows, self.edges.num_nodes) for rows in self.rows if rows is not None)


def _multiplicity(rows: Tensor, size: int) -> Tensor:
    ones = torch.ones(rows.numel(), device=rows.device)
    return ones.new_zeros(size).index_add_(0, rows, ones).index_select(0, rows).unsqueeze(1)


class _Replaced(torch.autograd.Function):
    """Set rows of a constant table. A row that is listed several times is given the same value each time."""

    @staticmethod
    def forward(ctx: Any, known: Tensor, rows: Tensor, new: Tensor, times: Tensor) -> Tensor:
        ctx.save_for_backward(rows, times)
        return known.index_copy(0, rows, new)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, Tensor, None]:
        rows, times = ctx.saved_tensors
        return None, None, grad.index_select(0, rows) / times, None  # each of several gets its share


def _changed(edges: SortedEdges, new_nodes: int, layers: int) -> tuple[Tensor, ...]:
    """Return ``(N,)`` boolean, the new nodes; then per layer, the nodes where its output changes with them."""
    changed = [torch.arange(edges.num_nodes, device=edges.source.device) >= edges.num_nodes - new_nodes]
    for _ in range(layers):
        arriving = changed[-1][edges.source].float()
        changed.append(arriving.new_zeros(edges.num_nodes).index_add_(0, edges.destination, arriving) > 0)
    return tuple(changed)
