"""What moves a rank: each method's rank under the published attack, under the worst case, and with tuned settings.

The rivals are the same in every stage: the ways to train the model itself, not the networks that a defense may put in
its place. Intervals decide every rank, as in the leaderboards.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence

from fgai_bench.leaderboard.rows import BOARDS, STANDARD, BoardRow, entries, lowered
from fgai_bench.report.tables.build import Shown, Table, TableRow, no_value, show, sourced
from fgai_bench.report.tables.specs import F1_ATTACKED
from fgai_bench.statistics.cells import Cell
from fgai_bench.statistics.labels import ordered, title
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
Cells = dict[Hashable, Cell]


def rank_table(results: Results) -> Table | None:
    """Return the table of the first suite that has both attacks, or None."""
    listed = [row for row in lowered(NODE, entries(NODE, results)) if not results.replaces_model(row.key.defense)]
    for suite in ordered(row.key.suite for row in listed):
        blocks = dict(_blocks([row for row in listed if row.key.suite == suite]))
        if blocks:
            break
    else:
        return None
    rows = [row for place, stages in blocks.items() for row in _rows(place, stages)]
    cells = [cell for stages in blocks.values() for stage in stages for cell in stage.values()]
    caption = (
        "What moves a rank: F1 and rank under the published attack with the published settings, under the worst case, "
        "and there with settings that a search has chosen, among the same ways to train the model."
    )
    columns = tuple((stage, part) for stage in STAGES for part in ("F1", "rank"))
    table = Table("rank_changes", caption, ("Dataset", "Model", "Method"), columns, tuple(rows), merged=2)
    return sourced(table, results, suite, cells)


def _blocks(listed: Sequence[BoardRow]) -> Iterator[tuple[tuple[str, str], list[Cells]]]:
    """Yield the cells of every dataset and model, stage by stage; the methods are those that all stages have."""
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
                yield (dataset, model), [{name: stage[name] for name in rivals} for stage in stages]


def _rows(place: tuple[str, str], stages: Sequence[Cells]) -> Iterator[TableRow]:
    standing = [standings(stage, "higher") for stage in stages]
    unsearched = [no_value("no settings were searched")] * 2 * (len(STAGES) - len(stages))
    for name in stages[0]:
        shown = [part for i, stage in enumerate(stages) for part in _shown(name, stage, standing[i])]
        yield TableRow((*map(title, place), title(str(name))), (*shown, *unsearched))


def _shown(name: Hashable, stage: Cells, standing: Mapping[Hashable, Standing]) -> tuple[Shown, Shown]:
    rank = standing[name].rank
    text = Shown(str(rank), mean=float(rank), n=1) if rank else no_value("a seed has no value, or budgets differ")
    return show(stage[name], F1_ATTACKED, Standing(rank=rank)), text
