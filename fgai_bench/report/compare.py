"""Comparison: hold a run against published numbers, cell by cell, with the difference in units of the spread."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fgai_bench.escaping import markdown, markdown_cell
from fgai_bench.records.names import is_changed
from fgai_bench.report.published import Published
from fgai_bench.report.tables.markdown import pipe_table
from fgai_bench.statistics.cells import Cell, cell
from fgai_bench.statistics.intervals import share_interval
from fgai_bench.statistics.labels import STATUS, title
from fgai_bench.statistics.numbers import as_csv, written
from fgai_bench.statistics.results import Place, Results
from fgai_bench.suites.schema import RELEASED

OWN_BUDGETS = "published-budgets"  # the suite in which each method is attacked as the paper attacks it
ROUNDING = 1e-9
SCIENTIFIC = 0.01  # numbers below are written with an exponent
FAR = 10.0  # spreads; what is farther away is not counted


@dataclass(frozen=True)
class Compared:
    """Hold one published number beside ours."""

    number: Published
    measured: Cell  # of the run; empty where the run has no such cell
    suite: str  # where it stands, or the suite to run

    @property
    def difference(self) -> float:
        return self.measured.mean - self.number.mean

    @property
    def spreads(self) -> float:
        """Return the difference in units of the combined spread; NaN unless both sides have one.

        The spread of one side alone says nothing about the other's. Equal values of all seeds leave a spread of
        rounding errors, which is none.
        """
        least = ROUNDING * abs(self.number.mean)
        known = all(spread > least for spread in (self.number.std, self.measured.std))
        return self.difference / math.hypot(self.number.std, self.measured.std) if known else math.nan

    @property
    def result(self) -> str:
        """Return the outcome in words: ``compared``, a typed gap on either side, or the suite to run."""
        if not self.tested:
            return f"not tested: fgai-bench run --suite {self.suite}"
        if not self.measured.values:
            both = self.measured.status == self.number.status
            return f"ours: {STATUS[self.measured.status]}{', as published' if both else ''}"
        return "compared" if self.number.status == "ok" else f"published: {STATUS.get(self.number.status, '--')}"

    @property
    def table(self) -> str:
        """Return the paper's table, and whether ours has the settings of the released program."""
        return self.number.table + RELEASED * self.number.label.endswith(RELEASED)

    @property
    def tested(self) -> bool:
        """Return whether the run has something for this number, if only the reason for a gap."""
        return self.measured.status != "absent"


def compare(results: Results, numbers: Iterable[Published]) -> list[Compared]:
    """Hold a run against published numbers; those of a stand-in dataset only where it was run.

    Rows with the settings of the released program stand behind all others, where the run has them: under one budget,
    else under those that the paper gave them.
    """
    run = set(results.names("dataset"))
    own = [number for number in numbers if not number.stand_in or number.dataset in run]
    released = (_compared(results, _released(number)) for number in own)
    return [*(_compared(results, number) for number in own), *(pair for pair in released if pair.tested)]


def _released(number: Published) -> Published:
    suites = (*number.suites, OWN_BUDGETS) if number.task == "node" else number.suites
    return replace(number, label=number.label + RELEASED, suites=suites)


def _compared(results: Results, number: Published) -> Compared:
    for suite in number.suites:
        place = Place(suite, number.kind, number.task, number.dataset, number.model, number.label, number.attack)
        if results.at(place) and not is_changed(results.title(suite)):
            return Compared(number, cell(results, place, number.ours), suite)
    return Compared(number, Cell(None, number.ours), number.suites[0])


REPRODUCED = ("table", "settings", "budgets", "method", "published scores", "within .02", "within .05")
ALL = "all"  # methods of a table together


def reproduced(results: Results, numbers: Sequence[Published]) -> list[list[str]]:
    """Return which share of the published F1 and ROC-AUC a run reproduces, by table, settings, budgets and method.

    Rows are texts under ``REPRODUCED``; a share has its 95 % interval (Wilson).
    """
    scores = [n for n in numbers if n.ours in ("f1", "roc_auc") and n.status == "ok" and not n.stand_in]
    rows = []
    for settings, ending in {"published": "", "released": RELEASED}.items():
        for budgets, suites in {"equal": (), "published": (OWN_BUDGETS,)}.items():
            wanted = (replace(n, label=n.label + ending, suites=suites or n.suites) for n in scores)
            pairs = [_compared(results, number) for number in wanted]
            pairs = [pair for pair in pairs if pair.measured.values]
            for table in dict.fromkeys(pair.number.table for pair in pairs):
                own = [pair for pair in pairs if pair.number.table == table]
                labels = dict.fromkeys(pair.number.label.removesuffix(RELEASED) for pair in own)
                for method in (ALL, *(labels if "vanilla" in labels else ())):  # else they are parts of one method
                    counted = [p for p in own if method in (ALL, p.number.label.removesuffix(RELEASED))]
                    rows.append([table, settings, budgets, title(method), *_shares(counted)])
    return sorted(rows, key=lambda row: row[0] != "table2")


def _shares(pairs: Sequence[Compared]) -> list[str]:
    away = np.array([abs(pair.difference) for pair in pairs])
    shares = [share_interval([away <= limit]) for limit in (0.02, 0.05)]
    return [str(away.size), *("{:.2f} [{:.2f}, {:.2f}]".format(*share) for share in shares)]


def short_text(mean: float, std: float = math.nan) -> str:
    """Write a number with its spread, short.

    >>> short_text(6.67e-7, 1.9e-7), short_text(0.82)
    ('6.67±1.90E-7', '0.820')
    """
    return written(mean, std, "scientific" if abs(mean) < SCIENTIFIC and mean else "fixed") if mean == mean else "--"


COLUMNS = (
    *("table", "suite", "dataset", "model", "defense", "metric", "published_mean", "published_std"),
    *("published_status", "ours_metric", "ours_mean", "ours_std", "ours_n", "ours_status", "difference"),
    *("difference_in_spreads", "result", "note"),
)


def as_files(comparison: Sequence[Compared], results: Results, shares: Sequence[list[str]] = ()) -> dict[str, str]:
    """Return the text of each file that a comparison is written to, by name; ``shares`` are those reproduced."""
    csv = as_csv([COLUMNS, *map(_fields, comparison)])
    files = {"comparison.csv": csv, "comparison.md": _markdown(comparison, results, shares)}
    return files | ({"comparison_shares.csv": as_csv([REPRODUCED, *shares])} if shares else {})


def _fields(pair: Compared) -> list[Any]:
    number, ours = pair.number, pair.measured
    return [
        *(number.table, pair.suite, number.dataset, number.model, number.label, number.metric),
        *(number.mean, number.std, number.status, number.ours),
        *(ours.mean, ours.std, len(ours.values), ours.status),
        *(pair.difference, pair.spreads, pair.result, number.note),
    ]


HEADINGS = ("table", "dataset", "model", "defense", "metric", "published", "ours", "difference", "in spreads", "result")


def lines(comparison: Iterable[Compared]) -> list[list[str]]:
    """Return the numbers that both sides have something for, as texts under ``HEADINGS``."""
    texts = []
    for pair in (pair for pair in comparison if pair.tested):
        number, ours = pair.number, pair.measured
        mine = short_text(ours.mean, ours.std) if ours.values else STATUS[ours.status]
        theirs = short_text(number.mean, number.std) if number.status == "ok" else STATUS.get(number.status, "--")
        names = [number.table, title(number.dataset), title(number.model), title(number.label), number.metric]
        texts.append([*names, theirs, mine, short_text(pair.difference), spreads_text(pair.spreads), pair.result])
    return texts


def spreads_text(spreads: float) -> str:
    """Write a difference in spreads; far is far.

    >>> spreads_text(-1.25), spreads_text(-444528.5), spreads_text(math.nan)
    ('-1.2', '< -10', '--')
    """
    if spreads != spreads:
        return "--"
    return f"{spreads:+.1f}" if abs(spreads) <= FAR else ("< -" if spreads < 0 else "> ") + f"{FAR:.0f}"


SUMMARY = ("table", "published numbers", "compared", "within 2 spreads", "no spread", "typed gaps", "not tested")


def summary(comparison: Sequence[Compared]) -> list[list[str]]:
    """Return one line per table, as texts under ``SUMMARY``: how many numbers could be compared, and how many agree."""
    rows = []
    for table in dict.fromkeys(pair.table for pair in comparison):
        own = [pair for pair in comparison if pair.table == table]
        compared = [pair for pair in own if pair.result == "compared"]
        near = [pair for pair in compared if abs(pair.spreads) <= 2]
        untold = [pair for pair in compared if pair.spreads != pair.spreads]
        missing = [pair for pair in own if not pair.tested]
        numbers = (len(own), len(compared), len(near), len(untold), len(own) - len(compared) - len(missing))
        rows.append([table, *map(str, numbers), str(len(missing))])
    return rows


def untested(comparison: Sequence[Compared]) -> list[str]:
    """Write a sentence per table on the numbers that were not tested, with the suite to run."""
    counted = Counter((pair.table, pair.result) for pair in comparison if not pair.tested)
    totals = Counter(pair.table for pair in comparison)
    return [
        f"{table}: {count} of {totals[table]} published numbers {result}" for (table, result), count in counted.items()
    ]


def scale_notes(comparison: Iterable[Compared]) -> list[str]:
    """Return the notes on differing scales, every note once."""
    noted = {(pair.number.metric, pair.number.note): None for pair in comparison if pair.number.note}
    return [f"{metric}: {note}" for metric, note in noted]


def _markdown(comparison: Sequence[Compared], results: Results, shares: Sequence[list[str]]) -> str:
    rows = lines(comparison)
    table = pipe_table(map(markdown_cell, row) for row in (HEADINGS, *rows))
    notes = [f"- {markdown(sentence)}" for sentence in [*untested(comparison), *scale_notes(comparison)]]
    head = f"# Run {results.identity} beside the paper\n\n{results.version}."
    kinds = [*pipe_table([SUMMARY, *summary(comparison)]), ""]
    kinds += [*pipe_table([REPRODUCED, *shares]), ""] if shares else []
    return "\n".join([head, "", *kinds, *(table if rows else ["Nothing to compare in this run."]), "", *notes]) + "\n"
