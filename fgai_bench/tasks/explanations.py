"""Inputs for measuring explanations: how far an attack moves them, and how right they are before and after it.

One sample of test nodes for a graph and seed is explained by every explainer of every model, on the clean and on the
attacked graph. What an explanation claims is held against the true effect of single edges, measured once for a model
and an attack (:func:`measured_effects`) and shared by all explainers; against the removal of its top edges; and, on
graphs that know it, against the edges that truly matter. It is asked about the edges that it covers (tag ``into-node``
or the whole computation graph) and, as all explainers are, about the edges into the node. Some explainers draw random
numbers, so two answers on the clean graph differ as well: with the same two draws, that is the noise floor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.data.extend import reached_nodes
from fgai_bench.explainers import EdgeScores, Explainer
from fgai_bench.explainers.computation_graph import field_of
from fgai_bench.explainers.edge_effects import QUANTITIES, deletion_effects, drawn_pairs, outputs_by_removal, top_pairs
from fgai_bench.explainers.gradient import part_of
from fgai_bench.metrics import NotApplicable, edges_into
from fgai_bench.metrics.explainer_stability import Explanations
from fgai_bench.metrics.faithfulness import fidelity
from fgai_bench.metrics.inputs import attention_of
from fgai_bench.metrics.ranks import shown
from fgai_bench.models import Attention
from fgai_bench.models.base import AttentionModel
from fgai_bench.seeds import generator, uniform
from fgai_bench.tasks.base import Problem
from fgai_bench.tasks.known_truth import has_truth, nodes_with_truth, truths
from fgai_bench.tasks.measurement import Offers

SAMPLE = 256  # nodes that are explained, unless a suite says otherwise
SEARCHED_SAMPLE = 8  # the first nodes of the sample, for explainers that search for each node
MOST_EFFECTS = 128  # edges into a node, and edges of its computation graph, whose true effect is measured
FIELD_LARGEST = 2**16  # edges of a computation graph, on average, that copies are made of
TRUTH_HOPS = 2  # within which a graph with a built-in truth has it
PARTLY, DRAWS = 0.1, 8  # of robust fidelity: the probability that an edge is deleted, and how often it is drawn
MANY, FEW_DRAWS = 1000, 2  # draws of so many edges of a node differ little: fewer are enough


@dataclass(frozen=True)
class Effects:
    """The true effects of edges on the explained nodes, on the clean and on the attacked graph.

    Their values are ``(M, 5)``: the ``QUANTITIES``, then 1 for an edge of the draw from the computation graph, 0 for a
    further edge into the node. ``steady`` ``(S,)`` is a second sample, of reached nodes whose prediction the attack did
    not change: under a strong attack the first holds few of them.
    """

    clean: EdgeScores
    attacked: EdgeScores
    steady: Tensor


def explainable_targets(problem: Problem) -> Tensor:
    """Return the targets with in-edges; on a graph with a truth, those with edges that matter and others: ``(K,)``."""
    if problem.readout is not None:
        raise NotApplicable("explainers are asked about the classes of nodes, not about links")
    targets = problem.targets[torch.isin(problem.targets, problem.data.edge_index[1])]
    if has_truth(problem.data):
        targets = targets[torch.isin(targets, nodes_with_truth(problem.data, TRUTH_HOPS))]
    if not targets.numel():
        raise NotApplicable("no target has an edge that could be explained")
    return targets


def shared_nodes(problem: Problem, seed: int, size: int = SAMPLE) -> Tensor:
    """Return the targets that every model explains, drawn by the seed from the graph alone: ``(min(size, K),)``.

    The sample is stratified by exposure and degree, in proportion: the targets are ordered by whether one of their
    in-neighbours is a target, then by in-degree, ties at random, and every (K / size)-th is taken. An attacker can
    reach every target by an edge of its own; those that are exposed can also be reached through a neighbour.
    The nodes come in random order, so that the first few are a sample as well.
    """
    pool, (source, destination) = explainable_targets(problem), problem.data.edge_index
    pool = pool[torch.randperm(pool.numel(), generator=generator(seed, "explained")).to(pool.device)]
    nodes = problem.data.x.shape[0]
    degree = torch.bincount(destination, minlength=nodes)
    exposed = torch.bincount(destination[torch.isin(source, problem.targets)], minlength=nodes) > 0
    order = (exposed[pool] * (nodes + degree.max()) + degree[pool]).argsort(stable=True)
    size = min(size, pool.numel())
    steps = torch.arange(size, device=pool.device) * pool.numel() // size
    return pool[order[steps].sort().values]  # the random order


def reached_or_all(problem: Problem, model: AttentionModel, attacked: Data) -> Tensor:
    """Tell which nodes an attack reaches through the model; all of them if it reaches no target: ``(N,)`` boolean."""
    reached = reached_nodes(problem.data, attacked, model.hops if model.local else None)
    return reached if bool(reached[explainable_targets(problem)].any()) else torch.ones_like(reached)


def measured_effects(problem: Problem, model: AttentionModel, attacked: Data, seed: int, size: int = SAMPLE) -> Effects:
    """Measure the true effects of edges on the shared nodes, before and after an attack.

    For each node up to 128 of the edges into it are deleted, and up to 128 drawn from its computation graph.
    """
    nodes = shared_nodes(problem, seed, size)
    few = field_of(attacked.edge_index, attacked.x.shape[0], nodes[:4], model.hops)
    if few.edges.numel() > FIELD_LARGEST * few.nodes.numel():
        raise NotApplicable(f"computation graphs have more than {FIELD_LARGEST:,} edges, too many to delete one by one")
    if part_of(model, few) is None:
        raise NotApplicable("every deletion would be a pass of the model over the whole graph")
    clean, perturbed = (
        _effects_on(model, graph, nodes, problem.data.y[nodes], seed) for graph in (problem.data, attacked)
    )
    pool = explainable_targets(problem)
    before, after = (problem.output(model, graph).logits[pool].argmax(1) for graph in (problem.data, attacked))
    steady = pool[(before == after) & reached_or_all(problem, model, attacked)[pool]]
    order = torch.randperm(steady.numel(), generator=generator(seed + 1, "explained"))
    return Effects(clean, perturbed, steady[order[:size].to(steady.device)])


def _effects_on(model: AttentionModel, graph: Data, nodes: Tensor, labels: Tensor, seed: int) -> EdgeScores:
    field = field_of(graph.edge_index, graph.x.shape[0], nodes, model.hops)
    drawn, into = (drawn_pairs(field, MOST_EFFECTS, seed, among) for among in (None, field.leads_into_node))
    chosen = torch.unique(torch.cat([drawn, into]))
    effects = deletion_effects(model, graph, field, chosen, labels)
    values = torch.cat([effects, torch.isin(chosen, drawn).to(effects.dtype).unsqueeze(1)], dim=1)
    return EdgeScores(nodes, field.owner[chosen], field.edges[chosen], values)


def effect_offers(effects: Effects) -> Offers:
    """Offer the measured effects themselves: how many nodes, and how much single edges matter."""

    def sizes(of: EdgeScores) -> Callable[[], tuple[Any, ...]]:
        return lambda: ([(of.of(place)[1][:, 0].abs(),) * 2 for place in range(of.nodes.numel())],)

    return Offers().add(
        nodes=lambda: (effects.clean.nodes,),
        effects_alone=sizes(effects.attacked),
        effects_alone_clean=sizes(effects.clean),
    )


def explain_offers(
    explainer: Explainer, problem: Problem, model: AttentionModel, attacked: Data, effects: Effects, seed: int
) -> Offers:
    """Offer everything that is measured of one explainer under one attack."""
    searches, is_null = "post-hoc" in explainer.tags, "null" in explainer.tags
    nodes, steady = (part[: SEARCHED_SAMPLE if searches else None] for part in (effects.clean.nodes, effects.steady))
    first, second = (explainer.sparse(model, problem.data, nodes, seed=draw) for draw in (seed, seed + 1))
    clean, perturbed = (
        ExplainedGraph(problem, model, graph, scores, torch.ones_like(scores.owner, dtype=torch.bool), seed)
        for graph, scores in ((problem.data, first(problem.data, nodes)), (attacked, second(attacked, nodes)))
    )
    again = second(problem.data, nodes)
    sound = clean.right & (clean.predicted == perturbed.predicted)  # (B,)
    reached = reached_or_all(problem, model, attacked)[nodes].tolist()

    def pairs(before: EdgeScores, after: EdgeScores, graph: Data) -> Explanations:
        return Explanations(zip(_explanations(before, problem.data), _explanations(after, graph), strict=True))

    def moved() -> tuple[Any, ...]:
        if not any(reached):
            raise NotApplicable("the attack reaches none of the explained nodes")
        both = zip(pairs(clean.scores, perturbed.scores, attacked), reached, strict=True)
        return (Explanations(pair for pair, is_reached in both if is_reached),)

    def unchanged() -> tuple[Any, ...]:
        if not steady.numel():
            raise NotApplicable("the attack changed the prediction of every node that it reaches")
        return (pairs(first(problem.data, steady), second(attacked, steady), attacked),)

    offers = Offers().add(
        explanations=moved,
        explanations_repeated=lambda: (pairs(clean.scores, again, problem.data),),
        explanations_unchanged=unchanged,
        nodes=lambda: (nodes,),
        nodes_unchanged=lambda: (steady,),
        attentions_explained=lambda: _attentions(problem, model, attacked, nodes),
    )
    few = (clean.first(SEARCHED_SAMPLE), effects.clean, "-few-clean")  # as explainers that search have them
    graphs = [(perturbed, effects.attacked, ""), (clean, effects.clean, "-clean"), *([few] if is_null else [])]
    for asked, measured, ending in graphs:
        into = asked.into_node()
        covered = into if "into-node" in explainer.tags else asked
        counted = {"": asked.right if ending else sound, "-wrong": ~sound[: asked.right.numel()]}
        claims = {"covered": covered.claims(measured, counted)}
        if "few" not in ending:
            claims["into"] = claims["covered"] if into is covered else into.claims(measured, counted)
        for scope, made in claims.items():
            offers.add(**{f"{name}-{scope}{ending}": arguments for name, arguments in made.items()})
    if has_truth(problem.data):
        offers.add(nodes_wrong=lambda: (nodes[~sound],))
    return offers


@dataclass(frozen=True)
class ExplainedGraph:
    """An explainer's scores on one graph, and what the model says when it is asked to do without their edges."""

    problem: Problem
    model: AttentionModel
    graph: Data
    scores: EdgeScores  # of all edges of the computation graphs
    asked: Tensor  # (M,) boolean, the pairs that are asked about; the others are never deleted
    seed: int  # of the draws: which of equal scores come first, and what is deleted of a part

    def first(self, count: int) -> ExplainedGraph:
        scores = self.scores.first(count)
        return replace(self, scores=scores, asked=self.asked[: scores.owner.numel()])

    def into_node(self) -> ExplainedGraph:
        """Return the same, asked about the edges into the node only; itself where there are no others."""
        into = self.graph.edge_index[1, self.scores.edges] == self.scores.nodes[self.scores.owner]
        return self if torch.equal(into, self.asked) else replace(self, asked=into)

    @cached_property
    def whole(self) -> Tensor:
        """Return the output distributions of the explained nodes: ``(B, C)``."""
        return self.problem.output(self.model, self.graph).logits[self.scores.nodes].softmax(1)

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
        """Return how many edges each node is asked about: ``(B,)``."""
        return torch.bincount(self.scores.owner[self.asked], minlength=self.scores.nodes.numel())

    @property
    def shares(self) -> Tensor:
        """Return the share of each node's computation graph that it is asked about: ``(B,)``."""
        return self.edges / torch.bincount(self.scores.owner, minlength=self.scores.nodes.numel()).clamp(min=1)

    @cached_property
    def top(self) -> Tensor:
        """Tell which pairs make the explanation: half of a node's edges, from one to ten: ``(M,)`` boolean."""
        return top_pairs(self.graph, self.scores, shown(self.edges).minimum(self.edges), self.seed, self.asked)

    @cached_property
    def without_top(self) -> Tensor:
        """Return the outputs without the explanation's edges: ``(B, C)``."""
        return outputs_by_removal(self.model, self.graph, self.scores, self.top.unsqueeze(0))[0].softmax(1)

    @cached_property
    def only_top(self) -> Tensor:
        """Return the outputs without all edges that were asked about but the explanation's: ``(B, C)``."""
        rest = (self.asked & ~self.top).unsqueeze(0)
        return outputs_by_removal(self.model, self.graph, self.scores, rest)[0].softmax(1)

    @cached_property
    def falls(self) -> tuple[Tensor, Tensor]:
        """Return how far predicted probabilities fall without a part of the top, and of the rest: two ``(B,)``."""
        classes, falls = self.predicted.unsqueeze(1), []
        parts = (self.top, self.asked & ~self.top)
        many = MANY * self.scores.nodes.numel()
        draws = [FEW_DRAWS if int(part.sum()) > many else DRAWS for part in parts]
        drawn = uniform((max(draws), self.top.numel()), self.seed, "partly", self.top.device) < PARTLY
        for part, number in zip(parts, draws, strict=True):
            without = outputs_by_removal(self.model, self.graph, self.scores, drawn[:number] & part).softmax(2)
            falls.append((self.whole - without.mean(0)).gather(1, classes).squeeze(1))
        return falls[0], falls[1]

    def truths(self, counted: Tensor) -> tuple[Any, ...]:
        """Return the scores beside the edges that truly matter, of the nodes that count: ``(B,)`` boolean."""
        return (truths(self.problem.data, self.graph, self.scores.only(self.asked), counted),)

    def against(self, effects: EdgeScores) -> list[tuple[Tensor, Tensor]]:
        """Return, for each node, the scores ``(m,)`` and effects ``(m, 4)`` of the edges that were asked and deleted.

        Of edges into the node all count; of a computation graph those of the draw. They lie on the CPU.
        """
        size = self.graph.edge_index.size(1)
        own, order = (self.scores.owner * size + self.scores.edges).sort()
        place = order[torch.searchsorted(own, effects.owner * size + effects.edges)]
        counted = effects.values[:, -1] > 0 if bool(self.asked.all()) else self.asked[place]
        owner, scores, values = (
            part[counted].cpu() for part in (effects.owner, self.scores.values[place], effects.values[:, :-1])
        )
        sizes = torch.bincount(owner, minlength=effects.nodes.numel()).tolist()
        return list(zip(scores.split(sizes), values.split(sizes), strict=True))

    def claims(self, effects: EdgeScores, counted: Mapping[str, Tensor]) -> dict[str, Callable[[], tuple[Any, ...]]]:
        """Return the inputs of metrics by name: what the scores claim of the asked edges, beside what is true there.

        ``counted`` ``(B,)`` boolean are the nodes whose known edges count, by the end of the name of the input.
        """

        @cache
        def pairs() -> list[tuple[Tensor, Tensor]]:
            return self.against(effects.first(self.scores.nodes.numel()))

        def quantity(column: int, signed: bool) -> Callable[[], tuple[Any, ...]]:
            return lambda: ([(s, e[:, column] if signed else e[:, column].abs()) for s, e in pairs()],)

        known = counted if has_truth(self.problem.data) else {}
        return {
            **{
                f"effects{'-signed' * signed}{of}": quantity(column, signed)
                for column, of in enumerate(("", "-logit", "-loss"))
                for signed in (False, True)
            },
            **{f"truths{end}": partial(self.truths, nodes) for end, nodes in known.items()},
            "truths-turned": quantity(QUANTITIES.index("turned"), False),
            "probabilities-without-top": lambda: (self.whole, self.without_top),
            "probabilities-only-top": lambda: (self.whole, self.only_top),
            "fidelities": lambda: (fidelity(self.whole, self.without_top), fidelity(self.whole, self.only_top)),
            "falls": lambda: self.falls,
            "shares": lambda: (self.shares,),
        }


def _explanations(scores: EdgeScores, data: Data) -> list[Attention]:
    """Return the scores of each explained node as an attention over the edges that can matter to it."""
    sizes = torch.bincount(scores.owner, minlength=scores.nodes.numel()).tolist()
    pieces = zip(data.edge_index[:, scores.edges].split(sizes, 1), scores.values.split(sizes), strict=True)
    return [Attention(*piece) for piece in pieces]


def _attentions(problem: Problem, model: AttentionModel, attacked: Data, nodes: Tensor) -> tuple[Attention, Attention]:
    """Return the attention that the explained nodes pay, clean and attacked."""
    sample = torch.zeros(problem.data.x.shape[0], dtype=torch.bool, device=nodes.device)
    sample[nodes] = True
    clean, perturbed = (attention_of(problem.output(model, data)) for data in (problem.data, attacked))
    return edges_into(clean, sample), edges_into(perturbed, sample)
