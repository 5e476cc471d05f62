"""Tables of nulls: stability beside a uniform attention, F-slopes beside rankings that know nothing of the model.

A uniform attention is nearly perfectly stable and explains nothing; a ranking by degree needs no training. So a value
is shown with its null and with the paired difference from it, and what does not beat its null is marked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from fgai_bench.report.numbers import written
from fgai_bench.report.tables.build import NOT_BETTER, Row, Shown, Table, notes, show, source
from fgai_bench.report.tables.specs import Column
from fgai_bench.statistics.intervals import Comparison, mean
from fgai_bench.statistics.labels import ordered, title
from fgai_bench.statistics.ranking import UNEQUAL, Cell, Standing, cell, null_of, scale_of
from fgai_bench.statistics.results import Place, Results

STABILITY = (
    Column("g-JSD↓", "g_jsd", "attack", better="lower", style="scientific"),
    Column("node JSD↓", "node_jsd", "attack", better="lower", style="scientific"),
    Column("top-k overlap↑", "topk_overlap", "attack", better="higher"),
)
RELATIVE = {"log": "log ratio", "logit": "log odds ratio", "identity": "difference"}
RANKINGS = ("random", "uniform", "degree", "untrained")
SLOPES = {
    "f_slope_nulls_pos": Column("F+", "f_slope_pos", "clean", better="lower"),
    "f_slope_nulls_neg": Column("F-", "f_slope_neg", "clean", better="lower", flat=True),
}
NAMES = ("nulls", "nulls_link", *SLOPES)
HEADS = ("Dataset", "Model", "Method")
MARKED = f"{NOT_BETTER} marks what is not better than its null by its 95 % interval (one comparison at a time)."


@dataclass(frozen=True)
class Study:
    """Where a table of nulls comes from: the places of one suite, in the order of their rows."""

    results: Results
    suite: str
    places: tuple[Place, ...]

    @classmethod
    def of(cls, results: Results, task: str, kind: str, metrics: Iterable[str]) -> Study | None:
        """Return the first suite of equal budgets in which a step of this kind measured one of the nulls."""
        for suite in ordered(results.names("suite", kind=kind, task=task)):
            measured = [
                place
                for place, seeds in results.select(suite=suite, kind=kind, task=task)
                if any(step.values.keys() & set(metrics) and UNEQUAL not in step.flags for step in seeds.values())
            ]
            if measured:
                attack = "injection" if "injection" in {place.attack for place in measured} else measured[0].attack
                return cls(results, suite, tuple(_sorted(place for place in measured if place.attack == attack)))
        return None


def _sorted(places: Iterable[Place]) -> list[Place]:
    """Return places in the paper's order of datasets, models and methods."""
    listed = list(places)
    orders = {key: ordered(getattr(place, key) for place in listed) for key in ("dataset", "model", "label")}
    return sorted(listed, key=lambda place: [order.index(getattr(place, key)) for key, order in orders.items()])


def null_tables(results: Results) -> list[Table]:
    """Return the tables of nulls that a run has something for."""
    tables = [_stability_table(results, "node", "nulls"), _stability_table(results, "link", "nulls_link")]
    tables += [_slope_table(results, name, column) for name, column in SLOPES.items()]
    return [table for table in tables if table is not None]


def _stability_table(results: Results, task: str, name: str) -> Table | None:
    study = Study.of(results, task, "attack", [null_of(column.metric) for column in STABILITY])
    if study is None:
        return None
    rows, cells = [], []
    for place in study.places:
        row = [cell(results, place, column.metric) for column in STABILITY]
        shown = [
            text
            for column, value in zip(STABILITY, row, strict=True)
            for text in (
                *_beside(value, Cell(None, value.metric, value.null), column),
                _difference(value.relative, column),
            )
        ]
        rows.append(Row(_heads(place), tuple(shown)))
        cells += row
    columns = [
        (column.title, part)
        for column in STABILITY
        for part in ("attention", "uniform", RELATIVE[scale_of(column.metric)])
    ]
    caption = (
        "Stability beside that of a uniform attention, 1/(d+1), on the same clean and attacked graphs, which no "
        "training enters: values, null, and their ratio as a logarithm with its 95 % interval; below 0 is stabler for "
        f"divergences, above 0 for shares. {MARKED} {source(results, study.suite, cells)}"
    )
    return Table(name, caption, HEADS, tuple(columns), tuple(rows), notes(cells, ()), 2)


def _slope_table(results: Results, name: str, column: Column) -> Table | None:
    study = Study.of(results, "node", "clean", [f"{column.metric}_{ranking}" for ranking in RANKINGS])
    if study is None:
        return None
    rows, cells = [], []
    for place in study.places:
        own, *nulls = (
            cell(results, place, column.metric + ending, column.flat) for ending in ("", *(f"_{r}" for r in RANKINGS))
        )
        beside = [(show(null, Standing(), column), _difference(_compared(own, null), column)) for null in nulls]
        rows.append(Row(_heads(place), (show(own, Standing(), column), *(text for pair in beside for text in pair))))
        cells.append(own)
    columns = [("", "attention"), *((ranking, part) for ranking in RANKINGS for part in ("slope", "difference"))]
    better = "magnitudes, flatter is better" if column.flat else "steeper downwards is better"
    caption = (
        f"{column.title} slopes of the attention on the clean graph ({better}) beside those of four rankings that know "
        "nothing of the trained model: random, uniform (1/d_i), degree (1/sqrt(d_i d_j)) and the attention of an "
        f"untrained model; differences are paired, attention minus ranking, with 95 % intervals. {MARKED} "
        f"{source(results, study.suite, cells)}"
    )
    return Table(name, caption, HEADS, tuple(columns), tuple(rows), notes(cells, ()), 2)


def _heads(place: Place) -> tuple[str, ...]:
    return title(place.dataset), title(place.model), title(place.label)


def _beside(value: Cell, null: Cell, column: Column) -> tuple[Shown, Shown]:
    return show(value, Standing(), column), show(null, Standing(), column)


def _compared(own: Cell, null: Cell) -> Comparison:
    return Comparison.of(own.values, null.values, "identity")


def _difference(comparison: Comparison | None, column: Column) -> Shown:
    """Return the comparison with a null as text: mean and interval on the metric's scale, marked if not better."""
    if comparison is None or not comparison.differences:
        return Shown("--", status="absent", reason="no null was measured")
    centre, bounds = mean(comparison.differences), comparison.bounds_on_scale
    if bounds is None:
        return Shown(written(centre, math.nan), mean=centre, n=1)
    better = bounds[0] > 0 if column.better == "higher" else bounds[1] < 0
    middle, low, high = (written(value, math.nan) for value in (centre, *bounds))
    text = f"{middle} [{low}, {high}]{'' if better else NOT_BETTER}"
    return Shown(text, mean=centre, n=len(comparison.differences))
