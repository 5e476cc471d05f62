"""Reasons for distrust that one record alone does not show: they come from comparing attacks on the same trial."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from fgai_bench.store.canonical import canonical

WEAKER = "unreliable: random control is stronger"
IMPROVES = "unreliable: a smaller budget does more harm"
STRONGER = "unreliable: {attack} does more harm than the standard attack"
MOVES = "unreliable: twice the search lowers the worst case by {slack:.3f}"
TOLERANCE = 0.01  # of the attacked score; a sweep may wobble by this much
BEATEN, SLACK = 0.005, 0.02  # of the attacked score: what another attack, and twice the search, may take further
BUDGET = ("nodes", "edges_per_node", "edges", "epsilon", "steps", "restarts")


def derived_flags(steps: Iterable[dict[str, Any]]) -> dict[str, list[str]]:
    """Step hash to the reasons found by comparison.

    A gradient attack on the prediction must do at least the harm of the random control with the same budget, and an
    attack must not do less harm with a larger budget. Harm is read from the attacked score of the task.
    """
    trials = defaultdict(list)
    for step in steps:
        if step["kind"] == "attack" and _score(step) is not None:
            trials[step["trial"]].append(step)
    found: dict[str, list[str]] = defaultdict(list)
    for attacks in trials.values():
        for hash in _weaker_than_control(attacks):
            found[hash].append(WEAKER)
        for hash in _weaker_than_smaller_budget(attacks):
            found[hash].append(IMPROVES)
        for hash, reason in _not_the_worst(attacks):
            found[hash].append(reason)
    return dict(found)


def _weaker_than_control(attacks: list[dict[str, Any]]) -> Iterator[str]:
    controls = [step for step in attacks if "control" in step["config"]["attack_tags"]]
    for step in attacks:
        if {"gradient", "prediction"}.issubset(step["config"]["attack_tags"]) and not step["config"]["crafted_on"]:
            same = [control for control in controls if _spend(control) == _spend(step)]
            if any(_score(control) < _score(step) for control in same):  # type: ignore[operator]
                yield step["hash"]


def _not_the_worst(attacks: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the standard attacks that another attack of the same budget, or twice their own search, beats."""
    for step in attacks:
        if "standard" not in step["config"]["attack_tags"]:
            continue
        for other in attacks:
            if other is step or _spend(other) != _spend(step):
                continue
            further = _score(step) - _score(other)  # type: ignore[operator]
            if "standard-twice" in other["config"]["attack_tags"]:
                if further > SLACK:
                    yield step["hash"], MOVES.format(slack=further)
            elif further > BEATEN:
                yield step["hash"], STRONGER.format(attack=other["config"]["attack"]["name"])


def _weaker_than_smaller_budget(attacks: list[dict[str, Any]]) -> Iterator[str]:
    for step in attacks:
        kin = [other for other in attacks if _family(other) == _family(step) and _larger(step, other)]
        if any(_score(step) - _score(other) > TOLERANCE for other in kin):  # type: ignore[operator]
            yield step["hash"]


def _score(step: dict[str, Any]) -> float | None:
    """The attacked score of the task: micro F1 of nodes, ROC-AUC of links."""
    values = {row["name"]: row["value"] for row in step["metrics"] if row["value"] is not None}
    scores = [float(values[name]) for name in ("f1", "roc_auc") if name in values]
    return scores[0] if scores else None


def _spend(step: dict[str, Any]) -> str:
    """What may be changed; how long one may search for it is not part of it."""
    return canonical(
        {key: value for key, value in step["config"]["threat"].items() if key not in ("step", "steps", "restarts")}
    )


def _family(step: dict[str, Any]) -> str:
    """An attack but for its budget."""
    config = step["config"]
    threat = {key: value for key, value in config["threat"].items() if key not in BUDGET}
    return canonical([config["attack"], config["crafted_on"], threat])


def _larger(step: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether the budget of ``step`` contains that of ``other``, and more."""
    mine, its = ([s["config"]["threat"][key] for key in BUDGET] for s in (step, other))
    return mine != its and all(m >= i for m, i in zip(mine, its, strict=True))
