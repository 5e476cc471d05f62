"""Titles of suites: a suite with other seeds than its own says so."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fgai_bench.records.names import titles


@pytest.mark.parametrize(
    ("seeds", "title"),
    [
        (range(5), "node"),
        (range(10), "node"),
        (range(4), "node, changed: seeds=4"),
        ((5, 6, 7, 8, 9), "node, changed: seeds=5 6 7 8 9"),
        ((0, 1, 2, 3, 4, 7), "node, changed: seeds=0 1 2 3 4 7"),
    ],
)
def test_seeds_beyond_those_of_the_suite_are_no_change_if_none_is_left_out(seeds: Sequence[int], title: str) -> None:
    assert titles([{"suite": "node", "seed": seed, "suite_seeds": "0-4"} for seed in seeds]) == {"node": title}
