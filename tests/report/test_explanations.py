"""Explanations: their stability and correctness, and whether a stabler attention is also more right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fgai_bench.records.result import Result
from fgai_bench.report.explanations import MEASURES, explained, points, rightness, rightness_csv, verdict
from fgai_bench.report.figures import drawings
from fgai_bench.report.tables.explanations import correctness_table, explanation_table
from fgai_bench.report.tables.measures import agreement_table, measure_counts_table, measure_table, planted_lie_table
from fgai_bench.statistics.results import Results


def test_the_strongest_attack_and_the_truth_come_first(asked: Path) -> None:
    groups = {group.dataset: group for group in explained(Results.read(asked))}
    assert groups["amazon-photo"].attack == "worst"
    assert groups["amazon-photo"].measure == "effect_spearman_clean"
    assert groups["infection"].measure == "truth_auroc_clean"
    assert groups["infection"].explainers == ["attention-last", "gatt"]
    assert groups["infection"].nulls == ["random", "uniform"]


def test_points_are_plain_data_for_every_defense_and_explainer_that_is_no_null(asked: Path) -> None:
    rows = points(Results.read(asked))
    assert len(rows) == 2 * 2 * 2  # graphs, defenses, explainers
    row = next(r for r in rows if (r["dataset"], r["defense"], r["explainer"]) == ("amazon-photo", "fgai", "gatt"))
    assert row["stability"]["mean"] == pytest.approx(0.9)
    assert row["correctness"]["mean"] == pytest.approx(0.51)


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
    made = {drawing.name: drawing for drawing in drawings("stability_correctness", Results.read(asked))}
    assert set(made) == {"stability_correctness_amazon-photo_stress", "stability_correctness_infection_truth"}
    drawn = made["stability_correctness_amazon-photo_stress"].figure
    ax = drawn.axes[0]
    found = {c.get_label(): c.lines[0].get_xydata()[0].tolist() for c in ax.containers}
    assert found["fgai gatt"] == pytest.approx([0.9, 0.51])
    assert len(found) == 4
    lines = {line.get_label(): line.get_linestyle() for line in ax.lines}
    assert {"null random", "null uniform"} <= set(lines)
    assert [text.get_text() for text in drawn.legends[0].get_texts()][-3:] == ["null", "random", "uniform"]


def test_a_run_without_explainers_has_none_of_it(small: Path) -> None:
    results = Results.read(small)
    assert points(results) == []
    assert explanation_table(results) is None


# Correctness by seed: (label, explainer) -> values; how many top edges stay: label -> share.
RIGHT = {
    ("vanilla", "attention-last"): (0.40, 0.42, 0.41),
    ("vanilla", "uniform"): (0.42, 0.44, 0.42),
    ("fgai", "attention-last"): (0.52, 0.50, 0.54),
    ("fgai", "uniform"): (0.53, 0.52, 0.55),
    ("at", "attention-last"): (0.30, 0.31, 0.30),
    ("at", "uniform"): (0.20, 0.20, 0.20),
    ("ln", "attention-last"): (0.90, 0.90, 0.90),
    ("ln", "uniform"): (0.20, 0.20, 0.20),
}
KEPT = {"vanilla": (0.30, 0.32, 0.31), "fgai": (0.80, 0.81, 0.82), "at": (0.5, 0.5, 0.6), "ln": (0.31, 0.31, 0.31)}


def fill(made: Any, suite: str, suffix: str = "", more: float = 0.0) -> None:
    """Ask two explainers about every defense; vanilla's is more right by ``more``."""
    for (label, explainer), values in RIGHT.items():
        for seed, value in enumerate(values):
            metrics = {"effect_spearman_clean": value + more * (label == "vanilla")}
            metrics["explainer_topk_overlap_unchanged"] = KEPT[label][seed]
            where = {"suite": suite, "label": label + suffix, "seed": seed, "explainer": explainer}
            made.add("explain", Result(metrics=metrics), attack_label="worst", **where)


@pytest.fixture
def run(bench: Callable[[], Any]) -> Path:
    made = bench()
    fill(made, "stress")
    return made.close()


def test_attention_is_compared_with_vanilla_and_beyond_a_uniform_one(run: Path) -> None:
    found = {one.defense: one for one in rightness(Results.read(run))}
    assert set(found) == {"fgai", "at"}  # layer norm's attention is not stabler than vanilla's, however right
    fgai = found["fgai"]
    # +.12, +.08, +.13: mean .11, 4.303 standard errors of .01528; beyond uniform +.01, 0, 0
    assert fgai.more_right.value == pytest.approx(0.11)
    assert fgai.more_right.bounds == pytest.approx((0.0443, 0.1757), abs=1e-4)
    assert fgai.beyond_null.value == pytest.approx(0.01 / 3)
    assert fgai.beyond_null.bounds == pytest.approx((-0.0110, 0.0177), abs=1e-4)


def test_the_comparisons_are_a_table_for_machines_as_well(run: Path) -> None:
    header, *lines = rightness_csv(rightness(Results.read(run))).splitlines()
    (fgai,) = [dict(zip(header.split(","), line.split(","), strict=True)) for line in lines if ",fgai," in line]
    assert (fgai["origin"], fgai["dataset"], fgai["measure"]) == ("stress", "amazon-photo", "effect_spearman_clean")
    assert (fgai["more_right"], fgai["more_right_low"][:6], fgai["beyond_null"][:6]) == ("0.11", "0.0442", "0.0033")


def test_searched_settings_are_held_against_a_vanilla_model_that_was_searched_for_as_well(
    bench: Callable[[], Any],
) -> None:
    made = bench()
    fill(made, "node")
    fill(made, "node", " tuned", 0.05)
    found = {(one.origin, one.defense): one for one in rightness(Results.read(made.close()))}
    assert set(found) == {(origin, name) for origin in ("node", "node, tuned") for name in ("fgai", "at")}
    assert found["node", "fgai"].more_right.value == pytest.approx(0.11)
    assert found["node, tuned", "fgai"].more_right.value == pytest.approx(0.06)


def ask(made: Any, label: str, explainer: str, values: dict[str, tuple[float, ...]], **where: Any) -> None:
    """Record measures of one explainer, by the name of the metric and seed."""
    for seed in range(len(next(iter(values.values())))):
        metrics = {name: row[seed] for name, row in values.items()}
        made.add("explain", Result(metrics=metrics), seed=seed, label=label, explainer=explainer, attack_label="worst",
                 **where)  # fmt: skip


def scoped(value: float, into: float | None = None) -> dict[str, tuple[float, ...]]:
    """Return all measures on covered edges at three seeds, which differ a little, and on the edges into the node."""
    signs = {name: -1 if name == "fidelity_minus" else 1 for name in MEASURES}
    both = {"covered": value, "into": value if into is None else into}
    return {
        f"{name}_{scope}_clean": tuple(0.5 + sign * (v - 0.5) + d for d in (-0.01, 0.0, 0.01))
        for name, sign in signs.items()
        for scope, v in both.items()
    }


def test_a_verdict_is_the_side_of_more_than_half_of_at_least_four_measures() -> None:
    assert verdict([1, 1, 1, 1, 0, -1]) == 1
    assert verdict([1, 1, 1, 0, -1, -1]) == 0
    assert verdict([-1, -1, -1, 0, None, None]) == -1
    assert verdict([1, 1, 1, None, None, None]) is None
    assert verdict([]) is None


def test_characterisation_has_no_vote(bench: Callable[[], Any]) -> None:
    """Three measures are above the null, three are not told from it; characterisation, above too, decides nothing."""
    made = bench()
    above = ("effect_spearman", "effect_precision", "turned_auroc", "characterisation")
    ask(
        made,
        "vanilla",
        "attention-last",
        {**scoped(0.5), **{k: v for k, v in scoped(0.7).items() if k.startswith(above)}},
    )
    ask(made, "vanilla", "random", scoped(0.5))
    table = measure_table(Results.read(made.close()))
    assert table is not None
    (row,) = table.rows
    assert [cell.text for cell in row.cells] == ["+", "+", "+", "=", "=", "+", "=", "="]


def test_an_explainer_that_searches_is_held_against_nulls_at_its_own_nodes(bench: Callable[[], Any]) -> None:
    made = bench()
    ask(made, "vanilla", "gnn-explainer", scoped(0.6))
    few = {name.replace("_clean", "_few_clean"): values for name, values in scoped(0.5).items()}
    ask(made, "vanilla", "random", {**scoped(0.8), **few})
    table = measure_table(Results.read(made.close()))
    assert table is not None
    assert [cell.text for cell in table.rows[0].cells] == ["+"] * 8


def test_rows_are_counted_by_measure_and_null(bench: Callable[[], Any]) -> None:
    made = bench()
    for defense, value in {"vanilla": 0.6, "ln": 0.4, "at": 0.7}.items():
        ask(made, defense, "attention-last", scoped(value))
        ask(made, defense, "uniform", scoped(0.5))
        ask(made, defense, "random", {"effect_spearman_into_clean": (value,) * 3})
    table = measure_counts_table(Results.read(made.close()))
    assert table is not None
    counts = {row.heads: [cell.text for cell in row.cells] for row in table.rows}
    assert counts["last attention", "uniform", "3"] == ["2 / 1 / 0"] * 8
    assert counts["last attention", "random", "3"] == ["0 / 0 / 3", *["0 / 0 / 0"] * 7]  # one measure is no verdict


def test_an_explainer_is_held_against_each_null_on_the_edges_that_it_covers(bench: Callable[[], Any]) -> None:
    """Last attention at .6 is above a null that has .5 on the edges into the node, though it has .8 on all edges."""
    made = bench()
    ask(made, "vanilla", "attention-last", scoped(0.6))
    ask(made, "vanilla", "gatt", scoped(0.6))
    ask(made, "vanilla", "uniform", scoped(0.8, into=0.5))
    ask(made, "vanilla", "random", {**scoped(0.6), "robust_fidelity_into_clean": (0.9, 0.9, 0.9)})
    table = measure_table(Results.read(made.close()))
    assert table is not None
    assert table.columns == tuple((name,) for name in (*MEASURES.values(), "verdict"))
    assert "in the order random, uniform" in table.caption
    rows = {row.heads[-1]: [cell.text for cell in row.cells] for row in table.rows}
    assert rows["last attention"] == ["= +"] * 6 + ["- +", "= +"]  # random is better in the last measure alone
    assert rows["GAtt"] == ["= -"] * 8


def test_the_best_null_is_chosen_on_other_seeds(bench: Callable[[], Any]) -> None:
    made = bench()
    name = "effect_spearman_covered_clean"
    ask(made, "vanilla", "gatt", {name: (0.5, 0.5, 0.5)})
    ask(made, "vanilla", "random", {name: (0.9, 0.0, 0.0)})
    ask(made, "vanilla", "uniform", {name: (0.2, 0.2, 0.2)})
    results = Results.read(made.close())
    (group,) = explained(results)
    names, best = group.best_null(results, "vanilla", name) or ("", None)
    # without the first seed uniform is better; without one of the others random has a mean of .45
    assert names == "uniform, random"
    assert best is not None
    assert best.values == {0: 0.2, 1: 0.0, 2: 0.0}


def test_measures_agree_where_they_order_rows_alike(bench: Callable[[], Any]) -> None:
    made = bench()
    for label, value in {"vanilla": 0.2, "ln": 0.4, "at": 0.6, "fgai": 0.8}.items():
        ask(made, label, "gatt", scoped(value) | {"fidelity_plus_covered_clean": (1 - value,) * 3})
    table = agreement_table(Results.read(made.close()))
    assert table is not None
    first = {path[0]: cell.text for path, cell in zip(table.columns, table.rows[0].cells, strict=True)}
    assert (first["top-k precision"], first["fidelity-"], first["fidelity+"]) == ("1.00", "1.00", "-1.00")


def test_the_table_of_the_planted_lie_names_the_measures_that_tell_it_at_every_seed(bench: Callable[[], Any]) -> None:
    made = bench()
    lie = {"truth_auroc_covered_clean": (0.2, 0.3), "effect_spearman_covered_clean": (0.5, 0.9),
           "fidelity_minus_covered_clean": (0.6, 0.6), "turned_auroc_covered_clean": (0.5, 0.6)}  # fmt: skip
    honest = {"truth_auroc_covered_clean": (0.9, 1.0), "effect_spearman_covered_clean": (0.8, 0.8),
              "fidelity_minus_covered_clean": (0.1, 0.0)}  # fmt: skip
    ask(made, "planted-lie", "attention-last", lie)
    ask(made, "planted-truth", "attention-last", honest)
    made.add("explain", Result(metrics={"fidelity_plus_covered_clean": 0.1}), seed=7, label="planted-lie",
             explainer="attention-last", attack_label="worst")  # fmt: skip
    made.add("explain", Result(metrics={"fidelity_plus_covered_clean": 0.4}), seed=7, label="planted-truth",
             explainer="attention-last", attack_label="worst")  # fmt: skip
    ask(made, "planted-lie", "uniform", {"effect_spearman_into_clean": (0.55, 0.95)})
    table = planted_lie_table(Results.read(made.close()))
    assert table is not None
    told = {row.heads[-1]: [cell.text for cell in row.cells[2:]] for row in table.rows}
    assert told["truth AUROC"][:2] == ["2/2", "yes"]
    assert told["fidelity-"] == ["2/2", "yes", "."]
    assert told["rank corr."] == ["1/2", "no", "-"]
    assert told["fidelity+"] == ["1/1", "yes", "."]  # of the other seeds it was not measured
    assert told["AUROC of turning edges"] == ["0/0", "not measured", "."]
    assert told["verdict"][2] == "."


def test_one_hop_networks_say_which_share_of_their_explanations_is_proven_to_stay(bench: Callable[[], Any]) -> None:
    made = bench()
    values = {"effect_spearman_covered_clean": (0.5, 0.6), "explainer_topk_overlap_unchanged": (0.9, 0.9)}
    ask(made, "vanilla", "attention-last", values, model="gat-one-hop")
    for seed in range(2):
        proven = Result(metrics={"certified_f1": 0.8, "certified_explanations": 0.935})
        made.add("certify", proven, seed=seed, model="gat-one-hop", explainer="reach")
    results = Results.read(made.close())
    (point,) = points(results)
    assert point["proven"] == pytest.approx(0.935)
    (drawing,) = drawings("stability_correctness", results)
    assert any("provably stable at 94 %" in text.get_text() for text in drawing.figure.axes[0].texts)


def test_a_graph_of_any_name_has_a_figure_in_a_file(bench: Callable[[], Any], tmp_path: Path) -> None:
    made = bench()
    values = {"effect_spearman_covered_clean": (0.5, 0.6), "explainer_topk_overlap_unchanged": (0.9, 0.9)}
    ask(made, "vanilla", "gatt", values, dataset="mine/graph")
    (drawing,) = drawings("stability_correctness", Results.read(made.close()))
    assert drawing.name.startswith("stability_correctness_mine-graph-")
    (tmp_path / drawing.name).touch()
