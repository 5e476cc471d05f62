"""The learned placement: what it believes is what happens, and an even network stands lower than others leave it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from benchmarks.easiest_targets import easiest_attack
from fgai_bench.attacks import ATTACKS, ThreatModel
from fgai_bench.attacks.base import Victim
from fgai_bench.attacks.learned_placement import SHARPNESS, Response
from fgai_bench.defenses import DEFENSES, Training
from fgai_bench.models import build_model
from fgai_bench.tasks.link_prediction import LinkProblem
from fgai_bench.tasks.node_classification import NodeProblem

GRADIENTS = 1240
THREAT = ThreatModel(nodes=5, edges_per_node=4)
PROBLEM = NodeProblem.prepare("csbm-1e3", seed=0)


@pytest.fixture(scope="module")
def gcn():
    made = build_model("gat", PROBLEM.data.x.shape[1], PROBLEM.num_outputs)
    return DEFENSES["gcn"]().fit(made, PROBLEM.training_data, PROBLEM.split, training=Training(epochs=40))


@pytest.fixture(scope="module")
def attacked(gcn):
    return ATTACKS["learned-placement"]()(gcn, PROBLEM.data, PROBLEM.targets, threat=THREAT, seed=0)


def f1(model, data) -> float:
    with torch.no_grad():
        predicted = model(data).logits[PROBLEM.targets].argmax(1)
    return float((predicted == PROBLEM.data.y[PROBLEM.targets]).float().mean())


def star() -> Victim:
    """Node 0 with the neighbours 1, 2 and 3, and node 4 by itself; all are targets, in another order."""
    edges = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
    return Victim(None, Data(x=torch.zeros(5, 1), edge_index=edges), torch.tensor([4, 3, 2, 1, 0]))


def test_an_edge_pushes_what_it_goes_to_and_its_neighbours_by_hand():
    margin = torch.tensor([1.0, 2.0, 4.0, -1.0, 3.0])  # of the nodes 4, 3, 2, 1, 0, whose degrees are 1, 2, 2, 2, 4
    response = Response.of(star(), margin, per_node=4, averaging="symmetric", share=0.0)
    pairs = {
        (int(u), int(v)): push for u, v, push in zip(response.source, response.destination, response.push, strict=True)
    }
    assert pairs[0, 0] == pytest.approx(1 / 5 + 1)
    assert pairs[4, 4] == pytest.approx(1 / 5 + 1 / 4)
    assert pairs[4, 1] == pytest.approx(1 / 4)  # from the centre to a leaf: it shares its message among four
    assert pairs[1, 4] == pytest.approx(1 / 2)
    assert len(pairs) == 5 + 6
    assert response.need[:3].tolist() == pytest.approx([1.0, 2 * 2**0.5, 4 * 2**0.5])
    assert response.strength == pytest.approx(1 / 1.2)  # what turns the easiest of them by an edge to itself
    half = response.falls(np.array([1.2, 0.0, 0.0, 9.0, 0.0]))
    assert half.tolist() == pytest.approx([0.5, 0.0, 0.0, 0.0, 0.0])  # the wrong one cannot fall
    twice = response.falls(np.array([2.4, 0, 0, 0, 0]))[0]
    assert twice == pytest.approx(2**SHARPNESS / (2**SHARPNESS + 1))
    assert Response.of(star(), margin, 4, "mean", 0.0).need.tolist()[4] == pytest.approx(3 * 4)


def test_edges_go_where_one_turns_several_and_away_from_what_stood():
    margin = torch.tensor([1.0, 0.1, 0.1, 0.1, 50.0])
    response = Response.of(star(), margin, per_node=4, averaging="mean", share=0.7)
    assert response.placed(1).tolist() == [4]  # the centre, though it cannot fall itself: its three leaves do
    assert sorted(response.placed(5).tolist()) == [0, 1, 2, 3, 4]  # no target twice
    response.learn(np.array([4]), margin.clone(), settled=True)  # nothing moved
    assert response.placed(1).tolist() != [4]
    assert (response.factor[1:4] > 1).all()
    assert response.factor[0] == 1  # what no edge was near to is as before


def test_the_strength_is_the_one_at_which_as_many_fall_as_fell():
    margin = torch.tensor([1.0, 1.0, 1.0, 1.0, 1.0])
    response = Response.of(star(), margin, per_node=4, averaging="mean", share=0.5)
    response.learn(np.array([0, 4]), torch.tensor([-1.0, -1.0, 1.0, 1.0, 1.0]), settled=False)
    fresh = Response.of(star(), margin, per_node=4, averaging="mean", share=0.5)
    fresh.strength = response.strength
    assert fresh.falls(np.array([1, 0.25, 0.25, 0.25, 1])).sum() == pytest.approx(2.0)
    assert response.factor[1] < 1 < response.factor[4]


@pytest.mark.slow
def test_only_the_standard_attack_takes_more_from_an_even_network(gcn, attacked):
    least = f1(gcn, attacked.data)
    for other in ("injection", "random-injection"):
        rival = ATTACKS[other]()(gcn, PROBLEM.data, PROBLEM.targets, threat=THREAT, seed=0)
        assert least <= f1(gcn, rival.data) + 0.005, other
    worst = ATTACKS["worst"]()(gcn, PROBLEM.data, PROBLEM.targets, threat=THREAT, seed=0)
    assert f1(gcn, worst.data) <= least + 0.002
    easiest = easiest_attack(gcn.eval(), PROBLEM.data, PROBLEM.targets, nodes=5, each=4)
    assert least <= easiest + 0.005
    assert least < f1(gcn, PROBLEM.data) - 0.02


@pytest.mark.slow
def test_it_spends_the_budget_and_no_more_and_searches_alike_for_everybody(gcn, attacked):
    assert (attacked.ledger.nodes, attacked.ledger.edges, attacked.ledger.gradient_calls) == (5, 20, GRADIENTS)
    assert attacked.ledger.largest_feature <= 1
    assert attacked.flags == ()
    assert attacked.curve == tuple(sorted(attacked.curve))
    gat = build_model("gat", PROBLEM.data.x.shape[1], PROBLEM.num_outputs)
    longer = THREAT.model_copy(update={"steps": 50, "step": 0.5, "restarts": 3})
    other = ATTACKS["learned-placement"]()(gat, PROBLEM.data, PROBLEM.targets, threat=longer, seed=0)
    assert other.ledger.gradient_calls == GRADIENTS


@pytest.fixture
def short(monkeypatch):
    """Rounds of two steps, for what does not depend on how far the search gets."""
    for name in ("ROUND_STEPS", "LAST_STEPS"):
        monkeypatch.setattr(f"fgai_bench.attacks.learned_placement.{name}", 2)


def test_the_seed_decides_everything(gcn, short):
    first, again = (
        ATTACKS["learned-placement"]()(gcn, PROBLEM.data, PROBLEM.targets, threat=THREAT, seed=0) for _ in range(2)
    )
    assert torch.equal(again.data.x, first.data.x)
    assert torch.equal(again.data.edge_index, first.data.edge_index)


@pytest.mark.parametrize("targets", [1, 3, 12])
def test_few_targets_are_attached_to_again_by_other_nodes(gcn, short, targets):
    found = ATTACKS["learned-placement"]()(gcn, PROBLEM.data, PROBLEM.targets[:targets], threat=THREAT, seed=0)
    assert found.ledger.edges == 5 * min(4, targets)


def test_no_nodes_change_nothing(gcn):
    none = ATTACKS["learned-placement"]()(
        gcn, PROBLEM.data, PROBLEM.targets, threat=THREAT.model_copy(update={"nodes": 0}), seed=0
    )
    assert torch.equal(none.data.edge_index, PROBLEM.data.edge_index)


def test_links_are_refused_in_a_sentence():
    problem = LinkProblem.prepare("csbm-1e3", seed=0)
    model = build_model("gat", problem.data.x.shape[1], problem.num_outputs)
    with pytest.raises(ValueError, match=r"one prediction of each target, and the readout gives \d+ for \d+ targets"):
        ATTACKS["learned-placement"]()(model, problem.data, problem.targets, threat=THREAT, readout=problem.readout)
