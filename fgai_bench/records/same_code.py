"""Which records were made by other code than those beside them, so that reports do not mix them.

Within one suite each part of the code (``model gat``, ``attack worst``) has one fingerprint: that of the step that
started last. A step with another one was made by other code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def made_by_other_code(members: Iterable[Mapping[str, Any]], steps: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return the steps that were made by other code than the rest of their suite, or on a training that was.

    Args:
        members: the places of a plan.
        steps: the recorded steps by hash: ``kind``, ``trial``, ``started``, ``config``.
    """
    suites: dict[str, set[str]] = {}
    for member in members:
        if member["step"] in steps:
            suites.setdefault(member["suite"], set()).add(member["step"])
    others: set[str] = set()
    for hashes in suites.values():
        prints = {hash: fingerprints(steps[hash]) for hash in sorted(hashes, key=lambda hash: steps[hash]["started"])}
        latest = {part: own for found in prints.values() for part, own in found.items()}
        stale = {hash for hash, found in prints.items() if any(latest[part] != own for part, own in found.items())}
        others |= stale | {hash for hash in hashes if steps[hash]["trial"] in stale}
    return others


def fingerprints(step: Mapping[str, Any]) -> dict[str, str]:
    """Return the fingerprint of each part of the code that decided a step."""
    kind, config, task = step["kind"], step["config"], step["config"].get("task", {}).get("name", "")
    names = {
        part: value.get("name") or value.get("attack") for part, value in config.items() if isinstance(value, dict)
    }
    names |= {"task": f"{task} {task}", "measure": f"{kind} {task}", "audit": f"{kind} {task}"}  # in earlier records
    return {part if " " in part else f"{part} {names[part]}": own for part, own in config.get("code", {}).items()}
