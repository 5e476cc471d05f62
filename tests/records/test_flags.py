"""Reasons for distrust that come from comparing the attacks on one trial."""

from __future__ import annotations

from typing import Any

import pytest

from fgai_bench.records.flags import BELOW_FLOOR, IMPROVES, WEAKER, derived_flags

GRADIENT = ("gradient", "prediction")

THREAT = {
    "scenario": "injection",
    "nodes": 20,
    "edges_per_node": 20,
    "edges": 400,
    "epsilon": 0.1,
    "step": 0.1,
    "steps": 10,
    "restarts": 1,
}


def attack(hash: str, f1: float, *tags: str, name: str = "", **threat: Any) -> dict[str, Any]:
    config = {
        "attack": {"name": name or hash},
        "attack_tags": list(tags),
        "threat": {**THREAT, **threat},
        "crafted_on": None,
    }
    return {"kind": "attack", "hash": hash, "trial": "t", "config": config, "metrics": [{"name": "f1", "value": f1}]}


def flags(*attacks: dict[str, Any]) -> list[str]:
    return derived_flags(attacks).get("worst", [])


def test_a_worst_case_that_nothing_beats_has_no_flag() -> None:
    worst = attack("worst", 0.5, "standard", "gradient", "prediction")
    assert (
        flags(worst, attack("mine", 0.496, "injection"), attack("worst-continued", 0.481, "standard-continued")) == []
    )


def test_a_stronger_attack_of_the_same_budget_is_an_alarm() -> None:
    worst = attack("worst", 0.5, "standard")
    assert flags(worst, attack("mine", 0.4, "injection", steps=50)) == [
        "unreliable: mine does more harm than the standard attack"
    ]
    assert flags(worst, attack("mine", 0.4, "injection", nodes=40)) == []  # another budget


def test_further_search_that_finds_more_is_an_alarm() -> None:
    worst = attack("worst", 0.5, "standard")
    assert flags(worst, attack("worst-continued", 0.47, "standard-continued")) == [
        "unreliable: further search lowers the worst case by 0.030"
    ]


@pytest.mark.parametrize(("gradient", "flagged"), [(0.5, True), (0.4, False), (0.3, False)])
def test_a_gradient_attack_weaker_than_the_random_control_is_flagged(gradient: float, flagged: bool) -> None:
    found = derived_flags([attack("g", gradient, *GRADIENT), attack("c", 0.4, "control")])
    assert found == ({"g": [WEAKER]} if flagged else {})


def test_a_control_with_another_budget_says_nothing() -> None:
    assert derived_flags([attack("g", 0.5, *GRADIENT), attack("c", 0.4, "control", nodes=50)]) == {}


def test_a_control_may_search_less_and_still_counts() -> None:
    assert derived_flags([attack("g", 0.5, *GRADIENT, steps=50), attack("c", 0.4, "control")]) == {"g": [WEAKER]}


@pytest.mark.parametrize(("larger", "flagged"), [(0.52, True), (0.505, False), (0.4, False)])
def test_a_result_that_improves_with_the_budget_is_flagged(larger: float, flagged: bool) -> None:
    found = derived_flags([attack("small", 0.5, name="same"), attack("large", larger, name="same", nodes=40)])
    assert found == ({"large": [IMPROVES]} if flagged else {})


def certified(floor: float, **threat: Any) -> dict[str, Any]:
    config = {"certificate": {"name": "reach"}, "threat": {**THREAT, **threat}}
    metrics = [{"name": "certified_f1", "value": floor}]
    return {"kind": "certify", "hash": "f", "trial": "t", "status": "ok", "config": config, "metrics": metrics}


def test_an_attack_below_a_floor_of_its_budget_is_an_error() -> None:
    worst = attack("worst", 0.5)
    assert flags(worst, certified(0.5)) == []
    assert flags(worst, certified(0.6)) == [f"{BELOW_FLOOR}, 0.5000 against 0.6000 of reach"]
    assert flags(worst, certified(0.6, steps=99)) != []  # how long one may search is no part of a budget
    assert flags(worst, certified(0.6, nodes=2)) == []  # the floor of a smaller budget says nothing


def test_a_floor_bounds_f1_and_no_other_score() -> None:
    """Of a graph that is ranked by ROC-AUC, whose value may lie below a share of correct nodes."""
    worst = attack("worst", 0.7)
    worst["config"]["dataset"] = {"score": "roc_auc"}
    worst["metrics"].append({"name": "roc_auc", "value": 0.5})
    assert flags(worst, certified(0.6)) == []
    assert flags(worst, certified(0.8)) == [f"{BELOW_FLOOR}, 0.7000 against 0.8000 of reach"]
