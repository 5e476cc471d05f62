"""A short search for choosing settings: four members of the standard attack's kind, a twentieth of its length.

A study of settings attacks validation nodes thousands of times, so its attack is short. It is not the evaluation's: it
has fewer members, no transfer and no second round, and draws from seeds of its own. How good it is at ranking settings
is all that matters; how low it gets is not recorded anywhere as a result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from fgai_bench.attacks.ascent import Direction
from fgai_bench.attacks.base import Attack, Victim
from fgai_bench.attacks.injection import with_injected
from fgai_bench.attacks.placement import attached_edges, cover, random
from fgai_bench.attacks.result import Candidate, Trace
from fgai_bench.attacks.threat import ThreatModel
from fgai_bench.attacks.worst import LARGE, SMALL, Member, Search, near_zero

STEPS = 30  # of each member
MEMBERS: tuple[tuple[str, str, Direction, float], ...] = (
    ("cover", "margin", "row", LARGE),
    ("cover", "nll", "row", SMALL),
    ("random", "margin", "row", LARGE),
    ("random", "nll", "row", SMALL),
)
PLACEMENTS = {"cover": cover, "random": random}


class ValidationAttack(Attack):
    """The strongest of four short searches: placed by cover and at random, raising the margin loss and the NLL."""

    summary = "a short search on validation nodes, by which settings are chosen; never the evaluation's attack"
    paper = "https://arxiv.org/abs/2003.01690"
    tags: ClassVar[tuple[str, ...]] = ("injection", "gradient", "prediction", "fixed-search")

    def search(self, victim: Victim, threat: ThreatModel, seed: int | None) -> Candidate:
        search = Search(victim, threat, seed)
        if not threat.nodes or not min(threat.edges_per_node, victim.targets.numel()):
            return Candidate(victim.data)
        places = {name: place(victim, search.clean, threat, seed) for name, place in PLACEMENTS.items()}
        members = [
            search.climb(Member(f"{place} {loss}", places[place], loss, way, step, near_zero(search, index)), STEPS)
            for index, (place, loss, way, step) in enumerate(MEMBERS)
        ]
        best = min(members, key=lambda member: member.score)
        attacked = with_injected(victim.data, best.features, attached_edges(victim.data.x.shape[0], best.attached))
        flags = () if search.has_gradient else ("zero gradient",)
        trace = Trace(search.calls, tuple(search.curve), (*search.flags, *flags))
        return replace(Candidate(attacked, injected=best.features), trace=trace)
