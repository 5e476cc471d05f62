"""Published numbers: read the paper's tables, each number with the cell of a run that it may be held against.

The comments of ``baselines/fgai/paper.yaml`` explain every key: which table holds which metric, and ours beside it.
"""

import csv
import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import yaml

from fgai_bench.baselines import text_of as text_of


@dataclass(frozen=True)
class Published:
    """Hold one published number and say where ours stands."""

    table: str
    task: str
    dataset: str
    model: str
    label: str
    metric: str  # its name in the paper
    ours: str  # the metric of a run that has the same scale
    kind: str  # of the steps that measure it: clean, attack or train
    mean: float
    std: float
    status: str
    suites: tuple[str, ...]  # that measure it; the first is the one to run
    note: str = ""  # how the scales differ
    attack: str = ""  # label of the attack that it was measured under; empty where nothing attacks
    stand_in: bool = False  # whether the dataset stands in for the one that the number was published for


def published() -> tuple[Published, ...]:
    """Return every number of the paper's tables; those on a dataset that has a stand-in also for the stand-in."""
    paper = yaml.safe_load(text_of("paper.yaml"))
    return tuple(
        variant
        for table in paper["tables"]
        for row in csv.DictReader(io.StringIO(text_of(table["file"])))
        for number in _numbers(table, row)
        for variant in (number, *_stand_ins(number, paper["stand_ins"]))
    )


@cache
def published_means() -> dict[tuple[str, ...], tuple[float, str]]:
    """Return mean and status by task, dataset, model, defense, kind of step and metric, by our name and by theirs."""
    return {
        (number.task, number.dataset, number.model, number.label, number.kind, name): (number.mean, number.status)
        for number in published()
        for name in (number.ours, number.metric.removesuffix("_attacked"))
    }


def _numbers(table: Mapping[str, Any], row: Mapping[str, str]) -> Iterator[Published]:
    """Yield the numbers of one row of a table, one for each metric that stands in it."""
    about = {name: _name(source, row) for name, source in table["rows"].items()}
    for metric in table["metrics"]:
        if _has(row, metric.get("where", {})):
            is_negative = "positive_where" in metric and not _has(row, metric["positive_where"])
            mean, std = (_number(row.get(metric.get(key), ""), metric.get("scale", 1.0)) for key in ("mean", "std"))
            yield Published(
                table=table["name"],
                task=table["task"],
                dataset=about["dataset"],
                model=about["model"],
                label=about["defense"],
                metric=metric["name"],
                ours=metric["ours"],
                kind=metric["kind"],
                mean=-mean if is_negative else mean,
                std=std,
                status=row[table["status"]].lower() if "status" in table else "ok",
                suites=tuple(table["suites"]),
                note=metric.get("note", ""),
                attack=table["attack"] if metric["kind"] == "attack" else "",
            )


def _name(source: Mapping[str, Any], row: Mapping[str, str]) -> str:
    """Return our name for what a row is about: from a column, for the whole table, or spread over switches.

    >>> _name({"switches": {"l1": "similarity", "l2": "prediction"}}, {"l1": "1", "l2": "1"})
    'similarity+prediction'
    """
    if "constant" in source:
        return str(source["constant"])
    if "switches" in source:
        return "+".join(word for column, word in source["switches"].items() if row[column] == "1")
    written = row[source["column"]]
    return str(source["names"][written]) if "names" in source else written


def _stand_ins(number: Published, stand_ins: list[dict[str, str]]) -> Iterator[Published]:
    for other in stand_ins:
        if other["dataset"] == number.dataset:
            note = "; ".join(filter(None, [number.note, other["note"]]))
            yield replace(number, dataset=other["stand_in"], note=note, stand_in=True)


def _has(row: Mapping[str, str], cells: Mapping[str, Any]) -> bool:
    return all(row[column] == str(value) for column, value in cells.items())


def _number(text: str, scale: float) -> float:
    return scale * float(text) if text else math.nan
