"""Which records were made by other code than those that they stand beside, so that reports do not mix them.

A step names the fingerprint of each part of the code that decided it. Within one suite a part of one name (the model
``gat``, the attack ``worst``) has one fingerprint: that of the step that started last. A step with another one was made
by other code. Records of before there were fingerprints have none; where newer ones stand beside them, they give way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

NAMED = ("task", "dataset", "model", "defense", "inner", "attack", "explainer", "metric")
PARTS = {
    "train": ("task", "dataset", "model", "defense", "inner"),
    "clean": ("measure",),
    "attack": ("attack", "measure"),
    "measure": ("metric", "measure"),
    "effect": ("measure",),
    "explain": ("explainer", "measure"),
    "agree": ("measure",),
    "audit": ("audit",),
    "validate": ("task", "dataset", "model", "defense", "inner", "validation", "measure"),
}
Prints = tuple[tuple[tuple[str, ...], str], ...]  # part, name and task of the code, each with its fingerprint
EVERY = (*NAMED, "measure")  # of a kind of step that is not listed: all that it names


def made_by_other_code(members: Iterable[Mapping[str, Any]], steps: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return the steps that were made by other code than the rest of their suite, or on a training that was.

    Args:
        members: the places of a plan.
        steps: the recorded steps by hash: ``kind``, ``trial``, ``started``, ``config``.
    """
    others: set[str] = set()
    known: dict[tuple[str, int], Prints] = {}  # by the kind of a step and its configuration, which many may share

    def prints(hash: str) -> Prints:
        kind, config = steps[hash]["kind"], steps[hash]["config"]
        if (kind, id(config)) not in known:
            known[kind, id(config)] = tuple(fingerprints(steps[hash]))
        return known[kind, id(config)]

    suites: dict[str, set[str]] = {}
    for member in members:
        if member["step"] in steps:
            suites.setdefault(member["suite"], set()).add(member["step"])
    for hashes in suites.values():
        alike: dict[Prints, list[str]] = {}
        for hash in hashes:
            alike.setdefault(prints(hash), []).append(hash)
        latest: dict[tuple[str, ...], tuple[float, str]] = {}
        for found, group in alike.items():
            started = max(steps[hash]["started"] for hash in group)
            for part, own in found:
                latest[part] = max(latest.get(part, (0.0, "")), (started, own))
        wrong = [group for found, group in alike.items() if any(latest[part][1] != own for part, own in found)]
        if stale := {hash for group in wrong for hash in group}:
            others |= stale | {hash for hash in hashes if steps[hash]["trial"] in stale}
    return others


def fingerprints(step: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield each part of the code that decided a step, by name, with its fingerprint; empty where it has none."""
    config, code = step["config"], step["config"].get("code", {})
    for part in PARTS.get(step["kind"], EVERY):
        about = config.get(part) if part in NAMED else None
        if part in NAMED and not about:
            continue
        name = about.get("name", about.get("attack", "")) if isinstance(about, Mapping) else step["kind"]
        task = config.get("task", {}).get("name", "") if part in ("task", "measure", "audit") else ""
        if part in code or not code:
            yield (part, name, task), code.get(part, "")
