"""Tables of nulls: stability beside a uniform attention, F-slopes beside rankings that know nothing of the model.

A uniform attention is nearly perfectly stable and explains nothing; a ranking by degree needs no training. So a value
is shown with its null and with the paired difference from it, and what does not beat its null is marked.
"""

from collections.abc import Iterable, Mapping
from itertools import product

from fgai_bench.report.tables.build import (
    NOT_BETTER,
    Shown,
    Table,
    TableRow,
    in_paper_order,
    show,
    show_difference,
    sourced,
)
from fgai_bench.report.tables.specs import G_JSD, Column
from fgai_bench.statistics.cells import UNEQUAL, Cell, cell, null_of, scale_of
from fgai_bench.statistics.intervals import Comparison
from fgai_bench.statistics.labels import ordered, title
from fgai_bench.statistics.results import Place, Results

STABILITY_COLUMNS = (
    G_JSD,
    Column("node JSD↓", "node_jsd", "attack", better="lower", style="scientific"),
    Column("top-k overlap↑", "topk_overlap", "attack", better="higher"),
)
RELATIVE = {"log": "log ratio", "logit": "log odds ratio", "identity": "difference"}
RANKINGS = ("random", "uniform", "degree", "untrained")
SLOPES = {
    "f_slope_nulls_pos": Column("F+", "f_slope_pos", "clean", better="lower"),
    "f_slope_nulls_neg": Column("F-", "f_slope_neg", "clean", better="lower", flat=True),
}
MARKED = f"Bold: a shown difference (one comparison at a time); {NOT_BETTER} marks what is not shown to be better."


def _places(results: Results, task: str, kind: str, metrics: Iterable[str]) -> list[Place]:
    """Return the places of the first suite of equal budgets in which a step of this kind measured one of the nulls."""
    for suite in ordered(results.names("suite", kind=kind, task=task)):
        measured = [
            place
            for place, seeds in results.select(suite=suite, kind=kind, task=task)
            if any(step.values.keys() & set(metrics) and UNEQUAL not in step.flags for step in seeds.values())
        ]
        if measured:
            attack = "injection" if "injection" in {place.attack for place in measured} else measured[0].attack
            return in_paper_order(place for place in measured if place.attack == attack)
    return []


def stability_table(results: Results, task: str, name: str) -> Table | None:
    """Return the stability of attention beside that of a uniform one, or None where none was measured."""
    places = _places(results, task, "attack", [null_of(column.metric) for column in STABILITY_COLUMNS])
    if not places:
        return None
    rows: dict[Place, list[Shown]] = {place: [] for place in places}
    cells = []
    for place, column in product(places, STABILITY_COLUMNS):
        value = cell(results, place, column.metric)
        null = Cell(None, value.metric, value.null)
        rows[place] += [show(value, column), show(null, column), show_difference(value.relative, column.better)]
        cells.append(value)
    columns = [
        (column.title, part)
        for column in STABILITY_COLUMNS
        for part in ("attention", "uniform", RELATIVE[scale_of(column.metric)])
    ]
    caption = (
        "Stability beside that of a uniform attention, 1/(d+1), on the same clean and attacked graphs, which no "
        "training enters: values, null, and their ratio as a logarithm with its 95 % interval; below 0 is stabler for "
        "divergences, above 0 for shares."
    )
    return sourced(_table(name, caption, columns, rows), results, places[0].suite, cells)


def slope_table(results: Results, name: str) -> Table | None:
    """Return the F-slopes of the attention beside those of rankings, or None where none was measured."""
    column = SLOPES[name]
    places = _places(results, "node", "clean", [f"{column.metric}_{ranking}" for ranking in RANKINGS])
    if not places:
        return None
    rows, cells = {}, []
    for place in places:
        own, *nulls = (
            cell(results, place, column.metric + ending, column.flat) for ending in ("", *(f"_{r}" for r in RANKINGS))
        )
        rows[place] = [show(own, column)]
        for null in nulls:
            comparison = Comparison.of(own.values, null.values, "identity")
            rows[place] += [show(null, column), show_difference(comparison, column.better)]
        cells.append(own)
    columns = [("", "attention"), *((ranking, part) for ranking in RANKINGS for part in ("slope", "difference"))]
    better = "magnitudes, flatter is better" if column.flat else "steeper downwards is better"
    caption = (
        f"{column.title} slopes of the attention on the clean graph ({better}) beside those of four rankings that know "
        "nothing of the trained model: random, uniform (1/d_i), degree (1/sqrt(d_i d_j)) and the attention of an "
        "untrained model; differences are paired, attention minus ranking, with 95 % intervals."
    )
    return sourced(_table(name, caption, columns, rows), results, places[0].suite, cells)


def _table(name: str, caption: str, columns: Iterable[tuple[str, str]], rows: Mapping[Place, Iterable[Shown]]) -> Table:
    filled = tuple(
        TableRow((title(place.dataset), title(place.model), title(place.label)), tuple(shown))
        for place, shown in rows.items()
    )
    return Table(name, f"{caption} {MARKED}", ("Dataset", "Model", "Method"), tuple(columns), filled, merged=2)
