"""Feature PGD moves the features of a few targets within the box, and nothing else."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fgai_bench.attacks import ATTACKS, ThreatModel, check_budget
from fgai_bench.testing.attacks import recount
from fgai_bench.testing.fixture import tiny_graph, trained_model

DATA, MODEL = tiny_graph(), trained_model()


@settings(max_examples=12, deadline=None)
@given(
    nodes=st.integers(0, 14),
    epsilon=st.floats(0, 1),
    step=st.floats(0.01, 2),
    seed=st.integers(0, 2**31 - 1),
    restarts=st.integers(1, 2),
    sparse=st.booleans(),
)
def test_limits_hold_for_any_seed_and_budget(nodes, epsilon, step, seed, restarts, sparse):
    threat = ThreatModel(scenario="features", nodes=nodes, epsilon=epsilon, step=step, steps=2, restarts=restarts)
    found = ATTACKS["feature-pgd"]()(MODEL, tiny_graph(sparse=sparse), DATA.test_index, threat=threat, seed=seed)
    found.data.x = found.data.x.to_dense()
    check_budget(DATA, found.data, threat, DATA.test_index)
    assert recount(DATA, found.data)["changed_nodes"] == found.ledger.changed_nodes
    assert torch.equal(found.data.edge_index, DATA.edge_index)


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
