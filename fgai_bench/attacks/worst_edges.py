"""The worst case over edge attacks: a fixed portfolio of searches for new edges between existing nodes.

It stands beside the standard attack with a budget of its own. Nothing about it can be set but the threat model and the
seed; ``version`` names the portfolio.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from fgai_bench.attacks.base import Attack, Victim
from fgai_bench.attacks.budget import ThreatModel
from fgai_bench.attacks.edges import PRBCD, RandomEdges
from fgai_bench.attacks.objectives import Reference
from fgai_bench.attacks.result import Candidate, Trace
from fgai_bench.attacks.worst import Search
from fgai_bench.models.base import Output

STEPS = 40  # of every member but the published one
PUBLISHED = {"step": 0.1, "steps": 10, "restarts": 1}
PORTFOLIO: tuple[tuple[str, bool], ...] = (("margin", False), ("nll", False), ("tvd", False), ("margin", True))


class LabelledPRBCD(PRBCD):
    """The search for edges, away from the labels of the targets instead of the clean predictions."""

    def reference(self, victim: Victim, clean: Output) -> Reference:
        return replace(super().reference(victim, clean), prediction=victim.truth(clean))


class WorstEdges(Attack):
    """The strongest result of a fixed portfolio of edge attacks; judged by the labels of the targets."""

    summary = "the worst case over edge attacks: projected and greedy searches with several losses, and the control"
    paper = "https://arxiv.org/abs/2110.14038"
    tags = ("edges", "gradient", "prediction", "edge-weight", "convergent", "fixed-search")

    def search(self, victim: Victim, threat: ThreatModel, seed: int | None) -> Candidate:
        longer, published = (threat.model_copy(update=changes) for changes in ({"steps": STEPS}, PUBLISHED))
        candidates = [RandomEdges().search(victim, threat, seed), PRBCD().search(victim, published, seed)]
        if threat.edges:
            members = [LabelledPRBCD(loss, greedy=greedy) for loss, greedy in PORTFOLIO]
            candidates += [member.search(victim, longer, seed) for member in members]
        return strongest(Search(victim, threat, seed), candidates)


def strongest(search: Search, candidates: Sequence[Candidate]) -> Candidate:
    """Return the candidate that leaves the least of the victim, the first of equals first.

    Its curve is the harm of the best so far, from candidate to candidate; its flags are those of all candidates.
    """
    with torch.no_grad():
        logits = [search.victim.read(search.victim.model(candidate.data)) for candidate in candidates]
        left = [float(search.score(rows)) for rows in logits]
    curve = tuple(1.0 - min(left[: place + 1]) for place in range(len(left)))
    calls = sum(candidate.trace.gradient_calls for candidate in candidates)
    flags = tuple(dict.fromkeys(flag for candidate in candidates for flag in candidate.trace.flags))
    return replace(candidates[left.index(min(left))], trace=Trace(calls, curve, flags))
