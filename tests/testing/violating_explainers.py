"""Explainers that break one property each: the attention over a node's own in-edges with one defect."""

from __future__ import annotations

import itertools

import torch

from fgai_bench.explainers import Explainer
from fgai_bench.explainers.attention import last_attention
from fgai_bench.models.base import frozen_eval

_count = itertools.count()


class Honest(Explainer):
    """The attention that a node pays to its own in-edges, disturbed by the seed."""

    tags = ("random", "attention")

    def explain(self, model, data, nodes, seed):
        with frozen_eval(model):
            weight = last_attention(model, data).of_graph().weight
        noise = torch.rand(weight.shape, generator=torch.Generator().manual_seed(seed))
        return torch.where(data.edge_index[1] == nodes.unsqueeze(1), weight + noise, 0.0)


class NeedsAttention(Honest):
    def explain(self, model, data, nodes, seed):
        assert model(data).attention is not None
        return super().explain(model, data, nodes, seed)


class Short(Honest):
    def explain(self, *arguments):
        return super().explain(*arguments)[:, 1:]


class Signed(Honest):
    def explain(self, *arguments):
        return -super().explain(*arguments)


class Everywhere(Honest):
    def explain(self, *arguments):
        return super().explain(*arguments) + 1


class Unseeded(Honest):
    def explain(self, model, data, nodes, seed):
        return super().explain(model, data, nodes, next(_count))


class OneSeed(Honest):
    def explain(self, model, data, nodes, seed):
        return super().explain(model, data, nodes, 0)


class LeavesEvalMode(Honest):
    def explain(self, model, *arguments):
        return super().explain(model.eval(), *arguments)


class AsItStands(Honest):
    def explain(self, model, data, nodes, seed):
        return super().explain(model, data, nodes, seed) * (2 if model.training else 1)


class Drawing(Honest):
    def explain(self, *arguments):
        torch.rand(1)
        return super().explain(*arguments)


VIOLATORS = [
    ("check_one_score_per_edge_and_node", Short),
    ("check_one_score_per_edge_and_node", Signed),
    ("check_edges_out_of_sight_score_zero", Everywhere),
    ("check_seed_decides_the_scores", Unseeded),
    ("check_seed_decides_the_scores", AsItStands),
    ("check_seed_decides_the_scores", OneSeed),
    ("check_not_applicable_without_attention", NeedsAttention),
    ("check_no_side_effects", LeavesEvalMode),
    ("check_no_side_effects", Drawing),
]
