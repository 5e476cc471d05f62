"""Power: how many seeds a comparison needs to be decided, the mathematics of "12 more seeds would tell"."""

from collections.abc import Sequence

import numpy as np
from scipy import special

from fgai_bench.statistics.intervals import is_constant, mean, sign_rank, std

POWER = 0.8  # with which as many seeds show a difference
MOST_SEEDS = 1000


def seeds_needed(differences: Sequence[float], alpha: float) -> int | None:
    """Return how many seeds show the observed mean, by :func:`~fgai_bench.statistics.intervals.p_above` at ``alpha``.

    With :data:`POWER` both the one-sided t test sees it and the sign test's interval excludes zero. The observed mean
    and spread are taken for the true ones of normal differences. None where no number up to ``MOST_SEEDS`` will do.

    >>> seeds_needed([1.0, 2.0, 3.0], 0.025)  # two standard deviations from zero
    5
    >>> seeds_needed([-1.0, 1.0], 0.025) is None
    True
    """
    if len(differences) < 2 or is_constant(differences):
        return None
    effect = abs(mean(differences)) / std(differences)
    n = np.arange(2, MOST_SEEDS + 1)
    missed = special.nctdtr(n - 1, effect * np.sqrt(n), -special.stdtrit(n - 1, alpha))  # NaN far beyond, in place of 0
    k = np.array([sign_rank(number) for number in n.tolist()])
    agrees = np.where(k, special.bdtr(np.maximum(k, 1) - 1, n, special.ndtr(-effect)), 1.0)  # fewer than k below zero
    enough = n[~(missed > 1 - POWER) & (agrees >= POWER)]
    return int(enough[0]) if enough.size else None
