"""Ours beside the published numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fgai_bench.cli import main
from fgai_bench.records.result import Result
from fgai_bench.report.compare import Compared, as_files, compare, lines, reproduced, scale_notes, summary, untested
from fgai_bench.report.published import published
from fgai_bench.statistics.results import Results

NUMBERS_OF_THE_PAPER = 120 + 120 + 192 + 48 + 21 * 4 + 21 * 2  # its six tables


def on_amazon_photo(folder: Path) -> dict[tuple[str, str, str, str], Compared]:
    """Return the comparison on one dataset by (table, model, defense, metric)."""
    return {
        (pair.number.table, pair.number.model, pair.number.label, pair.number.metric): pair
        for pair in compare(Results.read(folder), published())
        if pair.number.dataset == "amazon-photo"
    }


def test_the_difference_is_in_units_of_the_combined_spread(small: Path) -> None:
    pair = on_amazon_photo(small)["table2", "gat", "vanilla", "f1_attacked"]
    assert pair.difference == pytest.approx(0.40 - 0.2363)
    assert pair.spreads == pytest.approx((0.40 - 0.2363) / math.hypot(0.02, 0.01))
    assert pair.result == "compared"


def test_published_scales_have_their_own_neighbour(small: Path) -> None:
    pairs = on_amazon_photo(small)
    assert pairs["table1", "gat", "vanilla", "g_jsd"].number.ours == "g_jsd_published"
    assert pairs["table1", "gat", "vanilla", "g_tvd"].difference == pytest.approx(7.0 - 7.41)
    assert any("raw outputs" in note for note in scale_notes(pairs.values()))


def test_what_was_not_run_names_the_suite(small: Path) -> None:
    comparison = compare(Results.read(small), published())
    assert "link: 48 of 48 published numbers not tested: fgai-bench run --suite link" in untested(comparison)
    assert len([line for line in lines(comparison) if line[0] == "table2"]) == 4 * 2
    files = as_files(comparison, Results.read(small))
    assert "fgai-bench run --suite cost" in files["comparison.md"]
    assert len(files["comparison.csv"].splitlines()) == 1 + NUMBERS_OF_THE_PAPER


def test_a_stand_in_is_compared_only_where_it_was_run(small: Path, wide: Path) -> None:
    datasets = [{pair.number.dataset for pair in compare(Results.read(run), published())} for run in (small, wide)]
    assert ["arxiv-topology" in names for names in datasets] == [False, True]
    assert all("ogbn-arxiv" in names for names in datasets)


def test_an_oom_on_both_sides_is_told(wide: Path) -> None:
    pairs = [
        pair
        for pair in compare(Results.read(wide), published())
        if (pair.number.dataset, pair.number.label, pair.number.metric) == ("arxiv-topology", "pro-gnn", "seconds")
    ]
    assert [pair.result for pair in pairs] == ["ours: OOM, as published"]
    assert "surrogate" in pairs[0].number.note


def test_equal_seeds_leave_no_spread_to_measure_by(small: Path) -> None:
    pair = on_amazon_photo(small)["f_slope", "gat", "ln", "f_slope_pos"]  # ours is -0.4 for every seed
    assert math.isnan(pair.spreads)  # and the paper gives no std
    assert pair.difference == pytest.approx(-0.4 + 0.6613)


def test_the_share_of_reproduced_scores_stands_for_each_kind_of_settings_and_budgets(bench: Callable[[], Any]) -> None:
    """GAT on Amazon-Photo, published clean and attacked F1: vanilla .8206 and .2363, FGAI .8665 and .8637."""
    made = bench()
    cells = {
        ("node", "vanilla", ()): (0.83, 0.40), ("node", "fgai", ()): (0.90, 0.85),  # .009, .164, .034 and .014 away
        ("published-budgets", "vanilla released", ("unequal budgets",)): (0.85, 0.24),  # .029 and .004
    }  # fmt: skip
    for (suite, label, flags), scores in cells.items():
        for kind, attack, score in (("clean", "", scores[0]), ("attack", "injection", scores[1])):
            made.add(kind, Result(metrics={"f1": score}), suite=suite, label=label, flags=flags, attack_label=attack)
    results = Results.read(made.close())
    rows = reproduced(results, published())
    assert [[*row[:5], *(share.split()[0] for share in row[5:])] for row in rows] == [
        ["table2", "published", "equal", "all", "4", "0.50", "0.75"],
        ["table2", "published", "equal", "Vanilla", "2", "0.50", "0.50"],
        ["table2", "published", "equal", "FGAI", "2", "0.50", "1.00"],
        ["table2", "released", "published", "all", "2", "0.50", "1.00"],
        ["table2", "released", "published", "Vanilla", "2", "0.50", "1.00"],
    ]
    files = as_files(compare(results, published()), results, rows)
    assert "| table2 | released | published | all | 2 | 0.50 [" in files["comparison.md"]
    assert files["comparison_shares.csv"].splitlines()[0].startswith("table,settings,budgets,method,published scores,")


def test_scores_of_two_tables_are_never_one_share(bench: Callable[[], Any]) -> None:
    made = bench()
    where = {"task": "link", "suite": "link", "dataset": "cora", "label": "vanilla"}
    made.add("clean", Result(metrics={"roc_auc": 0.5}), **where)
    made.add("clean", Result(metrics={"f1": 0.83}), suite="node", label="vanilla")
    rows = reproduced(Results.read(made.close()), published())
    assert [(row[0], row[3], row[4]) for row in rows] == [
        ("table2", "all", "1"), ("table2", "Vanilla", "1"), ("link", "all", "1"), ("link", "Vanilla", "1"),
    ]  # fmt: skip


def test_rows_with_released_settings_stand_beside_the_paper_in_a_table_of_their_own(bench: Callable[[], Any]) -> None:
    made = bench()
    made.add("clean", Result(metrics={"f1": 0.85}), suite="node", label="fgai released")
    comparison = compare(Results.read(made.close()), published())
    told = [line for line in lines(comparison) if line[0] == "table2"]
    assert [line[3:7] for line in told] == [["FGAI released", "f1", "0.867±0.010", "0.850"]]
    counted = {row[0]: row[1:3] for row in summary(comparison)}
    assert (counted["table2"], counted["table2 released"]) == (["120", "0"], ["1", "1"])


def test_a_summary_per_table_comes_first(small: Path) -> None:
    comparison = compare(Results.read(small), published())
    rows = {row[0]: row[1:] for row in summary(comparison)}
    assert list(rows) == ["table1", "table2", "f_slope", "link", "ablation", "cost"]
    assert rows["link"] == ["48", "0", "0", "0", "0", "48"]
    for numbers in rows.values():
        every, compared, near, no_spread, gaps, untested_numbers = map(int, numbers)
        assert every == compared + gaps + untested_numbers
        assert near + no_spread <= compared
    text = as_files(comparison, Results.read(small))["comparison.md"]
    assert text.index("within 2 spreads") < text.index("| in spreads |")


def test_a_spread_of_one_side_alone_is_no_unit(small: Path) -> None:
    pair = on_amazon_photo(small)["table2", "gat", "vanilla", "f1_attacked"]
    assert math.isnan(replace(pair, number=replace(pair.number, std=math.nan)).spreads)
    assert math.isnan(replace(pair, number=replace(pair.number, std=0.0)).spreads)


def test_only_some_tables_are_printed_cell_by_cell(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(small)]) == 0
    whole = capsys.readouterr().out
    assert "cell by cell" not in whole
    assert main(["compare", str(small), "--only", "table2"]) == 0
    said = capsys.readouterr().out
    assert "cell by cell" in said
    assert "table1" not in said
    assert main(["compare", str(small), "--only", "table9"]) == 2
    assert "--only can be table1, table2" in capsys.readouterr().err
