"""Statistics over seeds: come here for medians, confidence intervals, p-values and corrections.

A row is shown as its median with the sign test's interval, which covers whatever the distribution of seeds.
Two rows are compared seed by seed, because seeds share their split and their attack's random choices. Their differences
are taken on the scale where a metric's errors are symmetric: of the logarithm for divergences, of the logit for shares,
as they are otherwise (``scale`` of the metric's entry). They are shown as a row is. A difference counts as shown if
that interval excludes zero and Student's t test agrees: five seeds are then wrong in at most 2 of 32 studies, whatever
their distribution. Below five seeds, where no sign test is possible, the t test stands alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from statistics import median

import numpy as np
from scipy import special

from fgai_bench.registry import Scale

LEVEL = 0.95
SIGNIFICANT = 0.025  # in either direction: together the 5 % that a 95 % interval leaves out
LEAST_COVERAGE = 0.93  # of an interval that is called 95 %: five seeds allow .9375, and no more
SPLIT = 3.0  # a gap this many times as wide as what lies on either side splits values into two groups
ROUNDING = 1e-12  # of the largest difference: a smaller spread is rounding
LARGEST_EXPONENT = math.log(1e300)
SMALLEST, RESOLUTION = 1e-300, 2.0**-52  # what can be told from 0, and from 1
ZERO_STANDS_FOR = 1e-6  # on the scale of logarithms and logits, where no compared value says what is small


def mean(values: Sequence[float]) -> float:
    """Return the mean; NaN of nothing.

    >>> mean([1.0, 2.0])
    1.5
    """
    return math.fsum(values) / len(values) if values else math.nan


def std(values: Sequence[float]) -> float:
    """Return the sample standard deviation; NaN below two values.

    >>> std([1.0, 3.0]) == 2 ** 0.5
    True
    """
    if len(values) < 2:
        return math.nan
    centre = mean(values)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))


def paired(left: Mapping[int, float], right: Mapping[int, float]) -> dict[int, float]:
    """Return ``left - right`` by seed for the seeds that both have, in order of the seeds.

    >>> paired({0: 3.0, 1: 5.0}, {1: 1.0, 0: 1.0, 2: 9.0})
    {0: 2.0, 1: 4.0}
    """
    return {seed: left[seed] - right[seed] for seed in sorted(left.keys() & right.keys())}


@cache
def sign_rank(n: int) -> int:
    r"""Return the largest k for which the k-th lowest and k-th highest of n values are an interval of the median.

    .. math:: P(\text{covered}) \ge 1 - 2 P(\mathrm{Bin}(n, 1/2) < k) \ge 0.93

    It holds for any distribution: skewed, in two groups, on any scale. 0 below five values, where no k is enough.

    >>> [sign_rank(n) for n in (4, 5, 8, 9, 10)]  # 1 - 2 / 32 is .9375, 1 - 2 * 11 / 1024 is .979
    [0, 1, 1, 2, 2]
    """
    return int((special.bdtr(np.arange(n // 2), n, 0.5) <= (1 - LEAST_COVERAGE) / 2).sum())


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the sign test's interval of the median, between two values by their rank; None below five values.

    >>> median_interval([5.0, 1.0, 2.0, 3.0, 9.0]), median_interval([1.0, 2.0, 3.0, 4.0]), median_interval(range(10))
    ((1.0, 9.0), None, (1, 8))
    """
    k = sign_rank(len(values))
    return (sorted(values)[k - 1], sorted(values)[-k]) if k else None


def is_split(values: Sequence[float]) -> bool:
    """Tell whether five or more values fall into two groups, with a gap that is much wider than either of them.

    Of normal samples of five 6 % look so, of ten one in three thousand.

    >>> is_split([0.53, 0.57, 0.61, 0.90, 0.93]), is_split([0.5, 0.6, 0.7, 0.8, 0.9])
    (True, False)
    """
    if len(values) < 5:
        return False
    rising = sorted(values)
    gap, place = max((high - low, i) for i, (low, high) in enumerate(pairwise(rising), 1))
    widest = max(rising[place - 1] - rising[0], rising[-1] - rising[place])
    return gap > max(SPLIT * widest, ROUNDING * max(map(abs, values)))


def centre(differences: Sequence[float]) -> float:
    """Return what :func:`interval` covers: the median of five or more differences, the mean of fewer.

    >>> centre([1.0, 2.0, 3.0, 4.0, 100.0]), centre([1.0, 2.0, 6.0])
    (3.0, 3.0)
    """
    return median(differences) if sign_rank(len(differences)) else mean(differences)


def interval(differences: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % interval of :func:`centre`: the sign test's, or Student's t below five; None below two.

    >>> interval([1.0, 2.0, 3.0, 4.0, 100.0])
    (1.0, 100.0)
    >>> [round(bound, 3) for bound in interval([1.0, 2.0, 3.0])]  # 2 -+ 4.303 * 1 / sqrt(3)
    [-0.484, 4.484]
    >>> interval([0.5]) is None
    True
    """
    if len(differences) < 2:
        return None
    if bounds := median_interval(differences):
        return bounds
    half = 0.0 if is_constant(differences) else _standard_error(differences) * _quantile(len(differences) - 1)
    return mean(differences) - half, mean(differences) + half


def p_value(differences: Sequence[float]) -> float:
    """Return the two-sided p that there is no difference, by the test of :func:`p_above`; 1 below two values.

    >>> round(p_value([1.0, 2.0, 3.0]), 4)  # t = 2 * sqrt(3), two degrees of freedom
    0.0742
    >>> p_value([0.0, 0.0])
    1.0
    """
    if len(differences) < 2 or mean(differences) == 0:
        return 1.0
    return min(1.0, 2 * min(p_above(differences), p_above([-difference for difference in differences])))


def p_above(differences: Sequence[float]) -> float:
    """Return the one-sided p of the t test that differences are not above zero: small where they clearly are.

    It is 1 where the sign test's interval is not above zero: the t test alone believes in a spread that skewed seeds
    do not have. Equal differences have no spread to estimate; they are taken at their word, p is 0 or 1.

    >>> round(p_above([1.0, 2.0, 3.0]), 4), p_above([0.5, 0.5]), p_above([-0.5, -0.5]), p_above([7.0])
    (0.0371, 0.0, 1.0, 1.0)
    >>> round(p_above([8.0, 9.0, 9.5, 10.0, 11.0]), 6), p_above([-0.1, 9.0, 9.5, 10.0, 11.0])
    (2.3e-05, 1.0)
    """
    bounds = median_interval(differences)
    if len(differences) < 2 or (bounds is not None and bounds[0] <= 0):
        return 1.0
    if is_constant(differences):
        return 0.0 if mean(differences) > 0 else 1.0
    return float(special.stdtr(len(differences) - 1, -mean(differences) / _standard_error(differences)))


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return p-values after Holm's step-down correction, in the given order.

    >>> holm([0.01, 0.04, 0.03])
    (0.03, 0.06, 0.06)
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return tuple(adjusted)


def _quantile(freedom: float) -> float:
    return float(special.stdtrit(freedom, (1 + LEVEL) / 2))


def _standard_error(values: Sequence[float]) -> float:
    return std(values) / math.sqrt(len(values))


def is_constant(values: Sequence[float]) -> bool:
    """Tell whether values differ by rounding only."""
    return std(values) <= ROUNDING * max(map(abs, values))


def on_scale(rows: Iterable[Mapping[int, float]], scale: Scale) -> list[dict[int, float]]:
    """Return rows of values on the scale where they are compared; all rows that are compared go in together.

    A logarithm has no 0 and a logit neither 0 nor 1. The continuity rule: a value at such an end counts as half the
    distance from that end of the nearest value that is not at it, over all rows. So the rule follows the resolution of
    what is compared, and a row that is at the end in every seed stays ahead of all others.

    >>> [{seed: round(value, 3) for seed, value in row.items()} for row in on_scale([{0: 0.0, 1: 0.2}], "log")]
    [{0: -2.303, 1: -1.609}]
    >>> on_scale([{0: 1.0}, {0: 0.5}], "logit") == on_scale([{0: 0.75}, {0: 0.5}], "logit")
    True
    """
    listed = [dict(row) for row in rows]
    if scale == "identity":
        return listed
    inner = [value for row in listed for value in row.values() if value > 0 and (scale == "log" or value < 1)]
    low = max(_half_of_smallest(inner), SMALLEST)
    high = max(_half_of_smallest([1 - value for value in inner]), RESOLUTION)
    return [{seed: _transformed(value, scale, low, high) for seed, value in row.items()} for row in listed]


def _half_of_smallest(distances: Iterable[float]) -> float:
    return min(distances, default=2 * ZERO_STANDS_FOR) / 2


def _transformed(value: float, scale: Scale, low: float, high: float) -> float:
    if scale == "log":
        return math.log(max(value, low))
    inside = min(max(value, low), 1 - high)
    return math.log(inside) - math.log1p(-inside)


def in_units(value: float, scale: Scale) -> float:
    """Return a value of a scale in the metric's own units.

    >>> in_units(0.0, "log"), in_units(0.0, "logit"), in_units(0.25, "identity")
    (1.0, 0.5, 0.25)
    """
    if scale == "log":
        return math.exp(min(value, LARGEST_EXPONENT))  # two seeds can have any interval
    return float(special.expit(value)) if scale == "logit" else value


def centre_interval(values: Mapping[int, float], scale: Scale) -> tuple[float, float] | None:
    """Return the interval of a row's median in the metric's units: it stands wherever a median is printed.

    Below five seeds it is Student's t interval on the scale, where median and mean are one if errors are symmetric.

    >>> [round(bound, 3) for bound in centre_interval({0: 0.1, 1: 0.1, 2: 0.1}, "log")]
    [0.1, 0.1]
    >>> centre_interval({0: 1.0, 1: 1.0, 2: 1.0, 3: 1.0, 4: 0.9}, "logit")
    (0.9, 1.0)
    """
    listed = list(values.values())
    if bounds := median_interval(listed):
        return bounds
    bounds = interval(list(on_scale([values], scale)[0].values()))
    if bounds is None:
        return None
    return min(in_units(bounds[0], scale), median(listed)), max(in_units(bounds[1], scale), median(listed))


@dataclass(frozen=True)
class Comparison:
    """Two rows held against each other seed by seed, on one scale."""

    differences: tuple[float, ...]  # left minus right on the scale, by seed
    scale: Scale = "identity"  # where the differences were taken
    anchor: float = 0.0  # the right side's centre on the scale, at which differences are shown in the metric's units

    @classmethod
    def of(cls, left: Mapping[int, float], right: Mapping[int, float], scale: Scale) -> Comparison:
        """Compare two rows of values, each by seed, in the metric's units.

        >>> ten_times = Comparison.of({0: 0.01, 1: 0.1}, {0: 0.001, 1: 0.01}, "log")
        >>> round(ten_times.value, 6)
        10.0
        """
        shared = sorted(left.keys() & right.keys())
        mine, other = on_scale([{seed: row[seed] for seed in shared} for row in (left, right)], scale)
        return cls(tuple(paired(mine, other).values()), scale, centre(list(other.values())))

    @cached_property
    def bounds_on_scale(self) -> tuple[float, float] | None:
        """Return the 95 % interval of :attr:`difference_on_scale`."""
        return interval(self.differences)

    @property
    def difference_on_scale(self) -> float:
        """Return the centre of the differences on the scale."""
        return centre(self.differences)

    @cached_property
    def side(self) -> int:
        """Return 1 or -1 where the left side is shown to be above or below the right one, else 0.

        >>> left = Comparison((0.1, 0.2, 0.2, 0.3, 0.2))
        >>> left.side, Comparison((-0.1, 0.2, 0.2, 0.3, 0.2)).side, Comparison((0.1, 0.1, 0.1, 0.1, 9.0)).side
        (1, 0, 0)
        """
        above, below = (p_above([sign * difference for difference in self.differences]) for sign in (1, -1))
        return (above < SIGNIFICANT) - (below < SIGNIFICANT)

    @property
    def is_ratio(self) -> bool:
        """Tell whether :attr:`value` is a ratio: where logarithms are compared."""
        return self.scale == "log"

    @property
    def value(self) -> float:
        """Return the ratio left over right, or the difference in the metric's units at the centre of the right side."""
        return self._shown(self.difference_on_scale)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Return the interval of :attr:`value`; it excludes zero, or a ratio of 1, where that on the scale does."""
        bounds = self.bounds_on_scale
        return (self._shown(bounds[0]), self._shown(bounds[1])) if bounds else None

    def _shown(self, difference: float) -> float:
        if self.scale == "logit":
            return in_units(self.anchor + difference, self.scale) - in_units(self.anchor, self.scale)
        return in_units(difference, self.scale)


def mean_interval(draws: Sequence[np.ndarray]) -> tuple[float, float, float]:
    r"""Return the mean over draws and nodes, and its interval; both count as samples of more: S arrays ``(n_s,)``.

    .. math:: s^2 = \frac{1}{S} \sum_s \frac{\mathrm{var}_i(v_{si})}{n_s} + \frac{\mathrm{var}_s(\bar v_s)}{S}

    with Student's t by Satterthwaite's degrees of freedom. Draws on the same nodes are not averaged away, so it is a
    little too wide for several. One draw says nothing about others: its interval is over nodes only.

    >>> mean_interval([np.ones(5), np.ones(5)])
    (1.0, 1.0, 1.0)
    >>> [round(bound, 3) for bound in mean_interval([np.array([1.0, 2.0, 3.0])])]  # as the t interval of the nodes
    [2.0, -0.484, 4.484]
    """
    centre, variance, freedom = _mean_and_variance(draws)
    half = math.sqrt(variance) * _quantile(freedom) if variance else 0.0
    return centre, centre - half, centre + half


def share_interval(draws: Sequence[np.ndarray]) -> tuple[float, float, float]:
    r"""Return a share over draws and nodes, and its interval in [0, 1]: S arrays ``(n_s,)`` of booleans.

    Wilson's interval for :math:`n' = p (1 - p) / s^2` nodes, with the variance of :func:`mean_interval`: as many
    independent nodes as would be known that well. It has a width at 0 and at 1, too.

    >>> [round(bound, 3) for bound in share_interval([np.ones(10, dtype=bool)])]
    [1.0, 0.722, 1.0]
    """
    numbers = [values.astype(float) for values in draws]
    share, variance, freedom = _mean_and_variance(numbers)
    size = share * (1 - share) / variance if variance else min(values.size for values in numbers)
    z = _quantile(freedom) if variance else float(special.ndtri((1 + LEVEL) / 2))
    middle, spread = share + z * z / (2 * size), z * math.sqrt(share * (1 - share) / size + (z / (2 * size)) ** 2)
    low, high = ((middle + sign * spread) / (1 + z * z / size) for sign in (-1, 1))
    return share, max(0.0, low), min(1.0, high)


def _mean_and_variance(draws: Sequence[np.ndarray]) -> tuple[float, float, float]:
    """Return the mean over draws and nodes, its variance, and the degrees of freedom of that."""
    nodes = min(values.size for values in draws)
    within = float(np.mean([values.var(ddof=1) / values.size for values in draws])) if nodes > 1 else 0.0
    means = np.array([values.mean() for values in draws])
    between = float(means.var(ddof=1) / means.size) if means.size > 1 else 0.0
    variance = within + between
    spread = within**2 / max(nodes - 1, 1) + between**2 / max(means.size - 1, 1)
    return float(means.mean()), variance, variance**2 / spread if variance else 1.0
