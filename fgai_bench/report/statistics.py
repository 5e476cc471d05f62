"""Uncertainty over seeds: mean, spread, the bootstrap interval of a paired difference, and Holm's correction.

Two rows are compared seed by seed, because seeds share their split and their attack's random choices. Few seeds have
few resamples, so all of them are counted where that is possible: the interval of five seeds involves no chance.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache

import numpy as np

LEVEL = 0.95
EXACT = 6  # up to this many seeds, every resample is counted
DRAWN = 10_000


def mean(values: Sequence[float]) -> float:
    """The mean; NaN of nothing.

    >>> mean([1.0, 2.0])
    1.5
    """
    return math.fsum(values) / len(values) if values else math.nan


def std(values: Sequence[float]) -> float:
    """The sample standard deviation; NaN below two values.

    >>> std([1.0, 3.0]) == 2 ** 0.5
    True
    """
    if len(values) < 2:
        return math.nan
    centre = mean(values)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))


def paired(left: Mapping[int, float], right: Mapping[int, float]) -> tuple[float, ...]:
    """``left - right`` for the seeds that both have, in order of the seeds.

    >>> paired({0: 3.0, 1: 5.0}, {1: 1.0, 0: 1.0, 2: 9.0})
    (2.0, 4.0)
    """
    return tuple(left[seed] - right[seed] for seed in sorted(left.keys() & right.keys()))


@lru_cache(maxsize=4096)
def resampled_means(values: tuple[float, ...]) -> np.ndarray:
    """Means of resamples with replacement: all ``n ** n`` of them for few values, else drawn with a fixed seed."""
    return np.sort(np.asarray(values)[_choices(len(values))].mean(axis=1))


@cache
def _choices(n: int) -> np.ndarray:
    """Which of ``n`` values each resample takes: ``(resamples, n)``."""
    if n <= EXACT:
        return np.array(list(itertools.product(range(n), repeat=n)))
    return np.random.Generator(np.random.PCG64(0)).integers(0, n, size=(DRAWN, n))


def interval(differences: Sequence[float], level: float = LEVEL) -> tuple[float, float] | None:
    """The percentile bootstrap interval of the mean difference; None below two values.

    >>> interval([1.0, 1.0, 1.0])
    (1.0, 1.0)
    >>> interval([0.5]) is None
    True
    """
    if len(differences) < 2:
        return None
    tail = (1 - level) / 2
    low, high = np.quantile(resampled_means(tuple(differences)), [tail, 1 - tail])
    return float(low), float(high)


def p_value(differences: Sequence[float]) -> float:
    """Two-sided bootstrap probability that the mean difference has the other sign; never below one resample.

    >>> p_value([1.0, 2.0])  # 1 of 4 resamples is the least that two values can tell
    0.25
    >>> p_value([0.0, 0.0])
    1.0
    """
    if len(differences) < 2:
        return 1.0
    means = resampled_means(tuple(differences))
    either = min(float((means <= 0).mean()), float((means >= 0).mean()))
    return min(1.0, max(2 * either, 1 / len(means)))


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's step-down correction, in the given order.

    >>> holm([0.01, 0.04, 0.03])
    (0.03, 0.06, 0.06)
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return tuple(adjusted)


def contains_zero(bounds: tuple[float, float]) -> bool:
    """Whether an interval leaves the sign open.

    >>> contains_zero((-0.1, 0.2)), contains_zero((0.1, 0.2))
    (True, False)
    """
    return bounds[0] <= 0 <= bounds[1]
