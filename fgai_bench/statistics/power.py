"""Power: how many seeds a comparison needs to be decided, the mathematics of "12 more seeds would tell"."""

import math
from bisect import bisect_left
from collections.abc import Sequence

from scipy import special

from fgai_bench.statistics.intervals import is_constant, is_split, mean, std

POWER = 0.8
MOST_SEEDS = 1000


def seeds_needed(differences: Sequence[float], alpha: float, power: float = POWER) -> int | None:
    """Return how many seeds a one-sided t test at ``alpha`` needs to see the observed mean with this power.

    It takes the observed mean and spread for the true ones. None where no number up to ``MOST_SEEDS`` will do.
    Differences in two groups need at least as many seeds as flipped signs need to go below ``alpha``.

    >>> seeds_needed([1.0, 2.0, 3.0], 0.025)  # two standard deviations from zero
    5
    >>> seeds_needed([-1.0, 1.0], 0.025) is None
    True
    """
    if len(differences) < 2 or is_constant(differences):
        return None
    effect = abs(mean(differences)) / std(differences)

    def is_enough(n: int) -> bool:
        critical = -special.stdtrit(n - 1, alpha)
        missed = special.nctdtr(n - 1, effect * math.sqrt(n), critical)
        return not missed > 1 - power  # far beyond the critical value it is NaN in place of 0

    least = math.ceil(-math.log2(alpha)) if is_split(differences) else 2
    numbers = range(least, MOST_SEEDS + 1)  # power grows with every seed
    place = bisect_left(numbers, True, key=is_enough)
    return numbers[place] if place < len(numbers) else None
