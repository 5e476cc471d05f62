"""Models that break one property each: a GAT with one defect."""

from __future__ import annotations

import itertools
from dataclasses import replace

import torch

from fgai_bench.models import Attention, Output
from fgai_bench.models.gat import GAT

_count = itertools.count(100)


class Honest(GAT):
    """A GAT without a defect."""


class OneClassTooFew(GAT):
    def propagate(self, *args, **kwargs):
        out = super().propagate(*args, **kwargs)
        return replace(out, logits=out.logits[:, 1:])


class Reweighted(GAT):
    """Attention that ``changed`` turns into another one."""

    def changed(self, attention: Attention) -> Attention:
        return attention

    def propagate(self, *args, **kwargs):
        out = super().propagate(*args, **kwargs)
        return replace(out, attention=self.changed(out.attention))


class NegativeAttention(Reweighted):
    def changed(self, attention):
        return replace(attention, weight=attention.weight - 0.5)


class HalvedAttention(Reweighted):
    def changed(self, attention):
        return replace(attention, weight=attention.weight / 2)


class SortedAttention(Reweighted):
    """Edges in an order of its own."""

    def changed(self, attention):
        graph = attention.of_graph()
        return Attention(graph.edge_index.flip(1), graph.weight.flip(0))


class DetachedAttention(Reweighted):
    def changed(self, attention):
        return attention.detach()


class Numbered(GAT):
    """Logits that know the number of their node."""

    def propagate(self, *args, **kwargs):
        out = super().propagate(*args, **kwargs)
        return replace(out, logits=out.logits + torch.arange(len(out.logits)).unsqueeze(1))


class FirstEdge(GAT):
    """Logits that know which edge comes first."""

    def propagate(self, h, edge_index, *args, **kwargs):
        out = super().propagate(h, edge_index, *args, **kwargs)
        return replace(out, logits=out.logits + edge_index[0, 0] + 50 * edge_index[1, 0])


class DividedByDegree(GAT):
    def propagate(self, h, edge_index, *args, **kwargs):
        out = super().propagate(h, edge_index, *args, **kwargs)
        degree = torch.bincount(edge_index[1], minlength=len(h))
        return replace(out, logits=out.logits / degree.unsqueeze(1))


class DetachedFeatures(GAT):
    def embed(self, x):
        return super().embed(x.detach())


class CentredEmbedding(GAT):
    def embed(self, x):
        h = super().embed(x)
        return h - h.mean(0)


class SomethingElse(GAT):
    """A forward pass that is not embed and propagate."""

    def forward(self, data, score_shift=None):
        out = super().forward(data, score_shift)
        return replace(out, logits=out.logits + 1)


class Forgetful(GAT):
    """A part of the model that is not stored."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.scale = 1.0 + kwargs.get("seed", 0)

    def propagate(self, *args, **kwargs):
        out = super().propagate(*args, **kwargs)
        return replace(out, logits=out.logits * self.scale)


class Unseeded(GAT):
    def __init__(self, *args, seed=0, **kwargs):
        super().__init__(*args, seed=next(_count), **kwargs)


class OneSeed(GAT):
    def __init__(self, *args, seed=0, **kwargs):
        super().__init__(*args, seed=0, **kwargs)


class Drawing(GAT):
    """Draws from the global random state."""

    def propagate(self, *args, **kwargs):
        torch.rand(1)
        return super().propagate(*args, **kwargs)


class SparseIsAnother(GAT):
    def embed(self, x):
        return super().embed(x) * (2 if x.layout == torch.sparse_csr else 1)


class Counting(GAT):
    """A buffer that every evaluation changes."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.register_buffer("calls", torch.zeros(()))

    def propagate(self, *args, **kwargs):
        self.calls += 1
        return super().propagate(*args, **kwargs)


class Unshifted(GAT):
    def propagate(self, h, edge_index, score_shift=None, edge_weight=None):
        return super().propagate(h, edge_index, None, edge_weight)


class ShiftedForShow(GAT):
    """Attention that follows a shift, and logits that do not."""

    def propagate(self, h, edge_index, score_shift=None, edge_weight=None):
        shown = super().propagate(h, edge_index, score_shift, edge_weight).attention
        return Output(super().propagate(h, edge_index, None, edge_weight).logits, shown)


class OnesAreTwos(GAT):
    def propagate(self, h, edge_index, score_shift=None, edge_weight=None):
        out = super().propagate(h, edge_index, score_shift, edge_weight)
        return out if edge_weight is None else replace(out, logits=out.logits + edge_weight.sum())


VIOLATORS = [
    ("check_logits", OneClassTooFew),
    ("check_logits", DividedByDegree),
    ("check_attention_is_a_distribution", NegativeAttention),
    ("check_attention_is_a_distribution", HalvedAttention),
    ("check_attention_is_keyed_by_edge", SortedAttention),
    ("check_order_does_not_matter", Numbered),
    ("check_order_does_not_matter", FirstEdge),
    ("check_gradients", DetachedFeatures),
    ("check_gradients", DetachedAttention),
    ("check_forward_is_embed_and_propagate", CentredEmbedding),
    ("check_forward_is_embed_and_propagate", SomethingElse),
    ("check_state_dict_round_trip", Forgetful),
    ("check_seed_decides_the_weights", Unseeded),
    ("check_seed_decides_the_weights", OneSeed),
    ("check_no_side_effects", Drawing),
    ("check_no_side_effects", Counting),
    ("check_sparse_features", SparseIsAnother),
    ("check_score_shift", Unshifted),
    ("check_score_shift", ShiftedForShow),
    ("check_edge_weight", OnesAreTwos),
]
