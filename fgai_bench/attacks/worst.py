"""The standard attack: one search over placement and features, the same for every model, that goes on while it finds.

Leaderboards rank by what it leaves. Nothing about it can be set but the threat model and the seed; ``version`` names
the search and is part of every record. A portfolio of short searches, placements learned by trial, the search of the
validation attack and what transfers from the vanilla model are its sources. A local search goes on from the best of
them, and takes parts of the others.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import torch

from fgai_bench.attacks.base import Attack, Candidate, Trace, Victim
from fgai_bench.attacks.budget import ThreatModel
from fgai_bench.attacks.injection import InjectionAttack, RandomInjection
from fgai_bench.attacks.learned_placement import FIRST_ROUNDS, LAST_STEPS, MORE_ROUNDS, learned_member
from fgai_bench.attacks.local_search import BLACK_BOX, CLIMB, SIDE_BY_SIDE, LocalSearch
from fgai_bench.attacks.search import (
    HUGE,
    LARGE,
    SMALL,
    PortfolioMember,
    PortfolioSearch,
    at_corners,
    imitating,
    published,
    strongest_members,
)
from fgai_bench.attacks.validation import narrowed
from fgai_bench.seeds import derive

FIRST, SECOND = 40, 100  # gradients of every member of the portfolio, and of the best of them
TIED = 4  # members whose injected nodes begin alike
BEATEN = 0.01  # of the score: if another model's attack leaves so much less, the gradient is suspicious
TRIAL = 2  # gradients per edge of the local search from each of the two best sources
LEAST, MOST = 6, 20  # gradients per edge of the further search before which it does not end, and after which it does
LEAST_ROUNDS, MOST_ROUNDS = 10, 30  # the same in rounds, for small budgets

PORTFOLIO: tuple[tuple[str, str, float], ...] = (
    ("cover", "scaled-margin", SMALL),
    ("cover", "nll-raw", SMALL),
    ("cover", "margin", LARGE),
    ("cover", "tvd", LARGE),
    ("wide-cover", "tvd", HUGE),
    ("wide-cover", "scaled-margin", HUGE),
    ("wide-cover", "nll", LARGE),
    ("mid-cover", "scaled-margin", SMALL),
    ("mid-cover", "scaled-margin", HUGE),
    ("near-cover", "margin", LARGE),
    ("near-cover", "scaled-margin", SMALL),
    ("near-cover", "masked-nll", SMALL),
    ("near-cover", "nll-raw", SMALL),
    ("near-cover", "logit-ratio", LARGE),
    ("random", "margin", LARGE),
    ("defective", "margin", LARGE),
)
IMITATIONS = (1, 10)  # members that also start as the likeness of their targets
TRANSFERRED = (0, 2, 9, 10)  # members that are tried on the surrogate


class Worst(Attack):
    """The strongest injection that one search finds, whatever the model; judged by the labels of the targets."""

    summary = "the standard attack: the best of several searches, then a local search until it stops finding"
    paper = "https://arxiv.org/abs/2003.01690"
    version = "2"
    tags: ClassVar[tuple[str, ...]] = (
        "injection", "gradient", "prediction", "fixed-search", "uses-surrogate", "standard",
    )  # fmt: skip
    effort: ClassVar[float] = 1.0

    def steps(self, number: float) -> int:
        """Return so many gradients or rounds under this effort, at least one."""
        return max(1, round(self.effort * number))

    def search(self, victim: Victim, threat: ThreatModel, seed: int | None) -> Candidate:
        search = PortfolioSearch(victim, threat, seed)
        edges = threat.nodes * min(threat.edges_per_node, victim.targets.numel())
        if not edges or victim.model.ignores_edges(victim.data):
            return self.strongest(search, [RandomInjection().search(victim, threat, seed)])
        outsiders = self.outsiders(victim, threat, seed)
        if not torch.allclose(victim.evaluated()[1].logits, search.clean.logits, rtol=1e-3, atol=1e-4, equal_nan=True):
            search.flags["randomised forward pass"] = None
        local = self.searched(search, edges)
        return self.strongest(search, [*outsiders, search.candidate(local.best)])

    def strongest(self, search: PortfolioSearch, candidates: Sequence[Candidate]) -> Candidate:
        """Return the candidate with the lowest score; its curve ends with what its own graph shows."""
        scores = search.scores(candidates)
        calls = search.calls + sum(candidate.trace.gradient_calls for candidate in candidates)
        last = 1.0 - min(scores)
        curve = (*(min(harm, last) for harm in search.curve), last)
        return replace(candidates[scores.index(min(scores))], trace=Trace(calls, curve, search.doubts))

    def outsiders(self, victim: Victim, threat: ThreatModel, seed: int | None) -> list[Candidate]:
        """Return the random control and the published attack, which must not be stronger than the search."""
        control = RandomInjection().search(victim, threat, seed)
        return [control, InjectionAttack().search(victim, published(threat), seed)]

    def searched(self, search: PortfolioSearch, edges: int) -> LocalSearch:
        """Return the local search from the best source, at its end, under a budget of so many edges."""
        sources = self.sources(search)
        climb = self.steps(CLIMB)
        tried = [LocalSearch(search, sources, source, search.seed or 0, climb) for source in sources[:2]]
        for local in tried:
            local.go_on(self.steps(TRIAL * edges))
        best = min(tried, key=lambda local: local.best.score)
        of_a_round = SIDE_BY_SIDE * climb  # gradients
        least, most = max(self.steps(LEAST * edges), LEAST_ROUNDS * of_a_round), self.steps(MOST * edges)
        best.until_it_stops(least, max(most, MOST_ROUNDS * of_a_round))
        return best

    def sources(self, search: PortfolioSearch) -> list[PortfolioMember]:
        """Return the best of every kind of search, strongest first."""
        transferred = self.transferred(search)
        members = self.portfolio(search)
        members += [replace(members[i], features=imitating(search, members[i].attached)) for i in IMITATIONS]
        # Where the victim hides its gradient, another model's direction is a good start; else corners take its place.
        start = transferred or replace(members[0], features=at_corners(search))
        members += [replace(start, loss="scaled-margin", step=step) for step in (SMALL, LARGE)]
        members = search.climb_all(members, self.steps(FIRST))
        small, large = ([m for m in members if (m.step == SMALL) == is_small] for is_small in (True, False))
        kept = [*strongest_members(small, 2), *strongest_members(large, 2)]  # short searches favour large steps
        kept += search.climb_all(kept, self.steps(SECOND))
        kept += self.tied(search, strongest_members(kept, 1)[0])
        rounds = self.steps(FIRST_ROUNDS), self.steps(MORE_ROUNDS)  # as by itself, so that it never finds more
        learned = learned_member(search, *rounds, self.steps(LAST_STEPS))
        others = [learned] if learned else []
        own = [member.score for member in (*members, *kept, *others) if not member.transferred]
        narrow = narrowed(search, self.effort)  # the validation attack, likewise
        if narrow.score < min(own):  # else a trial begins from another kind of attack
            others.append(narrow)
        if transferred and transferred.score < min(*own, narrow.score) - BEATEN:
            search.flags[BLACK_BOX] = None
        return strongest_members([*strongest_members(kept, 1), *others, *([transferred] if transferred else [])], 3)

    def tied(self, search: PortfolioSearch, member: PortfolioMember) -> list[PortfolioMember]:
        """Give all injected nodes the features of one of them, of each in turn, and climb from the best of these."""
        alike = [replace(member, features=row.expand_as(member.features).clone()) for row in member.features]
        return search.climb_all(strongest_members([search.tried(one) for one in alike], TIED), self.steps(FIRST))

    def transferred(self, search: PortfolioSearch) -> PortfolioMember | None:
        """Return what a short search on the surrogate gives, evaluated on the victim; None without a surrogate."""
        surrogate = search.victim.surrogate
        if surrogate is None or surrogate is search.victim.model:
            return None
        other = PortfolioSearch(replace(search.victim, model=surrogate, surrogate=None), search.threat, search.seed)
        members = other.climb_all(self.portfolio(other, TRANSFERRED), self.steps(FIRST))
        best = other.climb(strongest_members(members, 1)[0], self.steps(SECOND))
        return search.tried(replace(best, transferred=True))

    def portfolio(self, search: PortfolioSearch, some: Sequence[int] = range(len(PORTFOLIO))) -> list[PortfolioMember]:
        """Return the members, or some of them, where they start."""
        return search.started([(place, search.loss_named(loss), step) for place, loss, step in PORTFOLIO], some)


class WorstContinued(Worst):
    """The standard attack, continued with other draws for as many gradients again: does it still find something?"""

    summary = "the standard attack continued for as many gradients with another seed: how far does it still move?"
    paper = "https://arxiv.org/abs/2003.01690"
    version = "1"
    tags = ("injection", "gradient", "prediction", "fixed-search", "uses-surrogate", "standard-continued")

    def searched(self, search: PortfolioSearch, edges: int) -> LocalSearch:
        ended = super().searched(search, edges)
        seed = derive(search.seed or 0, "attack-continued")
        local = LocalSearch(search, ended.sources, ended.best, seed, ended.climb)
        local.go_on(search.calls)
        return local
