"""Reached nodes: nothing else changes, and metrics over them say so."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from fgai_bench.attacks import ATTACKS, ThreatModel
from fgai_bench.data.extend import reached_nodes
from fgai_bench.metrics import NotApplicable
from fgai_bench.tasks.measurement import not_empty
from fgai_bench.tasks.node_classification import NodeProblem
from fgai_bench.testing.fixture import tiny_problem, trained_model


@pytest.mark.parametrize(
    ("attack", "scenario"), [("injection", "injection"), ("random-edges", "edges"), ("feature-pgd", "features")]
)
def test_nodes_that_are_not_reached_do_not_change(attack, scenario):
    problem = NodeProblem.prepare("csbm-1e3", seed=0)
    from fgai_bench.models import build_model

    model = build_model("gat", problem.data.x.shape[1], problem.num_outputs).eval()
    threat = ThreatModel(scenario=scenario, nodes=1, edges_per_node=2, edges=1, steps=2)
    attacked = ATTACKS[attack]()(model, problem.data, problem.targets, threat=threat).data
    reached = reached_nodes(problem.data, attacked, layers=2)
    before, after = (problem.output(model, graph).logits[: len(reached)] for graph in (problem.data, attacked))
    changed = (before != after).any(1)
    assert not bool((changed & ~reached).any())
    assert 0 < int(reached.sum()) < len(reached)
    assert not bool((changed & ~reached_nodes(problem.data, attacked, layers=None)).any())


def test_metrics_over_reached_nodes_by_hand():
    problem, model = tiny_problem(), trained_model()
    threat = ThreatModel(nodes=1, edges_per_node=1, steps=3)
    attacked = ATTACKS["injection"]()(model, problem.data, problem.targets, threat=threat)
    metrics = problem.attacked(model, attacked).metrics
    reached = reached_nodes(problem.data, attacked.data, 2)
    assert metrics["reached_share"] == pytest.approx(float(reached.float().mean()))
    assert metrics["g_tvd_reached"] * metrics["reached_share"] == pytest.approx(metrics["g_tvd"], rel=1e-5)
    test = problem.split.test
    right = problem.output(model, attacked.data).logits[test].argmax(1) == problem.data.y[test]
    assert metrics["f1_reached"] == pytest.approx(float(right[reached[test]].float().mean()))
    assert metrics["g_jsd_reached"] >= metrics["g_jsd"]


def test_an_attack_that_reaches_nothing_has_no_value_there():
    problem, model = tiny_problem(), trained_model()
    attacked = ATTACKS["injection"]()(model, problem.data, problem.targets, threat=ThreatModel(nodes=0))
    measured = problem.attacked(model, attacked)
    assert measured.metrics["reached_share"] == 0.0
    assert measured.not_applicable["f1_reached"] == "the attack reaches none of these nodes"
    with pytest.raises(NotApplicable):
        not_empty(torch.zeros(3, dtype=torch.bool))


def test_reach_grows_by_a_hop_with_each_layer():
    path = Data(x=torch.zeros(5, 1), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]]))
    changed = Data(x=torch.tensor([[1.0], [0.0], [0.0], [0.0], [0.0]]), edge_index=path.edge_index)
    counts = [int(reached_nodes(path, changed, layers).sum()) for layers in (1, 2, 3)]
    assert counts == [2, 3, 4]  # the node itself and one hop, two, three
