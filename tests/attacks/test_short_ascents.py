"""Projected ascent on functions whose maximum one knows."""

from __future__ import annotations

import pytest
import torch

from fgai_bench.attacks.ascent import Ascent, BestAscent, ascend

ONE = torch.ones(2)


def climbed(objective, start, low, high, step, steps) -> BestAscent:
    return BestAscent.over(lambda x: ascend(objective, x, low, high, step, steps), [start])


def test_it_walks_to_the_corner_and_stays_in_the_box():
    found = climbed(lambda x: x.sum(), 0 * ONE, -ONE, torch.tensor([1.0, 0.25]), step=0.5, steps=3)
    assert found.best.point.tolist() == [1.0, 0.25]
    assert found.curve == (0.0, 0.75, 1.25, 1.25)
    assert (found.best.value, found.gradient_calls, found.flags) == (1.25, 3, ())


def test_the_best_point_is_returned_not_the_last():
    found = climbed(lambda x: -(x - 0.3).abs().sum(), 0 * ONE, -ONE, ONE, step=0.4, steps=3)
    assert found.best.value == max(found.curve)
    assert found.best.point.tolist() == pytest.approx([0.4, 0.4])


def test_no_steps_return_the_start():
    found = climbed(lambda x: x.sum(), 0.5 * ONE, -ONE, ONE, step=0.1, steps=0)
    assert (found.best.point.tolist(), found.curve, found.gradient_calls, found.flags) == ([0.5, 0.5], (1.0,), 0, ())


@pytest.mark.parametrize(
    "objective",
    [lambda x: (0 * x).sum(), lambda x: torch.tensor(3.0), lambda x: torch.ones(2, requires_grad=True).sum()],
)
def test_a_zero_gradient_is_flagged(objective):
    found = climbed(objective, 0 * ONE, -ONE, ONE, step=0.1, steps=2)
    assert found.flags == ("zero gradient",)


def test_one_zero_gradient_of_several_is_not():
    found = climbed(lambda x: x.clamp(min=0.05).sum(), torch.tensor([0.0, 0.1]), -ONE, ONE, step=0.1, steps=2)
    assert found.flags == ()


def test_a_gradient_that_is_not_finite_is_flagged_and_ends_the_search():
    found = climbed(lambda x: x.sqrt().sum(), 0 * ONE, -ONE, ONE, step=0.1, steps=5)  # infinite slope at 0
    assert found.flags == ("non-finite gradient",)
    assert len(found.curve) == 1
    assert found.best.point.tolist() == [0.0, 0.0]


def test_it_works_where_gradients_are_switched_off():
    with torch.no_grad():
        assert climbed(lambda x: x.sum(), 0 * ONE, -ONE, ONE, step=0.5, steps=1).curve == (0.0, 1.0)


def test_the_best_of_several_starts_is_kept_and_all_are_counted():
    starts = [-0.5 * ONE, 0.5 * ONE, 0 * ONE]
    found = BestAscent.over(lambda x: ascend(lambda x: x.sum(), x, -1.0, 1.0, 0.25, 1), starts)
    assert (found.best.point.tolist(), found.best.value.item(), found.gradient_calls) == ([0.75, 0.75], 1.5, 3)
    assert found.curve == (1.0, 1.5)


def test_gradients_after_one_that_is_not_finite_do_not_count():
    yes, no = torch.tensor(True), torch.tensor(False)
    ascent = Ascent(ONE, ONE[0], torch.arange(4.0), torch.stack([yes, no, yes]), torch.stack([yes, yes, yes]))
    found = BestAscent(ascent, (ascent,), gradients=2)
    assert (found.gradient_calls, found.curve, found.flags) == (4, (0.0, 1.0), ("non-finite gradient",))
