"""Floors: never above clean, equal to it without a budget, monotone, and never undercut by an attack."""

from __future__ import annotations

import pytest
import torch

import fgai_bench as fb
from fgai_bench.attacks import ThreatModel
from fgai_bench.attacks.catalogue import scenario_of
from fgai_bench.metrics import NotApplicable
from tests.certificates.small_graphs import NETWORKS, network, right_on_most, score, small_graph

QUICK_ATTACKS = ("injection", "random-injection", "random-edges", "prbcd", "feature-pgd")
pytestmark = pytest.mark.filterwarnings("ignore:.*are added to a graph of:UserWarning")
SEARCHES = [name for name in fb.ATTACKS if name not in QUICK_ATTACKS]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_floor_falls_with_the_budget_from_the_clean_score(name: str) -> None:
    model = network(name, small_graph(0), 0)
    data = right_on_most(model, small_graph(0))
    floors = [fb.certify(model, data, ThreatModel(nodes=nodes, edges_per_node=2)) for nodes in range(6)]
    scores, explanations = [floor.score for floor in floors], [floor.explanation for floor in floors]
    assert scores[0] == floors[0].clean == score(model, data, data)
    assert explanations[0] == 1
    assert scores == sorted(scores, reverse=True)
    assert explanations == sorted(explanations, reverse=True)


def _attacked_above_floor(case: int, attack: str) -> bool:
    """Attack one generated network; tell whether a floor was proven, and fail where the attack goes below it."""
    name = [*NETWORKS][case % len(NETWORKS)]
    graph = small_graph(case, nodes=8 + case % 9, density=0.1 + 0.02 * (case % 7))
    model = network(name, graph, case)
    data = right_on_most(model, graph)
    threat = ThreatModel(
        scenario=scenario_of(attack), nodes=1 + case % 2, edges_per_node=1 + case % 2, edges=1, epsilon=3.0,
        feature_low=-5.0, feature_high=5.0, step=1.0,
    )  # fmt: skip
    try:
        floor = fb.certify(model, data, threat)
    except NotApplicable:
        return False
    if "attention" in fb.ATTACKS.entry(attack).tags and model(data).attention is None:
        return False
    found = fb.attack(attack, model, data, threat, seed=case)
    left = score(model, data, found.data)
    assert left >= floor.score, f"{attack} leaves {left:.3f} of {name}, below the {floor.kind} floor {floor.score:.3f}"
    return True


@pytest.mark.parametrize("attack", QUICK_ATTACKS)
def test_no_quick_attack_goes_below_a_floor(attack: str) -> None:
    proven = sum(_attacked_above_floor(case, attack) for case in range(12))
    assert proven >= 10


@pytest.mark.slow
@pytest.mark.parametrize("attack", QUICK_ATTACKS)
def test_no_quick_attack_goes_below_a_floor_on_many_graphs(attack: str) -> None:
    """64 further graphs for each attack, 320 in all."""
    first = 100 * (1 + QUICK_ATTACKS.index(attack))
    proven = sum(_attacked_above_floor(case, attack) for case in range(first, first + 64))
    assert proven >= 56


@pytest.mark.slow
@pytest.mark.parametrize("attack", SEARCHES)
def test_no_search_goes_below_a_floor(attack: str) -> None:
    """Every kind of network, on graphs that no other attack is tried on."""
    first = 1000 * (1 + SEARCHES.index(attack))
    proven = sum(_attacked_above_floor(case, attack) for case in range(first, first + len(NETWORKS)))
    assert proven >= 4


def test_a_network_without_a_proof_says_why() -> None:
    data = small_graph(1)
    with pytest.raises(NotApplicable, match="its Laplacian encodings describe the whole graph"):
        fb.certify(fb.build_model("gt", data, hidden=8, heads=(1,)), data)


def test_an_unknown_certificate_is_one_sentence() -> None:
    data = small_graph(1)
    with pytest.raises(ValueError, match="unknown certificate 'rech'; the nearest names are: reach"):
        fb.certify(fb.build_model("mlp", data), data, certificate="rech")


def test_rounding_is_no_proof() -> None:
    """A prediction that leads by less than rounding counts as lost as soon as the attacker may do anything."""
    data = small_graph(2)
    model = fb.build_model("mlp", data, hidden=4)
    with torch.no_grad():
        model.second.weight.zero_()
        model.second.bias.zero_()  # all classes tie, and the first one wins
    data.y[:] = 0
    data.y[0] = 2
    assert fb.certify(model, data, ThreatModel(nodes=0)).score == 1
    assert fb.certify(model, data, ThreatModel()).score == 0
