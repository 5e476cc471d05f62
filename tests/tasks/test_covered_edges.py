"""The benchmark of explanations: it goes on where it was stopped and writes the tables that the page reads."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from benchmarks.covered_edges import main

SMALL = ["--device", "cpu", "--nodes", "8", "--epochs", "2"]


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_contribution_is_measured_once_for_each_network(tmp_path: Path) -> None:
    command = ["contribution", "--datasets", "csbm-planted-strong", "--out", str(tmp_path), *SMALL]
    main([*command, "--seeds", "0"])
    first = rows_of(tmp_path / "covered_edges_contribution.csv")
    assert {row["explainer"] for row in first} >= {"contribution", "attention-last", "uniform"}
    assert [float(row["effect_spearman"]) for row in first if row["explainer"] == "contribution"] == [1.0]
    main([*command, "--seeds", "0", "1"])
    both = rows_of(tmp_path / "covered_edges_contribution.csv")
    assert both[: len(first)] == first
    assert {row["seed"] for row in both[len(first) :]} == {"1"}


def test_time_has_a_row_for_the_effects_and_for_every_explainer_that_reads_attention(tmp_path: Path) -> None:
    main(["time", "--datasets", "csbm-planted-strong", "--models", "gat-one-hop", "--out", str(tmp_path), *SMALL])
    rows = {row["what"]: float(row["seconds"]) for row in rows_of(tmp_path / "covered_edges_time.csv")}
    assert {"effects", "attention-last", "contribution", "sum"} <= set(rows)
    assert rows.pop("sum") == pytest.approx(sum(rows.values()), abs=1e-3)


def test_the_tables_of_rows_and_of_the_lie_are_written(tmp_path: Path) -> None:
    grid = ["--models", "gat-one-hop", "--seeds", "0", "--out", str(tmp_path), *SMALL]
    main(["rows", "--datasets", "cora", "--defenses", "vanilla", "--run", str(tmp_path / "rows"), *grid])
    counts = rows_of(tmp_path / "covered_edges_counts.csv")
    assert {(row["explainer"], row["null"]) for row in counts} >= {("contribution", "uniform"), ("GAtt", "random")}
    assert rows_of(tmp_path / "covered_edges_measures.csv")
    main(["lie", "--run", str(tmp_path / "lie"), *grid])
    told = rows_of(tmp_path / "covered_edges_planted_lie.csv")
    assert {row["measure"] for row in told} >= {"share on true edges", "rank corr.", "verdict"}
