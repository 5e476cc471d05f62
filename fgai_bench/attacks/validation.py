"""The short attack by which settings are chosen: a smaller portfolio, a quarter of the standard attack's steps.

A study of settings attacks validation nodes thousands of times, so its attack is short. It is not the evaluation's: it
has fewer members, no transfer and no moved edges, and draws from seeds of its own. All that matters is that it ranks
settings as the standard attack does. Thirty steps do not: some defenses fall to their first steps and others, which
would fall lower, only to long ones, so that a short search prefers what merely slows it down.
"""

from typing import ClassVar

from fgai_bench.attacks.base import Attack, Candidate, Trace, Victim
from fgai_bench.attacks.budget import ThreatModel
from fgai_bench.attacks.search import LARGE, SMALL, PortfolioMember, PortfolioSearch, strongest_members

MEMBERS: tuple[tuple[str, str, float], ...] = (
    ("near-cover", "margin", LARGE),
    ("near-cover", "scaled-margin", SMALL),
    ("near-cover", "masked-nll", SMALL),
    ("wide-cover", "nll", LARGE),
    ("cover", "margin", LARGE),
    ("random", "margin", LARGE),
)
STAGES = ((len(MEMBERS), 30), (2, 100), (1, 200))  # how many members go on, and for how many steps: 580 in all


class ValidationAttack(Attack):
    """The strongest of six searches, placed by covers and at random: all short, two longer, the best one long."""

    summary = "a shorter search on validation nodes, by which settings are chosen; the evaluation's attack is `worst`"
    paper = "https://arxiv.org/abs/2003.01690"
    tags: ClassVar[tuple[str, ...]] = ("injection", "gradient", "prediction", "fixed-search")

    def search(self, victim: Victim, threat: ThreatModel, seed: int | None) -> Candidate:
        search = PortfolioSearch(victim, threat, seed)
        if not threat.nodes or not min(threat.edges_per_node, victim.targets.numel()):
            return Candidate(victim.data)
        return search.candidate(narrowed(search), Trace(search.calls, tuple(search.curve), search.doubts))


def narrowed(search: PortfolioSearch, effort: float = 1.0) -> PortfolioMember:
    """Return the strongest of the members, of which fewer and fewer go on."""
    members = search.started(MEMBERS, range(len(MEMBERS)))
    for kept, steps in STAGES:
        members = search.climb_all(strongest_members(members, kept), max(1, round(effort * steps)))
    return strongest_members(members, 1)[0]
