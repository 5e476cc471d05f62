"""Names of suites as reports show them: a suite that was not run as it is declared says what was changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

CHANGED = ", changed: "


def titles(members: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return what to call each suite of a plan: its name, with the seeds where they are not the suite's own.

    A part of a suite's datasets, models, defenses or attacks is a part and no change; another number of seeds is one.
    Records that do not say which seeds their suite has are called as they are.

    >>> plan = [{"suite": "node", "seed": seed, "suite_seeds": [0, 1, 2, 3, 4]} for seed in (0, 1)]
    >>> titles(plan)
    {'node': 'node, changed: seeds=2'}
    """
    seeds: dict[str, set[int]] = {}
    declared: dict[str, set[int]] = {}
    for member in members:
        seeds.setdefault(member["suite"], set()).add(member["seed"])
        declared.setdefault(member["suite"], set()).update(member.get("suite_seeds", ()))
    return {suite: _title(suite, there, declared[suite]) for suite, there in seeds.items()}


def is_changed(title: str) -> bool:
    """Tell whether a title names a change.

    >>> is_changed("node, changed: seeds=2"), is_changed("node")
    (True, False)
    """
    return CHANGED in title


def _title(suite: str, seeds: set[int], declared: set[int]) -> str:
    if not declared or seeds == declared:
        return suite
    counted = str(len(seeds)) if seeds == set(range(len(seeds))) else " ".join(map(str, sorted(seeds)))
    return f"{suite}{', ' if is_changed(suite) else CHANGED}seeds={counted}"
