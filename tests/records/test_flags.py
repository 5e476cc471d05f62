"""Reasons for distrust that come from comparing the attacks on one trial."""

from __future__ import annotations

from typing import Any

from fgai_bench.records.flags import derived_flags

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


def attack(name: str, f1: float, *tags: str, **threat: Any) -> dict[str, Any]:
    config = {"attack": {"name": name}, "attack_tags": list(tags), "threat": {**THREAT, **threat}, "crafted_on": None}
    return {"kind": "attack", "hash": name, "trial": "t", "config": config, "metrics": [{"name": "f1", "value": f1}]}


def flags(*attacks: dict[str, Any]) -> list[str]:
    return derived_flags(attacks).get("worst", [])


def test_a_worst_case_that_nothing_beats_has_no_flag() -> None:
    worst = attack("worst", 0.5, "standard", "gradient", "prediction")
    assert flags(worst, attack("mine", 0.496, "injection"), attack("worst-twice", 0.481, "standard-twice")) == []


def test_a_stronger_attack_of_the_same_budget_is_an_alarm() -> None:
    worst = attack("worst", 0.5, "standard")
    assert flags(worst, attack("mine", 0.4, "injection", steps=50)) == [
        "unreliable: mine does more harm than the standard attack"
    ]
    assert flags(worst, attack("mine", 0.4, "injection", nodes=40)) == []  # another budget


def test_a_search_twice_as_long_that_finds_more_is_an_alarm() -> None:
    worst = attack("worst", 0.5, "standard")
    assert flags(worst, attack("worst-twice", 0.47, "standard-twice")) == [
        "unreliable: twice the search lowers the worst case by 0.030"
    ]
