"""Which cells are ranked, which are bold, and what is never ranked."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fgai_bench.statistics.cells import UNEQUAL, Cell, Gap, null_cell, worst
from fgai_bench.statistics.ranking import ERROR, standings
from fgai_bench.statistics.results import Place

LEDGER = {"nodes": 20.0, "edges": 400.0, "gradient_calls": 10.0}


def made(*values: float, threat: str = "{}", ledger: dict[str, float] | None = None, **more: Any) -> Cell:
    budgets = dict.fromkeys(range(len(values)), (threat, ledger if ledger is not None else LEDGER))
    return Cell(None, "f1", dict(enumerate(values)), budgets=budgets, **more)


def test_the_best_and_what_cannot_be_told_from_it_are_bold() -> None:
    cells = {
        "best": made(0.9, 0.8, 0.86),
        "close": made(0.85, 0.85, 0.84),
        "worse": made(0.3, 0.2, 0.25),
    }
    standing = standings(cells, "higher")
    assert {key: row.bold for key, row in standing.items()} == {"best": True, "close": True, "worse": False}
    assert {key: row.rank for key, row in standing.items()} == {"best": 1, "close": 1, "worse": 3}
    assert standing["worse"].rival == "best"


def test_what_is_bold_ranks_first_and_nothing_else_does() -> None:
    rng = np.random.default_rng(0)
    for values in rng.uniform(0.4, 0.6, (50, 5, 5)) + np.linspace(0, 0.2, 5)[:, None]:
        standing = standings({i: made(*row) for i, row in enumerate(values.tolist())}, "higher").values()
        assert all(row.bold == (row.rank == 1) == (row.p_beaten >= ERROR) for row in standing)
        assert any(row.bold for row in standing)


STUDIES = 1500


@pytest.mark.parametrize("spread", [(0.02,) * 5, (0.002, 0.005, 0.02, 0.05, 0.1)])
@pytest.mark.parametrize("metric", ["f1", "g_jsd"])
def test_a_row_that_is_as_good_as_the_best_keeps_its_bold(metric: str, spread: tuple[float, ...]) -> None:
    """Five equal rows, seeds as blocks: with one spread, and with spreads that differ as those of defenses do."""
    rng = np.random.default_rng(4)
    blocks, own = rng.normal(0, 0.1, (STUDIES, 1, 5)), rng.normal(0, 1.0, (STUDIES, 5, 5))
    values = np.exp(blocks + own * np.array(spread)[:, None] - 3)
    lost = np.zeros(5)
    for study in values:
        cells = {i: Cell(None, metric, dict(enumerate(row))) for i, row in enumerate(study.tolist())}
        lost += [not row.bold for row in standings(cells, "lower").values()]
    assert (lost / STUDIES <= 0.065).all()  # 5 % and three standard errors
    assert lost.sum() / (5 * STUDIES) <= 0.06
    assert lost.sum() / (5 * STUDIES) >= 0.03  # not by calling everything equal


def test_a_clearly_better_row_is_bold_alone() -> None:
    rng = np.random.default_rng(5)
    alone = 0
    for study in rng.normal(0, 0.01, (200, 4, 5)) + np.array([0.9, 0.8, 0.8, 0.7])[:, None]:
        rows = list(standings({i: made(*row) for i, row in enumerate(study.tolist())}, "higher").values())
        alone += [row.bold for row in rows] == [True, False, False, False]
    assert alone >= 190  # ten deviations apart


def against_null(*values: float, null: float) -> Cell:
    return replace(made(*values), metric="g_jsd", null=dict.fromkeys(range(len(values)), null))


def test_what_is_not_better_than_its_null_cannot_be_first() -> None:
    cells = {
        "stable": against_null(1e-6, 1.1e-6, 0.9e-6, null=5e-6),
        "moved": against_null(2e-5, 2.1e-5, 1.9e-5, null=5e-6),
    }
    standing = standings(cells, "lower")
    assert (standing["stable"].rank, standing["stable"].beats_null) == (1, True)
    assert (standing["moved"].rank, standing["moved"].beats_null) == (3, False)
    worse = {name: replace(cell, null=dict.fromkeys(range(3), 5e-7)) for name, cell in cells.items()}
    standing = standings(worse, "lower")
    assert (standing["stable"].rank, standing["stable"].beats_null) == (2, False)
    assert not any(row.bold for row in standing.values())


def test_a_value_is_related_to_its_null_by_the_logarithm_of_their_ratio() -> None:
    relative = against_null(1e-6, 2e-6, null=1e-6).relative
    assert relative is not None
    assert relative.differences == pytest.approx((0.0, math.log(2)))
    assert made(0.5, 0.5).relative is None


def test_the_null_of_rows_at_the_same_places_is_one_value() -> None:
    assert null_cell([against_null(1.0, 2.0, null=3.0), against_null(1.0, 2.0, null=3.0)]).values == {0: 3.0, 1: 3.0}
    assert null_cell([made(1.0, 2.0)]).values == {}


def test_direction_turns_the_order() -> None:
    cells = {"low": made(0.1, 0.2), "high": made(0.8, 0.9)}
    assert standings(cells, "lower")["low"].rank == 1
    assert standings(cells, "none")["low"].rank is None


def test_one_seed_ranks_nothing() -> None:
    found = standings({"a": made(0.9), "b": made(0.1)}, "higher")
    assert [one.rank for one in found.values()] == [None, None]
    assert not any(one.bold for one in found.values())


@pytest.mark.parametrize("status", ["failed", "oom", "timeout", "missing", "not-applicable"])
def test_a_gap_is_never_ranked(status: str) -> None:
    gap = made(0.99, 0.99, gaps=(Gap(2, status, "why"),))
    found = standings({"gap": gap, "a": made(0.5, 0.5), "b": made(0.4, 0.4)}, "higher")
    assert (found["gap"].rank, found["gap"].bold) == (None, False)
    assert found["a"].rank == 1


def test_other_budgets_are_not_ranked() -> None:
    rich = made(0.99, 0.99, ledger={**LEDGER, "nodes": 40.0})
    other = made(0.98, 0.98, threat='{"steps":50}')
    found = standings(
        {"rich": rich, "other": other, "a": made(0.5, 0.5), "b": made(0.4, 0.4), "c": made(0.3, 0.3)}, "higher"
    )
    assert found["rich"].unequal
    assert found["other"].unequal
    assert (found["rich"].rank, found["other"].rank, found["a"].rank) == (None, None, 1)


def test_two_rows_of_different_budgets_leave_nothing_to_rank() -> None:
    found = standings({"a": made(0.5, 0.5), "b": made(0.6, 0.6, threat='{"steps":50}')}, "higher")
    assert [one.rank for one in found.values()] == [None, None]
    assert all(one.unequal for one in found.values())


def test_a_search_may_leave_edges_out_and_take_as_many_gradients_as_it_needs() -> None:
    spare = made(0.6, 0.6, ledger={**LEDGER, "edges": 380.0, "gradient_calls": 12_000.0})
    assert standings({"a": made(0.5, 0.5), "b": spare}, "higher")["b"].rank == 1


def test_a_suite_of_unequal_budgets_is_not_ranked() -> None:
    found = standings({"a": made(0.5, 0.5, flags=(UNEQUAL,)), "b": made(0.4, 0.4, flags=(UNEQUAL,))}, "higher")
    assert all(one.unequal and one.rank is None for one in found.values())


def test_different_seeds_are_not_compared() -> None:
    found = standings({"a": made(0.5, 0.5), "b": made(0.4, 0.4), "c": made(0.9, 0.9, 0.9)}, "higher")
    assert found["c"].rank is None


def test_infinite_values_are_not_ranked() -> None:
    assert standings({"a": made(float("inf"), 1.0), "b": made(0.4, 0.4)}, "higher")["a"].rank is None


def test_the_worst_attack_is_taken_seed_by_seed() -> None:
    one = worst([made(0.5, 0.9), made(0.7, 0.2), Cell(None, "f1")], "higher")
    assert one.values == {0: 0.5, 1: 0.2}
    assert worst([made(0.5, 0.9), made(0.7, 0.2)], "lower").values == {0: 0.7, 1: 0.9}


def test_the_gravest_gap_names_the_status() -> None:
    cell = Cell(None, "f1", {}, (Gap(0, "missing", "later"), Gap(1, "failed", "it broke")))
    assert (cell.status, cell.reason) == ("failed", "it broke")


def test_a_row_that_lacks_an_attack_is_still_attacked_alike() -> None:
    """The vanilla model has no transfer from itself."""

    def attacked(value: float, gradients: float) -> Cell:
        return Cell(
            None, "f1", {0: value, 1: value}, budgets=dict.fromkeys((0, 1), ("t", {"gradient_calls": gradients}))
        )

    strong, transfer, absent = attacked(0.5, 250), attacked(0.7, 10), Cell(None, "f1")
    cells = {
        name: worst([strong, last], "higher")
        for name, last in (("vanilla", absent), ("ln", transfer), ("at", transfer))
    }
    assert not any(standing.unequal for standing in standings(cells, "higher").values())
    assert cells["ln"].budgets[0][1]["gradient_calls"] == 250


def test_released_settings_rank_among_themselves_and_never_beside_others() -> None:
    def labelled(label: str, *values: float) -> Cell:
        return replace(made(*values), place=Place("node", "attack", "node", "cora", "gat", label, "injection"))

    released = {"a": labelled("at released", 0.9, 0.8, 0.86), "b": labelled("fgai released", 0.3, 0.2, 0.25)}
    own = {"c": labelled("at", 0.5, 0.5, 0.51), "d": labelled("fgai", 0.1, 0.1, 0.11)}
    assert {key: row.rank for key, row in standings({**released, **own}, "higher").items()} == {
        "a": None, "b": None, "c": 1, "d": 2,
    }  # fmt: skip
    assert {key: row.rank for key, row in standings(released, "higher").items()} == {"a": 1, "b": 2}


def test_the_strongest_rival_is_the_one_that_is_shown_to_be_better() -> None:
    """The other one has a higher median, and one seed of five on the other side."""
    cells = {
        "own": made(0.50, 0.51, 0.52, 0.53, 0.54),
        "far": made(0.90, 0.91, 0.92, 0.93, 0.10),
        "sure": made(0.60, 0.61, 0.62, 0.63, 0.65),
    }
    standing = standings(cells, "higher")["own"]
    assert (standing.rival, standing.rank) == ("sure", 2)
    assert standing.p_beaten < ERROR
