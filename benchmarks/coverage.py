"""How often a printed interval covers, and how often a verdict is false: ``python -m benchmarks.coverage``.

Populations are the rows of the committed leaderboards under the worst case, and the differences of every two rows that
stand in one block. A study draws seeds from one of them, a little smoothed, on the scale of logits. It covers where its
interval holds the centre of the population. A verdict on a difference is false where that centre is moved to zero.
``benchmarks/measured/coverage.csv`` keeps the answer; :func:`docs.values.coverage` shows it.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.special import logit

from docs.values import SCORES, by_seed, worst_rows
from fgai_bench.statistics.intervals import Comparison, interval, is_split, mean, std

OUT = Path(__file__).parent / "measured" / "coverage.csv"
SMOOTHING = 0.05  # of a population's range, the spread of the noise that is added to a drawn seed
SKEWED = 1.0  # least skewness on the scale of logits
MANY = 100_000  # draws that stand for the population
MOST = 100  # populations of one kind, drawn from all of them
FEWEST_SEEDS = 5  # of a row that serves as a population
STUDIES = 300  # of every population
SEEDS = (5, 10)


@cache
def populations(what: str) -> dict[str, list[np.ndarray]]:
    """Return populations by kind: ``rows``, or the ``differences`` of every two rows of one block; as logits."""
    blocks = defaultdict(list)
    for suite in ("node", "link"):
        for row in worst_rows(suite):
            blocks[suite, row["dataset"], row["model"], row["settings"]].append(by_seed(row, SCORES[suite]))
    if what == "rows":
        samples = [logit(list(row.values())) for rows in blocks.values() for row in rows]
    else:
        pairs = (pair for rows in blocks.values() for pair in combinations(rows, 2))
        samples = [np.array(Comparison.of(*pair, "logit").differences) for pair in pairs]
    kinds: dict[str, list[np.ndarray]] = {"skewed": [], "two groups": [], "other": []}
    for sample in samples:
        if len(sample) >= FEWEST_SEEDS:
            kinds[_kind(sample)].append(sample)
    rng = np.random.default_rng(0)
    return {kind: [found[i] for i in rng.permutation(len(found))[:MOST]] for kind, found in kinds.items()}


def _kind(sample: np.ndarray) -> str:
    if is_split(sample.tolist()):
        return "two groups"
    return "skewed" if abs(stats.skew(sample, bias=False)) > SKEWED else "other"


class Way(NamedTuple):
    """A way to print a centre with its interval, and to call a difference shown."""

    centre: Callable[[np.ndarray], float]
    bounds: Callable[[Sequence[float]], tuple[float, float] | None]
    is_shown: Callable[[Sequence[float]], bool]


def students(values: Sequence[float]) -> tuple[float, float]:
    """Return Student's t interval of the mean."""
    half = _quantile(len(values)) * std(values) / math.sqrt(len(values))
    return mean(values) - half, mean(values) + half


@cache
def _quantile(seeds: int) -> float:
    return float(stats.t.ppf(0.975, seeds - 1))


def excludes_zero(values: Sequence[float]) -> bool:
    """Tell whether Student's t interval excludes zero."""
    low, high = students(values)
    return low > 0 or high < 0


# The order of values is that of their logits, so the interval of a median covers on either scale or on none.
WAYS = {
    "median, sign test": Way(np.median, interval, lambda values: Comparison(tuple(values)).side != 0),
    "mean, Student's t": Way(np.mean, students, excludes_zero),
}


def measured(what: str, kind: str, seeds: int, studies: int, way: Way) -> tuple[float, float]:
    """Return the share of studies, over all populations of a kind, that cover, and of those with a false verdict."""
    rng, covered, false = np.random.default_rng(0), [], []
    for values in populations(what)[kind]:
        noise = SMOOTHING * np.ptp(values)
        truth = way.centre(rng.choice(values, MANY) + rng.normal(0.0, noise, MANY))
        shape = (studies, seeds)
        for study in (rng.choice(values, shape) + rng.normal(0.0, noise, shape) - truth).tolist():
            bounds = way.bounds(study)
            covered.append(bounds is not None and bounds[0] <= 0 <= bounds[1])
            false.append(way.is_shown(study))
    return float(np.mean(covered)), float(np.mean(false))


def main() -> None:
    """Measure every way on every kind of population, print it and write it."""
    header = ("what", "kind", "populations", "seeds", "way", "covered", "false")
    lines = []
    for what in ("rows", "differences"):
        for kind, found in populations(what).items():
            for seeds in SEEDS:
                for name, way in WAYS.items():
                    covered, false = measured(what, kind, seeds, STUDIES, way)
                    told = f"{false:.3f}" if what == "differences" else ""  # a row alone is held against nothing
                    lines.append((what, kind, len(found), seeds, name, f"{covered:.3f}", told))
                    print(*lines[-1])
    with OUT.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *lines])


if __name__ == "__main__":
    main()
