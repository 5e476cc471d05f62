"""Comparison: ours beside the published number, cell by cell, with the difference in units of the spread."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fgai_bench.report.cells import Cell, cell
from fgai_bench.report.frames import Place, Results
from fgai_bench.report.numbers import written
from fgai_bench.report.published import Published, published
from fgai_bench.report.words import STATUS, title

ROUNDING = 1e-9
SCIENTIFIC = 0.01  # numbers below are written with an exponent


@dataclass(frozen=True)
class Compared:
    """One published number beside ours.

    Attributes:
        found: the cell of the run; None where the run has no such cell.
        suite: where it stands, or the suite to run.
    """

    number: Published
    found: Cell | None
    suite: str

    @property
    def difference(self) -> float:
        """Ours minus published."""
        return self.found.mean - self.number.mean if self.found is not None else math.nan

    @property
    def spreads(self) -> float:
        """The difference in units of the combined spread; NaN where neither side has one."""
        stds = [self.number.std, self.found.std if self.found is not None else math.nan]
        spread = math.sqrt(math.fsum(std * std for std in stds if std == std))
        # Equal values of all seeds leave a spread of rounding errors, which is none.
        return self.difference / spread if spread > ROUNDING * abs(self.number.mean) else math.nan

    @property
    def said(self) -> str:
        """What came of it: ``compared``, a typed gap on either side, or what to run."""
        if self.found is None or self.found.status == "absent":
            return f"not tested: fgai-bench run --suite {self.suite}"
        if not self.found.values:
            both = self.found.status == self.number.status
            return f"ours: {STATUS[self.found.status]}{', as published' if both else ''}"
        return "compared" if self.number.status == "ok" else f"published: {STATUS.get(self.number.status, '--')}"


def compare(results: Results) -> list[Compared]:
    """Every published number that the run could have; a stand-in dataset only where it was run."""
    run = set(results.names("dataset"))
    found = [_compared(results, number) for number in published()]
    return [one for one in found if one.number.dataset != "arxiv-topology" or one.number.dataset in run]


def _compared(results: Results, number: Published) -> Compared:
    attacks = ("injection",) if number.kind == "attack" else ("",)
    for suite in number.suites:
        for attack in attacks:
            place = Place(suite, number.kind, number.task, number.dataset, number.model, number.label, attack)
            if results.at(place):
                return Compared(number, cell(results, place, number.ours), suite)
    return Compared(number, None, number.suites[0])


def number_text(mean: float, std: float) -> str:
    """A number with its spread, short.

    >>> number_text(6.67e-7, 1.9e-7), number_text(0.82, math.nan)
    ('6.67±1.90E-7', '0.820')
    """
    return written(mean, std, "scientific" if abs(mean) < SCIENTIFIC and mean else "fixed") if mean == mean else "--"


COLUMNS = (
    *("table", "suite", "dataset", "model", "defense", "metric", "published_mean", "published_std"),
    *("published_status", "ours_metric", "ours_mean", "ours_std", "ours_n", "ours_status", "difference"),
    *("difference_in_spreads", "result", "note"),
)


def to_csv(found: Iterable[Compared]) -> str:
    """One line per published number."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for one in found:
        number, ours = one.number, one.found
        mine = [ours.mean, ours.std, len(ours.values), ours.status] if ours else [math.nan, math.nan, 0, "absent"]
        row = [
            *(number.table, one.suite, number.dataset, number.model, number.label, number.metric),
            *(number.mean, number.std, number.status, number.ours, *mine),
            *(one.difference, one.spreads, one.said, number.note),
        ]
        writer.writerow(["" if value != value else value for value in row])
    return out.getvalue()


HEADINGS = ("table", "dataset", "model", "defense", "metric", "published", "ours", "difference", "in spreads", "result")


def lines(found: Iterable[Compared]) -> list[list[str]]:
    """The numbers that both sides have something for, as texts under ``HEADINGS``."""
    return [_line(one) for one in found if not one.said.startswith("not tested")]


def _line(one: Compared) -> list[str]:
    number, ours = one.number, one.found
    assert ours is not None  # what is not tested has no line
    mine = number_text(ours.mean, ours.std) if ours.values else STATUS[ours.status]
    theirs = number_text(number.mean, number.std) if number.status == "ok" else STATUS.get(number.status, "--")
    spreads = f"{one.spreads:+.1f}" if one.spreads == one.spreads else "--"
    difference = number_text(one.difference, math.nan)
    names = [number.table, title(number.dataset), title(number.model), title(number.label), number.metric]
    return [*names, theirs, mine, difference, spreads, one.said]


def untested(found: Sequence[Compared]) -> list[str]:
    """One sentence per table on what was not tested, with the suite to run."""
    counted = Counter((one.number.table, one.said) for one in found if one.said.startswith("not tested"))
    totals = Counter(one.number.table for one in found)
    return [
        f"{table}: {number} of {totals[table]} published numbers {said}" for (table, said), number in counted.items()
    ]


def scale_notes(found: Iterable[Compared]) -> list[str]:
    """Where scales differ, each said once."""
    noted = {(one.number.metric, one.number.note): None for one in found if one.number.note}
    return [f"{metric}: {note}" for metric, note in noted]


def to_markdown(found: Sequence[Compared], results: Results) -> str:
    """The comparison as a page."""
    table = [HEADINGS, ["---"] * len(HEADINGS), *lines(found)]
    body = ["| " + " | ".join(row) + " |" for row in table] if len(table) > 2 else ["Nothing to compare in this run."]
    notes = [f"- {sentence}" for sentence in [*untested(found), *scale_notes(found)]]
    head = f"# Run {results.identity} beside the paper\n\n{results.version}."
    return "\n".join([head, "", *body, "", *notes]) + "\n"
