"""Tables of nulls: every value beside what knows nothing of the model, and what does not beat it marked."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from fgai_bench.report.tables.build import Shown, Table
from fgai_bench.report.tables.latex import to_latex
from fgai_bench.report.tables.nulls import SLOPES, slope_table, stability_table
from fgai_bench.statistics.results import Results


@pytest.fixture(scope="module")
def tables(wide: Path) -> dict[str, Table]:
    results = Results.read(wide)
    made = [stability_table(results, "node", "nulls"), stability_table(results, "link", "nulls_link")]
    return {table.name: table for table in (*made, *(slope_table(results, name) for name in SLOPES)) if table}


def row(table: Table, method: str) -> dict[tuple[str, ...], Shown]:
    (cells,) = [line.cells for line in table.rows if line.heads == ("Amazon-Photo", "GAT", method)]
    return dict(zip(table.columns, cells, strict=True))


def test_stability_stands_beside_a_uniform_attention(tables: dict[str, Table]) -> None:
    vanilla, fgai = row(tables["nulls"], "Vanilla"), row(tables["nulls"], "FGAI")
    assert vanilla["g-JSD↓", "uniform"].text == "6.00±0.00E-4"
    assert vanilla["g-JSD↓", "log ratio"].mean == pytest.approx(math.log(0.008 / 0.0006), abs=0.01)
    assert vanilla["g-JSD↓", "log ratio"].text.endswith("]°")
    assert fgai["g-JSD↓", "log ratio"].text.endswith("]")
    assert fgai["node JSD↓", "log ratio"].text == "--"  # not measured in this store
    assert [line.heads[0] for line in tables["nulls_link"].rows] == ["Cora"] * 4
    assert row(tables["nulls"], "LN")["g-JSD↓", "log ratio"].n == 5


def test_slopes_stand_beside_rankings_with_the_paired_difference(tables: dict[str, Table]) -> None:
    steep = row(tables["f_slope_nulls_pos"], "FGAI")
    assert steep["", "attention"].text == "-0.400±0.000"
    assert steep["random", "difference"].text == "-0.200 [-0.200, -0.200]"  # -0.4 and -0.2 in every seed
    # Degree -0.3 with the wobble -0.01, 0, 0.01, 0.005, -0.005: -0.1 -+ 2.776 * 0.0079 / sqrt(5).
    assert steep["degree", "difference"].text == "-0.100 [-0.110, -0.090]"
    assert steep["untrained", "difference"].text == "--"
    flat = row(tables["f_slope_nulls_neg"], "FGAI")
    assert flat["random", "difference"].text == "-0.050 [-0.050, -0.050]"  # magnitudes 0.1 and 0.15: flatter


def test_the_degree_ranking_is_named_by_its_formula(tables: dict[str, Table]) -> None:
    assert "degree (1/sqrt(d_i d_j))" in tables["f_slope_nulls_pos"].caption
    assert "1/degree" not in to_latex(tables["f_slope_nulls_pos"])


def test_a_store_without_nulls_has_no_such_table(small: Path) -> None:
    assert stability_table(Results.read(small), "link", "nulls_link") is None
