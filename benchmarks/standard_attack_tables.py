"""What the rows of ``benchmarks.standard_attack`` show, as tables: lists of rows with the header first."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, median

import numpy as np

from fgai_bench.statistics.labels import title

WEAKER = ("injection", "random-injection", "learned-placement", "validation")
STRONGER = 0.002  # by which no other attack of the same budget may leave less
LOWERED = (0.01, 0.02)  # by which few rows, and none, may be lowered by further search
THREATS = ("worst", "in-domain")
CURVES, MARKS = 12, (0, 500, 1000, 2000, 3000, 4000, 6000, 8000)  # rows with a curve, and gradients of local search

Row = dict[str, str]
Rows = list[list[str]]


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file."""
    csv.field_size_limit(sys.maxsize)
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def rivals(rows: Sequence[Row]) -> Rows:
    """Return by how much each other attack of the same budget leaves more than the standard attack."""
    table = [["attack", "rows", "leaves more by (median)", "at least", f"rows where it leaves > {STRONGER} less"]]
    for attack in WEAKER:
        more = [float(row[attack]) - float(row["worst"]) for row in rows if row[attack]]
        if more:
            stronger = sum(each < -STRONGER for each in more)
            table.append([f"`{attack}`", str(len(more)), f"{median(more):.3f}", f"{min(more):.4f}", str(stronger)])
    return table


def further_search(rows: Sequence[Row]) -> Rows:
    """Return how many rows further search lowers, by what, and by how much at most."""
    table = [
        ["search from where `worst` ended", "gradients", "rows", *(f"lowered by > {by}" for by in LOWERED), "most"]
    ]
    names = {"continued": "its own local search, another seed", "plain": "plain local search"}
    for column, further in sorted({(column, row["further"]) for column in names for row in rows if row[column]}):
        some = [row for row in rows if row[column] and row["further"] == further]
        less = [float(row["worst"]) - float(row[column]) for row in some]
        lowered = [str(sum(each > by for each in less)) for by in LOWERED]
        table.append([names[column], f"{int(further):,}", str(len(less)), *lowered, f"{max(less):.4f}"])
    return table


def floors(rows: Sequence[Row]) -> Rows:
    """Return how many rows have a floor, and how many are below it."""
    some = [row for row in rows if row["floor"]]
    below = sum(float(row["worst"]) < float(row["floor"]) - 1e-6 for row in some)
    return [["rows with a floor", "below it"], [str(len(some)), str(below)]]


def threats(rows: Sequence[Row]) -> Rows:
    """Return what ``worst`` leaves under the plain range and in the domain, by network and graph: medians of seeds.

    A network counts if it was attacked under both on every graph.
    """
    some = [row for row in rows if row["in-domain"]]
    graphs = list(dict.fromkeys(row["dataset"] for row in some))
    networks: dict[str, list[Row]] = {}
    for row in some:
        networks.setdefault(_network(row), []).append(row)

    def cell(network: str, graph: str) -> str:
        there = [row for row in networks[network] if row["dataset"] == graph]
        return " / ".join(f"{median(float(row[key]) for row in there):.3f}" for key in THREATS)

    complete = [name for name, own in networks.items() if {row["dataset"] for row in own} == set(graphs)]
    weakest_first = sorted(complete, key=lambda name: mean(float(row["worst"]) for row in networks[name]))
    head = ["network, GAT unless named", *map(title, graphs)]
    return [head, *([name, *(cell(name, graph) for graph in graphs)] for name in weakest_first)]


def score_by_gradients(rows: Sequence[Row]) -> Rows:
    """Return the score after so many gradients of the local search and its continuation; bold from its end on.

    The rows are drawn at random, always the same ones.
    """
    table = [["row", "ended after", *(f"{mark:,}" for mark in MARKS)]]
    curved = [row for row in rows if row["curve"]]
    drawn = np.random.default_rng(0).choice(len(curved), min(CURVES, len(curved)), replace=False)
    for row in (curved[place] for place in sorted(drawn)):
        curve = [(int(calls), float(score)) for calls, score in json.loads(row["curve"])]
        began, ended = curve[0][0], int(row["gradients"]) - curve[0][0]
        cells = []
        for mark in MARKS:
            score = min(score for calls, score in curve if calls - began <= mark)
            text = f"**{score:.3f}**" if mark >= ended else f"{score:.3f}"
            cells.append(text if mark <= curve[-1][0] - began else "-")
        table.append([_name(row), f"{ended:,}", *cells])
    return table


def costs(rows: Sequence[Row]) -> Rows:
    """Return gradients and processor seconds of ``worst``, medians by model."""
    table = [["model", "rows", "gradients", "seconds of one processor core"]]
    for model in sorted({row["model"] for row in rows}):
        some = [row for row in rows if row["model"] == model]
        shown = [f"{median(float(row[key]) for row in some):,.0f}" for key in ("gradients", "processor_seconds")]
        table.append([title(model), str(len(some)), *shown])
    return table


def _name(row: Row) -> str:
    return f"{title(row['dataset'])}, {_network(row)}, seed {row['seed']}"


def _network(row: Row) -> str:
    label = title(row["label"])
    return label if row["model"] == "gat" else f"{title(row['model'])}, {label}"


TABLES: dict[str, Callable[[Sequence[Row]], Rows]] = {
    "rivals": rivals,
    "further_search": further_search,
    "floors": floors,
    "threats": threats,
    "score_by_gradients": score_by_gradients,
    "costs": costs,
}
