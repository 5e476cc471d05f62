"""Inputs for measuring explanations: how far an attack moves them, and how right they are before and after it.

A sample of the nodes that an attacker reached is explained on the clean and on the attacked graph. What an explanation
claims is held against the true effect of single edges on the same nodes, which is measured once for a model and an
attack (:func:`measured_effects`) and shared by all explainers; against the removal of its top edges; and, on graphs
that know it, against the edges that truly matter. Some explainers draw random numbers, so two answers on the clean
graph differ as well: with the same two draws, that is the noise floor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.data.extend import reached_nodes
from fgai_bench.explainers import EdgeScores, Explainer, edge_effects
from fgai_bench.explainers.computation_graph import field_of
from fgai_bench.explainers.edge_effects import outputs_by_removal, whole_outputs
from fgai_bench.metrics import NotApplicable, edges_into
from fgai_bench.metrics.f_slope import RATES, f_acc
from fgai_bench.metrics.faithfulness import fidelity
from fgai_bench.metrics.ranks import SHOWN
from fgai_bench.models import Attention
from fgai_bench.models.base import AttentionModel
from fgai_bench.seeds import generator
from fgai_bench.tasks.base import Problem
from fgai_bench.tasks.edge_truth import has_truth, nodes_with_truth, truths
from fgai_bench.tasks.measurement import Offers, attention_of

SAMPLE = 64  # nodes that are explained, unless a suite says otherwise
SEARCHED_SAMPLE = 8  # the first nodes of the sample, for explainers that search for each node
MOST_EFFECTS = 128  # edges of a node whose true effect is measured
WHOLE_SAMPLE, WHOLE_MOST_EFFECTS = 8, 16  # the same for a model that has to see the whole graph for every deletion
WHOLE_LARGEST = 50_000  # nodes of a graph that such a model may see again and again
FIELD_LARGEST = 2**16  # edges of a computation graph, on average, that copies are made of


@dataclass(frozen=True)
class Effects:
    """The true effects of edges on a sample of the nodes that an attack reaches.

    Attributes:
        clean, attacked: the effects on the clean and on the attacked graph, of the same nodes.
        steady: ``(S,)`` a second sample, of reached nodes whose prediction the attack did not change: under a strong
            attack the first holds few of them.
    """

    clean: EdgeScores
    attacked: EdgeScores
    steady: Tensor


def reached_targets(problem: Problem, model: AttentionModel, attacked: Data) -> Tensor:
    """Return the targets with in-edges that an attack can reach, or all of them if it reaches none: ``(K,)``.

    On a graph that knows which edges matter, only nodes with such edges and with others.
    """
    targets = problem.targets[torch.isin(problem.targets, problem.data.edge_index[1])]
    if has_truth(problem.data):
        targets = targets[torch.isin(targets, nodes_with_truth(problem.data, model.hops))]
    reached = targets[reached_nodes(problem.data, attacked, model.hops if model.local else None)[targets]]
    pool = reached if reached.numel() else targets
    if not pool.numel():
        raise NotApplicable("no target has an edge that could be explained")
    return pool


def sampled_nodes(pool: Tensor, seed: int, size: int = SAMPLE) -> Tensor:
    """Return up to ``size`` of the nodes, drawn by the seed; a smaller sample is the beginning of a larger one."""
    return pool[torch.randperm(pool.numel(), generator=generator(seed, "explained"))[:size].to(pool.device)]


def measured_effects(problem: Problem, model: AttentionModel, attacked: Data, seed: int, size: int = SAMPLE) -> Effects:
    """Measure the true effects of edges on a sample of nodes, before and after an attack.

    A model that looks at in-neighbours only has ``size`` nodes and up to 128 edges of each; any other, for which every
    deletion is a pass over the graph, 8 nodes and up to 16 edges, on graphs of at most 50,000 nodes.
    """
    if problem.readout is not None:
        raise NotApplicable("explainers are asked about the classes of nodes, not about links")
    most = MOST_EFFECTS
    if not model.local:
        size, most = min(size, WHOLE_SAMPLE), WHOLE_MOST_EFFECTS
        if problem.data.x.shape[0] > WHOLE_LARGEST:
            raise NotApplicable("every deletion would be a pass of the model over the whole of a large graph")
    pool = reached_targets(problem, model, attacked)
    nodes = sampled_nodes(pool, seed, size)
    few = nodes[:4]
    if field_of(attacked.edge_index, attacked.x.shape[0], few, model.hops).edges.numel() > FIELD_LARGEST * few.numel():
        raise NotApplicable(f"computation graphs have more than {FIELD_LARGEST:,} edges, too many to delete one by one")
    clean, perturbed = (edge_effects(model, graph, nodes, most=most, seed=seed) for graph in (problem.data, attacked))
    before, after = (problem.output(model, graph).logits[pool].argmax(1) for graph in (problem.data, attacked))
    return Effects(clean, perturbed, sampled_nodes(pool[before == after], seed + 1, size))


def effect_offers(effects: Effects) -> Offers:
    """Offer the measured effects themselves: how many nodes, and how much single edges matter."""

    def sizes(of: EdgeScores) -> Callable[[], tuple[Any, ...]]:
        return lambda: ([(of.of(place)[1].abs(),) * 2 for place in range(of.nodes.numel())],)

    return Offers().add(
        nodes=lambda: (effects.clean.nodes,),
        effects_alone=sizes(effects.attacked),
        effects_alone_clean=sizes(effects.clean),
    )


def explain_offers(
    explainer: Explainer, problem: Problem, model: AttentionModel, attacked: Data, effects: Effects, seed: int
) -> Offers:
    """Offer everything that is measured of one explainer under one attack."""
    searches = "post-hoc" in explainer.tags
    nodes, steady = (part[: SEARCHED_SAMPLE if searches else None] for part in (effects.clean.nodes, effects.steady))
    first, second = (explainer.sparse(model, problem.data, nodes, seed=draw) for draw in (seed, seed + 1))
    clean = ExplainedGraph(problem, model, problem.data, first(problem.data, nodes))
    perturbed = ExplainedGraph(problem, model, attacked, second(attacked, nodes))
    again = second(problem.data, nodes)
    same = clean.predicted == perturbed.predicted  # (B,)

    def pairs(before: EdgeScores, after: EdgeScores, graph: Data) -> tuple[Any, ...]:
        both = zip(_explanations(before, problem.data), _explanations(after, graph), strict=True)
        return (list(both),)

    def unchanged() -> tuple[Any, ...]:
        if not steady.numel():
            raise NotApplicable("the attack changed the prediction of every node that it reaches")
        return pairs(first(problem.data, steady), second(attacked, steady), attacked)

    offers = Offers().add(
        explanations=lambda: pairs(clean.scores, perturbed.scores, attacked),
        explanations_repeated=lambda: pairs(clean.scores, again, problem.data),
        explanations_unchanged=unchanged,
        nodes=lambda: (nodes,),
        nodes_unchanged=lambda: (steady,),
        attentions_explained=lambda: _attentions(problem, model, attacked, nodes),
    )
    _offer_claims(offers, perturbed, effects.attacked.first(nodes.numel()), clean.right, "")
    _offer_claims(offers, clean, effects.clean.first(nodes.numel()), clean.right, "-clean")
    if has_truth(problem.data):
        sound = clean.right & same
        offers.add(
            nodes_wrong=lambda: (nodes[~sound],),
            truths=lambda: (truths(problem.data, attacked, perturbed.scores, sound),),
            truths_wrong=lambda: (truths(problem.data, attacked, perturbed.scores, ~sound),),
            truths_clean=lambda: (truths(problem.data, problem.data, clean.scores, clean.right),),
        )
    return offers


@dataclass(frozen=True)
class ExplainedGraph:
    """An explainer's scores on one graph, and what the model says when it is asked to do without their edges."""

    problem: Problem
    model: AttentionModel
    graph: Data
    scores: EdgeScores

    @cached_property
    def whole(self) -> Tensor:
        """Return the output distributions of the explained nodes: ``(B, C)``."""
        return whole_outputs(self.model, self.graph, self.scores.nodes)

    @property
    def predicted(self) -> Tensor:
        """Return the predicted classes of the explained nodes: ``(B,)``."""
        return self.whole.argmax(1)

    @property
    def right(self) -> Tensor:
        """Tell which of the explained nodes are predicted rightly: ``(B,)`` boolean."""
        return self.predicted == self.problem.data.y[self.scores.nodes]

    @cached_property
    def edges(self) -> Tensor:
        """Return how many edges can matter to each node: ``(B,)``."""
        return torch.bincount(self.scores.owner, minlength=self.scores.nodes.numel())

    @cached_property
    def shown(self) -> Tensor:
        """Return how many edges make the explanation of each node: half of its own, from one to ten: ``(B,)``."""
        return (self.edges // 2).clamp(1, SHOWN).minimum(self.edges)

    @cached_property
    def without_top(self) -> Tensor:
        """Return the outputs without the explanation's edges: ``(B, C)``."""
        return outputs_by_removal(self.model, self.graph, self.scores, self.shown.unsqueeze(0), highest=True)[0]

    @cached_property
    def only_top(self) -> Tensor:
        """Return the outputs on the explanation's edges alone: ``(B, C)``."""
        rest = (self.edges - self.shown).unsqueeze(0)
        return outputs_by_removal(self.model, self.graph, self.scores, rest, highest=False)[0]

    def curve(self, counted: Tensor, highest: bool) -> tuple[float, ...]:
        """Return F_acc of the nodes that count, as each of them loses its own edges at the rates of the F-slope."""
        if not bool(counted.any()):
            raise NotApplicable("no explained node was classified correctly on the clean graph")
        rates = torch.tensor(RATES, dtype=torch.double, device=self.edges.device)
        counts = (rates.unsqueeze(1) * self.edges + 1e-9).floor().long()  # (R, B)
        classes = outputs_by_removal(self.model, self.graph, self.scores, counts, highest).argmax(2)
        correct = classes == self.problem.data.y[self.scores.nodes]  # (R, B)
        return tuple(f_acc(counted, row) for row in correct)

    def against(self, effects: EdgeScores) -> list[tuple[Tensor, Tensor]]:
        """Return, for each node, the scores and the true effects of the edges whose effect was measured."""
        found = []
        for place in range(self.scores.nodes.numel()):
            edges, effect = effects.of(place)
            own, scores = self.scores.of(place)
            order = own.argsort()
            found.append((scores[order[torch.searchsorted(own[order], edges)]], effect))
        return found


def _offer_claims(offers: Offers, asked: ExplainedGraph, effects: EdgeScores, right: Tensor, ending: str) -> None:
    """Offer what the scores on one graph claim, beside what is true there."""

    def curve(highest: bool) -> Callable[[], tuple[Any, ...]]:
        return lambda: (RATES, asked.curve(right, highest))

    offers.add(
        **{
            f"effects{ending}": lambda: (asked.against(effects),),
            f"probabilities-without-top{ending}": lambda: (asked.whole, asked.without_top),
            f"probabilities-only-top{ending}": lambda: (asked.whole, asked.only_top),
            f"fidelities{ending}": lambda: (
                fidelity(asked.whole, asked.without_top),
                fidelity(asked.whole, asked.only_top),
            ),
            f"curve-highest-explained{ending}": curve(True),
            f"curve-lowest-explained{ending}": curve(False),
        }
    )


def _explanations(scores: EdgeScores, data: Data) -> list[Attention]:
    """Return the scores of each explained node as an attention over the edges that can matter to it."""
    pieces = [scores.of(place) for place in range(scores.nodes.numel())]
    return [Attention(data.edge_index[:, edges], values) for edges, values in pieces]


def _attentions(problem: Problem, model: AttentionModel, attacked: Data, nodes: Tensor) -> tuple[Attention, Attention]:
    """Return the attention that the explained nodes pay, clean and attacked."""
    sample = torch.zeros(problem.data.x.shape[0], dtype=torch.bool, device=nodes.device)
    sample[nodes] = True
    clean, perturbed = (attention_of(problem.output(model, data)) for data in (problem.data, attacked))
    return edges_into(clean, sample), edges_into(perturbed, sample)
