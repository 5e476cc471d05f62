"""The random control: the budget of the injection attack, spent on random features."""

from __future__ import annotations

from fgai_bench.attacks.base import Attack, Victim
from fgai_bench.attacks.budget import ThreatModel
from fgai_bench.attacks.injection import injected_edges, with_injected
from fgai_bench.attacks.result import Candidate
from fgai_bench.seeds import uniform


class RandomInjection(Attack):
    """Injected nodes with the same edges as the gradient attack of this seed, and uniform features in the range."""

    summary = "the control: the injection budget with random features"
    paper = "https://arxiv.org/abs/2111.04314"
    tags = ("injection", "control")
    recordable = True

    def search(self, victim: Victim, threat: ThreatModel, seed: int | None) -> Candidate:
        data = victim.data
        draw = uniform((threat.nodes, data.x.shape[1]), seed, "attack-random", data.edge_index.device)
        features = threat.feature_low + draw * (threat.feature_high - threat.feature_low)
        edges = injected_edges(data.x.shape[0], victim.targets, threat, seed)
        return Candidate(with_injected(data, features, edges), injected=features)
