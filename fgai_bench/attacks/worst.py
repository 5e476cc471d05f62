"""The standard attack: one fixed portfolio of placements, losses and starts, the same for every model and defense.

Leaderboards rank by what it leaves. Nothing about it can be set but the threat model and the seed; ``version`` names
the portfolio and is part of every record. The search narrows down: every member is tried for a few steps, the best of
them longer, some of their edges move to where targets still stand, and the very best ends with a long ascent. The
published attack, the random control and what transfers from the vanilla model are members, so it is never weaker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from fgai_bench.attacks.ascent import Direction, ascend_long
from fgai_bench.attacks.base import Attack, Victim
from fgai_bench.attacks.budget import ThreatModel
from fgai_bench.attacks.injection import Injection, InjectionAttack, with_injected
from fgai_bench.attacks.objectives import margins, objective_named
from fgai_bench.attacks.pgd import gradient_of
from fgai_bench.attacks.placement import Placement, attached_edges, by_score, cover, defective, random, swapped
from fgai_bench.attacks.random_control import RandomInjection
from fgai_bench.attacks.result import Candidate, Trace
from fgai_bench.metrics.prediction import area_under_curve
from fgai_bench.models.base import Output
from fgai_bench.seeds import uniform

FIRST, SECOND, THIRD, MOVED, LAST = 40, 120, 200, 40, 120  # steps of the stages
KEPT, FINALISTS = 3, 2  # members of either kind that the second stage goes on with, and of both that the third does
SWAPS = (0.05, 0.15, 0.05)  # share of the attachments that move to what still stands, one after the other
SMALL, LARGE, HUGE = 0.025, 0.1, 0.25  # first steps, as shares of the feature range
RELAXED = 1e-2  # how much of an edge is there while its gradient is taken
GUESSES = 40  # features that are tried without a gradient, where there is none


@dataclass(frozen=True)
class Member:
    """One way of attacking: where edges go, what is raised, and from where.

    Attributes:
        name: for the record.
        attached: ``(nodes, each)`` the targets of every injected node.
        loss: a name of ``OBJECTIVES``.
        direction: of its steps.
        step: its first step, as a share of the feature range.
        features: ``(nodes, F)`` where it stands.
        score: what it leaves of the victim; lower means stronger.
    """

    name: str
    attached: Tensor
    loss: str
    direction: Direction
    step: float
    features: Tensor
    score: float = float("inf")


@dataclass
class Search:
    """The search on one victim: what is computed once, and what was spent.

    Attributes:
        victim, threat, seed: of the attack.
        embedded, clean: the victim's, unattacked.
        truth: ``(M,)`` what predictions should be.
        links: of a link readout, which targets are links and which are none (found once: a recording cannot search).
        last: the attachments that were looked at last, and their scene.
        calls: gradients of the victim's model that were taken.
        has_gradient: whether one of them was not zero.
        flags: reasons for distrust.
    """

    victim: Victim
    threat: ThreatModel
    seed: int | None
    embedded: Tensor = field(init=False)
    clean: Output = field(init=False)
    truth: Tensor = field(init=False)
    links: tuple[Tensor, Tensor] | None = field(init=False, default=None)
    last: tuple[Tensor, Injection] | None = field(init=False, default=None)
    calls: int = 0
    has_gradient: bool = False
    flags: dict[str, None] = field(default_factory=dict)
    curve: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        with torch.no_grad():
            self.embedded = self.victim.model.embed(self.victim.data.x)
            self.clean = self.victim.model.propagate(self.embedded, self.victim.data.edge_index)
        self.truth = self.victim.truth(self.clean)
        if hasattr(self.victim.readout, "labels"):
            self.links = ((self.truth == 1).nonzero().flatten(), (self.truth == 0).nonzero().flatten())

    def scene(self, attached: Tensor) -> Injection:
        """Return the attacked graph with these attachments, ready for any features; the last one is kept."""
        if self.last is None or self.last[0] is not attached:
            self.last = None  # two of them may be too large
            edges = attached_edges(self.victim.data.x.shape[0], attached)
            scene = Injection.with_edges(self.victim, self.embedded, self.clean, edges, self.threat.nodes)
            self.last = attached, replace(scene, reference=replace(scene.reference, prediction=self.truth))
        return self.last[1]

    def score(self, logits: Tensor) -> Tensor:
        """Return what is left of the victim: ``()`` the share of right predictions, or the ROC-AUC of links."""
        if self.links is not None:
            link = logits[:, 1] - logits[:, 0]
            return area_under_curve(*(link.index_select(0, which) for which in self.links)).to(logits.dtype)
        return (logits.argmax(1) == self.truth).to(logits.dtype).mean()

    def climb(self, member: Member, steps: int) -> Member:
        """Go on with a member for so many steps and return it where it leaves the least."""
        scene, loss = self.scene(member.attached), objective_named(member.loss)

        def objective(features: Tensor) -> tuple[Tensor, Tensor]:
            out = scene.output(features)
            logits = self.victim.read(out)
            return loss(logits, out, scene.reference), self.score(logits.detach())

        recordable = self.victim.model.recordable(new_edges=False)
        low, high = self.threat.feature_low, self.threat.feature_high
        step = member.step * (high - low)
        top = ascend_long(objective, member.features, low, high, step, steps, member.direction, recordable)
        self.calls += steps
        self.has_gradient |= bool(top.moving)
        if not bool(top.finite):
            self.flags["non-finite gradient"] = None
        return self.noted(replace(member, features=top.point, score=float(top.score)))

    def tried(self, member: Member) -> Member:
        """Evaluate a member where it stands, without a gradient."""
        with torch.no_grad():
            logits = self.victim.read(self.scene(member.attached).output(member.features))
        return self.noted(replace(member, score=float(self.score(logits))))

    def noted(self, member: Member) -> Member:
        """Add to the curve how much harm the best member does so far."""
        self.curve.append(max([1.0 - member.score, *self.curve[-1:]]))
        return member

    def standing(self, member: Member) -> Tensor:
        """Return by how much each target still stands under a member: ``(T,)``, 0 where it has fallen."""
        with torch.no_grad():
            logits = self.victim.read(self.scene(member.attached).output(member.features))
        if logits.shape[0] != self.victim.targets.numel():
            return torch.ones(self.victim.targets.numel(), device=logits.device)
        return (margins(logits, self.truth) > 0).double()

    def edge_gradient(self, member: Member) -> Tensor | None:
        """Return how much an edge to each target would raise the loss: ``(nodes, T)``, or None without edge weights.

        All edges between injected nodes and targets are added with a small weight, whose gradient says what more of
        each would do.
        """
        data, targets, nodes = self.victim.data, self.victim.targets, self.threat.nodes
        scene, loss = self.scene(member.attached), objective_named(member.loss)
        new = data.x.shape[0] + torch.arange(nodes, device=targets.device).repeat_interleave(targets.numel())
        edge_index = torch.cat([scene.edge_index, torch.stack([new, targets.repeat(nodes)])], dim=1)
        extra = torch.full((new.numel(),), RELAXED, device=targets.device, requires_grad=True)
        there = torch.ones(scene.edge_index.size(1), device=targets.device)
        embedded = torch.cat([self.embedded, self.victim.model.embed(member.features).detach()])
        try:
            out = self.victim.model.propagate(embedded, edge_index, edge_weight=torch.cat([there, extra]))
        except (ValueError, TypeError):
            return None
        value = loss(self.victim.read(out), out, scene.reference)
        self.calls += 1
        return gradient_of(value, extra).view(nodes, targets.numel()).detach()


def near_zero(search: Search, index: int) -> Tensor:
    """Start near the middle of the range, from where every corner is equally far: ``(nodes, F)``."""
    return _drawn(search, f"near-{index}", 0.05)


def at_corners(search: Search, index: int) -> Tensor:
    """Start at random corners of the range: ``(nodes, F)``."""
    spread = _drawn(search, f"corner-{index}", 1.0)
    middle = (search.threat.feature_low + search.threat.feature_high) / 2
    return torch.where(spread < middle, search.threat.feature_low, search.threat.feature_high)


def _drawn(search: Search, purpose: str, share: float) -> Tensor:
    """Uniform features in a part of the range around its middle: ``(nodes, F)``."""
    threat, data = search.threat, search.victim.data
    shape = (threat.nodes, data.x.shape[1])
    spread = uniform(shape, search.seed, f"attack-worst-{purpose}", data.edge_index.device)
    middle, width = (threat.feature_low + threat.feature_high) / 2, threat.feature_high - threat.feature_low
    return middle + share * width * (spread - 0.5)


PLACEMENTS: dict[str, Placement] = {
    "cover": cover,
    "wide-cover": partial(cover, strength=2.0),
    "mid-cover": partial(cover, strength=0.5),
    "near-cover": partial(cover, strength=0.15),
    "random": random,
    "defective": defective,
}
PORTFOLIO: tuple[tuple[str, str, Direction, float], ...] = (
    ("cover", "scaled-margin", "row", SMALL),
    ("cover", "nll-raw", "row", SMALL),
    ("cover", "margin", "row", LARGE),
    ("cover", "tvd", "row", LARGE),
    ("wide-cover", "tvd", "row", HUGE),
    ("wide-cover", "scaled-margin", "row", HUGE),
    ("wide-cover", "nll", "row", LARGE),
    ("mid-cover", "scaled-margin", "row", SMALL),
    ("mid-cover", "scaled-margin", "row", HUGE),
    ("near-cover", "margin", "row", LARGE),
    ("near-cover", "scaled-margin", "row", SMALL),
    ("near-cover", "masked-nll", "row", SMALL),
    ("near-cover", "nll-raw", "row", SMALL),
    ("near-cover", "nll", "sign", LARGE),
    ("near-cover", "logit-ratio", "row", LARGE),
    ("random", "margin", "row", LARGE),
    ("defective", "margin", "row", LARGE),
)
TRANSFERRED = (0, 2, 9, 10)  # members that are tried on the surrogate


class Worst(Attack):
    """The strongest result of a fixed portfolio of injection attacks; judged by the labels of the targets."""

    summary = "the standard attack: a fixed portfolio of placements, losses and starts, narrowed by halving"
    paper = "https://arxiv.org/abs/2003.01690"
    version = "1"
    tags: ClassVar[tuple[str, ...]] = (
        "injection", "gradient", "prediction", "fixed-search", "uses-surrogate", "standard",
    )  # fmt: skip
    effort: ClassVar[float] = 1.0

    def steps(self, number: int) -> int:
        """Return the steps of a stage under this effort, at least one."""
        return max(1, round(self.effort * number))

    def search(self, victim: Victim, threat: ThreatModel, seed: int | None) -> Candidate:
        candidates = self.outsiders(victim, threat, seed)
        if not threat.nodes or not min(threat.edges_per_node, victim.targets.numel()):
            return candidates[0]
        search = Search(victim, threat, seed)
        transferred = self.transferred(search)
        candidates += [
            self.candidate(search, member) for member in (self.best_member(search, transferred), transferred) if member
        ]
        with torch.no_grad():
            scores = [float(search.score(victim.read(victim.model(candidate.data)))) for candidate in candidates]
        winner = candidates[scores.index(min(scores))]
        flags = () if search.has_gradient else ("zero gradient",)
        calls = search.calls + sum(candidate.trace.gradient_calls for candidate in candidates)
        curve = (*search.curve, max([1.0 - min(scores), *search.curve[-1:]]))
        return replace(winner, trace=Trace(calls, curve, (*search.flags, *flags)))

    def outsiders(self, victim: Victim, threat: ThreatModel, seed: int | None) -> list[Candidate]:
        """Return what is no part of the portfolio but must not be stronger: the control and the published attack."""
        step = 0.05 * (threat.feature_high - threat.feature_low)  # 0.1 in the published range [-1, 1]
        published = threat.model_copy(update={"step": step or 0.1, "steps": 10, "restarts": 1})
        return [RandomInjection().search(victim, threat, seed), InjectionAttack().search(victim, published, seed)]

    def candidate(self, search: Search, member: Member) -> Candidate:
        """Return the attacked graph of a member."""
        data = search.victim.data
        edges = attached_edges(data.x.shape[0], member.attached)
        return Candidate(with_injected(data, member.features, edges), injected=member.features)

    def transferred(self, search: Search) -> Member | None:
        """Return what a short search on the surrogate gives, evaluated on the victim; None without a surrogate."""
        surrogate = search.victim.surrogate
        if surrogate is None or surrogate is search.victim.model:
            return None
        other = Search(replace(search.victim, model=surrogate, surrogate=None), search.threat, search.seed)
        members = [other.climb(member, self.steps(FIRST)) for member in self.portfolio(other, TRANSFERRED)]
        best = other.climb(_strongest(members, 1)[0], self.steps(SECOND))
        return search.tried(replace(best, name=f"transferred {best.name}"))

    def best_member(self, search: Search, transferred: Member | None = None) -> Member:
        """Narrow the portfolio down and return its best member."""
        members = self.portfolio(search)
        # Where the victim hides its gradient, another model's direction is a good start; else corners take its place.
        start = transferred or replace(members[0], name="cover corners", features=at_corners(search, 0))
        members += [replace(start, loss="scaled-margin", step=step) for step in (SMALL, LARGE)]
        members = [search.climb(member, self.steps(FIRST)) for member in members]
        small, large = ([m for m in members if (m.step == SMALL) == is_small] for is_small in (True, False))
        kept = [*_strongest(small, KEPT), *_strongest(large, KEPT)]  # short searches favour large steps
        members = [search.climb(member, self.steps(SECOND)) for member in kept]
        finalists = [search.climb(member, self.steps(THIRD)) for member in _strongest(members, FINALISTS)]
        best = _strongest([*finalists, *members], 1)[0]
        for moved in self.with_moved_edges(search, best):
            best = _strongest([best, moved], 1)[0]
        for loss in ("margin", best.loss if best.loss != "margin" else "scaled-margin"):
            last = search.climb(replace(best, loss=loss, step=SMALL), self.steps(LAST))
            best = _strongest([best, last, self.cornered(search, last)], 1)[0]
        return best if search.has_gradient else _strongest([best, self.guessed(search)], 1)[0]

    def portfolio(self, search: Search, some: Sequence[int] = range(len(PORTFOLIO))) -> list[Member]:
        """Return the members, or some of them, where they start."""
        names = dict.fromkeys(PORTFOLIO[index][0] for index in some)
        places = {name: PLACEMENTS[name](search.victim, search.clean, search.threat, search.seed) for name in names}
        return [
            Member(f"{place} {loss}", places[place], loss, direction, step, near_zero(search, index))
            for index, (place, loss, direction, step) in enumerate(PORTFOLIO)
            if index in some
        ]

    def with_moved_edges(self, search: Search, best: Member) -> Iterator[Member]:
        """Yield the best member with some edges moved to what stands, and with edges where the gradient points."""
        gradient = search.edge_gradient(best)
        usable = gradient is not None and bool(gradient.isfinite().all())
        if gradient is not None and usable:
            pointed = by_score(gradient, search.victim.targets, search.threat)
            yield search.climb(replace(best, name=f"{best.name} gradient", attached=pointed), self.steps(MOVED))
        for share in SWAPS if usable else (*SWAPS, SWAPS[0]):  # the same number of steps for every model
            standing = search.standing(best)
            attached = swapped(search.victim, search.clean, search.threat, best.attached, standing, share)
            climbed = search.climb(replace(best, name=f"{best.name} moved", attached=attached), self.steps(MOVED))
            best = _strongest([best, climbed], 1)[0]
            yield climbed

    def cornered(self, search: Search, member: Member) -> Member:
        """Return a member with every feature at the nearer end of its range."""
        low, high = search.threat.feature_low, search.threat.feature_high
        return search.tried(replace(member, features=torch.where(member.features < (low + high) / 2, low, high)))

    def guessed(self, search: Search) -> Member:
        """Return the best of random corners, changed one injected node at a time: for models without a gradient."""
        attached = cover(search.victim, search.clean, search.threat, search.seed)
        best = search.tried(Member("guessed", attached, "margin", "row", LARGE, at_corners(search, 0)))
        for index in range(1, GUESSES):
            features, fresh = best.features.clone(), at_corners(search, index)
            node = index % search.threat.nodes
            features[node] = fresh[node]
            best = _strongest([best, search.tried(replace(best, features=features))], 1)[0]
        return best


class WorstTwice(Worst):
    """The standard attack with twice the search, to see how far the worst case still moves."""

    summary = "the standard attack with twice the search: how far does the worst case still move?"
    paper = "https://arxiv.org/abs/2003.01690"
    version = "1"
    tags = ("injection", "gradient", "prediction", "fixed-search", "uses-surrogate", "standard-twice")
    effort = 2.0


def _strongest(members: Sequence[Member], number: int) -> list[Member]:
    """The members that leave the least, the first of equals first."""
    return sorted(members, key=lambda member: member.score)[:number]
