"""Flags of unreliable attacks that one record alone does not show: they come from comparing attacks on one trial."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, product
from typing import Any

from fgai_bench.records.canonical import canonical

DOUBTED = "unreliable: "  # before every reason to distrust an attack; those of its own search are recorded without it
WEAKER = DOUBTED + "random control is stronger"
IMPROVES = DOUBTED + "a smaller budget does more harm"
STRONGER = DOUBTED + "{attack} does more harm than the standard attack"
MOVES = DOUBTED + "further search lowers the worst case by {slack:.3f}"
BELOW_FLOOR = "error: below a proven floor"
BELOW = BELOW_FLOOR + ", {score:.4f} against {floor:.4f} of {certificate}"
CONTINUED = {"standard-continued", "standard-twice"}  # tags of the standard attack with further search; an older name
TOLERANCE = 0.01  # of the attacked score; a sweep may wobble by this much
BEATEN, SLACK = 0.005, 0.02  # of the attacked score: what another attack, and further search, may take
ROUNDING = 1e-9  # of a share that was written and read
SUBMITTED = "submitted"  # the attack of a graph that somebody else found
BUDGET = ("nodes", "edges_per_node", "edges", "epsilon", "steps", "restarts")


def derived_flags(steps: Iterable[dict[str, Any]]) -> dict[str, list[str]]:
    """Return the reasons for distrust that comparison finds, by the hash of the step.

    A gradient attack on the prediction must do at least the harm of the random control with the same budget, and an
    attack must not do less harm with a larger budget. Harm is read from the attacked score of the task. An attack below
    a floor is an error of one of the two.
    """
    trials = defaultdict(list)
    floors = defaultdict(list)
    for step in steps:
        if step["kind"] == "attack" and attacked_score(step) is not None:
            trials[step["trial"]].append(step)
        elif step["kind"] == "certify" and step["status"] == "ok":
            floors[step["trial"]].append(step)
    reasons: dict[str, list[str]] = defaultdict(list)
    for trial, attacks in trials.items():
        compared = (_weaker_than_control, _weaker_than_smaller_budget, _beaten_standards)
        for hash, reason in chain(_below_a_floor(attacks, floors[trial]), *(compare(attacks) for compare in compared)):
            reasons[hash].append(reason)
    return dict(reasons)


def _weaker_than_control(attacks: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the gradient attacks on the prediction that do less harm than a random control with the same budget."""
    controls = [step for step in attacks if "control" in step["config"]["attack_tags"]]
    for step in attacks:
        if {"gradient", "prediction"}.issubset(step["config"]["attack_tags"]) and not step["config"]["crafted_on"]:
            same = [control for control in controls if change_budget(control) == change_budget(step)]
            if any(attacked_score(control) < attacked_score(step) for control in same):  # type: ignore[operator]
                yield step["hash"], WEAKER


def _below_a_floor(attacks: list[dict[str, Any]], floors: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the attacks that leave less than a floor that is proven for their budget, with the sentence."""
    for step, floor in product(attacks, floors):
        if change_budget(step) != change_budget(floor):
            continue
        values = {row["name"]: row["value"] for row in step["metrics"] if row["value"] is not None}
        for row in floor["metrics"]:
            score = row["name"].removeprefix("certified_")
            if score in ("f1", "roc_auc") and float(values.get(score, 1)) < float(row["value"]) - ROUNDING:
                name = floor["config"]["certificate"]["name"]
                yield step["hash"], BELOW.format(score=values[score], floor=float(row["value"]), certificate=name)


def _beaten_standards(attacks: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the standard attacks that another attack of the same budget, or further search, beats."""
    for step in attacks:
        if "standard" not in step["config"]["attack_tags"]:
            continue
        for other in attacks:
            if other is step or change_budget(other) != change_budget(step):
                continue
            further = attacked_score(step) - attacked_score(other)  # type: ignore[operator]
            if CONTINUED & set(other["config"]["attack_tags"]):
                if further > SLACK:
                    yield step["hash"], MOVES.format(slack=further)
            elif further > BEATEN:
                yield step["hash"], STRONGER.format(attack=other["config"]["attack"]["name"])


def _weaker_than_smaller_budget(attacks: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the attacks that do less harm than the same attack with a smaller budget."""
    same = defaultdict(list)
    for step in attacks:
        config = step["config"]
        threat = {key: value for key, value in config["threat"].items() if key not in BUDGET}
        same[canonical([config["attack"], config["crafted_on"], threat])].append(step)
    for alike in same.values():
        for step in alike:
            smaller = [other for other in alike if _has_larger_budget(step, other)]
            gains = [attacked_score(step) - attacked_score(other) for other in smaller]  # type: ignore[operator]
            if any(gain > TOLERANCE for gain in gains):
                yield step["hash"], IMPROVES


def attacked_score(step: dict[str, Any]) -> float | None:
    """Return the attacked score that ranks a step; None where it was not measured."""
    values = {row["name"]: row["value"] for row in step["metrics"] if row["value"] is not None}
    return ranking_score(step["config"], values)


def ranking_score(config: Mapping[str, Any], values: Mapping[str, Any]) -> float | None:
    """Return the value that ranks a step: the score of its dataset, else micro F1 of nodes or ROC-AUC of links.

    >>> ranking_score({"dataset": {"score": "roc_auc"}}, {"f1": 0.9, "roc_auc": 0.6})
    0.6
    """
    names = (config.get("dataset", {}).get("score"), "f1", "roc_auc")
    return next((float(values[name]) for name in names if name in values), None)


def change_budget(step: dict[str, Any]) -> str:
    """Return the budget of changes as canonical JSON, without the settings for the length of the search."""
    return canonical(changes_allowed(step["config"]["threat"]))


def changes_allowed(threat: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a threat model allows to change; how long an attack may search is no part of it."""
    return {key: value for key, value in threat.items() if key not in ("step", "steps", "restarts")}


def _has_larger_budget(step: dict[str, Any], other: dict[str, Any]) -> bool:
    """Tell whether the budget of ``step`` contains that of ``other`` and is larger."""
    budget, other_budget = ([s["config"]["threat"][key] for key in BUDGET] for s in (step, other))
    return budget != other_budget and all(a >= b for a, b in zip(budget, other_budget, strict=True))
