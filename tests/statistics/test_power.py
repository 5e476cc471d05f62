"""Power: the number of seeds that a comparison needs, from printed tables and by simulation."""

from __future__ import annotations

import numpy as np

from fgai_bench.statistics.intervals import p_above
from fgai_bench.statistics.power import seeds_needed


def test_seeds_needed_follow_from_effect_and_spread() -> None:
    # Printed tables of the t test: an effect of one deviation, two-sided 5 %, 80 % power, needs 10 pairs.
    assert seeds_needed([0.0, 1.0, 2.0], 0.025) == 10
    assert seeds_needed([0.0, -1.0, -2.0], 0.025) == 10
    assert seeds_needed([0.0, 1.0, 2.0], 0.0025) > 10  # type: ignore[operator]
    assert seeds_needed([0.9, 1.3, 1.0, 1.1, 0.8], 0.002) == 4  # as every number from two on, tried in turn, says
    assert seeds_needed([1.0, -1.0, 0.001], 0.025) is None
    assert seeds_needed([1.0], 0.025) is None


def test_so_many_seeds_do_decide_in_four_of_five_studies() -> None:
    """The promise of 80 % power, for an effect of one deviation at the level of a claim's cell."""
    enough = seeds_needed([0.0, 1.0, 2.0], 0.025)
    assert enough is not None
    studies = np.random.default_rng(6).normal(1.0, 1.0, (2000, enough))
    decided = np.mean([p_above(study) < 0.025 for study in studies.tolist()])
    assert 0.77 < decided < 0.85


def test_differences_in_two_groups_need_as_many_seeds_as_flipped_signs_do() -> None:
    """Of five seeds one choice of signs in 32 has all of them positive, of six one in 64."""
    apart = [0.28, 0.30, 0.32, 0.33, 0.82]
    assert seeds_needed([0.28, 0.30, 0.32, 0.33, 0.42], 0.025) == 3
    assert seeds_needed(apart, 0.025) == 6
    assert seeds_needed(apart, 0.025 / 12) == 9
