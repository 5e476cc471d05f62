"""Tables: from a specification and the results of a run to rows of shown cells.

Come here for what a table holds: :class:`Table`, its cells, captions and notes. How it is written is another matter:
``latex.py`` and ``markdown.py``.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeVar

from fgai_bench.records.frames import LEDGER
from fgai_bench.report.tables.specs import Column, RowKey, Spec
from fgai_bench.statistics.cells import UNIFORM, Cell, cell, null_cell, scale_of, worst
from fgai_bench.statistics.intervals import Comparison
from fgai_bench.statistics.labels import STATUS, TERMS, ordered, terms, title
from fgai_bench.statistics.numbers import counted, written
from fgai_bench.statistics.ranking import Standing, standings
from fgai_bench.statistics.results import Better, Place, Results
from fgai_bench.suites import SUITES
from fgai_bench.suites.schema import TUNED

UNRELIABLE, UNEQUAL_MARK, EXTRAPOLATED, NOT_BETTER = "†", "‡", "*", "°"
SCORES_BY = {"f1": "{score}", "certified_f1": "certified_{score}"}  # columns that hold the score of each dataset
BOLD = " Bold: the rows that no other beats (multiple comparison with the best, paired by seed, 5 %)."
NOT_BETTER_MEANS = "not better than a uniform attention on the same graphs, so it cannot rank first"
ONE_SEED = " One seed gives no interval, so nothing is bold."
HEAD_TITLES: dict[RowKey, tuple[str, ...]] = {
    "dataset": ("Dataset",),
    "model": ("Model",),
    "label": ("Method",),
    "method": ("Method",),
    "terms": tuple(term.capitalize() for term in TERMS),
}


@dataclass(frozen=True)
class Shown:
    """A cell as a table shows it, with what is behind it."""

    text: str  # plain text; renderers translate its signs
    bold: bool = False  # best, or not to be told from it
    underline: bool = False  # a magnitude whose value was positive
    mean: float = math.nan
    std: float = math.nan
    n: int = 0
    status: str = "ok"
    reason: str = ""
    rank: int | None = None


@dataclass(frozen=True)
class TableRow:
    """Texts that say which row it is, and its cells."""

    heads: tuple[str, ...]
    cells: tuple[Shown, ...]


@dataclass(frozen=True)
class Table:
    """What a renderer needs."""

    name: str
    caption: str
    heads: tuple[str, ...]  # titles of the leading columns; equal texts below each other are drawn once
    columns: tuple[tuple[str, ...], ...]  # each a path of headings from the outermost to its own
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...] = ()
    merged: int = 1  # how many leading columns are merged downwards

    def narrowed(self, places: Sequence[int]) -> Table:
        """Return the table with the columns at these places only."""
        rows = tuple(replace(row, cells=tuple(row.cells[i] for i in places)) for row in self.rows)
        return replace(self, columns=tuple(self.columns[i] for i in places), rows=rows)


class GridLine(NamedTuple):
    """One row before it is filled; the dataset is empty where datasets are spread."""

    dataset: str
    model: str
    label: str


Names = TypeVar("Names", GridLine, Place)


def suite_for(spec: Spec, results: Results) -> str | None:
    """Return the suite that a table is made from: the first that it names, else one of the user's own."""
    wanted = {"task": spec.task, **({"kind": spec.needs} if spec.needs else {})}
    held = results.names("suite", **wanted)
    named = [suite for suite in spec.suites if suite in held]
    if not spec.suites:  # a table of what suites ask for themselves: the first that measured any of it
        metrics = {column.metric for column in spec.columns}
        return next((suite for suite in held if _has(results, suite, spec.task, metrics)), None)
    own = [suite for suite in held if not (suite in SUITES and SUITES.entry(suite).ours)] if spec.custom else []
    return next(iter([*named, *own]), None)


def _has(results: Results, suite: str, task: str, metrics: set[str]) -> bool:
    places = results.select(suite=suite, task=task)
    return any(metrics & measured.values.keys() for _, seeds in places for measured in seeds.values())


def build(spec: Spec, results: Results) -> Table | None:
    """Return the table, or None where the run has nothing for it."""
    suite = suite_for(spec, results)
    return None if suite is None else _Grid(spec, results, suite).table()


class _Grid:
    """A table while it is filled."""

    def __init__(self, spec: Spec, results: Results, suite: str) -> None:
        self.spec, self.results, self.suite = spec, results, suite
        datasets = ordered(results.names("dataset", suite=suite, task=spec.task))
        self._score = partial(results.score, spec.task)
        self.scores = list(dict.fromkeys(map(self._score, datasets)))
        attacks = results.names("attack", suite=suite, kind="attack", task=spec.task)
        self.attack = "injection" if "injection" in attacks else next(iter(attacks), "")
        self.lines = in_paper_order(
            GridLine("" if spec.spread else place.dataset, place.model, place.label)
            for place, _ in results.select(suite=suite, task=spec.task)
        )
        self.columns = [
            (dataset, column)
            for group in dict.fromkeys(column.group for column in spec.columns)
            for dataset in (datasets if spec.spread else [""])
            for column in spec.columns
            if column.group == group
        ]

    def table(self) -> Table | None:
        cells = {
            (line, i): self._cell(line, dataset, column)
            for line in self.lines
            for i, (dataset, column) in enumerate(self.columns)
        }
        if all(row.status == "absent" for row in cells.values()):
            return None
        shown = [
            i
            for i in range(len(self.columns))
            if not self.spec.optional or any(cells[line, i].status != "absent" for line in self.lines)
        ]
        rows: list[TableRow] = []
        standing: dict[Hashable, Standing] = {}
        for _, group in itertools.groupby(self.lines, key=lambda line: line[:2]):
            lines = list(group)
            for i in shown:
                column = self.columns[i][1]
                rivals: dict[Hashable, Cell] = {(line, i): _compared(cells[line, i], column) for line in lines}
                standing |= {} if self.spec.since else standings(rivals, column.better)
            rows += [self._row(line, {i: cells[line, i] for i in shown}, standing) for line in lines]
            nulls = {i: null_cell(cells[line, i] for line in lines) for i in shown}
            if any(null.values for null in nulls.values()):
                rows.append(self._row(lines[0]._replace(label=UNIFORM), nulls, {}))
        used = [cells[line, i] for line in self.lines for i in shown]
        ranked = any(column.better != "none" for _, column in self.columns)
        return Table(
            self.spec.name,
            f"{self._caption()} {source(self.results, self.suite, used, ranked)}",
            tuple(text for key in self.spec.rows for text in HEAD_TITLES[key]),
            tuple(self._path(*self.columns[i]) for i in shown),
            tuple(rows),
            notes(used, standing.values()),
            max(1, len([key for key in self.spec.rows if key in ("dataset", "model")])),
        )

    def _cell(self, line: GridLine, dataset: str, column: Column) -> Cell:
        where = (self.suite, column.kind, self.spec.task, dataset or line.dataset, line.model, line.label)
        attacks = column.attacks or (self.attack if column.kind == "attack" else "",)
        metric = SCORES_BY.get(column.metric, column.metric).format(score=self._score(dataset or line.dataset))
        attacked = [cell(self.results, Place(*where, attack), metric) for attack in attacks]
        return attacked[0] if len(attacked) == 1 else worst(attacked, column.better)

    def _row(self, line: GridLine, cells: Mapping[int, Cell], standing: Mapping[Hashable, Standing]) -> TableRow:
        heads = tuple(text for key in self.spec.rows for text in self._head(line, key))
        shown = {i: show(row, self.columns[i][1], standing.get((line, i), Standing())) for i, row in cells.items()}
        start = line._replace(label=f"{line.label.partition('/')[0]}/{self.spec.since}") if self.spec.since else line
        if start != line:
            for i, row in cells.items():
                before = self._cell(start, *self.columns[i])
                shown[i] = with_change(shown[i], Comparison.of(row.values, before.values, scale_of(row.metric)))
        return TableRow(heads, tuple(shown.values()))

    def _head(self, line: GridLine, key: RowKey) -> tuple[str, ...]:
        tuned = TUNED if "terms" in self.spec.rows and line.label.endswith(TUNED) else ""
        if key == "terms":
            own = line.label.removesuffix(tuned)
            on = terms(own)
            return (title(own), "", "") if on is None else tuple("✓" if is_on else "" for is_on in on)
        if key == "model":
            return (title(line.model) + tuned,)
        if key == "method":
            return (self._method(line),)
        return (self._title(line.dataset) if key == "dataset" else title(getattr(line, key)),)

    def _caption(self) -> str:
        """Return the first sentence of the caption, in which the scores of the datasets stand for F1."""
        if self.scores == ["f1"]:
            return self.spec.title
        return self.spec.title.replace("Micro-averaged F1", "F1").replace("F1", " or ".join(map(title, self.scores)))

    def _title(self, dataset: str) -> str:
        """Return a dataset as tables write it, with its score where a column holds several."""
        mixed = len(self.scores) > 1 and any(column.metric in SCORES_BY for column in self.spec.columns)
        return f"{title(dataset)}{f' ({title(self._score(dataset))})' if mixed and not self.spec.spread else ''}"

    def _heading(self, dataset: str, column: Column) -> str:
        """Return the heading of a column: the score of its dataset, or of all of them, stands for F1."""
        scores = [self._score(dataset)] if dataset else self.scores
        if column.metric not in SCORES_BY:
            return column.title
        return column.title.replace("F1", title(scores[0]) if len(scores) == 1 else "score")

    def _method(self, line: GridLine) -> str:
        """Return the name of a method, as ``GAT+FGAI``; a defense that brings its own model goes by its own name."""
        if self.results.replaces_model(line.label):
            return title(line.label)
        return title(line.model) if line.label == "vanilla" else f"{title(line.model)}+{title(line.label)}"

    def _path(self, dataset: str, column: Column) -> tuple[str, ...]:
        parts = (column.group, self._title(dataset) if dataset else "", self._heading(dataset, column))
        return tuple(part for part in parts if part)


def in_paper_order(places: Iterable[Names]) -> list[Names]:
    """Return each place once, in the paper's order of datasets, models and methods."""
    listed = list(dict.fromkeys(places))
    orders = {key: ordered(getattr(place, key) for place in listed) for key in ("dataset", "model", "label")}
    return sorted(listed, key=lambda place: [order.index(getattr(place, key)) for key, order in orders.items()])


def _compared(row: Cell, column: Column) -> Cell:
    if not column.flat:
        return row
    return replace(row, values={seed: abs(value) for seed, value in row.values.items()})


def show(row: Cell, column: Column, standing: Standing | None = None) -> Shown:
    """Return a cell as text: mean and spread, what is missing by its type, marks for what to be wary of."""
    standing = standing or Standing()
    positive = column.magnitude and row.mean > 0
    text = written(abs(row.mean) if column.magnitude else row.mean, row.std, column.style) if row.values else ""
    if row.status != "ok":
        total = len(row.values) + len(row.gaps)
        text = f"{text} ({STATUS[row.status]} {len(row.gaps)}/{total})" if row.values else STATUS[row.status]
    text += (UNRELIABLE if row.unreliable else "") + (UNEQUAL_MARK if standing.unequal else "")
    text += NOT_BETTER if standing.beats_null is False else ""
    text += EXTRAPOLATED if _extrapolated(row) else ""
    return Shown(
        text, standing.bold, positive, row.mean, row.std, len(row.values), row.status, row.reason, standing.rank
    )


def with_change(shown: Shown, comparison: Comparison) -> Shown:
    """Return a cell with its change from another row, bold where it is shown: a difference, a ratio of divergences."""
    form = "x{:.2f} [{:.2f}, {:.2f}]" if comparison.is_ratio else "{:+.3f} [{:+.3f}, {:+.3f}]"
    bounds = comparison.bounds
    text = f"{shown.text}, {form.format(comparison.value, *bounds)}" if bounds else shown.text
    return replace(shown, text=text, bold=comparison.side != 0)


def no_value(reason: str) -> Shown:
    """Return a cell without a value, and why."""
    return Shown("--", status="absent", reason=reason)


def show_difference(comparison: Comparison | None, better: Better, ending: str = "") -> Shown:
    """Return the comparison with a null on the metric's scale: bold where it is shown, marked where not better."""
    if comparison is None or not comparison.differences:
        return no_value("no null was measured")
    centre, bounds = comparison.difference_on_scale, comparison.bounds_on_scale
    if bounds is None:
        return Shown(written(centre) + ending, mean=centre, n=1)
    is_better = comparison.side == (1 if better == "higher" else -1)
    low, high = map(written, bounds)
    text = f"{written(centre)} [{low}, {high}]{'' if is_better else NOT_BETTER}{ending}"
    return Shown(text, comparison.side != 0, mean=centre, n=len(comparison.differences))


def _extrapolated(row: Cell) -> str:
    """Say from how many epochs the seconds of a training were extrapolated, if they were; memory never is."""
    timed = row.metric.endswith("seconds") and row.values
    return next((flag for flag in row.flags if flag.startswith("extrapolated")), "") if timed else ""


def sourced(table: Table, results: Results, suite: str, cells: Sequence[Cell]) -> Table:
    """Return a table with a caption that ends with where its cells come from, and with the notes on them."""
    caption = f"{table.caption} {source(results, suite, cells)}"
    return replace(table, caption=caption, notes=(*table.notes, *notes(cells, ())))


def source(results: Results, suite: str, cells: Sequence[Cell], ranked: bool = False) -> str:
    """Say where the cells come from: suite, seeds, what the attacks spent, commit."""
    seeds = sorted({seed for row in cells for seed in (*row.values, *(gap.seed for gap in row.gaps))})
    number = f"{counted(len(seeds), 'seed')} ({', '.join(map(str, seeds))})"
    rule = BOLD if len(seeds) > 1 else ONE_SEED
    return f"Suite {results.title(suite)}, {number}{spent(cells)}; {results.version_of(suite)}.{rule if ranked else ''}"


def spent(cells: Iterable[Cell]) -> str:
    """Say what all attacks together spent, as ranges.

    >>> ledgers = [{"nodes": 20.0, "edges": 400.0}, {"nodes": 20.0, "edges": 398.0}]
    >>> spent([Cell(None, "f1", budgets={seed: ("", ledger) for seed, ledger in enumerate(ledgers)})])
    '; spent: 20 nodes, 398-400 edges'
    """
    words = {name: name.replace("_", " ") for name in LEDGER if name != "feature_change"}
    ledgers = [ledger for row in cells for _, ledger in row.budgets.values() if ledger]
    parts = []
    for key, word in words.items():
        values = [ledger[key] for ledger in ledgers if key in ledger]
        if values and max(values) > 0:
            low, high = f"{min(values):.4g}", f"{max(values):.4g}"
            parts.append(f"{low} {word}" if low == high else f"{low}-{high} {word}")
    return f"; spent: {', '.join(parts)}" if parts else ""


def notes(cells: Iterable[Cell], standing: Iterable[Standing]) -> tuple[str, ...]:
    """Return one line per kind of gap and per mark, with the number of cells.

    >>> flags = (f"unreliable: it falls by {by}" for by in (0.02, 0.15))
    >>> notes([Cell(None, "f1", {0: 0.5}, flags=(flag,)) for flag in flags], ())
    ('† unreliable: it falls (2 cells)',)
    """
    texts: Counter[str] = Counter()
    for row in cells:
        texts.update(dict.fromkeys(f"{STATUS[gap.status]}: {gap.reason}" for gap in row.gaps).keys())
        reasons = (re.sub(r" by [\d.]+$", "", flag) for flag in row.flags if flag.startswith("unreliable"))
        texts.update(f"{UNRELIABLE} {reason}" for reason in reasons if row.values)
        texts.update(f"{EXTRAPOLATED} {flag}" for flag in [_extrapolated(row)] if flag)
    for compared in standing:
        texts[f"{UNEQUAL_MARK} unequal budget or search: shown, never ranked"] += compared.unequal
        texts[f"{NOT_BETTER} {NOT_BETTER_MEANS}"] += compared.beats_null is False
    return tuple(f"{text} ({counted(number, 'cell')})" for text, number in sorted((+texts).items()))
