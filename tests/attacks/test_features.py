"""Feature PGD moves the features of a few targets within the box, and nothing else."""

from __future__ import annotations

import torch

from fgai_bench.attacks import ATTACKS, ThreatModel
from fgai_bench.testing.fixture import tiny_graph, trained_model

DATA, MODEL = tiny_graph(), trained_model()


def test_a_large_step_reaches_the_corners_of_the_box():
    threat = ThreatModel(scenario="features", nodes=2, epsilon=0.5, step=1.0, steps=2)
    found = ATTACKS["feature-pgd"]()(MODEL, DATA, DATA.test_index, threat=threat)
    change = (found.data.x - DATA.x).abs()
    assert found.ledger.changed_nodes == 2
    assert torch.allclose(change[change > 0], torch.tensor(0.5))


def test_more_budget_hurts_at_least_as_much():
    attack = ATTACKS["feature-pgd"]()
    worst = [
        max(attack(MODEL, DATA, DATA.test_index, threat=ThreatModel(scenario="features", nodes=5, epsilon=e)).curve)
        for e in (0.1, 0.4, 0.8)
    ]
    assert worst == sorted(worst)
