"""Stability and correctness of explanations: the points, the table beside nulls, and the figure."""

from __future__ import annotations

from pathlib import Path

import pytest

from fgai_bench.report.explanations import explained, points
from fgai_bench.report.figures import FIGURES
from fgai_bench.report.tables.explanations import correctness_table, explanation_table
from fgai_bench.report.tables.specs import grids_of
from fgai_bench.statistics.results import Results


def test_the_strongest_attack_and_the_truth_come_first(asked: Path) -> None:
    groups = {group.dataset: group for group in explained(Results.read(asked))}
    assert groups["amazon-photo"].attack == "worst"
    assert groups["amazon-photo"].measure == "effect_spearman_clean"
    assert groups["infection"].measure == "truth_auroc_clean"
    assert groups["infection"].explainers == ["attention-last", "gatt"]
    assert groups["infection"].nulls == ["random", "uniform"]


def test_points_are_plain_data_for_every_defense_and_explainer(asked: Path) -> None:
    rows = points(Results.read(asked))
    assert len(rows) == 2 * 2 * 4  # graphs, defenses, explainers
    row = next(r for r in rows if (r["dataset"], r["defense"], r["explainer"]) == ("amazon-photo", "fgai", "gatt"))
    assert row["stability"]["mean"] == pytest.approx(0.9)
    assert row["correctness"]["mean"] == pytest.approx(0.51)
    assert row["correctness_attacked"]["mean"] == pytest.approx(0.26)
    assert [r["null"] for r in rows[:4]] == [False, False, True, True]


def test_the_table_says_what_does_not_beat_the_best_null(asked: Path) -> None:
    table = explanation_table(Results.read(asked))
    assert table is not None
    above = {row.heads[3:]: row.cells[2].text for row in table.rows if row.heads[0] == "Amazon-Photo"}
    assert above["Vanilla", "GAtt"].endswith("(uniform)")
    assert "°" not in above["Vanilla", "GAtt"]
    assert "°" in above["FGAI", "last attention"]
    assert above["FGAI", "random"] == "--"


def test_the_table_leaves_out_what_no_suite_of_the_run_measured(asked: Path) -> None:
    both = explanation_table(Results.read(asked))
    one = explanation_table(Results.read(asked, suite="stress"))
    assert both is not None
    assert one is not None
    assert ("clean", "truth AUROC↑") in both.columns
    assert [path for path in both.columns if path not in one.columns] == [
        ("clean", "truth AUROC↑"),
        ("attacked", "truth AUROC↑"),
    ]
    assert all(len(row.cells) == len(one.columns) for row in one.rows)
    assert not any("truth_auroc" in note for note in one.notes)


def test_the_table_of_correctness_has_intervals_beside_the_nulls(asked: Path) -> None:
    table = correctness_table(Results.read(asked))
    assert table is not None
    assert table.columns == tuple((who, when) for who in ("Vanilla", "FGAI") for when in ("clean", "attacked"))
    rows = {row.heads: [shown.text for shown in row.cells] for row in table.rows}
    # .5, .51, .52: mean .51, half width 4.303 * .01 / sqrt(3) = .025; attacked .25, .26, .27
    assert rows["Amazon-Photo", "stress", "GAT", "GAtt"] == ["0.51 [0.49, 0.53]", "0.26 [0.24, 0.28]"] * 2
    assert {heads[3] for heads in rows} >= {"random", "uniform", "last attention"}
    assert "AUROC against the edges that truly matter" in table.caption


def test_the_figure_has_a_point_for_each_defense_and_explainer_and_a_line_for_each_null(asked: Path) -> None:
    (figure,) = [f for f in FIGURES if f.name == "stability_correctness"]
    drawings = {drawing.name: drawing for drawing in figure.drawings(Results.read(asked))}
    assert set(drawings) == {"stability_correctness_amazon-photo_stress", "stability_correctness_infection_truth"}
    drawn = drawings["stability_correctness_amazon-photo_stress"].figure
    ax = drawn.axes[0]
    found = {c.get_label(): c.lines[0].get_xydata()[0].tolist() for c in ax.containers}
    assert found["fgai gatt"] == pytest.approx([0.9, 0.51])
    assert len(found) == 4
    lines = {line.get_label(): line.get_linestyle() for line in ax.lines}
    assert {"null random", "null uniform"} <= set(lines)
    assert [text.get_text() for text in drawn.legends[0].get_texts()][-3:] == ["null", "random", "uniform"]


def test_the_table_of_post_hoc_explainers_keeps_to_them(asked: Path) -> None:
    (spec,) = [spec for spec in grids_of(Results.read(asked)) if spec.name == "explainers"]
    assert {column.explainer for column in spec.columns} == {"gnn-explainer", "pg-explainer"}


def test_a_run_without_explainers_has_none_of_it(small: Path) -> None:
    results = Results.read(small)
    assert points(results) == []
    assert explanation_table(results) is None
