"""Statistics over seeds: facts that can be checked by hand, properties, and how often an interval really covers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from benchmarks.coverage import WAYS, measured, populations
from fgai_bench.statistics.intervals import (
    Comparison,
    centre,
    centre_interval,
    holm,
    in_units,
    interval,
    is_split,
    mean,
    median_interval,
    on_scale,
    p_above,
    p_value,
    std,
)

NUMBERS = st.lists(st.floats(-10, 10), min_size=2, max_size=8)
T3 = 3.182446305284263  # the 97.5 % quantile of Student's t with three degrees of freedom, from a printed table


def test_differences_have_students_interval_below_five_seeds_and_that_of_their_median_from_five_on() -> None:
    four = [1.0, 2.0, 3.0, 4.0]  # deviation sqrt(5 / 3)
    half = T3 * math.sqrt(5 / 3 / 4)
    assert (centre(four), interval(four)) == (2.5, (pytest.approx(2.5 - half), pytest.approx(2.5 + half)))
    five = [*four, 50.0]
    assert (centre(five), interval(five)) == (3.0, (1.0, 50.0))
    found = Comparison.of(dict(enumerate(five)), dict.fromkeys(range(5), 0.5), "identity")
    assert (found.value, found.bounds) == (2.5, (0.5, 49.5))


def test_degenerate_values_have_typed_answers() -> None:
    assert (math.isnan(mean([])), math.isnan(std([1.0])), interval([0.5])) == (True, True, None)
    assert interval([0.25] * 3) == (0.25, 0.25)
    assert (p_value([0.25] * 3), p_value([0.0] * 3), p_value([0.25]), p_value([])) == (0.0, 1.0, 1.0, 1.0)
    assert Comparison((1.0,)).bounds is None


@given(NUMBERS)
def test_the_interval_of_the_negative_is_the_negative_interval(values: list[float]) -> None:
    low, high = interval(values) or (math.nan, math.nan)
    assert interval([-v for v in values]) == (pytest.approx(-high, abs=1e-9), pytest.approx(-low, abs=1e-9))


@given(NUMBERS)
@example([0.0, 5e-324])  # whose mean is nothing
@example([0.1, 0.1, 0.1, 0.1, 9.0])  # all positive, and the t test is not sure
def test_p_is_small_only_where_the_interval_excludes_zero(values: list[float]) -> None:
    low, high = interval(values) or (math.nan, math.nan)
    p, side = p_value(values), Comparison(tuple(values)).side
    if abs(p - 0.05) > 1e-6:
        assert (side != 0) == (p < 0.05)
        assert side <= 0 or low > 0
        assert side >= 0 or high < 0
        if len(values) < 5:
            assert (low > 0 or high < 0) == (p < 0.05)


def test_p_of_the_t_test() -> None:
    t = T3 * math.sqrt(5 / 3 / 4)  # a mean of that many standard errors has p 0.05
    four = [t - 1.5, t - 0.5, t + 0.5, t + 1.5]
    assert (p_value(four), p_above(four)) == (pytest.approx(0.05), pytest.approx(0.025))
    assert p_above([-1.0, 1.0]) == pytest.approx(0.5)
    five = [1.0, 1.0, 2.0, 3.0, 8.0]  # mean 3, deviation sqrt(34 / 4)
    assert p_above(five) == pytest.approx(stats.t.sf(3 / math.sqrt(34 / 4 / 5), 4))


def test_one_seed_of_five_on_the_other_side_of_zero_leaves_a_difference_open() -> None:
    """The t test alone is sure of it: its p is .017."""
    values = [-0.01, 1.0, 1.01, 1.02, 1.03]
    assert stats.ttest_1samp(values, 0).pvalue < 0.02
    assert (p_above(values), p_above([-value for value in values]), p_value(values)) == (1.0, 1.0, 1.0)
    ten = [-0.01, *(1 + i / 100 for i in range(9))]  # the second lowest of ten decides
    assert p_above(ten) < 1e-4
    assert Comparison((-0.02, *ten[:9])).side == 0


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_properties(values: list[float]) -> None:
    adjusted = holm(values)
    assert holm([0.01, 0.02, 0.03, 0.04]) == (0.04, 0.06, 0.06, 0.06)
    assert all(p <= q <= 1 for p, q in zip(values, adjusted, strict=True))
    order = sorted(range(len(values)), key=lambda i: values[i])
    assert [adjusted[i] for i in order] == sorted(adjusted)


def test_the_continuity_rule_halves_the_smallest_distance_from_the_end() -> None:
    (logs,) = on_scale([{0: 0.0, 1: 4e-6, 2: 1e-6}], "log")
    assert logs == pytest.approx({0: math.log(5e-7), 1: math.log(4e-6), 2: math.log(1e-6)})
    perfect, other = on_scale([{0: 1.0, 1: 1.0}, {0: 0.9, 1: 0.8}], "logit")
    assert perfect == pytest.approx({0: math.log(0.95 / 0.05), 1: math.log(0.95 / 0.05)})
    assert other == pytest.approx({0: math.log(9.0), 1: math.log(4.0)})
    none, all_of_it = on_scale([{0: 0.0}, {0: 1.0}], "logit")  # no value says what is small
    assert none[0] == pytest.approx(-all_of_it[0])
    assert none[0] == pytest.approx(math.log(1e-6))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_scales_keep_the_order_and_stay_finite(values: list[float]) -> None:
    for scale in ("log", "logit"):
        (row,) = on_scale([dict(enumerate(values))], scale)  # type: ignore[arg-type]
        assert all(math.isfinite(value) for value in row.values())
        order = sorted(range(len(values)), key=lambda i: values[i])
        assert all(row[a] <= row[b] + 1e-12 for a, b in pairwise(order))


def test_a_comparison_of_logarithms_is_a_ratio() -> None:
    ratios = (2.0, 4.0, 8.0)
    found = Comparison.of(dict(enumerate(1e-3 * r for r in ratios)), dict.fromkeys(range(3), 1e-3), "log")
    assert found.value == pytest.approx(4.0)
    low, high = found.bounds or (0.0, 0.0)
    assert (low * high, low < 1) == (pytest.approx(16.0), True)  # symmetric on the scale


def test_a_comparison_of_shares_is_shown_as_a_difference_of_shares() -> None:
    found = Comparison.of({0: 0.8, 1: 0.8}, {0: 0.5, 1: 0.5}, "logit")
    assert (found.value, found.bounds) == (pytest.approx(0.3), (pytest.approx(0.3), pytest.approx(0.3)))


@given(st.lists(st.tuples(st.floats(0.01, 0.99), st.floats(0.01, 0.99)), min_size=2, max_size=6))
def test_shown_bounds_exclude_zero_where_those_on_the_scale_do(pairs: list[tuple[float, float]]) -> None:
    left, right = (dict(enumerate(side)) for side in zip(*pairs, strict=True))
    found = Comparison.of(left, right, "logit")
    assert found.bounds is not None
    assert found.bounds_on_scale is not None
    for shown, on in zip(found.bounds, found.bounds_on_scale, strict=True):
        assert abs(on) < 1e-9 or shown == 0 or (shown > 0) == (on > 0)  # far out, a share no longer moves


@given(st.lists(st.floats(0, 1), min_size=2, max_size=12))
def test_the_printed_centre_of_a_row_lies_in_its_interval(values: list[float]) -> None:
    for scale in ("log", "logit", "identity"):
        low, high = centre_interval(dict(enumerate(values)), scale) or (1.0, 0.0)  # type: ignore[arg-type]
        assert low <= statistics.median(values) <= high


def test_the_interval_of_a_median_covers_as_often_as_a_coin_allows() -> None:
    """All of n seeds lie on one side of the median with the chance 2 / 2^n; all but one with 2 n / 2^n more."""
    for n, k in ((5, 1), (6, 1), (7, 1), (8, 1), (9, 2), (10, 2), (12, 3)):
        assert median_interval(range(n)) == (k - 1, n - k)
        missed = [2 * sum(math.comb(n, below) for below in range(wider)) / 2**n for wider in (k, k + 1)]
        assert missed[0] <= 0.07 < missed[1]


@pytest.mark.parametrize(
    ("values", "split"),
    [
        ([0.0, 0.0, 0.0, 0.0, 0.0], False),
        ([0.0, 0.0, 0.0, 0.0, 1.0], True),  # one seed that falls out
        ([0.0, 0.1, 0.5, 0.6, 0.65], False),  # the gap of .4 is less than three times .15
        ([0.0, 0.1, 0.6, 0.7, 0.75], True),
        ([0.0, 0.01, 1.0, 1.01], False),  # four seeds are too few to tell
    ],
)
def test_what_counts_as_two_groups(values: list[float], split: bool) -> None:
    assert is_split(values) == split


@pytest.mark.parametrize("seeds", [5, 10])
@pytest.mark.parametrize("kind", ["skewed", "two groups", "other"])
@pytest.mark.parametrize("what", ["rows", "differences"])
def test_what_is_printed_of_recorded_populations_covers_and_verdicts_are_seldom_false(
    what: str, kind: str, seeds: int
) -> None:
    studies = 6000 // len(populations(what)[kind])
    covered, false = measured(what, kind, seeds, studies, WAYS["median, sign test"])
    assert covered >= 0.93
    assert false <= 2 / 32 + 0.01  # three standard errors of 6000 studies


def test_the_interval_of_a_row_lies_within_the_metrics_range() -> None:
    low, high = centre_interval({0: 0.9, 1: 0.99, 2: 0.999}, "logit") or (-1.0, 2.0)
    assert 0 < low < 0.99 < high < 1
    assert in_units(math.log(0.25), "log") == pytest.approx(0.25)


SEEDS = (3, 5, 10)
STUDIES = 3000
Draw = Callable[[np.random.Generator, int], tuple[np.ndarray, float]]
DRAWS: dict[str, Draw] = {
    "normal": lambda rng, n: (rng.normal(0.3, 1.0, (STUDIES, n)), 0.3),
    "t3": lambda rng, n: (0.3 + rng.standard_t(3, (STUDIES, n)), 0.3),
    # Ratios of two lognormal rows, compared as logarithms: the scale that divergences declare.
    "lognormal": lambda rng, n: (
        np.array(
            [
                Comparison.of(dict(enumerate(left)), dict(enumerate(right)), "log").differences
                for left, right in zip(*np.exp(rng.normal([[[-8.0]], [[-9.0]]], 1.0, (2, STUDIES, n))), strict=True)
            ]
        ),
        1.0,
    ),
}


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("name", DRAWS)
def test_a_95_percent_interval_covers(name: str, seeds: int) -> None:
    differences, truth = DRAWS[name](np.random.default_rng(1), seeds)
    bounds = np.array([interval(row) for row in differences.tolist()])
    covered = ((bounds[:, 0] <= truth) & (truth <= bounds[:, 1])).mean()
    assert covered >= 0.9375 - 0.014  # that of five seeds less three standard errors of 3000 studies
