"""F-slope on curves and graphs small enough to follow by hand."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fgai_bench.metrics import NotApplicable, degree_ranking, f_slope, random_ranking, uniform_ranking
from fgai_bench.metrics.f_slope import RATES, deletion_order, f_acc_curve, kept_mask
from fgai_bench.models.attention import Attention

STAR = torch.tensor([[1, 2, 3, 4, 0], [0, 0, 0, 0, 1]])


def in_degree(edges: torch.Tensor) -> torch.Tensor:
    """A model that predicts the number of in-edges of each of five nodes."""
    return torch.bincount(edges[1], minlength=5)


def test_slope_of_a_line_is_its_slope() -> None:
    assert f_slope(RATES, [1 - 1.3 * r for r in RATES]) == pytest.approx(-1.3)


def test_steepest_possible_curve_reaches_the_declared_bound() -> None:
    assert f_slope(RATES, [1, 1, 1, 0, 0, 0]) == pytest.approx(-18 / 7)


@given(st.lists(st.floats(0, 1), min_size=6, max_size=6), st.floats(-1, 1))
def test_slope_ignores_a_shift_of_the_curve(accuracies: list[float], shift: float) -> None:
    assert f_slope(RATES, [a + shift for a in accuracies]) == pytest.approx(f_slope(RATES, accuracies), abs=1e-9)


@pytest.mark.parametrize(
    ("rates", "accuracies", "sentence"),
    [
        ([0.0], [1.0], "two different rates"),
        ([0.1, 0.1], [1.0, 0.9], "two different rates"),
        ([0.0, 0.1], [1.0], "one accuracy per rate"),
        ([0.0, 0.1], [1.0, math.nan], "accuracies must be finite"),
    ],
)
def test_curves_without_a_slope_are_refused(rates: list[float], accuracies: list[float], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        f_slope(rates, accuracies)


def test_added_loops_are_never_deleted() -> None:
    loops = torch.tensor([[0, 1], [0, 1]])
    att = Attention(torch.cat([STAR, loops], 1), torch.tensor([0.1, 0.1, 0.1, 0.1, 0.2, 0.9, 0.9]), added=2)
    assert kept_mask(deletion_order(att), 1.0).tolist() == [False] * 5
    assert kept_mask(deletion_order(att), 0.2).tolist() == [True, True, True, True, False]


def test_share_is_rounded_down_to_whole_edges() -> None:
    att = Attention(torch.zeros(2, 100, dtype=torch.long), torch.rand(100))
    assert [int((~kept_mask(deletion_order(att), r)).sum()) for r in (0.0, 0.29, 0.295, 0.5)] == [0, 29, 29, 50]


def test_highest_and_lowest_delete_opposite_edges() -> None:
    att = Attention(STAR, torch.tensor([0.1, 0.2, 0.3, 0.4, 1.0]))
    assert kept_mask(deletion_order(att), 0.4).tolist() == [True, True, True, False, False]
    assert kept_mask(deletion_order(att, highest=False), 0.4).tolist() == [False, False, True, True, True]


def test_impossible_share_is_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        kept_mask(deletion_order(Attention(STAR, torch.ones(5))), 1.5)


def test_a_curve_without_a_right_node_is_not_applicable() -> None:
    with pytest.raises(NotApplicable, match="no node was classified correctly"):
        f_acc_curve(in_degree, STAR, Attention(STAR, torch.ones(5)), in_degree(STAR), torch.arange(0))


def test_curve_follows_the_deleted_edges() -> None:
    y = in_degree(STAR)
    att = Attention(STAR, torch.tensor([0.1, 0.2, 0.3, 0.4, 1.0]))
    every, rates = torch.arange(5), (0.0, 0.2, 0.4)
    # 4->... the edge 0->1 goes first and takes node 1 with it, then 4->0 takes node 0.
    assert f_acc_curve(in_degree, STAR, att, y, every, rates=rates) == (1.0, 4 / 5, 3 / 5)
    # The lowest edges all point at node 0.
    assert f_acc_curve(in_degree, STAR, att, y, every, False, rates) == (1.0, 4 / 5, 4 / 5)
    # Only the nodes that are asked for count.
    assert f_acc_curve(in_degree, STAR, att, y, torch.tensor([2, 3]), rates=rates) == (1.0, 1.0, 1.0)
    assert f_acc_curve(in_degree, STAR, att, y, torch.tensor([0, 1]), rates=rates) == (1.0, 0.5, 0.0)


def test_curve_matches_attention_to_edges_by_key() -> None:
    y, order = in_degree(STAR), torch.tensor([4, 2, 0, 3, 1])
    att = Attention(STAR, torch.tensor([0.1, 0.2, 0.3, 0.4, 1.0]))
    mixed = Attention(STAR[:, order], att.weight[order])
    args = (y, torch.arange(5), True, (0.0, 0.2, 0.4))
    assert f_acc_curve(in_degree, STAR, mixed, *args) == f_acc_curve(in_degree, STAR, att, *args)


def test_sanity_rankings_rank_the_same_edges() -> None:
    for att in (random_ranking(STAR), uniform_ranking(STAR), degree_ranking(STAR)):
        assert torch.equal(att.edge_index, STAR)
        assert att.added == 0
    assert uniform_ranking(STAR).weight.tolist() == [0.25, 0.25, 0.25, 0.25, 1.0]
    # Node 0 has five edge ends, node 1 two, the others one.
    assert degree_ranking(STAR).weight.tolist() == pytest.approx([10**-0.5, 5**-0.5, 5**-0.5, 5**-0.5, 10**-0.5])


def test_random_ranking_follows_its_seed_and_no_other() -> None:
    state = torch.get_rng_state()
    first, again, other = random_ranking(STAR, 1), random_ranking(STAR, 1), random_ranking(STAR, 2)
    assert torch.equal(first.weight, again.weight)
    assert not torch.equal(first.weight, other.weight)
    assert torch.equal(torch.get_rng_state(), state)
