"""Calling an attack: what does not depend on the caller, and what there is to do without targets."""

from __future__ import annotations

import pytest
import torch

from fgai_bench.attacks import ATTACKS, ThreatModel, features
from fgai_bench.attacks.catalogue import scenario_of
from fgai_bench.testing.fixture import tiny_graph, trained_model

DATA, MODEL = tiny_graph(), trained_model()
NONE = torch.empty(0, dtype=torch.long)


def attacked(name: str, targets: torch.Tensor = DATA.test_index):
    threat = ThreatModel(scenario=scenario_of(name), nodes=2, edges_per_node=2, edges=5, epsilon=0.3, steps=2)
    return ATTACKS[name]()(MODEL, DATA, targets, threat=threat, seed=0)


@pytest.mark.parametrize("name", ["injection", "explanation", "explanation-edges", "prbcd", "worst-features"])
def test_a_caller_without_gradients_gets_the_same_graph(name, monkeypatch):
    for stage in ("FIRST", "LAST"):
        monkeypatch.setattr(features, stage, 2)
    found = attacked(name)
    with torch.no_grad():
        again = attacked(name)
        assert not torch.is_grad_enabled()
    assert (again.curve, again.flags) == (found.curve, found.flags)
    assert torch.equal(again.data.x, found.data.x)
    assert torch.equal(again.data.edge_index, found.data.edge_index)


@pytest.mark.parametrize("name", ["explanation", "explanation-edges", "prbcd", "worst-edges", "feature-pgd"])
def test_without_targets_the_graph_stays_as_it_is(name):
    found = attacked(name, NONE)
    assert torch.equal(found.data.x, DATA.x)
    assert torch.equal(found.data.edge_index, DATA.edge_index)
