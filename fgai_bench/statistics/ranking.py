"""Cells: the value of one metric at one place over its seeds, and how cells that stand together compare.

Come here for what a table shows in one field, and for what is bold and how rows rank: tables, leaderboards, the page
and claims all ask :func:`standings`, so they cannot disagree. A cell is ranked only if every seed has a value, if it
was attacked with the budget of the others, and if there are at least two seeds.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fgai_bench.metrics import METRICS
from fgai_bench.registry import Scale
from fgai_bench.statistics.intervals import Comparison, mean, on_scale, p_above, paired, std
from fgai_bench.statistics.results import Better, Measurement, Place, Results

SEVERITY = ("failed", "oom", "timeout", "missing", "not-applicable", "absent")
UNEQUAL = "unequal budgets"
# What was spent must agree; how far features went inside their bounds is the search's own result.
SPENT = ("nodes", "edges", "changed_nodes", "gradient_calls")
TOLERANCE = 0.01  # of what was spent: a search may leave a little of its budget
ERROR = 0.05  # how often a row that is as good as the best may lose its bold
UNIFORM = "uniform-attention"  # the label of the row that shows the null
NULL = "_uniform"  # ends the name of the metric that a uniform attention has in the place of another metric


def scale_of(metric: str) -> Scale:
    """Return the scale on which a metric is compared, as its entry declares it; as it is where nothing is declared.

    >>> scale_of("g_jsd"), scale_of("f1_clean"), scale_of("train_seconds")
    ('log', 'logit', 'identity')
    """
    name = metric.removesuffix("_clean")
    return METRICS.entry(name).scale if name in METRICS else "identity"


def null_of(metric: str) -> str:
    """Return the metric that holds what a uniform attention scores in a metric of stability; empty for all others.

    >>> null_of("g_jsd"), null_of("f1")
    ('g_jsd_uniform', '')
    """
    name = metric + NULL
    return name if name in METRICS and "null" in METRICS.entry(name).tags else ""


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
        null: seed to what a uniform attention scores on the same two graphs; empty where it was not measured.
        trials: how many settings were tried to choose those of the row; 0 for the suite's own settings.
    """

    place: Place | None
    metric: str
    values: Mapping[int, float] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()
    flags: tuple[str, ...] = ()
    budgets: Mapping[int, tuple[str, Mapping[str, float]]] = field(default_factory=dict)
    steps: Mapping[int, str] = field(default_factory=dict)
    null: Mapping[int, float] = field(default_factory=dict)
    trials: int = 0

    @property
    def mean(self) -> float:
        """Return the mean over the seeds that have a value."""
        return mean(list(self.values.values()))

    @property
    def std(self) -> float:
        """Return the standard deviation over the seeds that have a value; NaN for one seed."""
        return std(list(self.values.values()))

    @property
    def relative(self) -> Comparison | None:
        """Return the cell against a uniform attention on the same graphs; None where that was not measured.

        For divergences the differences are logarithms of ratios, for shares they are logarithms of odds ratios.
        """
        return Comparison.of(self.values, self.null, scale_of(self.metric)) if self.null and self.values else None

    @property
    def status(self) -> str:
        """Return ``ok``, or the gravest reason why a seed has no value; ``absent`` where nothing was planned."""
        if not self.gaps:
            return "ok" if self.values else "absent"
        return min((gap.status for gap in self.gaps), key=SEVERITY.index)

    @property
    def reason(self) -> str:
        """Return the reason behind the status."""
        return next((gap.reason for gap in self.gaps if gap.status == self.status), "")

    @property
    def unequal(self) -> bool:
        """Tell whether the suite itself gave its rows different budgets."""
        return UNEQUAL in self.flags

    @property
    def rankable(self) -> bool:
        """Tell whether the cell may be held against others: complete, finite, of equal budget, at least two seeds."""
        finite = all(math.isfinite(value) for value in self.values.values())
        return self.status == "ok" and finite and not self.unequal and len(self.values) > 1


def cell(
    results: Results, place: Place, metric: str, magnitude: bool = False, only: Collection[int] | None = None
) -> Cell:
    """Return the cell of ``metric`` at ``place``; ``magnitude`` takes absolute values, ``only`` names the seeds."""
    seeds = {seed: step for seed, step in results.at(place).items() if only is None or seed in only}
    values, gaps = {}, []
    for seed, step in seeds.items():
        gap = _gap(seed, step, metric)
        if gap is None:
            values[seed] = abs(step.values[metric]) if magnitude else step.values[metric]
        else:
            gaps.append(gap)
    null = null_of(metric)
    return Cell(
        place,
        metric,
        values,
        tuple(gaps),
        tuple(dict.fromkeys(flag for step in seeds.values() for flag in step.flags)),
        {seed: (step.threat, step.ledger) for seed, step in seeds.items() if step.threat and step.status == "ok"},
        {seed: step.step for seed, step in seeds.items()},
        {seed: step.values[null] for seed, step in seeds.items() if null in step.values},
        max((step.trials for step in seeds.values()), default=0),
    )


def _gap(seed: int, step: Measurement, metric: str) -> Gap | None:
    if step.status != "ok":
        return Gap(seed, step.status, step.reason)
    if metric in step.reasons:
        return Gap(seed, *step.reasons[metric])
    return None if metric in step.values else Gap(seed, "absent", f"the suite does not measure {metric}")


def null_cell(cells: Iterable[Cell]) -> Cell:
    """Return what a uniform attention scores where some rows stand: the mean over rows, seed by seed.

    Rows that were attacked at the same places have the same null; an attack that chooses its places has one per row.
    """
    rows = list(cells)
    seeds = sorted({seed for row in rows for seed in row.null})
    values = {seed: mean([row.null[seed] for row in rows if seed in row.null]) for seed in seeds}
    return Cell(None, rows[0].metric if rows else "", values)


def worst(cells: Sequence[Cell], better: Better) -> Cell:
    """Return the worst of several attacks seed by seed; a seed counts once every one of them has a value.

    Its budget is that of the attack that took the most gradients: rows may lack an attack, as the vanilla model lacks
    the transfer from itself, and be attacked alike all the same.
    """
    known = [attack for attack in cells if attack.status != "absent"]
    if not known:
        return replace(cells[0], values={}, gaps=(), null={})
    pick = min if better == "higher" else max
    common = set.intersection(*(set(attack.values) for attack in known))
    return replace(
        known[0],
        values={seed: pick(attack.values[seed] for attack in known) for seed in sorted(common)},
        gaps=tuple({gap.seed: gap for attack in known for gap in attack.gaps}.values()),
        flags=tuple(dict.fromkeys(flag for attack in known for flag in attack.flags)),
        budgets={
            seed: max(
                (attack.budgets[seed] for attack in known if seed in attack.budgets),
                key=lambda budget: budget[1].get("gradient_calls", 0),
            )
            for seed in sorted(set().union(*(attack.budgets for attack in known)))
        },
        null={},
    )


@dataclass(frozen=True)
class Standing:
    """How a cell compares with its rivals.

    Attributes:
        rank: 1 + the number of rivals that are better, the null among them where it is not beaten; None if unranked.
        unequal: its budget is not that of the others, or its settings were searched with another number of trials.
        beats_null: whether it is better than a uniform attention; None where there is no such null.
        p_beaten: p of "no rival is better", corrected for the number of rivals; below ``ERROR`` it is not bold.
        p_ahead: p of "some rival is at least as good"; small where it is the best alone.
        rival: the key of its strongest rival.
    """

    rank: int | None = None
    unequal: bool = False
    beats_null: bool | None = None
    p_beaten: float = 1.0
    p_ahead: float = 1.0
    rival: Hashable = None

    @property
    def bold(self) -> bool:
        """Tell whether the cell is the best, or not to be told from it: whether it ranks first."""
        return self.rank == 1


def standings(cells: Mapping[Hashable, Cell], better: Better) -> dict[Hashable, Standing]:
    """Compare cells that stand in one block of a table: the same dataset, model, attack and metric.

    Multiple comparison with the best, after Hsu, with the seeds as blocks: a row may be the best unless some rival is
    better by a one-sided paired t test on the metric's scale at ``ERROR`` divided by the number of rivals. Each pair
    has its own spread, because methods differ in theirs a hundredfold. A row that is as good as the best is then first
    in at least 95 % of studies. A row that is not better than a uniform attention on the same graphs cannot be first.
    Where rows have settings that a search chose, they rank and those with a suite's own settings stand beside them.
    """
    rivals = _rivals(cells)
    odd = _of_another_budget(cells) | _of_another_search(cells)
    ranked = {key: cells[key] for key in rivals if cells[key].rankable and key not in odd and better != "none"}
    seeds = [frozenset(row.values) for row in ranked.values()]
    ranked = {key: row for key, row in ranked.items() if frozenset(row.values) == max(seeds, key=seeds.count)}
    sign = 1 if better == "higher" else -1
    plain = {
        key: Standing(
            unequal=key in odd or row.unequal, beats_null=_beats_null(row, sign) if better != "none" else None
        )
        for key, row in cells.items()
    }
    if len(ranked) < 2:
        return plain
    return plain | {key: _ranked(key, ranked, sign, plain[key]) for key in ranked}


def _beats_null(row: Cell, sign: int) -> bool | None:
    """Tell whether the interval of the difference from the uniform attention lies on the better side."""
    relative = row.relative
    if relative is None or relative.bounds_on_scale is None:
        return None
    low, high = relative.bounds_on_scale
    return low > 0 if sign > 0 else high < 0


def _ranked(key: Hashable, cells: Mapping[Hashable, Cell], sign: int, plain: Standing) -> Standing:
    scaled = dict(
        zip(cells, on_scale([row.values for row in cells.values()], scale_of(cells[key].metric)), strict=True)
    )
    lead = {
        rival: tuple(sign * difference for difference in paired(scaled[key], scaled[rival]))
        for rival in cells
        if rival != key
    }
    p_behind = [p_above([-difference for difference in differences]) for differences in lead.values()]
    better = sum(p < ERROR / len(lead) for p in p_behind)
    return replace(
        plain,
        rank=1 + better + (plain.beats_null is False),
        p_beaten=min(1.0, len(lead) * min(p_behind)),
        p_ahead=max(p_above(differences) for differences in lead.values()),
        rival=min(lead, key=lambda rival: mean(lead[rival])),
    )


def _rivals(cells: Mapping[Hashable, Cell]) -> list[Hashable]:
    """Return the rows that are held against each other: the tuned ones if there are two, else the others."""
    tuned = [key for key, row in cells.items() if row.trials]
    return tuned if len(tuned) > 1 else [key for key, row in cells.items() if not row.trials]


def _of_another_search(cells: Mapping[Hashable, Cell]) -> set[Hashable]:
    """Return the tuned rows whose number of trials is not that of the majority; all of them without a majority."""
    tuned = {key: row.trials for key, row in cells.items() if row.trials}
    numbers = list(tuned.values())
    return {key for key, trials in tuned.items() if 2 * numbers.count(trials) <= len(numbers) or len(numbers) == 1}


def _of_another_budget(cells: Mapping[Hashable, Cell]) -> set[Hashable]:
    """Return the cells whose budget is not that of the majority; all of them when there is no majority."""
    attacked = {key: row for key, row in cells.items() if row.budgets and row.values}
    agreeing = {key: sum(equal_budgets(row, other) for other in attacked.values()) for key, row in attacked.items()}
    return {key for key, number in agreeing.items() if 2 * number <= len(attacked) and len(attacked) > 1}


def equal_budgets(row: Cell, other: Cell, counted: Iterable[str] = SPENT) -> bool:
    """Tell whether two cells were given the same threat model and spent as much of what is counted, seed by seed."""
    names, shared = list(counted), row.budgets.keys() & other.budgets.keys()
    return all(
        row.budgets[seed][0] == other.budgets[seed][0] and _agree(row.budgets[seed][1], other.budgets[seed][1], names)
        for seed in shared
    )


def _agree(spent: Mapping[str, float], other: Mapping[str, float], names: Iterable[str]) -> bool:
    return spent == other or all(
        math.isclose(spent.get(name, 0.0), other.get(name, 0.0), rel_tol=TOLERANCE, abs_tol=0.5) for name in names
    )
