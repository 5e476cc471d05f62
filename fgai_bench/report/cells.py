"""Cells: the value of one metric at one place over its seeds, and which of several cells are the best.

A cell is ranked only if every seed has a value, if it was attacked with the budget of the others, and if there are at
least two seeds. The best cell and everything whose paired difference from it may be zero are bold.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fgai_bench.report.results import Better, Measurement, Place, Results
from fgai_bench.report.statistics import contains_zero, interval, mean, paired, std

SEVERITY = ("failed", "oom", "timeout", "missing", "not-applicable", "absent")
UNEQUAL = "unequal budgets"
# What was spent must agree; how far features went inside their bounds is the search's own result.
SPENT = ("nodes", "edges", "changed_nodes", "gradient_calls")
TOLERANCE = 0.01  # of what was spent: a search may leave a little of its budget


@dataclass(frozen=True)
class Gap:
    """A seed without a value, and why."""

    seed: int
    status: str
    reason: str


@dataclass(frozen=True)
class Cell:
    """One metric at one place.

    Attributes:
        values: seed to value.
        gaps: the seeds without one.
        flags: reasons for distrust, each once.
        budgets: seed to (threat, ledger) of the attack; empty where nothing attacks.
    """

    place: Place | None
    metric: str
    values: Mapping[int, float] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()
    flags: tuple[str, ...] = ()
    budgets: Mapping[int, tuple[str, Mapping[str, float]]] = field(default_factory=dict)
    steps: Mapping[int, str] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        """Over the seeds that have a value."""
        return mean(list(self.values.values()))

    @property
    def std(self) -> float:
        """Likewise; NaN for one seed."""
        return std(list(self.values.values()))

    @property
    def status(self) -> str:
        """``ok``, or the gravest reason why a seed has no value; ``absent`` where nothing was planned."""
        if not self.gaps:
            return "ok" if self.values else "absent"
        return min((gap.status for gap in self.gaps), key=SEVERITY.index)

    @property
    def reason(self) -> str:
        """The reason behind the status."""
        return next((gap.reason for gap in self.gaps if gap.status == self.status), "")

    @property
    def unequal(self) -> bool:
        """Whether the suite itself gave its rows different budgets."""
        return UNEQUAL in self.flags

    @property
    def rankable(self) -> bool:
        """Whether it may be held against others: complete, finite, of equal budget, at least two seeds."""
        finite = all(math.isfinite(value) for value in self.values.values())
        return self.status == "ok" and finite and not self.unequal and len(self.values) > 1


def cell(results: Results, place: Place, metric: str, magnitude: bool = False) -> Cell:
    """The cell of ``metric`` at ``place``; ``magnitude`` takes absolute values."""
    seeds = results.at(place)
    values, gaps = {}, []
    for seed, found in seeds.items():
        gap = _gap(seed, found, metric)
        if gap is None:
            values[seed] = abs(found.values[metric]) if magnitude else found.values[metric]
        else:
            gaps.append(gap)
    return Cell(
        place,
        metric,
        values,
        tuple(gaps),
        tuple(dict.fromkeys(flag for found in seeds.values() for flag in found.flags)),
        {seed: (found.threat, found.ledger) for seed, found in seeds.items() if found.threat and found.status == "ok"},
        {seed: found.step for seed, found in seeds.items()},
    )


def _gap(seed: int, found: Measurement, metric: str) -> Gap | None:
    if found.status != "ok":
        return Gap(seed, found.status, found.reason)
    if metric in found.reasons:
        return Gap(seed, *found.reasons[metric])
    return None if metric in found.values else Gap(seed, "absent", f"the suite does not measure {metric}")


def worst(cells: Sequence[Cell], better: Better) -> Cell:
    """Seed by seed the worst of several attacks; a seed counts once every one of them has a value.

    Its budget is that of the attack that took the most gradients: rows may lack an attack, as the vanilla model lacks
    the transfer from itself, and be attacked alike all the same.
    """
    known = [one for one in cells if one.status != "absent"]
    if not known:
        return replace(cells[0], values={}, gaps=())
    pick = min if better == "higher" else max
    common = set.intersection(*(set(one.values) for one in known))
    return replace(
        known[0],
        values={seed: pick(one.values[seed] for one in known) for seed in sorted(common)},
        gaps=tuple({gap.seed: gap for one in known for gap in one.gaps}.values()),
        flags=tuple(dict.fromkeys(flag for one in known for flag in one.flags)),
        budgets={
            seed: max(
                (one.budgets[seed] for one in known if seed in one.budgets),
                key=lambda budget: budget[1].get("gradient_calls", 0),
            )
            for seed in sorted(set().union(*(one.budgets for one in known)))
        },
    )


@dataclass(frozen=True)
class Standing:
    """How a cell compares with its rivals.

    Attributes:
        rank: 1 + the number of rivals that are better with an interval that excludes zero; None if it is not ranked.
        bold: the best, or not to be told from it.
        unequal: its budget is not that of the others.
        difference: from the best, paired.
        bounds: the interval of that difference.
    """

    rank: int | None = None
    bold: bool = False
    unequal: bool = False
    difference: tuple[float, ...] = ()
    bounds: tuple[float, float] | None = None


def standings(cells: Mapping[Hashable, Cell], better: Better) -> dict[Hashable, Standing]:
    """Compare cells that stand in one block of a table: the same dataset, model, attack and metric."""
    odd = _of_another_budget(cells)
    ranked = {key: one for key, one in cells.items() if one.rankable and key not in odd and better != "none"}
    seeds = [frozenset(one.values) for one in ranked.values()]
    ranked = {key: one for key, one in ranked.items() if frozenset(one.values) == max(seeds, key=seeds.count)}
    plain = {key: Standing(unequal=key in odd or one.unequal) for key, one in cells.items()}
    return {**plain, **_ranked(ranked, 1 if better == "higher" else -1)}


def _ranked(cells: Mapping[Hashable, Cell], sign: int) -> dict[Hashable, Standing]:
    if len(cells) < 2:
        return {}
    best = max(cells.values(), key=lambda one: sign * one.mean)
    found: dict[Hashable, Standing] = {}
    for key, one in cells.items():
        better = [other for other in cells.values() if _beats(other, one, sign)]
        difference = paired(one.values, best.values)
        bounds = interval(difference)
        bold = one is best or (bounds is not None and contains_zero(bounds))
        found[key] = Standing(1 + len(better), bold, False, difference, bounds)
    return found


def _beats(one: Cell, other: Cell, sign: int) -> bool:
    bounds = interval(paired(one.values, other.values))
    return one is not other and bounds is not None and (bounds[0] > 0 if sign > 0 else bounds[1] < 0)


def _of_another_budget(cells: Mapping[Hashable, Cell]) -> set[Hashable]:
    """The cells whose budget is not that of the majority; all of them when there is no majority."""
    attacked = {key: one for key, one in cells.items() if one.budgets and one.values}
    agreeing = {key: sum(equal_budgets(one, other) for other in attacked.values()) for key, one in attacked.items()}
    return {key for key, number in agreeing.items() if 2 * number <= len(attacked) and len(attacked) > 1}


def equal_budgets(one: Cell, other: Cell) -> bool:
    """Whether two cells were given the same threat model and spent the same, seed by seed."""
    shared = one.budgets.keys() & other.budgets.keys()
    return all(
        one.budgets[seed][0] == other.budgets[seed][0] and _agree(one.budgets[seed][1], other.budgets[seed][1])
        for seed in shared
    )


def _agree(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    return all(math.isclose(one.get(name, 0.0), other.get(name, 0.0), rel_tol=TOLERANCE, abs_tol=0.5) for name in SPENT)
