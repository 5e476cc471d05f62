"""How much of the published gap comes from the budget: FGAI beside the vanilla model under one budget and under two.

The released configurations attack FGAI with a smaller budget than the methods it is compared with. The suite
``published-budgets`` does the same to the models of ``node``. Its results are ranked nowhere; they stand only here,
beside those under the equal budget.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fgai_bench.report.cells import Cell, Standing, cell
from fgai_bench.report.labels import ordered, title
from fgai_bench.report.numbers import written
from fgai_bench.report.results import Place, Results
from fgai_bench.report.statistics import interval, mean
from fgai_bench.report.tables.build import Row, Shown, Table, notes, show, source
from fgai_bench.report.tables.specs import Column

NAME = "budgets"
EQUAL, UNEQUAL = "node", "published-budgets"
BEFORE, AFTER = "vanilla", "fgai"
MEASURES = (
    Column("F1 attacked↑", "f1", "attack"),
    Column("g-JSD↓", "g_jsd", "attack", style="scientific"),
    Column("g-TVD↓", "g_tvd", "attack"),
)
GROUPS = {EQUAL: "Equal budget", UNEQUAL: "Unequal published budgets"}
COLUMNS = (
    *((words, name) for words in GROUPS.values() for name in (title(BEFORE), title(AFTER), "gap")),
    ("Of the gap", "due to the budget"),
)


@dataclass(frozen=True)
class Pair:
    """One measure of one dataset and model under both budgets; every tuple is (equal, unequal)."""

    measure: Column
    before: tuple[Cell, Cell]
    after: tuple[Cell, Cell]

    @property
    def gaps(self) -> tuple[Cell, Cell]:
        """FGAI minus vanilla, seed by seed."""
        equal, unequal = (difference(one, other) for one, other in zip(self.after, self.before, strict=True))
        return equal, unequal

    @property
    def due(self) -> Cell:
        """What the unequal budgets add to the gap."""
        return difference(self.gaps[1], self.gaps[0])


def difference(one: Cell, other: Cell) -> Cell:
    """The paired difference of two cells; a seed that either of them lacks is a gap.

    >>> difference(Cell(None, "f1", {0: 0.75, 1: 0.5}), Cell(None, "f1", {0: 0.5})).values
    {0: 0.25}
    """
    shared = sorted(one.values.keys() & other.values.keys())
    gaps = {gap.seed: gap for gap in (*other.gaps, *one.gaps)}
    return Cell(
        None, one.metric, {seed: one.values[seed] - other.values[seed] for seed in shared}, tuple(gaps.values())
    )


def budget_table(results: Results) -> Table | None:
    """The table, or None where nothing was attacked with the published budgets."""
    places = [place for place, _ in results.select(suite=UNEQUAL, kind="attack", attack="injection")]
    if not places:
        return None
    rows, pairs = [], []
    for dataset in ordered(place.dataset for place in places):
        for model in ordered(place.model for place in places):
            for measure in MEASURES:
                pair = _pair(results, dataset, model, measure)
                pairs.append(pair)
                rows.append(Row((title(dataset), title(model), measure.title), _shown(pair)))
    cells = [one for pair in pairs for one in (*pair.before, *pair.after)]
    caption = (
        "How much of the gap between FGAI and the vanilla model comes from the budget: attacked alike, and attacked "
        "with the unequal published budgets, under which FGAI faces fewer edges and smaller steps. Gaps are paired; "
        "the last column has the interval of what the unequal budgets add. Never ranked. "
        f"{_source(results, cells)}"
    )
    said = [sentence for measure in MEASURES if (sentence := _summary(measure, pairs))]
    return Table(NAME, caption, ("Dataset", "Model", "Measure"), COLUMNS, tuple(rows), (*said, *notes(cells, ())), 2)


def _pair(results: Results, dataset: str, model: str, measure: Column) -> Pair:
    def of(label: str) -> tuple[Cell, Cell]:
        where = ("attack", "node", dataset, model, label, "injection")
        equal, unequal = (cell(results, Place(suite, *where), measure.metric) for suite in GROUPS)
        return equal, unequal

    return Pair(measure, of(BEFORE), of(AFTER))


def _shown(pair: Pair) -> tuple[Shown, ...]:
    groups = zip(pair.before, pair.after, pair.gaps, strict=True)
    return (*(show(one, Standing(), pair.measure) for group in groups for one in group), _with_bounds(pair))


def _with_bounds(pair: Pair) -> Shown:
    """The part that is due to the budget, with its interval in place of a spread."""
    one, style = pair.due, pair.measure.style
    plain = show(one, Standing(), pair.measure)
    bounds = interval(list(one.values.values()))
    if one.status != "ok" or bounds is None:
        return plain
    middle, low, high = (written(value, math.nan, style) for value in (one.mean, *bounds))
    return Shown(f"{middle} [{low}, {high}]", mean=one.mean, std=one.std, n=len(one.values))


def _source(results: Results, cells: Sequence[Cell]) -> str:
    return source(results, f"{UNEQUAL} beside {EQUAL}", [one for one in cells if one.values or one.gaps])


def _summary(measure: Column, pairs: Sequence[Pair]) -> str:
    """The answer in one sentence: the average over all cells that are complete under both budgets."""
    whole = [pair for pair in pairs if pair.measure == measure and pair.due.status == "ok"]
    if not whole:
        return ""
    equal, unequal = (mean([pair.gaps[i].mean for pair in whole]) for i in (0, 1))
    texts = [written(value, math.nan, measure.style) for value in (unequal, equal, unequal - equal)]
    share = f" ({(unequal - equal) / unequal:.0%})" if unequal * (unequal - equal) > 0 else ""
    return (
        f"{measure.title[:-1]}, mean of {len(whole)} cells: the gap is {texts[0]} under the published budgets and "
        f"{texts[1]} under the equal one, so {texts[2]}{share} of it is due to the budget"
    )
