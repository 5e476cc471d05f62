"""Delete edges of a node's computation graph and look at its prediction: what an explanation claims, measured.

Many deletions go through the model at once, in one graph: the nodes as they are, and for each deletion a copy of the
nodes whose rows it changes. That is the same as deleting from the whole graph for every model whose layers look at
in-neighbours only. A Graph Transformer keeps the encodings of the whole graph: they are those of the undirected graph,
which lacks no edge while one direction of it is left. Any other model is run on the whole graph, once for each
deletion. Self-loops that a model adds are no edges of the graph and stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.explainers.computation_graph import CutOutGraph, EdgeScores, Field, cuts, field_of, joined_ranges
from fgai_bench.metrics.topk import ranks_in_groups
from fgai_bench.models.attention import edge_keys, found_in
from fgai_bench.models.base import AttentionModel, frozen_eval
from fgai_bench.seeds import hashed

QUANTITIES = ("probability", "logit", "loss", "turned")
"""What a deletion changes: the predicted class's probability and logit, the loss, and whether another class wins."""
MOST_COPIED_EDGES = 2**20
"""Edges into copied nodes that go through a model at once."""


@dataclass(frozen=True)
class Copies:
    """Copies of computation graphs, each with some of its edges left out."""

    field: Field  # the computation graphs
    copied: Tensor  # (K,) the node of `field.nodes` that each copy belongs to, ascending
    of_copy: Tensor  # (D,) the copies that leave out an edge, ascending
    left_out: Tensor  # (D,) which one: positions among the pairs of the field, those of a copy ascending
    hops: int  # of the model

    def in_parts(self, limit: int) -> Iterator[Copies]:
        """Return the copies in parts that have at most ``limit`` edges of their own, at least one copy in each."""
        copy = self._own // self.field.num_nodes
        sizes = torch.zeros_like(self.copied).index_add_(0, copy, self._into_own[2])
        parts = list(cuts(sizes.tolist(), limit))
        return iter([self]) if len(parts) < 2 else (self._some(start, stop) for start, stop in parts)

    def _some(self, start: int, stop: int) -> Copies:
        """Return the copies from ``start`` to ``stop``, and the computation graphs of these alone."""
        field, low, high = self.field, int(self.copied[start]), int(self.copied[stop - 1]) + 1
        begin, end = field.pointer[[low, high]].tolist()
        owner, edges = field.owner[begin:end] - low, field.edges[begin:end]
        kept = Field(field.nodes[low:high], owner, edges, field.edge_index, field.num_nodes)
        inside = (self.of_copy >= start) & (self.of_copy < stop)
        of_copy, left_out = self.of_copy[inside] - start, self.left_out[inside] - begin
        return Copies(kept, self.copied[start:stop] - low, of_copy, left_out, self.hops)

    @cached_property
    def _own(self) -> Tensor:
        """Return the nodes that a copy needs for itself, ascending: ``(H,)`` numbers, copy times nodes plus node.

        They are the one that it belongs to, and those whose rows before the last layer are others without the edges.
        """
        size, (source, destination) = self.field.num_nodes, self.field.ends
        own = torch.unique(self.of_copy * size + destination[self.left_out])
        for _ in range(self.hops - 2):  # a row that is another changes those that its node points to, a layer later
            order, first, counts = self._pairs_at(source, own)
            which, place = joined_ranges(first, counts)
            own = torch.unique(torch.cat([own, own[which] // size * size + destination[order[place]]]))
        return torch.unique(torch.cat([own, self._roots]))

    @property
    def _roots(self) -> Tensor:
        copies = torch.arange(self.copied.numel(), device=self.copied.device)
        return copies * self.field.num_nodes + self.field.nodes[self.copied]

    @cached_property
    def _into_own(self) -> tuple[Tensor, Tensor, Tensor]:
        return self._pairs_at(self.field.ends[1], self._own)

    def _pairs_at(self, end: Tensor, own: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return an order of the pairs, and where in it those with an end at a node of a copy begin, and their number.

        ``end`` ``(M,)`` are the sources or the destinations of all pairs.
        """
        size = self.field.num_nodes
        ends, order = (self.field.owner * size + end).sort(stable=True)
        wanted = self.copied[own // size] * size + own % size
        first = torch.searchsorted(ends, wanted)
        return order, first, torch.searchsorted(ends, wanted, right=True) - first

    def graph(self) -> CutOutGraph:
        """Return all copies in one graph: the nodes as they are, once, and those that a copy needs for itself."""
        field, size, pairs = self.field, self.field.num_nodes, self.field.edges.numel()
        source, destination = field.ends
        own = self._own
        copy, node = own // size, own % size
        order, first, counts = self._into_own
        which, place = joined_ranges(first, counts)
        pair = order[place]
        kept = ~found_in(self.of_copy * pairs + self.left_out, copy[which] * pairs + pair)[0]
        which, pair = which[kept], pair[kept]
        is_own, spot = found_in(own, copy[which] * size + source[pair])  # whether an edge begins at such a node
        seen = torch.zeros(size, dtype=torch.bool, device=own.device)
        seen[source[pair[~is_own]]] = True
        for _ in range(self.hops - 2):
            seen[source[seen[destination]]] = True
        shared = torch.zeros(field.edge_index.size(1), dtype=torch.bool, device=own.device)
        shared[field.edges[seen[destination]]] = True
        edges = field.edge_index[:, shared]
        seen[edges[0]] = True
        nodes, new = seen.nonzero().squeeze(1), seen.cumsum(0) - 1  # the nodes as they are, and their new numbers
        begin = torch.where(is_own, nodes.numel() + spot, new[source[pair]])
        return CutOutGraph(
            torch.cat([new[edges], torch.stack([begin, nodes.numel() + which])], dim=1),
            torch.cat([nodes, node]),
            nodes.numel() + torch.searchsorted(own, self._roots),
        )


def outputs_without(model: AttentionModel, data: Data, copies: Copies) -> Tensor:
    """Return the logits of the node of each copy, without the edges that it leaves out: ``(K, C)``."""
    with frozen_eval(model), torch.no_grad():
        embedded = model.embed(data.x)
        return torch.cat([_outputs(model, embedded, some) for some in copies.in_parts(MOST_COPIED_EDGES)])


def _outputs(model: AttentionModel, embedded: Tensor, copies: Copies) -> Tensor:
    part, edges = copies.graph(), copies.field.edge_index
    if model.restricted(part.edges, part.rows, edges, copies.field.num_nodes):
        return model.propagate(embedded[part.rows], part.edges).logits[part.roots]
    rows = []
    for place, owner in enumerate(copies.copied.tolist()):
        kept = torch.ones(edges.size(1), dtype=torch.bool, device=edges.device)
        kept[copies.field.edges[copies.left_out[copies.of_copy == place]]] = False
        rows.append(model.propagate(embedded, edges[:, kept]).logits[copies.field.nodes[owner]])
    return torch.stack(rows)


def deletion_effects(model: AttentionModel, data: Data, field: Field, chosen: Tensor, labels: Tensor) -> Tensor:
    r"""Return the exact effects of deleting single edges, in four quantities: ``(K, 4)``, in the order of `QUANTITIES`.

    With c the class that v is predicted to have on G, p and z its probability and logit, y the label of v:

    .. math:: p_v(G) - p_v(G \setminus e), \quad z_v(G) - z_v(G \setminus e), \quad
              \ln p_{v,y}(G) - \ln p_{v,y}(G \setminus e), \quad \mathbb{1}(\hat y_v(G \setminus e) \ne c)

    Above 0, the edge supports the prediction (or, in the loss, the label).

    The edges are given by their positions ``chosen`` ``(K,)`` among the pairs of the field; ``labels`` is ``(B,)``.
    """
    owner = field.owner[chosen]
    copied, order = owner.sort(stable=True)
    with frozen_eval(model), torch.no_grad():
        logits = model(data).logits[field.nodes]  # (B, C)
    if not chosen.numel():
        return logits.new_zeros(0, len(QUANTITIES))
    copies = Copies(field, copied, torch.arange(chosen.numel(), device=owner.device), chosen[order], model.hops)
    # A probability near 1 has too few digits in single precision to tell small effects apart.
    whole, without = logits.double(), outputs_without(model, data, copies).double()[order.argsort()]
    classes = whole.argmax(1)
    quantities = []
    for values, rows in ((torch.softmax, classes), (None, classes), (torch.log_softmax, labels)):
        before, after = (values(logits, 1) if values else logits for logits in (whole, without))
        before = before.gather(1, rows.unsqueeze(1)).squeeze(1)[owner]
        quantities.append(before - after.gather(1, rows[owner].unsqueeze(1)).squeeze(1))
    turned = without.argmax(1) != classes[owner]
    return torch.stack([*quantities, turned], dim=1).to(logits.dtype)


def edge_effects(model: AttentionModel, data: Data, nodes: Tensor, *, only_into: bool = False) -> EdgeScores:
    r"""Return the exact effect of single edges on the predicted probabilities of nodes.

    .. math:: \Delta_v(e) = p_v(G) - p_v(G \setminus e)

    with :math:`p_v` the probability of the class that v is predicted to have on G: above 0, the edge supports the
    prediction. A direction of an undirected edge is an edge of its own. With ``only_into``, edges that do not lead into
    the node itself are left out. Any model will do; it is left exactly as it was.

    >>> from fgai_bench.testing.fixture import tiny_graph, trained_model
    >>> effects = edge_effects(trained_model(), tiny_graph(), torch.tensor([0]))
    >>> effects.nodes.tolist(), len(effects.edges) == len(effects.values)
    ([0], True)
    """
    with frozen_eval(model), torch.no_grad():
        model(data)  # a wrapped network tells how far it looks once it has run
    field = field_of(data.edge_index, data.x.shape[0], nodes, model.hops)
    wanted = field.leads_into_node if only_into else torch.ones_like(field.owner, dtype=torch.bool)
    chosen = wanted.nonzero().squeeze(1)
    effects = deletion_effects(model, data, field, chosen, torch.zeros_like(nodes))
    return EdgeScores(nodes, field.owner[chosen], field.edges[chosen], effects[:, 0])


def drawn_pairs(field: Field, most: int, seed: int, among: Tensor | None = None) -> Tensor:
    """Return the positions of at most ``most`` pairs of each node of a field, drawn by the seed, ascending.

    ``among``: ``(M,)`` boolean, the pairs to draw from; all of them if None.
    """
    positions = torch.arange(field.edges.numel(), device=field.owner.device)
    order = hashed(positions, seed, "effects").argsort()
    order, rank = ranks_in_groups(order if among is None else order[among[order]], field.owner)
    return order[rank < most].sort().values


def top_pairs(data: Data, scores: EdgeScores, count: Tensor, seed: int, among: Tensor) -> Tensor:
    """Tell which pairs are the ``count`` of each node with the highest scores: ``(M,)`` boolean.

    Equal scores are ordered by draws that follow from the node and the edge's ends, not from the order of edges.
    ``count`` is ``(B,)``; ``among`` ``(M,)`` boolean, the pairs that are ranked.
    """
    pairs = among.nonzero().squeeze(1)
    owner, values, size = scores.owner[pairs], scores.values[pairs], data.x.shape[0]
    ends = edge_keys(data.edge_index[:, scores.edges[pairs]], size)
    order = hashed(scores.nodes[owner] * size**2 + ends, seed, "ties").argsort(stable=True)
    order, rank = ranks_in_groups(order[values[order].argsort(descending=True, stable=True)], owner)
    mask = torch.zeros_like(scores.owner, dtype=torch.bool)
    mask[pairs[order[rank < count[owner[order]]]]] = True
    return mask


def outputs_by_removal(model: AttentionModel, data: Data, scores: EdgeScores, gone: Tensor) -> Tensor:
    """Return the logits of all nodes after the removal of some of their edges, in each of R rounds: ``(R, B, C)``.

    ``scores`` are of all M (node, edge) pairs that can matter; ``gone`` ``(R, M)`` boolean says which are removed.
    """
    field = Field(scores.nodes, scores.owner, scores.edges, data.edge_index, data.x.shape[0])
    rounds, nodes = gone.size(0), scores.nodes.numel()
    round_, left_out = gone.nonzero(as_tuple=True)
    of_copy, order = (scores.owner[left_out] * rounds + round_).sort(stable=True)
    copied = torch.arange(nodes, device=gone.device).repeat_interleave(rounds)
    copies = Copies(field, copied, of_copy, left_out[order], model.hops)
    return outputs_without(model, data, copies).unflatten(0, (nodes, rounds)).transpose(0, 1)
