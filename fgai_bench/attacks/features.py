"""Feature attacks: bounded changes of existing features by gradient ascent, and the worst of several searches."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks.ascent import BestAscent, ascend, ascend_long, gradient_of
from fgai_bench.attacks.base import Attack, Candidate, Trace, Victim
from fgai_bench.attacks.budget import ThreatModel
from fgai_bench.attacks.objectives import Reference, objective_named
from fgai_bench.attacks.placement import Placement, cover, random
from fgai_bench.attacks.search import PortfolioSearch, published, strongest
from fgai_bench.models.features import dense_rows, replace_rows
from fgai_bench.seeds import generator, uniform

FIRST, LAST, FINALISTS = 30, 150, 2  # steps of the two stages of `worst-features`; members that reach the second
STEP = 0.5  # the first step, as a share of the largest change
CHUNK = 1024  # targets whose features are differentiated together
LOSSES = ("margin", "nll", "tvd", "soft-error")


def with_changed_rows(data: Data, nodes: Tensor, rows: Tensor) -> Data:
    """Return a new graph in which these nodes have other features: ``(R,), (R, F)``."""
    attacked = Data.from_dict(dict(data.to_dict()))
    attacked.x = replace_rows(data.x, nodes, rows) if nodes.numel() else data.x
    return attacked


class FeaturePGD(Attack):
    """``threat.nodes`` random targets have their features moved by at most ``threat.epsilon`` per entry."""

    summary = "bounded change of existing features by PGD"
    paper = "https://arxiv.org/abs/1706.06083"
    tags = ("features", "gradient", "prediction")

    def __init__(self, loss: str = "nll") -> None:
        self.loss = loss
        self._objective = objective_named(loss)

    def search(self, victim: Victim, threat: ThreatModel, seed: int | None) -> Candidate:
        model, data = victim.model, victim.data
        draw = generator(seed or 0, "attack-features")
        place = torch.randperm(victim.targets.numel(), generator=draw)[: threat.nodes]
        chosen = victim.targets[place.to(victim.targets.device)]  # (R,)
        rows = dense_rows(data.x, chosen)  # (R, F)
        starts = [
            rows + ((2 * torch.rand(rows.shape, generator=draw) - 1) * threat.epsilon * (restart > 0)).to(rows)
            for restart in range(threat.restarts)
        ]
        embedded, clean = victim.evaluated()
        reference = Reference.of(clean, victim.read)

        def objective(features: Tensor) -> Tensor:
            out = model.propagate(embedded.index_copy(0, chosen, model.embed(features)), data.edge_index)
            return self._objective(victim.read(out), out, reference)

        low, high = rows - threat.epsilon, rows + threat.epsilon
        steps = threat.steps if threat.nodes and threat.epsilon else 0
        capturable = model.capturable(new_edges=False)
        search = BestAscent.over(
            lambda start: ascend(objective, start, low, high, threat.step, steps, capturable), starts
        )
        changed = chosen if steps else chosen[:0]
        return Candidate(with_changed_rows(data, changed, search.best.point[: changed.numel()]), search)


@dataclass(frozen=True)
class FeatureMember:
    """A member of the portfolio: which rows change, which loss is raised, and the change so far."""

    chosen: Tensor  # (R,) nodes whose features change
    loss: str  # a name of OBJECTIVES
    change: Tensor  # (R, F) added to their features
    score: float = float("inf")  # what it leaves of the victim; lower means stronger


class WorstFeatures(Attack):
    """The strongest result of a fixed portfolio of feature attacks; judged by the labels of the targets."""

    summary = "the worst case over feature attacks: choices of nodes, losses, and long ascents"
    paper = "https://arxiv.org/abs/2003.01690"
    tags = ("features", "gradient", "prediction", "fixed-search")

    def search(self, victim: Victim, threat: ThreatModel, seed: int | None) -> Candidate:
        search = PortfolioSearch(victim, threat, seed)
        candidates = [FeaturePGD().search(victim, published(threat), seed)]
        if threat.nodes and threat.epsilon and victim.targets.numel():
            members = [climbed(search, member, FIRST) for member in portfolio(search)]
            members = sorted(members, key=lambda member: member.score)[:FINALISTS]
            members += [climbed(search, member, LAST) for member in members]
            for member in members:
                rows = dense_rows(victim.data.x, member.chosen) + member.change
                candidates.append(Candidate(with_changed_rows(victim.data, member.chosen, rows)))
        result = strongest(search, candidates)
        calls, curve, flags = result.trace.gradient_calls, result.trace.curve, result.trace.flags
        return replace(result, trace=Trace(calls + search.calls, curve, (*flags, *search.doubts)))


def portfolio(search: PortfolioSearch) -> list[FeatureMember]:
    """Return the members where they start: near the clean features, by the seed."""
    members, epsilon = [], search.threat.epsilon
    for name, choose in CHOICES.items():
        chosen = choose(search)
        shape = (chosen.numel(), search.victim.data.x.shape[1])
        spread = uniform(shape, search.seed, f"attack-worst-features-{name}", chosen.device)
        losses = (*LOSSES, *(("soft-auc",) if search.by_rank else ()))
        members += [FeatureMember(chosen, loss, 0.1 * epsilon * (2 * spread - 1)) for loss in losses]
    return members


def climbed(search: PortfolioSearch, member: FeatureMember, steps: int) -> FeatureMember:
    """Continue a member for so many steps; return it with its change of the lowest score."""
    victim, loss, epsilon = search.victim, objective_named(member.loss), search.threat.epsilon
    rows = dense_rows(victim.data.x, member.chosen)  # (R, F)
    reference = search.labelled()

    def objective(change: Tensor) -> tuple[Tensor, Tensor]:
        embedded = search.embedded.index_copy(0, member.chosen, victim.model.embed(rows + change))
        out = victim.model.propagate(embedded, victim.data.edge_index)
        logits = victim.read(out)
        return loss(logits, out, reference), search.score(logits.detach())

    capturable = victim.model.capturable(new_edges=False)
    top = ascend_long(objective, member.change, -epsilon, epsilon, STEP * epsilon, steps, capturable=capturable)
    search.count(top, steps)
    return replace(member, change=top.point, score=float(top.score))


def placed(placement: Placement, search: PortfolioSearch) -> Tensor:
    """Choose as many targets as may change, by the placement of one injected node with so many edges: ``(R,)``."""
    targets = min(search.threat.nodes, search.victim.targets.numel())
    single = search.threat.model_copy(update={"nodes": 1, "edges_per_node": targets})
    return placement(search.victim, search.clean, single, search.seed)[0]


def smallest_margins(search: PortfolioSearch) -> Tensor:
    """Choose the targets that are right by the smallest margin; those that are wrong already come last: ``(R,)``.

    Where what is read are no targets but, say, links, the first of them are chosen.
    """
    victim, logits = search.victim, search.victim.read(search.clean)
    if logits.shape[0] != victim.targets.numel():
        return victim.targets[: search.threat.nodes]
    margin = search.margins(logits)
    order = torch.where(margin > 0, margin, torch.inf).argsort(stable=True)
    return victim.targets[order[: search.threat.nodes]]


def steepest(search: PortfolioSearch) -> Tensor:
    """Choose the targets whose features can raise the smooth share of errors the most, to first order: ``(R,)``.

    By the gradient g of a row, a change of at most epsilon per entry raises it by ``epsilon * |g|_1``.
    """
    victim, embedded = search.victim, search.embedded.detach().requires_grad_()
    out = victim.model.propagate(embedded, victim.data.edge_index)
    loss = objective_named("soft-auc" if search.by_rank else "soft-error")
    slope = gradient_of(loss(victim.read(out), out, search.labelled()), embedded).nan_to_num(0)
    search.calls += 1
    gains = []
    for some in victim.targets.split(CHUNK):  # the features of all targets at once may be too many to hold
        rows = dense_rows(victim.data.x, some).requires_grad_()
        gains.append(gradient_of((victim.model.embed(rows) * slope[some]).sum(), rows).abs().sum(1))
    return victim.targets[torch.cat(gains).argsort(descending=True, stable=True)[: search.threat.nodes]]


CHOICES: dict[str, Callable[[PortfolioSearch], Tensor]] = {
    "random": partial(placed, random),
    "margin": smallest_margins,
    "cover": partial(placed, partial(cover, strength=0.5)),
    "gradient": steepest,
}
