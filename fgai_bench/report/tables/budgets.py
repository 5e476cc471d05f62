"""How much of the published gap comes from the budget: FGAI beside the vanilla model under equal and unequal budgets.

The released configurations attack FGAI with a smaller budget than the methods it is compared with. The suite
``published-budgets`` does the same to the models of ``node``. Its results are ranked nowhere; they stand only here,
beside those under equal budgets. Budgets can be made equal in two orders, at the small one (``node``) or at the large
one (``large-budget``), and the share of the gap that vanishes depends on the order; its Shapley value is their mean.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from fgai_bench.report.tables.build import Shown, Table, TableRow, no_value, show, sourced
from fgai_bench.report.tables.specs import Column
from fgai_bench.statistics.cells import Cell, cell
from fgai_bench.statistics.intervals import paired
from fgai_bench.statistics.labels import ordered, title
from fgai_bench.statistics.results import Place, Results

SMALL_BUDGET, UNEQUAL_BUDGETS, LARGE_BUDGET = "node", "published-budgets", "large-budget"
STAND_IN = ("stress", "budget-40")  # 40 nodes of 20 edges: as many edges as the large budget's 20 nodes of 40
STAND_IN_NOTE = (
    f"the large budget is {STAND_IN[1]} of the suite {STAND_IN[0]}, 40 nodes of 20 edges, which stands in for 20 nodes "
    f"of 40 and was run for one model only; `fgai-bench run --suite {LARGE_BUDGET}` gives every cell"
)
BEFORE, AFTER = "vanilla", "fgai"
MEASURES = (
    Column("F1 attacked↑", "f1", "attack"),
    Column("g-JSD↓", "g_jsd", "attack", style="scientific"),
    Column("g-TVD↓", "g_tvd", "attack"),
)
GROUPS = {
    SMALL_BUDGET: "Equal budget, small",
    UNEQUAL_BUDGETS: "Unequal published budgets",
    LARGE_BUDGET: "Equal budget, large",
}
SHARES = ("equal at the small", "equal at the large", "Shapley mean")
COLUMNS = (
    *((words, name) for words in GROUPS.values() for name in (title(BEFORE), title(AFTER), "gap")),
    *(("Share of the gap", words) for words in SHARES),
)


@dataclass(frozen=True)
class BudgetGap:
    """One measure of one dataset and model under the three budgets."""

    measure: Column
    before: Mapping[str, Cell]  # before, after: suite of the budget to the cell of the vanilla model and of FGAI
    after: Mapping[str, Cell]
    stand_in: bool = False  # whether the large budget is that of another suite with as many edges

    def of(self, budget: str) -> Cell:
        """Return FGAI minus vanilla under a budget, seed by seed."""
        return difference(self.after[budget], self.before[budget])

    def share(self, equal: str) -> float:
        """Return the share of the published gap that vanishes when all have this budget; NaN if it is not known."""
        published, same = self.of(UNEQUAL_BUDGETS), self.of(equal)
        whole = all(gap.status == "ok" and gap.values for gap in (published, same))
        return 1 - same.mean / published.mean if whole and published.mean else math.nan

    @property
    def shares(self) -> tuple[float, float, float]:
        """Return the share in both orders, and the mean of the two, which is its Shapley value."""
        small, large = self.share(SMALL_BUDGET), self.share(LARGE_BUDGET)
        return small, large, (small + large) / 2


def difference(row: Cell, other: Cell) -> Cell:
    """Return the paired difference of two cells; a seed that either of them lacks is a gap.

    >>> difference(Cell(None, "f1", {0: 0.75, 1: 0.5}), Cell(None, "f1", {0: 0.5})).values
    {0: 0.25}
    """
    gaps = {gap.seed: gap for gap in (*other.gaps, *row.gaps)}
    return Cell(None, row.metric, paired(row.values, other.values), tuple(gaps.values()))


def budget_table(results: Results) -> Table | None:
    """Return the table, or None where nothing was attacked with the published budgets."""
    places = [place for place, _ in results.select(suite=UNEQUAL_BUDGETS, kind="attack", attack="injection")]
    if not places:
        return None
    by_heads = {
        (title(dataset), title(model), measure.title): _gap(results, dataset, model, measure)
        for dataset in ordered(place.dataset for place in places)
        for model in ordered(place.model for place in places)
        for measure in MEASURES
    }
    rows = [TableRow(heads, _shown(gap)) for heads, gap in by_heads.items()]
    gaps = list(by_heads.values())
    cells = [row for gap in gaps for side in (gap.before, gap.after) for row in side.values()]
    caption = (
        "How much of the gap between FGAI and the vanilla model comes from the budget: attacked alike, and attacked "
        "with the unequal published budgets, under which FGAI faces fewer edges and smaller steps. Gaps are paired; "
        "shares of the mean gap are due to the budget, in both orders of making budgets equal. Never ranked."
    )
    notes = (STAND_IN_NOTE,) if any(gap.stand_in for gap in gaps) else ()
    table = Table("budgets", caption, ("Dataset", "Model", "Measure"), COLUMNS, tuple(rows), notes, merged=2)
    return sourced(table, results, f"{UNEQUAL_BUDGETS} beside {SMALL_BUDGET}", cells)


def _gap(results: Results, dataset: str, model: str, measure: Column) -> BudgetGap:
    """Read one measure under the three budgets, on the seeds of the unequal one: ``node`` may have more."""

    def place(suite: str, label: str, attack: str) -> Place:
        return Place(suite, "attack", "node", dataset, model, label, attack)

    measured = any(results.select(suite=LARGE_BUDGET, kind="attack", dataset=dataset, model=model))
    where = {
        SMALL_BUDGET: (SMALL_BUDGET, "injection"),
        UNEQUAL_BUDGETS: (UNEQUAL_BUDGETS, "injection"),
        LARGE_BUDGET: (LARGE_BUDGET, "injection") if measured else STAND_IN,
    }
    seeds = {seed for label in (BEFORE, AFTER) for seed in results.at(place(UNEQUAL_BUDGETS, label, "injection"))}
    before, after = (
        {
            budget: cell(results, place(suite, label, attack), measure.metric, only=seeds)
            for budget, (suite, attack) in where.items()
        }
        for label in (BEFORE, AFTER)
    )
    return BudgetGap(measure, before, after, stand_in=not measured and bool(after[LARGE_BUDGET].values))


def _shown(gap: BudgetGap) -> tuple[Shown, ...]:
    groups = [part for budget in GROUPS for part in (gap.before[budget], gap.after[budget], gap.of(budget))]
    return (*(show(part, gap.measure) for part in groups), *map(_share, gap.shares))


def _share(share: float) -> Shown:
    if math.isnan(share):
        return no_value("not attacked with this budget")
    return Shown(f"{share:.0%}", mean=share, n=1)
