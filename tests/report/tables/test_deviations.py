"""The bridge from the released program to our settings: values, and paired changes from the released row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fgai_bench.report.tables.build import Table, build
from fgai_bench.report.tables.specs import GRIDS
from fgai_bench.report.write import write_report
from fgai_bench.statistics.results import Results
from tests.report_fixtures import attack_result, clean_result

SUITE = {"suite": "deviations", "flags": ("unequal budgets",)}


def deviation_table(results: Results) -> Table | None:
    (spec,) = (spec for spec in GRIDS if spec.name == "deviations")
    return build(spec, results)


def changed(result: Any, f1: float, ratio: float) -> Any:
    metrics = dict(result.metrics)
    metrics["f1"] += f1
    return replace(result, metrics={**metrics, **({"g_jsd": ratio * metrics["g_jsd"]} if "g_jsd" in metrics else {})})


@pytest.fixture
def bridge(bench: Callable[[], Any]) -> Path:
    """FGAI as released and with self-loops: at every seed 0.02 more clean F1, a tenth less attacked, half the g-JSD."""
    made = bench()
    for seed in range(3):
        for label, (clean, attacked, ratio) in {
            "fgai/released": (0, 0, 1),
            "fgai/self-loops": (0.02, -0.1, 0.5),
        }.items():
            names = {"label": label, "defense": "fgai", "seed": seed, **SUITE}
            made.add("clean", changed(clean_result("fgai", seed), clean, 1), **names)
            for attack in ("injection", "worst"):
                made.add("attack", changed(attack_result("fgai", seed), attacked, ratio), attack_label=attack, **names)
    return Path(made.close())


def test_a_deviation_stands_with_its_paired_change(bridge: Path) -> None:
    table = deviation_table(Results.read(bridge))
    assert table is not None
    first, second, null = table.rows
    assert [row.heads[2] for row in table.rows] == ["fgai/released", "fgai/self-loops", "Uniform attention"]
    assert [cell.text for cell in null.cells][3] == "6.00±0.00E-4"
    assert [cell.text for cell in first.cells] == [
        "0.900±0.001", "0.850±0.010", "0.850±0.010", "5.00±0.50E-4",
    ]  # fmt: skip
    assert [cell.text.split(" [")[0] for cell in second.cells] == [
        "0.920±0.001, +0.020", "0.750±0.010, -0.100", "0.750±0.010, -0.100", "2.50±0.25E-4, x0.50",
    ]  # fmt: skip
    assert second.cells[3].text.endswith("[0.50, 0.50]")  # the same ratio at every seed
    assert [[cell.bold for cell in row.cells] for row in (first, second)] == [[False] * 4, [True] * 4]


def test_the_report_writes_it_and_ranks_nothing(bridge: Path) -> None:
    report = write_report(bridge, formats=("markdown", "csv"))
    assert "deviations.md" in {path.name for path in report.written}
    board = (report.folder / "leaderboard_node_full.csv").read_text().splitlines()
    assert len(board) == 1


def test_without_deviations_there_is_no_table(small: Path) -> None:
    assert deviation_table(Results.read(small)) is None
