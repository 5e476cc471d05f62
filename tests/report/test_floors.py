"""Floors in reports: the table, the figures, leaderboards, the page, and the error where an attack goes below one."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from fgai_bench.cli.app import main
from fgai_bench.cli.run import conclude
from fgai_bench.records.result import Result
from fgai_bench.run.resume import Run
from tests.report_fixtures import BASE, Bench, attack_result, fill


def proven(floor: float) -> Result:
    metrics = {"certified_f1": floor, "certified_explanations": 0.9}
    return Result(metrics=metrics, curves={"floor": ((0.0, 400.0, 800.0), (0.9, floor, floor / 2))})


@pytest.fixture(scope="module")
def run(bench: Callable[[], Bench]) -> Path:
    """FGAI has a floor below its worst case, vanilla one that its worst case undercuts, AT none."""
    store = bench()
    fill(store)
    for seed in range(3):
        for label in BASE:
            store.add("attack", attack_result(label, seed, harm=0.1), attack_label="worst", label=label, seed=seed)
            if label in ("vanilla", "fgai"):
                floor = proven({"vanilla": 0.35, "fgai": 0.70}[label] + 0.01 * seed)
                store.add("certify", floor, label=label, seed=seed, explainer="reach")
                lower = proven(0.2) if label == "fgai" else Result("not-applicable", "no ensemble")
                store.add("certify", lower, label=label, seed=seed, explainer="votes")
            else:
                reason = Result("not-applicable", "it looks at the whole graph")
                store.add("certify", reason, label=label, seed=seed, explainer="reach")
    return store.close()


@pytest.fixture(scope="module")
def report(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("floors")
    assert main(["report", str(run), "--out", str(out), "--format", "csv,latex,png,html"]) == 0
    return out


def test_the_table_has_floor_beside_worst_case_and_the_reason_where_there_is_none(report: Path) -> None:
    lines = csv.DictReader((report / "tables" / "floors.csv").read_text().splitlines())
    cells = {(row["method"], row["column"]): row for row in lines}
    assert float(cells["FGAI", "floor↑"]["mean"]) == pytest.approx(0.71)  # the higher of two certificates
    assert float(cells["FGAI", "worst case↑"]["mean"]) == pytest.approx(0.75)
    assert cells["AT", "floor↑"]["status"] == "not-applicable"
    assert cells["AT", "floor↑"]["reason"] == "it looks at the whole graph"
    assert (report / "tables" / "floors.tex").stat().st_size


def test_leaderboards_and_the_page_have_the_floor_of_the_same_budget(report: Path) -> None:
    rows = list(csv.DictReader((report / "leaderboard_node_full.csv").read_text().splitlines()))
    worst = {row["defense"]: row for row in rows if row["attack"] == "worst"}
    assert float(worst["fgai"]["certified_f1_mean"]) == pytest.approx(0.71)
    assert not worst["at"]["certified_f1_mean"]
    assert "floor (proven)" in (report / "page.html").read_text()


def test_both_figures_are_drawn(report: Path) -> None:
    assert {"floors.png", "floors_over_budget.png"} <= {path.name for path in (report / "figures").iterdir()}


def test_an_attack_below_a_floor_is_said_to_be_an_error(
    report: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = list(csv.DictReader((report / "leaderboard_node_full.csv").read_text().splitlines()))
    flags = {(row["defense"], row["attack"]): row["flags"] for row in rows}
    assert "below a proven floor" in flags["vanilla", "worst"]
    assert "below a proven floor" not in flags["fgai", "worst"]
    assert main(["verify", str(run)]) == 1
    assert "below a proven floor" in capsys.readouterr().out
    with pytest.raises(typer.Exit):
        conclude(Run(run))
    assert "below a proven floor, 0.3" in capsys.readouterr().out
