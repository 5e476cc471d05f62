"""Power: the number of seeds that a comparison needs, by hand and by simulation."""

from __future__ import annotations

import numpy as np

from fgai_bench.statistics.intervals import p_above
from fgai_bench.statistics.power import seeds_needed


def test_seeds_needed_follow_from_effect_and_spread() -> None:
    # An effect of one deviation: a difference is not above zero with the chance .1587. Of 14 at most 3 are not with the
    # chance .82, of 13 at most 2 with .65. The t test alone would need 10, as printed tables say.
    assert seeds_needed([0.0, 1.0, 2.0], 0.025) == 14
    assert seeds_needed([0.0, -1.0, -2.0], 0.025) == 14
    assert seeds_needed([0.0, 1.0, 2.0], 0.0001) == 28  # the t test needs more than the interval
    assert seeds_needed([0.9, 1.3, 1.0, 1.1, 0.8], 0.002) == 4  # where no sign test is possible, the t test alone
    assert seeds_needed([1.0, -1.0, 0.001], 0.025) is None
    assert seeds_needed([1.0], 0.025) is None


def test_so_many_seeds_do_decide_in_four_of_five_studies() -> None:
    """The promise of 80 % power, for an effect of one deviation at the level of a claim's cell."""
    enough = seeds_needed([0.0, 1.0, 2.0], 0.025)
    assert enough is not None
    studies = np.random.default_rng(6).normal(1.0, 1.0, (2000, enough))
    decided = np.mean([p_above(study) < 0.025 for study in studies.tolist()])
    assert 0.77 < decided < 0.85
