"""Long ascents: they reach the top of a hill, keep what scores lowest, and stay in the box."""

from __future__ import annotations

import torch

from fgai_bench.attacks.ascent import ascend_long


def test_the_top_of_a_hill_is_reached():
    top = torch.tensor([[0.3, -0.7], [0.9, 0.1]])

    def objective(x):
        return -(x - top).square().sum(), (x - top).abs().amax()

    summit = ascend_long(objective, torch.zeros(2, 2), -1.0, 1.0, step=0.2, steps=200)
    torch.testing.assert_close(summit.point, top, atol=0.02, rtol=0)
    assert bool(summit.finite)
    assert bool(summit.moving)


def test_what_counts_is_the_score_and_not_the_objective():
    """The objective grows to the right, the score is lowest at a half: the ascent passes there and remembers it."""
    summit = ascend_long(lambda x: (x.sum(), (x - 0.5).abs().sum()), torch.zeros(1, 1), -1.0, 1.0, 0.1, 40)
    assert abs(float(summit.point) - 0.5) < 0.06
    assert float(summit.score) < 0.06


def test_it_stays_in_the_box_and_where_the_gradient_is_no_number():
    summit = ascend_long(lambda x: (x.sum(), -x.sum()), torch.zeros(1, 2), -0.25, 0.5, 1.0, 5)
    assert summit.point.tolist() == [[0.5, 0.5]]
    broken = ascend_long(lambda x: ((x - 1).sqrt().sum(), x.sum()), torch.zeros(1, 1), -1.0, 1.0, 0.1, 5)
    assert not bool(broken.finite)
    assert broken.point.tolist() == [[0.0]]


def test_candidates_side_by_side_are_judged_one_by_one():
    """The first rises by two and the second falls behind a root that is no number: neither touches the other."""

    def objective(x):
        values = torch.stack([x[0].sum(), (x[1] - 1).sqrt().sum(), x[2].sum()])
        return values, -x.sum(1)

    summit = ascend_long(objective, torch.zeros(3, 2), -1.0, 1.0, 0.5, 10, candidates=3)
    assert summit.point.tolist() == [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]
    assert not bool(summit.finite)


def test_the_rise_of_several_candidates_is_that_of_one():
    one, two = (
        ascend_long(lambda x: (x.sum(1), -x.sum(1)), torch.zeros(rows, 2), -1.0, 1.0, 0.5, 10, candidates=rows)
        for rows in (1, 8)
    )
    assert float(one.rise) == float(two.rise) == 2.0


def test_an_objective_without_a_gradient_says_so():
    summit = ascend_long(lambda x: (x.detach().sum(), x.sum()), torch.zeros(1, 1), -1.0, 1.0, 0.1, 3)
    assert not bool(summit.moving)
