"""What a run leaves open, and how many more seeds would decide it. Come here for the table of ``status --open``.

The number follows from the observed difference and its own spread over the seeds, taken for the true ones, at 80 %
power (:mod:`fgai_bench.statistics.power`).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from fgai_bench.leaderboard.rows import BOARDS, Board, BoardKey, entries
from fgai_bench.report.claims import judge
from fgai_bench.statistics.cells import Cell, scale_of
from fgai_bench.statistics.intervals import Comparison
from fgai_bench.statistics.labels import title
from fgai_bench.statistics.numbers import difference_text
from fgai_bench.statistics.power import seeds_needed
from fgai_bench.statistics.ranking import ERROR, standings
from fgai_bench.statistics.results import Results


@dataclass(frozen=True)
class OpenCell:
    """Something that the seeds of a run do not decide."""

    suite: str
    question: str  # a claim, or the first place of a leaderboard
    place: str  # dataset and model
    shown: str  # the difference with its interval
    seeds: int  # how many there are
    enough: int | None  # how many would decide it; None where no number that one could run would

    @property
    def more(self) -> str:
        """Return how many more seeds are needed, in words."""
        return "out of reach" if self.enough is None else str(max(1, self.enough - self.seeds))


def open_cells(results: Results) -> list[OpenCell]:
    """Return what a run leaves open, what needs the fewest seeds first."""
    listed = [*open_claims(results), *open_places(results)]
    return sorted(listed, key=lambda cell: float("inf") if cell.enough is None else cell.enough - cell.seeds)


def open_claims(results: Results) -> list[OpenCell]:
    """Return the cells of the paper's claims that are open and do not count for their claim yet."""
    return [
        OpenCell(
            verdict.claim.suite,
            verdict.claim.id,
            decision.place,
            difference_text(decision.value, decision.bounds, decision.is_ratio),
            decision.seeds,
            decision.enough,
        )
        for verdict in judge(results)
        for decision in verdict.cells("open")
        if decision not in verdict.showing
    ]


def open_places(results: Results) -> list[OpenCell]:
    """Return the first places of leaderboards that several rows share: the two best, and what would part them."""
    found = []
    for board in BOARDS:
        blocks: dict[BoardKey, dict[Hashable, Cell]] = {}
        for row in entries(board, results):
            blocks.setdefault(row.key.block, {})[row.key.defense] = row.cell(board.score)
        found += [_shared_first(board, key, cells) for key, cells in blocks.items()]
    return [cell for cell in found if cell is not None]


def _shared_first(board: Board, key: BoardKey, cells: dict[Hashable, Cell]) -> OpenCell | None:
    first = [name for name, standing in standings(cells, board.better).items() if standing.bold]
    if len(first) < 2:
        return None
    sign = 1 if board.better == "higher" else -1
    best, second = sorted(first, key=lambda name: -sign * cells[name].mean)[:2]
    comparison = Comparison.of(cells[best].values, cells[second].values, scale_of(board.score))
    return OpenCell(
        key.suite,
        f"{board.score} under {key.attack}: {title(str(best))} or {title(str(second))}",
        f"{title(key.dataset)}/{title(key.model)}",
        difference_text(comparison.difference, comparison.bounds),
        len(comparison.differences),
        seeds_needed(comparison.differences, ERROR / (len(cells) - 1)),
    )
