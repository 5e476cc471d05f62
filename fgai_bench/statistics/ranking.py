"""What decides a rank. Tables, leaderboards, the page and claims all ask :func:`standings`, so they cannot disagree.

The rule: a row's rank is 1 + the number of rivals that are better.

- A rival is better if a one-sided paired t test says so at 5 % divided by the number of rivals (multiple comparison
  with the best, after Hsu), and the sign test's interval excludes zero. Seeds are paired, on the metric's scale; each
  pair of rows has its own spread, because methods differ in theirs a hundredfold. A row that is as good as the best is
  then first in at least 95 % of studies.
- A row that is not better than a uniform attention on the same graphs moves down by one, so it is never first.
- Only complete rows of equal budget, equal search and the same two or more seeds are rivals.
- Where two or more rows have settings that a search chose, these rank; the others are shown without a rank. Rows with
  the settings of the released program rank only where there are no others.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

from fgai_bench.statistics.cells import Cell, scale_of
from fgai_bench.statistics.intervals import centre, on_scale, p_above, paired
from fgai_bench.statistics.results import Better
from fgai_bench.suites.schema import RELEASED

# The threat model and these must agree. How many edges and gradients a search takes, and how far features go inside
# their bounds, is its own result: the standard attack goes on while it finds, and may leave edges out.
SPENT = ("nodes", "changed_nodes")
ERROR = 0.05  # how often a row that is as good as the best may lose its first rank


@dataclass(frozen=True)
class Standing:
    """How a cell compares with its rivals."""

    rank: int | None = None  # None if unranked
    # its budget is not that of the others, or its settings were searched with another number of trials
    unequal: bool = False
    beats_null: bool | None = None  # whether it is better than a uniform attention; None where there is no such null
    # p of "no rival is better", corrected for the number of rivals; below ``ERROR`` it is not bold
    p_beaten: float = 1.0
    p_ahead: float = 1.0  # p of "some rival is at least as good"; small where it is the best alone
    rival: Hashable = None  # the key of its strongest rival: the one that is most clearly better

    @property
    def bold(self) -> bool:
        """Tell whether the cell is the best, or not to be told from it: whether it ranks first."""
        return self.rank == 1


def standings(cells: Mapping[Hashable, Cell], better: Better) -> dict[Hashable, Standing]:
    """Rank the cells of one block of a table: the same dataset, model, attack and metric."""
    odd = _of_another_budget(cells) | _of_another_search(cells)
    sign = 1 if better == "higher" else -1
    unranked = {
        key: Standing(
            unequal=key in odd or row.unequal, beats_null=_beats_null(row, sign) if better != "none" else None
        )
        for key, row in cells.items()
    }
    ranked = {key: cells[key] for key in _rivals(cells) if cells[key].rankable and key not in odd and better != "none"}
    seeds = [frozenset(row.values) for row in ranked.values()]
    ranked = {key: row for key, row in ranked.items() if frozenset(row.values) == max(seeds, key=seeds.count)}
    if len(ranked) < 2:
        return unranked
    return unranked | {key: _ranked(key, ranked, sign, unranked[key]) for key in ranked}


def _ranked(key: Hashable, cells: Mapping[Hashable, Cell], sign: int, unranked: Standing) -> Standing:
    """Return the standing of a row among its rivals; ``lead`` is by how much it is better than each, seed by seed."""
    values = on_scale([row.values for row in cells.values()], scale_of(cells[key].metric))
    scaled = dict(zip(cells, values, strict=True))
    lead = {
        rival: tuple(sign * difference for difference in paired(scaled[key], scaled[rival]).values())
        for rival in cells
        if rival != key
    }
    p_behind = {rival: p_above([-by for by in differences]) for rival, differences in lead.items()}
    better = sum(p < ERROR / len(lead) for p in p_behind.values())
    return replace(
        unranked,
        rank=1 + better + (unranked.beats_null is False),
        p_beaten=min(1.0, len(lead) * min(p_behind.values())),
        p_ahead=max(p_above(differences) for differences in lead.values()),
        rival=min(lead, key=lambda rival: (p_behind[rival], centre(lead[rival]))),
    )


def _beats_null(row: Cell, sign: int) -> bool | None:
    """Tell whether the difference from the uniform attention is shown to be for the better."""
    side = row.side_of_null
    return None if side is None else side == sign


def _rivals(cells: Mapping[Hashable, Cell]) -> list[Hashable]:
    """Return the rows that are held against each other: the tuned ones if there are two, else those of one kind."""
    tuned = [key for key, row in cells.items() if row.trials]
    others = {key: row.place.label if row.place else "" for key, row in cells.items() if not row.trials}
    own = [key for key, label in others.items() if not label.endswith(RELEASED)]
    return tuned if len(tuned) > 1 else own or [*others]


def _of_another_search(cells: Mapping[Hashable, Cell]) -> set[Hashable]:
    """Return the tuned rows whose number of trials is not that of the majority; all of them without a majority.

    A single tuned row among others has no majority; a row that stands alone is held against nothing.
    """
    tuned = {key: row.trials for key, row in cells.items() if row.trials}
    numbers, single = list(tuned.values()), len(tuned) == 1 < len(cells)
    return {key for key, trials in tuned.items() if 2 * numbers.count(trials) <= len(numbers) or single}


def _of_another_budget(cells: Mapping[Hashable, Cell]) -> set[Hashable]:
    """Return the cells whose budget is not that of the majority; all of them when there is no majority."""
    attacked = {key: row for key, row in cells.items() if row.budgets and row.values}
    agreeing = {key: sum(equal_budgets(row, other) for other in attacked.values()) for key, row in attacked.items()}
    return {key for key, number in agreeing.items() if 2 * number <= len(attacked) and len(attacked) > 1}


def equal_budgets(row: Cell, other: Cell) -> bool:
    """Tell whether two cells were given the same threat model and changed as many nodes, seed by seed."""
    pairs = [(row.budgets[seed], other.budgets[seed]) for seed in row.budgets.keys() & other.budgets.keys()]
    return all(
        threat == other_threat and all(spent.get(name, 0.0) == other_spent.get(name, 0.0) for name in SPENT)
        for (threat, spent), (other_threat, other_spent) in pairs
    )
