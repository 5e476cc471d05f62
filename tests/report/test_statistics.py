"""Uncertainty over seeds: facts that can be checked by hand, and properties."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgai_bench.report.statistics import contains_zero, holm, interval, mean, p_value, paired, resampled_means, std

NUMBERS = st.lists(st.floats(-10, 10), min_size=2, max_size=5)


def test_mean_and_sample_deviation() -> None:
    assert mean([1.0, 2.0, 6.0]) == 3.0
    assert std([1.0, 2.0, 6.0]) == pytest.approx(math.sqrt((4 + 1 + 9) / 2))
    assert math.isnan(std([1.0]))
    assert math.isnan(mean([]))


def test_few_values_are_resampled_exhaustively() -> None:
    # Of (0, 1, 2) the 27 resamples have sums 0..6, counted 1 3 6 7 6 3 1.
    means = resampled_means((0.0, 1.0, 2.0))
    assert len(means) == 27
    assert [int(((means * 3).round() == total).sum()) for total in range(7)] == [1, 3, 6, 7, 6, 3, 1]


def test_many_values_are_drawn_with_a_fixed_seed() -> None:
    values = tuple(float(i) for i in range(20))
    assert interval(values) == interval(values)
    low, high = interval(values) or (0.0, 0.0)
    assert 4 < low < 9.5 < high < 15


@given(NUMBERS)
def test_an_interval_lies_among_the_values_and_holds_the_mean(values: list[float]) -> None:
    low, high = interval(values) or (math.nan, math.nan)
    assert min(values) - 1e-9 <= low <= mean(values) + 1e-9
    assert mean(values) - 1e-9 <= high <= max(values) + 1e-9


@given(NUMBERS)
def test_the_interval_of_the_negative_is_the_negative_interval(values: list[float]) -> None:
    low, high = interval(values) or (math.nan, math.nan)
    assert interval([-v for v in values]) == (pytest.approx(-high, abs=1e-9), pytest.approx(-low, abs=1e-9))


def test_differences_are_paired_by_seed() -> None:
    assert paired({3: 1.0, 1: 5.0}, {1: 2.0, 3: 4.0, 9: 0.0}) == (3.0, -3.0)


def test_p_values() -> None:
    assert p_value([1.0] * 5) == 1 / 5**5  # no resample has the other sign
    assert p_value([-1.0, 1.0]) == 1.0
    assert p_value([1.0]) == 1.0


def test_holm_never_lowers_and_keeps_the_order() -> None:
    assert holm([0.01, 0.02, 0.03, 0.04]) == (0.04, 0.06, 0.06, 0.06)
    assert holm([]) == ()


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_properties(values: list[float]) -> None:
    adjusted = holm(values)
    assert all(p <= q <= 1 for p, q in zip(values, adjusted, strict=True))
    order = sorted(range(len(values)), key=lambda i: values[i])
    assert [adjusted[i] for i in order] == sorted(adjusted)


def test_zero_on_the_edge_is_contained() -> None:
    assert contains_zero((0.0, 1.0))
    assert not contains_zero((1e-9, 1.0))
