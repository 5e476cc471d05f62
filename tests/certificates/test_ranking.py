"""Floors of ROC-AUC: held against brute force over who changes, against attacks, and against the clean score."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

import fgai_bench as fb
from fgai_bench.attacks import ThreatModel
from fgai_bench.certificates.ranking import lost_pairs
from fgai_bench.metrics import NotApplicable, roc_auc
from fgai_bench.metrics.prediction import won_pairs
from tests.certificates.small_graphs import network, small_graph

NETWORKS = ("mlp", "gat-one-hop", "gat", "gcn")
BUDGETS = [ThreatModel(nodes=nodes, edges_per_node=1, steps=3) for nodes in range(4)]


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=7), st.integers(0, 4))
def test_no_choice_of_changed_nodes_takes_more_pairs(nodes: list[tuple[int, bool]], moved: int) -> None:
    scores = torch.tensor([float(score) for score, _ in nodes], dtype=torch.double)
    positive = torch.tensor([is_positive for _, is_positive in nodes])
    if not positive.any() or positive.all():
        return
    wins = won_pairs(scores, positive, 1e-6)
    left = int(wins[0].sum()) - lost_pairs(*wins, moved)
    worst = [
        roc_auc(torch.where(torch.tensor([i in some for i in range(len(nodes))]), far, scores), positive.long())
        for some in combinations(range(len(nodes)), min(moved, len(nodes)))
        for far in (torch.where(positive, -9.0, 9.0).double(),)
    ]
    pairs = int(positive.sum()) * int((~positive).sum())
    assert left / pairs <= min(worst) + 1e-12
    if moved == 1 and len(set(scores.tolist())) == len(nodes):
        assert left / pairs == pytest.approx(min(worst))  # one node's own pairs: the bound is exact


def test_the_largest_wins_are_taken_from_both_classes() -> None:
    assert lost_pairs(torch.tensor([5, 1]), torch.tensor([4, 2]), 2) == 6  # there are six pairs in order
    assert lost_pairs(torch.tensor([5, 1, 1]), torch.tensor([1, 1, 5]), 1) == 5
    assert lost_pairs(torch.tensor([3, 3, 0]), torch.tensor([2, 2, 2]), 2) == 6
    assert lost_pairs(torch.tensor([3]), torch.tensor([1, 1, 1]), 0) == 0


def two_classes(case: int) -> Data:
    graph = small_graph(case, nodes=14, density=0.04)
    graph.y, graph.score = (torch.arange(14) % 3 == 0).long(), "roc_auc"
    for part, nodes in (("train", (0, 1)), ("val", (2, 3)), ("test", range(4, 14))):
        graph[f"{part}_mask"] = torch.zeros(14, dtype=torch.bool).index_fill(0, torch.tensor(nodes), True)
    return graph


@pytest.mark.parametrize("name", NETWORKS)
def test_a_floor_of_roc_auc_begins_at_the_clean_score_and_falls(name: str) -> None:
    data = two_classes(0)
    model = network(name, data, 0)
    with torch.no_grad():
        lead = model(data).logits.diff(dim=1).flatten()[data.test_mask]
    floors = [fb.certify(model, data, threat) for threat in BUDGETS]
    assert floors[0].score == floors[0].clean == pytest.approx(roc_auc(lead, data.y[data.test_mask]))
    assert [floor.score for floor in floors] == sorted((floor.score for floor in floors), reverse=True)
    if name == "mlp":
        assert {floor.score for floor in floors} == {floors[0].clean}


@pytest.mark.parametrize("name", NETWORKS)
def test_no_attack_goes_below_it(name: str) -> None:
    proven = []
    for case in range(8):
        data = two_classes(case)
        model = network(name, data, case)
        with torch.no_grad():
            lead = model(data).logits.diff(dim=1).flatten()
        data.y[4:] = (lead > lead[4:].median())[4:].long()  # in order before the attack
        threat = ThreatModel(nodes=1, edges_per_node=1, feature_low=-5.0, feature_high=5.0, step=1.0)
        floor = fb.certify(model, data, threat)
        attacked = fb.attack("injection", model, data, threat, seed=case).data
        with torch.no_grad():
            lead = model(attacked).logits.diff(dim=1).flatten()[:14][data.test_mask]
        assert roc_auc(lead, data.y[data.test_mask]) >= floor.score
        proven.append(floor.score)
    assert max(proven) > 0.3


def test_a_proof_that_counts_right_predictions_alone_gives_no_floor_of_roc_auc() -> None:
    data = two_classes(1)
    with pytest.raises(NotApplicable, match="votes: it counts right predictions, and this graph is ranked by ROC-AUC"):
        fb.certify(network("votes", data, 0), data, certificate="votes")
    data.y[4:] = 0
    with pytest.raises(NotApplicable, match="the targets have one class only"):
        fb.certify(network("gat", data, 0), data)
