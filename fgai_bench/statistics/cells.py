"""Cells: the value of one metric at one place over its seeds. Come here for what a table shows in one field.

How cells that stand together rank is decided in :mod:`fgai_bench.statistics.ranking`.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from fgai_bench.metrics import METRICS
from fgai_bench.registry import Scale
from fgai_bench.statistics.intervals import Comparison, is_split, mean, on_scale, std
from fgai_bench.statistics.results import UNCHECKED, Better, Measurement, Place, Results

SEVERITY = ("failed", "oom", "timeout", "missing", "not-applicable", "absent")
UNEQUAL = "unequal budgets"
UNIFORM = "uniform-attention"  # the label of the row that shows what a uniform attention scores, the null
NULL_ENDING = "_uniform"  # of the metric that a uniform attention has in the place of another metric


def scale_of(metric: str) -> Scale:
    """Return the scale on which a metric is compared, as its entry declares it; as it is where nothing is declared.

    >>> scale_of("g_jsd"), scale_of("f1_clean"), scale_of("truth_auroc_clean"), scale_of("train_seconds")
    ('log', 'logit', 'logit', 'identity')
    """
    name = metric.removesuffix("_clean")  # the second edition had no scopes: NAME_covered was NAME
    return next((METRICS.entry(known).scale for known in (name, f"{name}_covered") if known in METRICS), "identity")


def null_of(metric: str) -> str:
    """Return the metric that holds what a uniform attention scores in a metric of stability; empty for all others.

    >>> null_of("g_jsd"), null_of("f1")
    ('g_jsd_uniform', '')
    """
    name = metric + NULL_ENDING
    return name if name in METRICS and "null" in METRICS.entry(name).tags else ""


@dataclass(frozen=True)
class Gap:
    """A seed without a value, and why."""

    seed: int
    status: str
    reason: str


@dataclass(frozen=True)
class Cell:
    """One metric at one place."""

    place: Place | None
    metric: str
    values: Mapping[int, float] = field(default_factory=dict)  # seed to value
    gaps: tuple[Gap, ...] = ()  # the seeds without one
    flags: tuple[str, ...] = ()  # reasons for distrust, each once
    # seed to (threat, ledger) of the attack; empty where nothing attacks
    budgets: Mapping[int, tuple[str, Mapping[str, float]]] = field(default_factory=dict)
    # seed to what a uniform attention scores on the same two graphs; empty where it was not measured
    null: Mapping[int, float] = field(default_factory=dict)
    trials: int = 0  # how many settings were tried to choose those of the row; 0 for the suite's own settings

    @property
    def mean(self) -> float:
        """Return the mean over the seeds that have a value."""
        return mean(list(self.values.values()))

    @property
    def median(self) -> float:
        """Return the median over the seeds that have a value: what is printed beside an interval."""
        return median(self.values.values()) if self.values else math.nan

    @property
    def in_two_groups(self) -> bool:
        """Tell whether the seeds fall into two groups on the metric's scale, so that no centre stands for them."""
        return is_split(list(on_scale([self.values], scale_of(self.metric))[0].values()))

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
    def side_of_null(self) -> int | None:
        """Return 1, -1 or 0 where it is above, below or not told from a uniform attention; None without an interval."""
        relative = self.relative
        return relative.side if relative and relative.bounds_on_scale else None

    @property
    def status(self) -> str:
        """Return ``ok``, or the gravest reason why a seed has no value; ``absent`` where nothing was planned."""
        if not self.gaps:
            return "ok" if self.values else "absent"
        return min((gap.status for gap in self.gaps), key=SEVERITY.index)

    @property
    def reason(self) -> str:
        return next((gap.reason for gap in self.gaps if gap.status == self.status), "")

    @property
    def unequal(self) -> bool:
        """Tell whether the suite itself gave its rows different budgets."""
        return UNEQUAL in self.flags

    @property
    def unreliable(self) -> bool:
        """Tell whether the cell has a value and a reason to distrust it."""
        return bool(self.values) and any(flag.startswith("unreliable") for flag in self.flags)

    @property
    def rankable(self) -> bool:
        """Tell whether the cell may be ranked: complete, finite, of equal budget, not only reported, two seeds."""
        finite = all(math.isfinite(value) for value in self.values.values())
        told = UNCHECKED in self.flags
        return self.status == "ok" and finite and not self.unequal and not told and len(self.values) > 1


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
