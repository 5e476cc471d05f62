"""Delete edges of a node's computation graph and look at its prediction: what an explanation claims, measured.

A copy of the computation graph for each deletion, all copies side by side, goes through the model at once. That is the
same as deleting from the whole graph for every model whose layers look at in-neighbours only. A Graph Transformer keeps
the encodings of the whole graph: they are those of the undirected graph, which lacks no edge while one direction of it
is left. Any other model is run on the whole graph, once for each deletion. Self-loops that a model adds are no edges of
the graph and stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.explainers.computation_graph import EdgeScores, Field, cuts, field_of, joined_ranges
from fgai_bench.explainers.gradient import part_of
from fgai_bench.metrics.topk import ranks_in_groups
from fgai_bench.models.attention import edge_keys
from fgai_bench.models.base import AttentionModel, frozen_eval
from fgai_bench.seeds import generator

QUANTITIES = ("probability", "logit", "loss", "turned")
"""What a deletion changes: the predicted class's probability and logit, the loss, and whether another class wins."""
MOST_COPIED_EDGES = 2**18
"""Edges of all copies that go through a model at once."""


@dataclass(frozen=True)
class Copies:
    """Copies of computation graphs, each with some of its edges left out."""

    field: Field  # the computation graphs
    copied: Tensor  # (K,) the node of `field.nodes` that each copy belongs to
    left_out: Tensor  # (D,) positions among the pairs of the field, of the edges that are left out
    of_copy: Tensor  # (D,) the copy that leaves it out, ascending

    def some(self, start: int, stop: int) -> Copies:
        """Return the copies from ``start`` to ``stop``."""
        inside = (self.of_copy >= start) & (self.of_copy < stop)
        return Copies(self.field, self.copied[start:stop], self.left_out[inside], self.of_copy[inside] - start)

    def in_parts(self, limit: int) -> Iterator[Copies]:
        """Return the copies in parts of at most ``limit`` edges, at least one copy in each."""
        sizes = self.field.pointer.diff()[self.copied].tolist()
        return (self.some(start, stop) for start, stop in cuts(sizes, limit))

    def expanded(self) -> Field:
        """Return the edges that each copy keeps, as a field with one node for each copy."""
        pointer = self.field.pointer
        first, counts = pointer[self.copied], pointer.diff()[self.copied]
        owner, pair = joined_ranges(first, counts)
        begin = counts.cumsum(0) - counts
        kept = torch.ones_like(owner, dtype=torch.bool)
        kept[begin[self.of_copy] + self.left_out - first[self.of_copy]] = False
        nodes = self.field.nodes[self.copied]
        return Field(nodes, owner[kept], self.field.edges[pair[kept]], self.field.edge_index, self.field.num_nodes)


def outputs_without(model: AttentionModel, data: Data, copies: Copies) -> Tensor:
    """Return the logits of the node of each copy, without the edges that it leaves out: ``(K, C)``."""
    with frozen_eval(model), torch.no_grad():
        embedded = model.embed(data.x)
        return torch.cat([_outputs(model, embedded, some) for some in copies.in_parts(MOST_COPIED_EDGES)])


def _outputs(model: AttentionModel, embedded: Tensor, copies: Copies) -> Tensor:
    part = part_of(model, copies.expanded())
    if part is not None:
        return model.propagate(embedded[part.rows], part.edges).logits[part.roots]
    edges, rows = copies.field.edge_index, []
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
    with frozen_eval(model), torch.no_grad():
        logits = model(data).logits[field.nodes]  # (B, C)
    if not chosen.numel():
        return logits.new_zeros(0, len(QUANTITIES))
    copies = Copies(field, owner, chosen, torch.arange(chosen.numel(), device=owner.device))
    # A probability near 1 has too few digits in single precision to tell small effects apart.
    whole, without = logits.double(), outputs_without(model, data, copies).double()
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
    field = field_of(data.edge_index, data.x.shape[0], nodes, model.hops)
    wanted = field.leads_into_node if only_into else torch.ones_like(field.owner, dtype=torch.bool)
    chosen = wanted.nonzero().squeeze(1)
    effects = deletion_effects(model, data, field, chosen, torch.zeros_like(nodes))
    return EdgeScores(nodes, field.owner[chosen], field.edges[chosen], effects[:, 0])


def drawn_pairs(field: Field, most: int, seed: int, among: Tensor | None = None) -> Tensor:
    """Return the positions of at most ``most`` pairs of each node of a field, drawn by the seed, ascending.

    ``among``: ``(M,)`` boolean, the pairs to draw from; all of them if None.
    """
    draw = torch.rand(field.edges.numel(), generator=generator(seed, "effects")).to(field.owner.device)
    order = draw.argsort()
    order, rank = ranks_in_groups(order if among is None else order[among[order]], field.owner)
    return order[rank < most].sort().values


def top_pairs(data: Data, scores: EdgeScores, count: Tensor, seed: int, among: Tensor) -> Tensor:
    """Tell which pairs are the ``count`` of each node with the highest scores: ``(M,)`` boolean.

    Equal scores are ordered by a draw for each node, in which the order of the graph's edges has no part.
    ``count`` is ``(B,)``; ``among`` ``(M,)`` boolean, the pairs that are ranked.
    """
    pairs = among.nonzero().squeeze(1)
    owner, values = scores.owner[pairs], scores.values[pairs]
    order, _ = ranks_in_groups(edge_keys(data.edge_index[:, scores.edges[pairs]], data.x.shape[0]).argsort(), owner)
    sizes = torch.bincount(owner, minlength=scores.nodes.numel())
    both = zip(scores.nodes.tolist(), sizes.tolist(), strict=True)
    draws = torch.cat([torch.rand(size, generator=generator(seed, f"ties-{node}")) for node, size in both])
    order = order[draws.argsort().to(order.device)]
    order, rank = ranks_in_groups(order[values[order].argsort(descending=True, stable=True)], owner)
    mask = torch.zeros_like(scores.owner, dtype=torch.bool)
    mask[pairs[order[rank < count[owner[order]]]]] = True
    return mask


def outputs_by_removal(model: AttentionModel, data: Data, scores: EdgeScores, gone: Tensor) -> Tensor:
    """Return the logits of all nodes after the removal of some of their edges, in each of R rounds: ``(R, B, C)``.

    ``scores`` are of all M (node, edge) pairs that can matter; ``gone`` ``(R, M)`` boolean says which are removed.
    """
    field = Field(scores.nodes, scores.owner, scores.edges, data.edge_index, data.x.shape[0])
    nodes = scores.nodes.numel()
    rounds, left_out = gone.nonzero(as_tuple=True)
    copied = torch.arange(nodes, device=gone.device).repeat(gone.size(0))
    copies = Copies(field, copied, left_out, rounds * nodes + scores.owner[left_out])
    return outputs_without(model, data, copies).view(gone.size(0), nodes, -1)
