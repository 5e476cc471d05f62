"""Edge attacks only add: distinct new pairs, at most as many as allowed, every old edge where it was."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from fgai_bench.attacks import ATTACKS, ThreatModel
from fgai_bench.attacks.edges import _additive_search, absent, within_budgets
from fgai_bench.models import build_model
from fgai_bench.testing.fixture import tiny_graph, trained_model

DATA, MODEL = tiny_graph(), trained_model()
PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])  # 0 - 1 - 2


def test_random_edges_spend_the_whole_budget():
    found = ATTACKS["random-edges"]()(MODEL, DATA, DATA.test_index, threat=ThreatModel(scenario="edges", edges=25))
    assert found.ledger.edges == 25


def test_random_edges_stop_at_the_complete_graph():
    path = Data(x=torch.eye(3), edge_index=PATH)
    found = ATTACKS["random-edges"]()(
        torch.nn.Identity(), path, torch.arange(3), threat=ThreatModel(scenario="edges", edges=9)
    )
    assert found.data.edge_index[:, 4:].tolist() == [[0, 2], [2, 0]]


def test_absent_pairs_by_hand():
    pairs = torch.tensor([[0, 2, 1, 0, 2], [0, 0, 0, 2, 1]])  # a loop, 2-0, an edge, 0-2 again, an edge backwards
    assert absent(pairs, PATH, 3).tolist() == [[0], [2]]


@pytest.mark.parametrize("greedy", [False, True])
def test_prbcd_hurts_more_than_random_edges(greedy):
    threat = ThreatModel(scenario="edges", edges=15, steps=10)
    truth = MODEL(DATA).logits[DATA.test_index].argmax(1)

    def loss(attack) -> float:
        graph = attack(MODEL, DATA, DATA.test_index, threat=threat).data
        with torch.no_grad():
            return torch.nn.functional.cross_entropy(MODEL(graph).logits[DATA.test_index], truth).item()

    assert loss(ATTACKS["prbcd"](greedy=greedy)) > loss(ATTACKS["random-edges"]())


def test_prbcd_counts_its_gradients_and_keeps_its_curve():
    threat = ThreatModel(scenario="edges", edges=5, steps=4)
    found = ATTACKS["prbcd"]()(MODEL, DATA, DATA.test_index, threat=threat)
    assert found.ledger.gradient_calls == len(found.curve) >= 4


def test_prbcd_scores_a_graph_that_holds_the_chosen_edges_only():
    """Positional encodings are those of every edge that is listed, so an edge of weight zero must not be."""
    search = _additive_search(greedy=False)(torch.nn.Identity(), block_size=2)
    search.num_nodes, search.device = 4, torch.device("cpu")
    candidates = torch.tensor([[0, 0], [2, 3]])
    edges, weights = search._get_modified_adj(PATH, torch.ones(4), candidates, torch.tensor([0.0, 1.0]))
    assert edges.t().tolist() == [[0, 1], [0, 3], [1, 0], [1, 2], [2, 1], [3, 0]]
    assert weights.tolist() == [1.0] * 6


def test_prbcd_says_that_gradients_saw_other_encodings():
    threat = ThreatModel(scenario="edges", edges=3, steps=2)
    transformer = build_model("gt", 8, 3, hidden=16).eval()
    flagged = ATTACKS["prbcd"]()(transformer, DATA, DATA.test_index, threat=threat)
    assert flagged.flags == ("gradients with the encodings of a graph that holds every candidate edge",)
    assert ATTACKS["prbcd"]()(MODEL, DATA, DATA.test_index, threat=threat).flags == ()


def test_an_edge_attack_on_a_transformer_gets_new_encodings():
    model = build_model("gt", 8, 3, hidden=16).eval()
    threat = ThreatModel(scenario="edges", edges=5, steps=1)
    found = ATTACKS["random-edges"]()(model, DATA, DATA.test_index, threat=threat)
    with torch.no_grad():
        assert not torch.allclose(model(found.data).logits, model(DATA).logits)


def test_a_candidate_is_there_by_its_weight_and_an_old_edge_stays_one():
    search = _additive_search(greedy=False)(torch.nn.Identity(), block_size=2)
    search.num_nodes, search.device = 3, torch.device("cpu")
    candidates = torch.tensor([[0, 0], [1, 2]])  # 0 - 1 is an edge of the path, 0 - 2 is not
    edges, weights = search._get_modified_adj(PATH, torch.ones(4), candidates, torch.tensor([0.25, 0.25]))
    found = {tuple(edge): weight for edge, weight in zip(edges.t().tolist(), weights.tolist(), strict=True)}
    assert found == {(0, 1): 1.0, (1, 0): 1.0, (1, 2): 1.0, (2, 1): 1.0, (0, 2): 0.25, (2, 0): 0.25}


def test_local_budgets_by_hand():
    """0-2 takes 1 of each; 1-2 gets the 0.5 that node 2 has left; 0-1 finds nothing left at node 0."""
    pairs = torch.tensor([[0, 0, 1, 3], [1, 2, 2, 4]])
    weight, local = torch.tensor([0.5, 1.0, 0.75, 0.25]), [1.0, 1.0, 1.5, 0.0, 2.0]
    assert within_budgets(weight, pairs, local, 9).tolist() == [0.0, 1.0, 0.5, 0.0]
    assert within_budgets(weight, pairs, local, 1.25).tolist() == [0.0, 1.0, 0.25, 0.0]
    assert within_budgets(weight, pairs, [2.0] * 5, 2, whole=True).tolist() == [0.0, 1.0, 1.0, 0.0]


@pytest.mark.parametrize("local", [0.3, 1.0])
def test_lr_bcd_keeps_local_budgets_and_hurts_more_than_random_edges(local):
    threat = ThreatModel(scenario="edges", edges=12, steps=10)
    found = ATTACKS["prbcd"](local=local)(MODEL, DATA, DATA.test_index, threat=threat)
    degree = torch.bincount(DATA.edge_index[1], minlength=36)
    got = torch.bincount(found.data.edge_index[1], minlength=36) - degree
    assert bool((got <= (local * degree).floor()).all())
    assert 0 < found.ledger.edges <= 12

    def right(graph) -> float:
        with torch.no_grad():
            return torch.nn.functional.cross_entropy(
                MODEL(graph).logits[DATA.test_index], DATA.y[DATA.test_index]
            ).item()

    random = ATTACKS["random-edges"]()(MODEL, DATA, DATA.test_index, threat=threat).data
    assert right(found.data) > right(random)


def test_without_room_at_any_node_lr_bcd_adds_nothing():
    threat = ThreatModel(scenario="edges", edges=5, steps=2)
    found = ATTACKS["prbcd"](local=0.0)(MODEL, DATA, DATA.test_index, threat=threat)
    assert found.ledger.edges == 0
