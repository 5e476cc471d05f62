"""T_k: how many entries, which of equal ones, and the same answer as a stable sort."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from fgai_bench.metrics.topk import group_counts, group_topk_mask, topk_mask


@given(st.lists(st.integers(-2, 2), min_size=1, max_size=20), st.data())
def test_mask_marks_the_head_of_a_stable_sort(values: list[int], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(values)))
    head = sorted(range(len(values)), key=lambda e: -values[e])[:k]
    assert topk_mask(torch.tensor(values).float(), k).nonzero().flatten().tolist() == sorted(head)


def test_counts_are_whole_shares_of_each_group() -> None:
    groups = torch.tensor([0] * 100 + [1] * 3 + [4])
    assert group_counts(groups, 0.29).tolist() == [29, 1, 1, 1, 1]
    assert group_counts(groups, 1.0).tolist() == [100, 3, 1, 1, 1]


def test_groups_of_interleaved_edges_are_ranked_apart() -> None:
    w, groups = torch.tensor([0.1, 0.9, 0.8, 0.2, 0.3, 0.2]), torch.tensor([0, 1, 1, 0, 1, 0])
    # Group 0 holds 0.1, 0.2, 0.2 at edges 0, 3, 5; group 1 holds 0.9, 0.8, 0.3 at edges 1, 2, 4.
    assert group_topk_mask(w, groups, 0.4).nonzero().flatten().tolist() == [1, 3]
    assert group_topk_mask(w, groups, 0.7).nonzero().flatten().tolist() == [1, 2, 3, 5]


def test_a_group_id_without_edges_marks_nothing() -> None:
    assert group_topk_mask(torch.tensor([0.5, 0.4]), torch.tensor([3, 3]), 0.5).tolist() == [True, False]
