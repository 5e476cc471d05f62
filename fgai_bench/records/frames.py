"""Tidy tables of the content of a store: records, curves and provenance.

``records`` has one row per step, metric and place in a suite. Columns:

=====================  =============================================================================================
suite, kind            where the step stands; ``train``, ``clean``, ``attack``, ``effect``, ``explain``, ...
task, dataset, model   the cell
defense, label         the registered name; the row's label (an ablation has many labels of one defense)
attack, attack_label   likewise; empty where nothing attacks. ``explainer``: its name, if one was asked
seed                   of the trial
metric, family, value  ``family`` is ``measure`` (the same on every run) or ``cost`` (seconds, memory); empty metric and
                       missing value where the step has no values at all
status, reason         ``ok``, ``oom``, ``timeout``, ``failed``, ``not-applicable``; a sentence when not ``ok``
flags                  tuple of reasons for distrust, those of the attack beginning with ``unreliable:``
ledger_*               what the attack spent; missing where nothing attacks
threat                 the budget as canonical JSON
trial, step            hashes: of the training step, of this step
seconds, started       of the whole step; ``device``, ``threads``, ``package``, ``commit``: where it ran
=====================  =============================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

from fgai_bench.attacks.budget import Ledger
from fgai_bench.records.canonical import canonical
from fgai_bench.records.flags import DOUBTED, derived_flags

if TYPE_CHECKING:
    import pandas as pd

PLACE_COLUMNS = (
    "suite", "kind", "task", "dataset", "model", "defense", "label", "attack", "attack_label", "explainer", "seed",
)  # fmt: skip
CURVE_COLUMNS = ("trial", "step", "curve", "point", "x", "y")
LEDGER = tuple(field.name for field in fields(Ledger))
RECORDS = (
    *PLACE_COLUMNS, "metric", "family", "value", "status", "reason", "flags", *(f"ledger_{name}" for name in LEDGER),
    "threat", "trial", "step", "seconds", "started", "device", "threads", "package", "commit",
)  # fmt: skip
Members = Sequence[dict[str, Any]]
ByHash = Mapping[str, dict[str, Any]]


class MetricRow(NamedTuple):
    """A metric of a step: its value, or the status and the reason of there being none."""

    metric: str
    family: str
    value: float
    status: str
    reason: str


class PlacedStep(NamedTuple):
    """A recorded step at one of its places in a suite: the rows that are shown there, and what they share."""

    member: Mapping[str, Any]
    step: Mapping[str, Any]
    rows: Sequence[MetricRow]
    flags: tuple[str, ...]
    ledger: Mapping[str, float]
    threat: str


def placed_steps(members: Members, steps: ByHash) -> Iterator[PlacedStep]:
    """Yield the recorded step of every place that has one; ``steps`` are all recorded steps by hash."""
    flags = derived_flags(steps.values())
    for member in members:
        if (step := steps.get(member["step"])) is None:
            continue
        doubted = DOUBTED if step["kind"] == "attack" else ""
        yield PlacedStep(
            member,
            step,
            list(_rows(step)),
            (*(doubted + row["reason"] for row in step["flags"]), *member["flags"], *flags.get(step["hash"], ())),
            {row["name"]: float(row["value"]) for row in step["ledgers"]},
            canonical(step["config"]["threat"]) if "threat" in step["config"] else "",
        )


def records(members: Members, steps: ByHash) -> pd.DataFrame:
    """Return the tidy table of the recorded steps at all places."""
    import pandas as pd

    rows = []
    for placed in placed_steps(members, steps):
        place = [placed.member[key] for key in PLACE_COLUMNS]
        shared = (
            placed.flags,
            *(placed.ledger.get(name, math.nan) for name in LEDGER),
            placed.threat,
            *(placed.step[key] for key in ("trial", "hash", "seconds", "started")),
            *(placed.step["environment"].get(key) for key in ("device", "threads", "package", "commit")),
        )
        rows += [(*place, *row, *shared) for row in placed.rows]
    return pd.DataFrame(rows, columns=list(RECORDS))


def curves(members: Members, steps: ByHash) -> pd.DataFrame:
    """Return one row per point of every curve: the place, ``curve``, ``point``, ``x`` and ``y``."""
    import pandas as pd

    columns: dict[str, list[Any]] = {name: [] for name in (*PLACE_COLUMNS, *CURVE_COLUMNS)}
    for member in members:
        if (step := steps.get(member["step"])) is None:
            continue
        for curve in step["curves"]:
            x, y = curve["x"], curve["y"]
            same = (*(member[key] for key in PLACE_COLUMNS), step["trial"], step["hash"], curve["name"])
            points = (*([value] * len(x) for value in same), range(len(x)), x, y)
            for column, values in zip(columns.values(), points, strict=True):
                column.extend(values)
    return pd.DataFrame(columns)


def provenance(steps: ByHash) -> pd.DataFrame:
    import pandas as pd

    rows = [
        {
            **{key: step[key] for key in ("hash", "kind", "trial", "status", "reason", "detail", "started", "seconds")},
            "config": canonical(step["config"]),
            **{f"data_{key}": value for key, value in step["facts"].items()},
            **step["environment"],
            "artifacts": {row["role"]: row["sha256"] for row in step["artifacts"]},
        }
        for step in steps.values()
    ]
    return pd.DataFrame(rows)


def _rows(step: Mapping[str, Any]) -> Iterator[MetricRow]:
    """Yield the rows of one step; a step without metrics has one row, so that its status is kept."""
    own = step["config"].get("metric", {}).get("name", "")
    empty = {"name": own, "family": "measure", "value": None, "reason": step["reason"]}
    for row in step["metrics"] or [empty]:
        missing = row["value"] is None and step["status"] == "ok" and row["name"]
        value = math.nan if row["value"] is None else float(row["value"])
        status = "not-applicable" if missing else step["status"]
        yield MetricRow(row["name"], row["family"], value, status, row["reason"] or step["reason"])
