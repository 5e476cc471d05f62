"""Rows of the tables of a store: how results and places become rows, their checksums, and what a row must be."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, get_args

from fgai_bench.records.canonical import canonical, sha256
from fgai_bench.records.result import Result, Status

COLUMNS = (
    "hash",
    "kind",
    "trial",
    "config",
    "status",
    "reason",
    "detail",
    "facts",
    "environment",
    "started",
    "seconds",
)
MEMBER_COLUMNS = ("place", "position", "content", "checksum")
# The columns of the tables that belong to a step, beside the hash of the step.
PART_COLUMNS = {
    "metrics": ("name", "family", "value", "reason"),
    "curves": ("name", "x", "y"),
    "ledgers": ("name", "value"),
    "flags": ("position", "reason"),
    "artifacts": ("role", "sha256", "bytes"),
}
MEMBER_WORDS = (
    "suite", "kind", "step", "task", "dataset", "model", "defense", "label", "attack", "attack_label", "explainer",
)  # fmt: skip
STATUSES = get_args(Status)
FAMILIES = ("measure", "cost")
_SORTED = sorted((*COLUMNS, *PART_COLUMNS))
_SORTED_PARTS = {part: [(f'"{name}":', name) for name in sorted(names)] for part, names in PART_COLUMNS.items()}


def result_rows(result: Result, artifacts: Mapping[str, str]) -> dict[str, list[dict[str, Any]]]:
    """Return a result as rows of the tables that belong to a step, by table; ``artifacts`` are hashes by role."""
    measured = [("measure", result.metrics), ("cost", result.cost)]
    metrics: list[dict[str, Any]] = [
        {"name": name, "family": family, "value": _number(value), "reason": ""}
        for family, values in measured
        for name, value in values.items()
    ]
    metrics += [
        {"name": name, "family": "measure", "value": None, "reason": reason}
        for name, reason in result.not_applicable.items()
    ]
    return {
        "metrics": metrics,
        "curves": [
            {"name": n, "x": json.dumps(list(x)), "y": json.dumps(list(y))} for n, (x, y) in result.curves.items()
        ],
        "ledgers": [{"name": name, "value": _number(value)} for name, value in result.ledger.items()],
        "flags": [{"position": position, "reason": reason} for position, reason in enumerate(result.flags)],
        "artifacts": [
            {"role": role, "sha256": name, "bytes": len(result.artifacts[role])} for role, name in artifacts.items()
        ],
    }


def _number(value: float) -> float | str:
    """Return a number as SQLite keeps it: one that is not finite as its name, since SQLite has no NaN."""
    return value if value - value == 0 else str(value)


def step_checksum(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a step's canonical form; every read of a store takes it, so the form is written out here.

    >>> step_checksum(dict.fromkeys(COLUMNS, "") | dict.fromkeys(PART_COLUMNS, ())) == sha256(
    ...     dict.fromkeys(COLUMNS, "") | dict.fromkeys(PART_COLUMNS, ()))
    True
    """
    texts = [f'"{key}":' + _part_text(key, content[key]) for key in _SORTED]
    return hashlib.sha256(("{" + ",".join(texts) + "}").encode()).hexdigest()


def _part_text(key: str, part: Any) -> str:
    """Return a column of a step, or the rows of a table that belong to it, in canonical JSON."""
    if key not in PART_COLUMNS:
        return _cell_text(part)
    columns = _SORTED_PARTS[key]
    rows = [",".join([before + _cell_text(row[column]) for before, column in columns]) for row in part]
    return "[" + ",".join(["{" + row + "}" for row in rows]) + "]"


def _cell_text(value: Any) -> str:
    """Return a value of a table in canonical JSON; raise ``TypeError`` for one that no table of ours holds."""
    if type(value) is str:
        return quoted(value)
    if type(value) is float and value - value == 0:
        return repr(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    if value is None or isinstance(value, int | float):
        return canonical(value)
    raise TypeError(f"{type(value).__name__} is no value of a table")


def place_of(member: Mapping[str, Any]) -> str:
    """Return the identity of a place: everything about it but the step that stands there and what is shown of it."""
    shown = ("metrics", "suite_seeds", "trials")
    return sha256({**{key: value for key, value in member.items() if key not in shown}, "step": ""})


def member_row(member: Mapping[str, Any], position: int) -> dict[str, Any]:
    """Return a place as a row of its table."""
    place, content = place_of(member), canonical(member)
    return dict(zip(MEMBER_COLUMNS, (place, position, content, member_checksum(place, position, content)), strict=True))


def member_checksum(place: str, position: int, content: str) -> str:
    """Return the checksum of a row of the table of places."""
    text = ",".join(map(_cell_text, (place, position, content)))
    return hashlib.sha256(f"[{text}]".encode()).hexdigest()


def parsed_member(content: str) -> dict[str, Any]:
    """Return a place from its JSON; raise ``ValueError`` if it is none, whoever wrote it."""
    member = json.loads(content)
    texts = [*map(member.get, MEMBER_WORDS), member.get("metric", "")] if isinstance(member, dict) else [None]
    lists: list[Any] = [member.get("flags"), member.get("metrics", [])] if isinstance(member, dict) else [None]
    right = {*map(type, texts)} == {str} and {*map(type, lists)} == {list} and type(member.get("seed")) is int
    if not right or not {type(word) for words in lists for word in words} <= {str}:
        raise ValueError("it has a place that is none")
    return dict(member)


def parsed_step(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a step with its JSON columns parsed; raise ``ValueError`` if it is no step, whoever wrote it."""
    step = {**content, "config": json.loads(content["config"]), "facts": json.loads(content["facts"])}
    if not isinstance(step["config"], dict) or not isinstance(step["facts"], dict):
        raise ValueError("its configuration is none")
    if step["status"] not in STATUSES or not all(row["family"] in FAMILIES for row in step["metrics"]):
        raise ValueError(f"it has the status {step['status']!r}")
    for row in (*step["metrics"], *step["ledgers"]):
        if row["value"] is not None:
            float(row["value"])
    for curve in step["curves"]:
        x, y = json.loads(curve["x"]), json.loads(curve["y"])
        if not (isinstance(x, list) and isinstance(y, list) and len(x) == len(y)):
            raise ValueError(f"its curve {curve['name']!r} is none")
    return step
