"""From the authors' released program to our settings: what each deviation changes, one at a time.

The suite ``deviations`` labels its rows METHOD/DEVIATION. A row shows its values and the paired change from the row
METHOD/released, so that the choices that matter stand out.
"""

from __future__ import annotations

from dataclasses import replace

from fgai_bench.report.tables.build import Shown, Table, TableRow, in_paper_order, notes, show, source
from fgai_bench.report.tables.specs import F1, F1_ATTACKED, G_JSD, Column
from fgai_bench.statistics.cells import Cell, cell, scale_of
from fgai_bench.statistics.intervals import Comparison
from fgai_bench.statistics.labels import title
from fgai_bench.statistics.results import Place, Results

SUITE, START = "deviations", "released"
COLUMNS = (
    F1,
    replace(F1_ATTACKED, title="F1, published attack↑", attacks=("injection",)),
    replace(F1_ATTACKED, title="F1, worst case↑", attacks=("worst",)),
    replace(G_JSD, title="g-JSD, published attack↓", attacks=("injection",)),
)
CAPTION = (
    "From the released program to our settings, one deviation at a time: values, and the change from the released row, "
    "paired by seed, with its 95 % interval (g-JSD: as a ratio). The published attack has the budgets of the released "
    "configurations, the worst case one budget for all."
)


def deviation_table(results: Results) -> Table | None:
    """Return the table, or None where no deviation was run."""
    places = in_paper_order(place for place, _ in results.select(suite=SUITE, kind="clean"))
    cells = {place: [_cell(results, place, column) for column in COLUMNS] for place in places}
    if not cells:
        return None
    rows = []
    for place, own in cells.items():
        method, deviation = place.label.split("/")
        start = cells.get(place._replace(label=f"{method}/{START}"), own)
        shown = tuple(_shown(*parts) for parts in zip(own, start, COLUMNS, strict=True))
        rows.append(TableRow((title(place.dataset), f"{title(place.model)}+{title(method)}", deviation), shown))
    used = [part for row in cells.values() for part in row]
    heads, columns = ("Dataset", "Method", "Deviation"), tuple((column.title,) for column in COLUMNS)
    return Table(SUITE, f"{CAPTION} {source(results, SUITE, used)}", heads, columns, tuple(rows), notes(used, ()), 2)


def _cell(results: Results, place: Place, column: Column) -> Cell:
    attack = column.attacks[0] if column.attacks else ""
    return cell(results, place._replace(kind=column.kind, attack=attack), column.metric)


def _shown(own: Cell, start: Cell, column: Column) -> Shown:
    """Return a cell with its change: a difference of scores, a ratio of divergences."""
    value, scale = show(own, column), scale_of(column.metric)
    comparison = Comparison.of(own.values, start.values, scale)
    ratio = scale == "log"
    bounds = comparison.ratio_bounds if ratio else comparison.bounds
    if start is own or bounds is None:
        return value
    centre = comparison.ratio if ratio else comparison.difference
    form = "x{:.2f} [{:.2f}, {:.2f}]" if ratio else "{:+.3f} [{:+.3f}, {:+.3f}]"
    return replace(value, text=f"{value.text}, {form.format(centre, *bounds)}")
