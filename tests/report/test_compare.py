"""Ours beside the published numbers."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from fgai_bench.report.compare import Compared, compare, lines, scale_notes, to_csv, to_markdown, untested
from fgai_bench.report.frames import Results
from fgai_bench.report.published import published

TABLES = {"table1": 120, "table2": 120, "f_slope": 192, "link": 48, "ablation": 21 * 4, "cost": 21 * 2}


def found_in(folder: Path) -> dict[tuple[str, str, str, str], Compared]:
    return {
        (one.number.table, one.number.model, one.number.label, one.number.metric): one
        for one in compare(Results.read(folder))
        if one.number.dataset == "amazon-photo"
    }


def test_every_published_number_is_there() -> None:
    real = [one for one in published() if one.dataset != "arxiv-topology"]
    assert {name: sum(one.table == name for one in real) for name in TABLES} == TABLES


def test_signs_of_the_f_slopes_are_those_of_the_paper() -> None:
    slopes = {(o.model, o.label, o.dataset, o.metric): o.mean for o in published() if o.table == "f_slope"}
    assert slopes["gat", "vanilla", "amazon-photo", "f_slope_neg_attacked"] == 1.0594  # underlined
    assert slopes["gat", "vanilla", "amazon-photo", "f_slope_pos"] == -1.2821


def test_the_difference_is_in_units_of_the_combined_spread(small: Path) -> None:
    one = found_in(small)["table2", "gat", "vanilla", "f1_attacked"]
    assert one.difference == pytest.approx(0.40 - 0.2363)
    assert one.spreads == pytest.approx((0.40 - 0.2363) / math.hypot(0.02, 0.01))
    assert one.said == "compared"


def test_published_scales_have_their_own_neighbour(small: Path) -> None:
    found = found_in(small)
    assert found["table1", "gat", "vanilla", "g_jsd"].number.ours == "g_jsd_published"
    assert found["table1", "gat", "vanilla", "g_tvd"].difference == pytest.approx(7.0 - 7.41)
    assert any("raw outputs" in note for note in scale_notes(found.values()))


def test_what_was_not_run_names_the_suite(small: Path) -> None:
    found = compare(Results.read(small))
    said = untested(found)
    assert "link: 48 of 48 published numbers not tested: fgai-bench run --suite link" in said
    assert len([line for line in lines(found) if line[0] == "table2"]) == 4 * 2
    assert "fgai-bench run --suite cost" in to_markdown(found, Results.read(small))


def test_an_oom_on_both_sides_is_said(wide: Path) -> None:
    found = [
        one
        for one in compare(Results.read(wide))
        if (one.number.dataset, one.number.label, one.number.metric) == ("arxiv-topology", "pro-gnn", "seconds")
    ]
    assert [one.said for one in found] == ["ours: OOM, as published"]
    assert "surrogate" in found[0].number.note


def test_equal_seeds_leave_no_spread_to_measure_by(small: Path) -> None:
    one = found_in(small)["f_slope", "gat", "ln", "f_slope_pos"]  # ours is -0.4 for every seed, the paper gives no std
    assert math.isnan(one.spreads)
    assert one.difference == pytest.approx(-0.4 + 0.6613)


def test_csv_has_a_line_per_number(small: Path) -> None:
    found = compare(Results.read(small))
    assert len(to_csv(found).splitlines()) == 1 + sum(TABLES.values())
