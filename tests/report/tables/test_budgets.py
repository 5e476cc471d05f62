"""The study under the published budgets: a table of its own, and no place in any ranking."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fgai_bench.cli import main
from fgai_bench.leaderboard.merge import add
from fgai_bench.leaderboard.rows import BOARDS, entries
from fgai_bench.report.claims import judge
from fgai_bench.report.tables.budgets import LARGE_BUDGET, SHARES, budget_table
from fgai_bench.report.tables.build import suite_for
from fgai_bench.report.tables.specs import GRIDS
from fgai_bench.report.write import write_report
from fgai_bench.statistics.results import Place, ReportError, Results
from tests.report_fixtures import attack_result, fill

UNEQUAL = {"suite": "published-budgets", "flags": ("unequal budgets",), "attack_label": "injection"}
RICH = {"nodes": 20.0, "edges": 800.0, "largest_feature": 1.0, "gradient_calls": 10.0}


@pytest.fixture
def unequal(bench: Callable[[], Any]) -> Path:
    """Published budgets alone: vanilla with twice the edges of FGAI, and 0.3 less F1 than under the equal budget."""
    made = bench()
    _add_unequal(made)
    return Path(made.close())


@pytest.fixture
def both(bench: Callable[[], Any]) -> Path:
    """The same beside the equal budget."""
    made = bench()
    fill(made)
    _add_unequal(made)
    return Path(made.close())


def _add_unequal(made: Any) -> None:
    for seed in range(3):
        harmed = attack_result("vanilla", seed, harm=0.3, ledger=RICH)
        made.add("attack", harmed, label="vanilla", seed=seed, threat={"edges_per_node": 40}, **UNEQUAL)
        made.add("attack", attack_result("fgai", seed), label="fgai", seed=seed, threat={"step": 0.05}, **UNEQUAL)


def test_the_table_splits_the_gap(both: Path) -> None:
    table = budget_table(Results.read(both))
    assert table is not None
    assert "unequal published budgets" in table.caption
    row = next(row for row in table.rows if row.heads == ("Amazon-Photo", "GAT", "F1 attacked↑"))
    # Vanilla 0.40 and FGAI 0.85 under one budget; vanilla 0.10 under its own: 0.45 of 0.75 is no budget's doing.
    found = dict(zip(table.columns, row.cells, strict=True))
    means = {name: found["Unequal published budgets", name].mean for name in ("Vanilla", "FGAI", "gap")}
    assert means == pytest.approx({"Vanilla": 0.10, "FGAI": 0.85, "gap": 0.75})
    assert found["Equal budget, small", "gap"].mean == pytest.approx(0.45)
    shares = [found["Share of the gap", order].text for order in SHARES]
    assert shares == ["40%", "--", "--"]
    assert not any(cell.bold or cell.rank for row in table.rows for cell in row.cells)


def test_more_seeds_of_the_equal_budget_count_nowhere(bench: Callable[[], Any]) -> None:
    """Two more seeds under the equal budget, on which vanilla keeps nothing, have no partner under the unequal one."""
    made = bench()
    fill(made)
    _add_unequal(made)
    for seed in (3, 4):
        for label, harm in (("vanilla", 0.4), ("fgai", 0.0)):
            harmed = attack_result(label, seed, harm=harm)
            made.add("attack", harmed, label=label, seed=seed, attack_label="injection")
    results = Results.read(made.close())
    assert len(results.at(Place("node", "attack", "node", "amazon-photo", "gat", "vanilla", "injection"))) == 5
    table = budget_table(results)
    assert table is not None
    found = dict(zip(table.columns, table.rows[0].cells, strict=True))
    assert found["Equal budget, small", "gap"].mean == pytest.approx(0.45)
    assert found["Share of the gap", SHARES[0]].text == "40%"


def test_the_share_depends_on_the_order_and_shapley_takes_the_mean(bench: Callable[[], Any]) -> None:
    """Equal at the large budget: vanilla keeps 0.10, FGAI falls to 0.70, so 0.15 of the gap of 0.75 is the budget's."""
    made = bench()
    fill(made)
    _add_unequal(made)
    for seed in range(3):
        for label, harm in (("vanilla", 0.3), ("fgai", 0.15)):
            harmed = attack_result(label, seed, harm=harm, ledger=RICH)
            large = {"suite": LARGE_BUDGET, "attack_label": "injection", "threat": {"edges_per_node": 40}}
            made.add("attack", harmed, label=label, seed=seed, **large)
    table = budget_table(Results.read(made.close()))
    assert table is not None
    found = dict(zip(table.columns, table.rows[0].cells, strict=True))
    means = [found["Share of the gap", order].mean for order in SHARES]
    assert means == pytest.approx([0.4, 0.2, 0.3])
    assert not any("stands in" in note for note in table.notes)


def test_without_the_equal_budget_the_table_says_so(unequal: Path) -> None:
    table = budget_table(Results.read(unequal))
    assert table is not None
    assert table.rows[0].cells[0].text == "--"
    assert table.rows[0].cells[-1].text == "--"


def test_no_published_budgets_no_table(small: Path) -> None:
    assert budget_table(Results.read(small)) is None


def test_leaderboards_have_no_row_of_it_and_refuse_it_alone(
    both: Path, unequal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {entry.key[0] for board in BOARDS for entry in entries(board, Results.read(both))} == {"node"}
    assert main(["leaderboard", "add", str(unequal), "--to", str(tmp_path / "results")]) == 2
    assert "published-budgets, changed: seeds=3 is not the suite as it is declared" in capsys.readouterr().err
    with pytest.raises(ReportError, match="holds only published-budgets, where each defense has a budget of its own"):
        add(unequal, tmp_path / "results")
    assert not (tmp_path / "results").exists()
    add(both, tmp_path / "results")
    with (tmp_path / "results" / "leaderboard_node_full.csv").open() as stream:
        assert {row["suite"] for row in csv.DictReader(stream)} == {"node"}


def test_no_other_table_figure_or_claim_is_made_from_it(both: Path, small: Path, unequal: Path, tmp_path: Path) -> None:
    alone = Results.read(unequal)
    assert {suite_for(spec, alone) for spec in GRIDS} == {None}
    assert {verdict.conclusion for verdict in judge(alone)} == {"not tested"}
    done = write_report(unequal, tmp_path, ["markdown", "png"])
    assert {path.stem for path in done.written} == {"dataset_node", "budgets", "comparison", "index"}
    with_it, without = Results.read(both), Results.read(small)
    assert [str(one.decisions) for one in judge(with_it)] == [str(one.decisions) for one in judge(without)]
