"""What moves a rank: each method's place from the published way of ranking to ours, changed one thing at a time.

The paper orders methods by their means under its own attack, each with its published settings. From there the table
goes in three steps: intervals decide instead of means, the worst case takes the place of the published attack, and
settings that an equal search has chosen take the place of the published ones. The rivals are the same in every step:
the ways to train the model itself, not the networks that a defense may put in its place.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fgai_bench.leaderboard.rows import BOARDS, STANDARD, BoardRow, entries, lowered
from fgai_bench.report.tables.build import Shown, Table, TableRow, no_value, notes, show, source
from fgai_bench.report.tables.specs import F1_ATTACKED
from fgai_bench.statistics.cells import Cell
from fgai_bench.statistics.intervals import mean
from fgai_bench.statistics.labels import ordered, title
from fgai_bench.statistics.numbers import counted
from fgai_bench.statistics.ranking import Standing, standings
from fgai_bench.statistics.results import Results
from fgai_bench.suites.schema import TUNED

NODE = BOARDS[0]
# Stage to the attack and to what is added to the label of a row.
STAGES = {
    "Published attack, published settings": ("injection", ""),
    "Worst case, published settings": (STANDARD, ""),
    "Worst case, tuned settings": (STANDARD, TUNED),
}
STEPS = ("intervals", "attack", "settings")
FIRST, *LATER = STAGES
COLUMNS = (
    *((FIRST, part) for part in ("F1", "place by mean", "rank")),
    *((stage, part) for stage in LATER for part in ("F1", "rank")),
    *(("Change of rank by", step) for step in STEPS),
)


@dataclass(frozen=True)
class RankedMethod:
    """A method of one dataset and model on its way through the stages that were run."""

    heads: tuple[str, str, str]  # dataset, model and method
    cells: tuple[Cell, ...]  # what it keeps in each stage
    by_mean: int  # its place in the order of means in the first stage; 1 has the highest
    ranks: tuple[int | None, ...]  # its rank in each stage; None where it has none

    @property
    def changes(self) -> tuple[int | None, ...]:
        """Return by how much each step moves the rank; positive is down.

        >>> RankedMethod(("", "", ""), (), 2, (1, 3)).changes
        (-1, 2)
        """
        places = pairwise((self.by_mean, *self.ranks))
        return tuple(None if None in pair else pair[1] - pair[0] for pair in places)  # type: ignore[operator]


def rank_table(results: Results) -> Table | None:
    """Return the table of the first suite that has both attacks, or None."""
    listed = [row for row in lowered(NODE, entries(NODE, results)) if not results.replaces_model(row.key.defense)]
    for suite in ordered(row.key.suite for row in listed):
        methods = list(_methods([row for row in listed if row.key.suite == suite]))
        if methods:
            break
    else:
        return None
    cells = [cell for method in methods for cell in method.cells]
    caption = (
        "What moves a rank: F1 and rank under the published attack with the published settings, under the worst case, "
        "and with settings that a search has chosen, among the same ways to train the model; and by how much each step "
        "moves it (positive is down): from the order of the means to ranks of intervals, from the published attack to "
        f"the worst case, from published settings to tuned ones. {source(results, suite, cells)}"
    )
    rows = tuple(TableRow(method.heads, _shown(method)) for method in methods)
    lines = (*_summary(methods), *notes(cells, ()))
    return Table("rank_changes", caption, ("Dataset", "Model", "Method"), COLUMNS, rows, lines, 2)


def _methods(listed: Sequence[BoardRow]) -> Iterator[RankedMethod]:
    """Yield the methods of every dataset and model that were run in the first two stages at least."""
    rows = {row.key[2:]: row for row in listed}
    for dataset in ordered(row.key.dataset for row in listed):
        for model in ordered(row.key.model for row in listed if row.key.dataset == dataset):
            names = ordered(row.key.defense.removesuffix(TUNED) for row in listed if row.key[2:4] == (dataset, model))
            published, worst, tuned = (
                {
                    name: rows[key].cell(NODE.score)
                    for name in names
                    if (key := (dataset, model, name + ending, attack)) in rows
                }
                for attack, ending in STAGES.values()
            )
            if len(published) > 1 and len(worst) > 1:
                stages = [published, worst, *([tuned] if len(tuned) > 1 else [])]
                rivals = [name for name in names if all(name in stage for stage in stages)]
                yield from _ranked(
                    (title(dataset), title(model)), [{name: stage[name] for name in rivals} for stage in stages]
                )


def _ranked(where: tuple[str, str], stages: Sequence[dict[Hashable, Cell]]) -> Iterator[RankedMethod]:
    first = stages[0]
    by_mean = sorted(first, key=lambda name: -first[name].mean)
    standing = [standings(stage, "higher") for stage in stages]
    for name in first:
        cells, ranks = (stage[name] for stage in stages), (stage[name].rank for stage in standing)
        yield RankedMethod((*where, title(str(name))), tuple(cells), 1 + by_mean.index(name), tuple(ranks))


def _shown(method: RankedMethod) -> tuple[Shown, ...]:
    lacking = len(STAGES) - len(method.cells)
    first, *later = (
        (show(cell, F1_ATTACKED, Standing(rank=rank)), _number(rank))
        for cell, rank in zip(method.cells, method.ranks, strict=True)
    )
    parts = [first[0], _number(method.by_mean), first[1], *(part for stage in later for part in stage)]
    unsearched = no_value("no settings were searched")
    return (
        *parts,
        *[unsearched] * (2 * lacking),
        *(_number(change, sign="+") for change in method.changes),
        *[unsearched] * lacking,
    )


def _number(value: int | None, sign: str = "") -> Shown:
    if value is None:
        return no_value("not ranked: a seed has no value, or budgets differ")
    return Shown(f"{value:{sign}d}" if value else "0", mean=float(value), n=1)


def _summary(methods: Sequence[RankedMethod]) -> Iterator[str]:
    """Say of each method by how much the steps move its rank, on average over the cells that have all of them.

    So the steps of a method add up: a cell without searched settings is left out where others have them.
    """
    taken = max(len(method.changes) for method in methods)
    for name in dict.fromkeys(method.heads[2] for method in methods):
        whole = [
            [float(change) for change in method.changes if change is not None]
            for method in methods
            if method.heads[2] == name and len(method.changes) == taken and None not in method.changes
        ]
        if whole:
            moved = zip(STEPS, zip(*whole, strict=True), strict=False)
            parts = [f"{mean(changes):+.1f} by {step}" for step, changes in moved]
            yield f"{name} moves on average {', '.join(parts)} ({counted(len(whole), 'cell')})"
