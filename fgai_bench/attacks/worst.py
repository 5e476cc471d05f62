"""The standard attack: one fixed portfolio of placements, losses and starts, the same for every model and defense.

Leaderboards rank by what it leaves. Nothing about it can be set but the threat model and the seed; ``version`` names
the portfolio and is part of every record. The search narrows down: every member is tried for a few steps, the best of
them longer, some of their edges move to where targets still stand, and the very best ends with a long ascent. The
published attack, the random control and what transfers from the vanilla model are members, so it is never weaker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import torch

from fgai_bench.attacks.ascent import Direction
from fgai_bench.attacks.base import Attack, Victim
from fgai_bench.attacks.budget import ThreatModel
from fgai_bench.attacks.injection import InjectionAttack, RandomInjection
from fgai_bench.attacks.placement import by_score, cover, swapped
from fgai_bench.attacks.result import Candidate, Trace
from fgai_bench.attacks.search import (
    HUGE,
    LARGE,
    PLACEMENTS,
    SMALL,
    PortfolioMember,
    PortfolioSearch,
    at_corners,
    near_zero,
    strongest_members,
)

FIRST, SECOND, THIRD, MOVED, LAST = 40, 120, 200, 40, 120  # steps of the stages
KEPT, FINALISTS = 3, 2  # members of either kind that the second stage goes on with, and of both that the third does
SWAPS = (0.05, 0.15, 0.05)  # share of the attachments that move to what still stands, one after the other
GUESSES = 40  # features that are tried without a gradient, where there is none


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
    cost: ClassVar[dict[str, float]] = {"gradients": 2300}
    effort: ClassVar[float] = 1.0

    def steps(self, number: int) -> int:
        """Return the steps of a stage under this effort, at least one."""
        return max(1, round(self.effort * number))

    def search(self, victim: Victim, threat: ThreatModel, seed: int | None) -> Candidate:
        candidates = self.outsiders(victim, threat, seed)
        if not threat.nodes or not min(threat.edges_per_node, victim.targets.numel()):
            return candidates[0]
        search = PortfolioSearch(victim, threat, seed)
        transferred = self.transferred(search)
        candidates += [
            search.candidate(member) for member in (self.best_member(search, transferred), transferred) if member
        ]
        with torch.no_grad():
            scores = [float(search.score(victim.read(victim.model(candidate.data)))) for candidate in candidates]
        winner = candidates[scores.index(min(scores))]
        calls = search.calls + sum(candidate.trace.gradient_calls for candidate in candidates)
        curve = (*search.curve, max([1.0 - min(scores), *search.curve[-1:]]))
        return replace(winner, trace=Trace(calls, curve, search.doubts))

    def outsiders(self, victim: Victim, threat: ThreatModel, seed: int | None) -> list[Candidate]:
        """Return the random control and the published attack, which must not be stronger than the portfolio."""
        step = 0.05 * (threat.feature_high - threat.feature_low)  # 0.1 in the published range [-1, 1]
        published = threat.model_copy(update={"step": step or 0.1, "steps": 10, "restarts": 1})
        return [RandomInjection().search(victim, threat, seed), InjectionAttack().search(victim, published, seed)]

    def transferred(self, search: PortfolioSearch) -> PortfolioMember | None:
        """Return what a short search on the surrogate gives, evaluated on the victim; None without a surrogate."""
        surrogate = search.victim.surrogate
        if surrogate is None or surrogate is search.victim.model:
            return None
        other = PortfolioSearch(replace(search.victim, model=surrogate, surrogate=None), search.threat, search.seed)
        members = [other.climb(member, self.steps(FIRST)) for member in self.portfolio(other, TRANSFERRED)]
        best = other.climb(strongest_members(members, 1)[0], self.steps(SECOND))
        return search.tried(replace(best, name=f"transferred {best.name}"))

    def best_member(self, search: PortfolioSearch, transferred: PortfolioMember | None = None) -> PortfolioMember:
        """Narrow the portfolio down and return its best member."""
        members = self.portfolio(search)
        # Where the victim hides its gradient, another model's direction is a good start; else corners take its place.
        start = transferred or replace(members[0], name="cover corners", features=at_corners(search, 0))
        members += [replace(start, loss="scaled-margin", step=step) for step in (SMALL, LARGE)]
        members = [search.climb(member, self.steps(FIRST)) for member in members]
        small, large = ([m for m in members if (m.step == SMALL) == is_small] for is_small in (True, False))
        kept = [*strongest_members(small, KEPT), *strongest_members(large, KEPT)]  # short searches favour large steps
        members = [search.climb(member, self.steps(SECOND)) for member in kept]
        finalists = [search.climb(member, self.steps(THIRD)) for member in strongest_members(members, FINALISTS)]
        best = strongest_members([*finalists, *members], 1)[0]
        for moved in self.with_moved_edges(search, best):
            best = strongest_members([best, moved], 1)[0]
        for loss in ("margin", best.loss if best.loss != "margin" else "scaled-margin"):
            last = search.climb(replace(best, loss=loss, step=SMALL), self.steps(LAST))
            best = strongest_members([best, last, self.cornered(search, last)], 1)[0]
        return best if search.has_gradient else strongest_members([best, self.guessed(search)], 1)[0]

    def portfolio(self, search: PortfolioSearch, some: Sequence[int] = range(len(PORTFOLIO))) -> list[PortfolioMember]:
        """Return the members, or some of them, where they start."""
        names = dict.fromkeys(PORTFOLIO[index][0] for index in some)
        places = {name: PLACEMENTS[name](search.victim, search.clean, search.threat, search.seed) for name in names}
        return [
            PortfolioMember(f"{place} {loss}", places[place], loss, direction, step, near_zero(search, index))
            for index, (place, loss, direction, step) in enumerate(PORTFOLIO)
            if index in some
        ]

    def with_moved_edges(self, search: PortfolioSearch, best: PortfolioMember) -> Iterator[PortfolioMember]:
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
            best = strongest_members([best, climbed], 1)[0]
            yield climbed

    def cornered(self, search: PortfolioSearch, member: PortfolioMember) -> PortfolioMember:
        """Return a member with every feature at the nearer end of its range."""
        low, high = search.threat.feature_low, search.threat.feature_high
        return search.tried(replace(member, features=torch.where(member.features < (low + high) / 2, low, high)))

    def guessed(self, search: PortfolioSearch) -> PortfolioMember:
        """Return the best of random corners, changed one injected node at a time: for models without a gradient."""
        attached = cover(search.victim, search.clean, search.threat, search.seed)
        best = search.tried(PortfolioMember("guessed", attached, "margin", "row", LARGE, at_corners(search, 0)))
        for index in range(1, GUESSES):
            features, fresh = best.features.clone(), at_corners(search, index)
            node = index % search.threat.nodes
            features[node] = fresh[node]
            best = strongest_members([best, search.tried(replace(best, features=features))], 1)[0]
        return best


class WorstTwice(Worst):
    """The standard attack with twice the search, to see how far the worst case still moves."""

    summary = "the standard attack with twice the search: how far does the worst case still move?"
    paper = "https://arxiv.org/abs/2003.01690"
    version = "1"
    tags = ("injection", "gradient", "prediction", "fixed-search", "uses-surrogate", "standard-twice")
    cost: ClassVar[dict[str, float]] = {"gradients": 4600}
    effort = 2.0
