"""Tables: from a specification and the results of a run to rows of shown cells. Rendering is another matter."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace

from fgai_bench.records.frames import LEDGER
from fgai_bench.report.numbers import written
from fgai_bench.report.tables.specs import Column, RowKey, Spec
from fgai_bench.statistics.labels import STATUS, TERMS, ordered, terms, title
from fgai_bench.statistics.ranking import UNIFORM, Cell, Standing, cell, null_cell, standings, worst
from fgai_bench.statistics.results import Place, Results
from fgai_bench.suites import SUITES
from fgai_bench.suites.schema import TUNED

UNRELIABLE, UNEQUAL_MARK, EXTRAPOLATED, NOT_BETTER = "†", "‡", "*", "°"
BOLD = " Bold: the rows that no other beats (multiple comparison with the best, paired by seed, 5 %)."
NOT_BETTER_MEANS = "not better than a uniform attention on the same graphs, so it cannot rank first"
ONE_SEED = " One seed gives no interval, so nothing is bold."
HEADS: dict[RowKey, tuple[str, ...]] = {
    "dataset": ("Dataset",),
    "model": ("Model",),
    "label": ("Method",),
    "method": ("Method",),
    "terms": tuple(term.capitalize() for term in TERMS),
}


@dataclass(frozen=True)
class Shown:
    """A cell as a table shows it, with what is behind it.

    Attributes:
        text: plain text; renderers translate its signs.
        bold: best, or not to be told from it.
        underline: a magnitude whose value was positive.
    """

    text: str
    bold: bool = False
    underline: bool = False
    mean: float = math.nan
    std: float = math.nan
    n: int = 0
    status: str = "ok"
    reason: str = ""
    rank: int | None = None


@dataclass(frozen=True)
class Row:
    """Texts that say which row it is, and its cells."""

    heads: tuple[str, ...]
    cells: tuple[Shown, ...]


@dataclass(frozen=True)
class Table:
    """What a renderer needs.

    Attributes:
        heads: titles of the leading columns; equal texts below each other are drawn once.
        columns: each a path of headings from the outermost to its own.
        merged: how many leading columns are merged downwards.
    """

    name: str
    caption: str
    heads: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    merged: int = 1

    def narrowed(self, places: Sequence[int]) -> Table:
        """Return the table with the columns at these places only."""
        rows = tuple(replace(row, cells=tuple(row.cells[i] for i in places)) for row in self.rows)
        return replace(self, columns=tuple(self.columns[i] for i in places), rows=rows)


@dataclass(frozen=True)
class Line:
    """One row before it is filled; the dataset is empty where datasets are spread."""

    dataset: str
    model: str
    label: str


def suite_for(spec: Spec, results: Results) -> str | None:
    """Return the suite that a table is made from: the first that it names, else one of the user's own."""
    wanted = {"task": spec.task, **({"kind": spec.needs} if spec.needs else {})}
    held = results.names("suite", **wanted)
    named = [suite for suite in spec.suites if suite in held]
    if not spec.suites:  # a table of what suites ask for themselves: the first that measured any of it
        metrics = {column.metric for column in spec.columns}
        return next((suite for suite in held if _has(results, suite, spec.task, metrics)), None)
    own = [suite for suite in held if not _is_shipped(suite)] if spec.custom else []
    return next(iter([*named, *own]), None)


def _has(results: Results, suite: str, task: str, metrics: set[str]) -> bool:
    places = results.select(suite=suite, task=task)
    return any(metrics & measured.values.keys() for _, seeds in places for measured in seeds.values())


def _is_shipped(suite: str) -> bool:
    return suite in SUITES and SUITES.entry(suite).ours


def build(spec: Spec, results: Results) -> Table | None:
    """Return the table, or None where the run has nothing for it."""
    suite = suite_for(spec, results)
    if suite is None:
        return None
    return _Grid(spec, results, suite).table()


class _Grid:
    """A table while it is filled."""

    def __init__(self, spec: Spec, results: Results, suite: str) -> None:
        self.spec, self.results, self.suite = spec, results, suite
        self.datasets = ordered(results.names("dataset", suite=suite, task=spec.task))
        self.attack = self._first_attack()
        self.lines = self._lines()
        self.columns = [
            (dataset, column)
            for group in dict.fromkeys(column.group for column in spec.columns)
            for dataset in (self.datasets if spec.spread else [""])
            for column in spec.columns
            if column.group == group
        ]

    def table(self) -> Table | None:
        cells = {
            (line, i): self._cell(line, dataset, column)
            for line in self.lines
            for i, (dataset, column) in enumerate(self.columns)
        }
        shown = [
            i
            for i in range(len(self.columns))
            if not self.spec.optional or any(cells[line, i].status != "absent" for line in self.lines)
        ]
        if not any(row.status != "absent" for row in cells.values()):
            return None
        standing = self._standings(cells, shown)
        nulls = self._nulls(cells, shown)
        rows = [self._row(line, cells | nulls, standing, shown) for line in self._with_nulls(nulls)]
        used = [cells[line, i] for line in self.lines for i in shown]
        return Table(
            self.spec.name,
            f"{self.spec.title} {self._source(used)}",
            tuple(text for key in self.spec.rows for text in HEADS[key]),
            tuple(self._path(*self.columns[i]) for i in shown),
            tuple(rows),
            notes(used, standing.values()),
            max(1, len([key for key in self.spec.rows if key in ("dataset", "model")])),
        )

    def _first_attack(self) -> str:
        labels = self.results.names("attack", suite=self.suite, kind="attack", task=self.spec.task)
        return "injection" if "injection" in labels else next(iter(labels), "")

    def _lines(self) -> list[Line]:
        lines = {
            Line("" if self.spec.spread else place.dataset, place.model, place.label): None
            for place, _ in self.results.select(suite=self.suite, task=self.spec.task)
        }
        orders = [ordered(getattr(line, key) for line in lines) for key in ("dataset", "model", "label")]
        return sorted(
            lines, key=lambda line: [order.index(name) for order, name in zip(orders, astuple(line), strict=True)]
        )

    def _cell(self, line: Line, dataset: str, column: Column) -> Cell:
        where = (self.suite, column.kind, self.spec.task, dataset or line.dataset, line.model, line.label)
        attacks = column.attacks or (self.attack if column.kind in ("attack", "explain") else "",)
        attacked = [cell(self.results, Place(*where, attack, column.explainer), column.metric) for attack in attacks]
        return attacked[0] if len(attacked) == 1 else worst(attacked, column.better)

    def _standings(self, cells: dict[tuple[Line, int], Cell], shown: Sequence[int]) -> dict[Hashable, Standing]:
        """Compare each column within one dataset and model, as magnitudes where the table writes magnitudes."""
        standing: dict[Hashable, Standing] = {}
        for i in shown:
            column = self.columns[i][1]
            for block in dict.fromkeys((line.dataset, line.model) for line in self.lines):
                rivals: dict[Hashable, Cell] = {
                    (line, i): _compared(cells[line, i], column)
                    for line in self.lines
                    if (line.dataset, line.model) == block
                }
                standing |= standings(rivals, column.better)
        return standing

    def _nulls(self, cells: dict[tuple[Line, int], Cell], shown: Sequence[int]) -> dict[tuple[Line, int], Cell]:
        """Return the cells of a uniform attention for every dataset and model where it was measured."""
        null_cells: dict[tuple[Line, int], Cell] = {}
        for block in dict.fromkeys((line.dataset, line.model) for line in self.lines):
            of_block = [line for line in self.lines if (line.dataset, line.model) == block]
            nulls = {i: null_cell(cells[line, i] for line in of_block) for i in shown}
            if any(null.values for null in nulls.values()):
                null_cells |= {(Line(*block, UNIFORM), i): null for i, null in nulls.items()}
        return null_cells

    def _with_nulls(self, nulls: Iterable[tuple[Line, int]]) -> list[Line]:
        """Return the lines of the table, that of the uniform attention last in its dataset and model."""
        known = {(line.dataset, line.model): line for line, _ in nulls}
        lines = []
        for line, following in zip(self.lines, [*self.lines[1:], None], strict=True):
            block = (line.dataset, line.model)
            lines.append(line)
            if block in known and (following is None or (following.dataset, following.model) != block):
                lines.append(known[block])
        return lines

    def _row(
        self,
        line: Line,
        cells: dict[tuple[Line, int], Cell],
        standing: dict[Hashable, Standing],
        indices: Sequence[int],
    ) -> Row:
        heads = tuple(text for key in self.spec.rows for text in self._head(line, key))
        shown = (show(cells[line, i], standing.get((line, i), Standing()), self.columns[i][1]) for i in indices)
        return Row(heads, tuple(shown))

    def _head(self, line: Line, key: RowKey) -> tuple[str, ...]:
        tuned = TUNED if "terms" in self.spec.rows and line.label.endswith(TUNED) else ""
        if key == "terms":
            own = line.label.removesuffix(tuned)
            on = terms(own)
            return (title(own), "", "") if on is None else tuple("✓" if is_on else "" for is_on in on)
        if key == "model":
            return (title(line.model) + tuned,)
        if key == "method":
            return (self._method(line),)
        return (title(getattr(line, key)),)

    def _method(self, line: Line) -> str:
        """Return the name of a method, as ``GAT+FGAI``; a defense that brings its own model goes by its own name."""
        if self.results.replaces_model(line.label):
            return title(line.label)
        return title(line.model) if line.label == "vanilla" else f"{title(line.model)}+{title(line.label)}"

    def _path(self, dataset: str, column: Column) -> tuple[str, ...]:
        return tuple(part for part in (column.group, title(dataset) if dataset else "", column.title) if part)

    def _source(self, cells: Iterable[Cell]) -> str:
        ranked = any(column.better != "none" for _, column in self.columns)
        return source(self.results, self.suite, [row for row in cells if row.values or row.gaps], ranked)


def _compared(row: Cell, column: Column) -> Cell:
    if not column.flat:
        return row
    return replace(row, values={seed: abs(value) for seed, value in row.values.items()})


def show(row: Cell, standing: Standing, column: Column) -> Shown:
    """Return a cell as text: mean and spread, what is missing by its type, marks for what to be wary of."""
    positive = column.magnitude and row.mean > 0
    text = written(abs(row.mean) if column.magnitude else row.mean, row.std, column.style) if row.values else ""
    if row.status != "ok":
        total = len(row.values) + len(row.gaps)
        text = f"{text} ({STATUS[row.status]} {len(row.gaps)}/{total})" if row.values else STATUS[row.status]
    unreliable = any(flag.startswith("unreliable") for flag in row.flags) and bool(row.values)
    text += (UNRELIABLE if unreliable else "") + (UNEQUAL_MARK if standing.unequal else "")
    text += NOT_BETTER if standing.beats_null is False else ""
    text += EXTRAPOLATED if _extrapolated(row) else ""
    return Shown(
        text, standing.bold, positive, row.mean, row.std, len(row.values), row.status, row.reason, standing.rank
    )


def _extrapolated(row: Cell) -> str:
    """Say from how many epochs the seconds of a training were extrapolated, if they were; memory never is."""
    timed = row.metric.endswith("seconds") and row.values
    return next((flag for flag in row.flags if flag.startswith("extrapolated")), "") if timed else ""


def source(results: Results, suite: str, cells: Sequence[Cell], ranked: bool = False) -> str:
    """Say where the cells come from: suite, seeds, what the attacks spent, commit."""
    seeds = sorted({seed for row in cells for seed in (*row.values, *(gap.seed for gap in row.gaps))})
    number = f"{len(seeds)} seed{'s' if len(seeds) != 1 else ''} ({', '.join(map(str, seeds))})"
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
    ('† unreliable: it falls by 0.02 to 0.15 (2 cells)',)
    """
    counted: dict[str, int] = {}
    for row in cells:
        for status, reason in dict.fromkeys((gap.status, gap.reason) for gap in row.gaps):
            text = f"{STATUS[status]}: {reason}"
            counted[text] = counted.get(text, 0) + 1
        for flag in row.flags if row.values else ():
            if flag.startswith("unreliable"):
                counted[f"{UNRELIABLE} {flag}"] = counted.get(f"{UNRELIABLE} {flag}", 0) + 1
        if extrapolated := _extrapolated(row):
            counted[f"{EXTRAPOLATED} {extrapolated}"] = counted.get(f"{EXTRAPOLATED} {extrapolated}", 0) + 1
    compared = list(standing)
    if unequal := sum(row.unequal for row in compared):
        counted[f"{UNEQUAL_MARK} unequal budget or search: shown, never ranked"] = unequal
    if not_better := sum(row.beats_null is False for row in compared):
        counted[f"{NOT_BETTER} {NOT_BETTER_MEANS}"] = not_better
    return tuple(f"{text} ({number} cell{'s' if number != 1 else ''})" for text, number in _as_ranges(counted))


def _as_ranges(counted: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return the lines in order, those that differ in a last number only as one with the range of it."""
    kinds: dict[str, list[tuple[str, int]]] = {}
    for text, number in sorted(counted.items()):
        words, by, last = text.rpartition(" by ")
        is_number = by and last.replace(".", "", 1).isdigit()
        kinds.setdefault(words + by if is_number else text, []).append((last if is_number else "", number))
    lines = []
    for words, found in kinds.items():
        ends = sorted({last for last, _ in found}, key=lambda last: float(last or 0))
        lines.append((words + " to ".join(dict.fromkeys((ends[0], ends[-1]))), sum(number for _, number in found)))
    return lines
