"""Which cells are ranked, which are bold, and what is never ranked."""

from __future__ import annotations

from typing import Any

import pytest

from fgai_bench.report.cells import UNEQUAL, Cell, Gap, standings, worst

LEDGER = {"nodes": 20.0, "edges": 400.0, "gradient_calls": 10.0}


def made(*values: float, threat: str = "{}", ledger: dict[str, float] | None = None, **more: Any) -> Cell:
    budgets = dict.fromkeys(range(len(values)), (threat, ledger if ledger is not None else LEDGER))
    return Cell(None, "f1", dict(enumerate(values)), budgets=budgets, **more)


def test_the_best_and_what_cannot_be_told_from_it_are_bold() -> None:
    cells = {"best": made(0.9, 0.8), "close": made(0.85, 0.85), "worse": made(0.5, 0.4)}
    found = standings(cells, "higher")
    assert {key: one.bold for key, one in found.items()} == {"best": True, "close": True, "worse": False}
    assert {key: one.rank for key, one in found.items()} == {"best": 1, "close": 1, "worse": 3}
    assert found["worse"].difference == pytest.approx((-0.4, -0.4))


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


def test_a_search_may_leave_a_little_of_its_budget() -> None:
    spare = made(0.6, 0.6, ledger={**LEDGER, "edges": 399.0})
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
