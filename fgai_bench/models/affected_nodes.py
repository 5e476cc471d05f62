"""Find the nodes that new nodes affect, so that an attack computes a layer there and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

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
    recorded, since the masks are not read back. Or a layer computes its :class:`LayerSubgraph` and nothing else.

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


def _changed(edges: SortedEdges, new_nodes: int, layers: int) -> tuple[Tensor, ...]:
    """Return ``(N,)`` boolean, the new nodes; then per layer, the nodes where its output changes with them."""
    changed = [torch.arange(edges.num_nodes, device=edges.source.device) >= edges.num_nodes - new_nodes]
    for _ in range(layers):
        arriving = changed[-1][edges.source].float()
        changed.append(arriving.new_zeros(edges.num_nodes).index_add_(0, edges.destination, arriving) > 0)
    return tuple(changed)
