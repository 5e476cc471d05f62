"""The threat model: what it accepts, what it refuses, and which figure of a ledger is too much."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from fgai_bench.attacks import BudgetExceeded, Ledger, ThreatModel


def test_the_defaults_are_the_papers():
    threat = ThreatModel()
    assert (threat.nodes, threat.edges_per_node, threat.step, threat.steps) == (20, 20, 0.1, 10)
    assert (threat.feature_low, threat.feature_high, threat.restarts) == (-1.0, 1.0, 1)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"nodes": -1}, "nodes"),
        ({"edges_per_node": -1}, "edges_per_node"),
        ({"step": 0}, "step"),
        ({"steps": -1}, "steps"),
        ({"restarts": 0}, "restarts"),
        ({"edges": -5}, "edges"),
        ({"epsilon": -0.1}, "epsilon"),
        ({"scenario": "poison"}, "scenario"),
        ({"targets": "train"}, "targets"),
        ({"budget": 3}, "budget"),
    ],
)
def test_what_makes_no_sense_is_refused(changes, key):
    with pytest.raises(ValidationError, match=key):
        ThreatModel(**changes)


def test_an_empty_range_is_refused():
    with pytest.raises(ValidationError, match=r"feature_low 2\.0 must not exceed feature_high 1\.0"):
        ThreatModel(feature_low=2.0)


def test_it_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        ThreatModel().nodes = 3


@pytest.mark.parametrize(
    ("scenario", "spent", "sentence"),
    [
        ("injection", {"nodes": 3}, "nodes = 3, but its threat model allows 2"),
        ("injection", {"nodes": 2, "edges": 11}, "edges = 11, but its threat model allows 10"),
        ("injection", {"largest_feature": 1.5}, "largest_feature = 1.5, but its threat model allows 1"),
        ("injection", {"changed_nodes": 1}, "changed_nodes = 1, but its threat model allows 0"),
        ("edges", {"edges": 5}, "edges = 5, but its threat model allows 4"),
        ("edges", {"nodes": 1}, "nodes = 1, but its threat model allows 0"),
        ("features", {"feature_change": 0.3}, "feature_change = 0.3, but its threat model allows 0.2"),
        ("features", {"changed_nodes": 3}, "changed_nodes = 3, but its threat model allows 2"),
        ("features", {"edges": 1}, "edges = 1, but its threat model allows 0"),
    ],
)
def test_an_overrun_is_an_error_that_names_the_figure(scenario, spent, sentence):
    threat = ThreatModel(scenario=scenario, nodes=2, edges_per_node=5, edges=4, epsilon=0.2)
    with pytest.raises(BudgetExceeded, match=sentence):
        threat.check(Ledger(**spent))


@pytest.mark.parametrize("scenario", ["injection", "edges", "features"])
def test_what_is_within_the_budget_passes(scenario):
    allowed = {
        "injection": Ledger(nodes=2, edges=10, largest_feature=1.0, gradient_calls=1000),
        "edges": Ledger(edges=4),
        "features": Ledger(changed_nodes=2, feature_change=0.2),
    }
    ThreatModel(scenario=scenario, nodes=2, edges_per_node=5, edges=4, epsilon=0.2).check(allowed[scenario])
