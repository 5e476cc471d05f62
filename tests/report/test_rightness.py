"""Whether a stabler attention is also more right: the comparison, what a uniform attention has of it, and the words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fgai_bench.records.result import Result
from fgai_bench.report.explanations import rightness
from fgai_bench.report.write import write_report
from fgai_bench.statistics.results import Results

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


@pytest.fixture
def run(bench: Callable[[], Any]) -> Path:
    made = bench()
    for (label, explainer), values in RIGHT.items():
        for seed, value in enumerate(values):
            metrics = {"effect_spearman_clean": value, "explainer_topk_overlap_unchanged": KEPT[label][seed]}
            where = {"suite": "stress", "label": label, "seed": seed, "explainer": explainer, "attack_label": "worst"}
            made.add("explain", Result(metrics=metrics), **where)
    return made.close()


def test_attention_is_compared_with_vanilla_and_beyond_a_uniform_one(run: Path) -> None:
    found = {one.defense: one for one in rightness(Results.read(run))}
    assert set(found) == {"fgai", "at"}  # layer norm's attention is not stabler than vanilla's, however right
    fgai = found["fgai"]
    # +.12, +.08, +.13: mean .11, 4.303 standard errors of .01528; beyond uniform +.01, 0, 0
    assert fgai.more_right.difference == pytest.approx(0.11)
    assert fgai.more_right.bounds == pytest.approx((0.0443, 0.1757), abs=1e-4)
    assert fgai.beyond_null.difference == pytest.approx(0.01 / 3)
    assert fgai.beyond_null.bounds == pytest.approx((-0.0110, 0.0177), abs=1e-4)


def test_the_sentence_says_what_a_uniform_attention_gains_as_well(run: Path) -> None:
    fgai, at = sorted((one.sentence for one in rightness(Results.read(run))), reverse=True)
    assert fgai == (
        "Amazon-Photo, GAT, stress: of the top edges of FGAI's last attention 0.81 stay under worst, of vanilla's "
        "0.31; it is more right than vanilla's, +.110 [+.044, +.176] in rank correlation with the true effect of edges "
        "on the clean graph, and +.003 [-.011, +.018] beyond a uniform attention on the same models: a uniform "
        "attention gains as much."
    )
    assert "it is less right than vanilla's, -.107" in at
    assert at.endswith("beyond a uniform attention on the same models.")


def test_searched_settings_are_held_against_a_vanilla_model_that_was_searched_for_as_well(
    bench: Callable[[], Any],
) -> None:
    made = bench()
    for (label, explainer), values in RIGHT.items():
        for seed, value in enumerate(values):
            for suffix, more in (("", 0.0), (" tuned", 0.05 * (label == "vanilla"))):
                metrics = {"effect_spearman_clean": value + more, "explainer_topk_overlap_unchanged": KEPT[label][seed]}
                where = {"suite": "node", "label": label + suffix, "seed": seed, "explainer": explainer}
                made.add("explain", Result(metrics=metrics), attack_label="worst", **where)
    found = {(one.origin, one.defense): one for one in rightness(Results.read(made.close()))}
    assert set(found) == {(origin, name) for origin in ("node", "node, tuned") for name in ("fgai", "at")}
    assert found["node", "fgai"].more_right.difference == pytest.approx(0.11)
    assert found["node, tuned", "fgai"].more_right.difference == pytest.approx(0.06)
    assert found["node, tuned", "fgai"].sentence.startswith("Amazon-Photo, GAT, node, tuned: of the top edges of FGAI")


def test_what_adds_less_than_vanilla_is_said_so(bench: Callable[[], Any]) -> None:
    made = bench()
    values = {"vanilla": {"attention-last": 0.9, "uniform": 0.5}, "fgai": {"attention-last": 0.9, "uniform": 0.6}}
    for label, seed in ((label, seed) for label in values for seed in range(3)):
        for explainer, value in values[label].items():
            noise = 0.01 * seed * (label == "fgai") * (explainer == "uniform")
            metrics = {"effect_spearman_clean": value + noise}
            metrics["explainer_topk_overlap_unchanged"] = 0.5 + 0.1 * (label == "fgai") + 0.01 * seed
            where = {"suite": "stress", "label": label, "seed": seed, "explainer": explainer, "attack_label": "worst"}
            made.add("explain", Result(metrics=metrics), **where)
    (one,) = rightness(Results.read(made.close()))
    assert "whether it is more right than vanilla's the seeds do not tell" in one.sentence
    assert one.sentence.endswith(
        "beyond a uniform attention on the same models: it adds less to that than vanilla's does."
    )


def test_a_report_begins_with_it(run: Path, tmp_path: Path) -> None:
    report = write_report(run, tmp_path / "report", formats=("markdown", "html"))
    sentences = [one.sentence for one in rightness(Results.read(run))]
    assert set(sentences) <= set(report.answer)
    assert all(sentence in (tmp_path / "report" / "index.md").read_text() for sentence in sentences)
    assert "a uniform attention gains as much" in (tmp_path / "report" / "page.html").read_text()
