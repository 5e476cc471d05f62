"""Ours beside the published numbers."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from fgai_bench.cli import main
from fgai_bench.report.compare import Compared, as_files, compare, lines, scale_notes, untested
from fgai_bench.report.published import published
from fgai_bench.statistics.results import Results

NUMBERS_OF_THE_PAPER = 120 + 120 + 192 + 48 + 21 * 4 + 21 * 2  # its six tables
SECOND_PAPER = """\
title: A second paper
link: https://example.org/second
tables:
  - name: scores
    file: scores.csv
    task: node
    suites: [node]
    rows:
      dataset: {constant: amazon-photo}
      model: {constant: gat}
      defense: {column: method, names: {None: vanilla, Other: other}}
    metrics:
      - {name: accuracy, mean: percent, ours: f1, kind: clean, direction: higher, scale: 0.01}
"""


@pytest.fixture
def second_paper(tmp_path: Path) -> Path:
    """Write another paper: a table of two rows, one of them on a defense that our run does not have."""
    folder = tmp_path / "second"
    folder.mkdir()
    (folder / "paper.yaml").write_text(SECOND_PAPER)
    (folder / "scores.csv").write_text("method,percent\nNone,90\nOther,95\n")
    return folder


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
    files = as_files(comparison, Results.read(small), "")
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


def test_the_command_compares_with_a_folder_of_ones_own(
    small: Path, second_paper: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = second_paper / "out"
    assert main(["compare", str(small), "--to", str(second_paper), "--out", str(out)]) == 0
    assert "scores: 1 of 2 published numbers not tested: fgai-bench run --suite node" in capsys.readouterr().out
    page = (out / "comparison.md").read_text()
    assert 'beside "A second paper"' in page
    cells = "GAT | Vanilla | accuracy | 0.900 | 0.920±0.001 | 0.020 | +20.0 | compared"  # (0.92 - 90 %) / 0.001
    assert f"| scores | Amazon-Photo | {cells} |" in page
    assert len((out / "comparison.csv").read_text().splitlines()) == 1 + 2


def test_paper_is_another_name_of_the_shipped_folder(small: Path, tmp_path: Path) -> None:
    for name in ("paper", "fgai"):
        assert main(["compare", str(small), "--to", name, "--out", str(tmp_path / name)]) == 0
    pages = [(tmp_path / name / "comparison.md").read_bytes() for name in ("paper", "fgai")]
    assert pages[0] == pages[1]
