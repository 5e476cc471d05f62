"""Verdicts: what five seeds can decide, what they cannot, and what to run."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fgai_bench.defenses import DEFENSES
from fgai_bench.report.claims import Claim, Side, Verdict, judge, load_claims, to_csv, to_markdown
from fgai_bench.report.results import Results
from fgai_bench.suites import SUITES

HERE = {"datasets": ("amazon-photo",), "models": ("gat",)}


def claim(kind: Any, left: Side, right: Side | None = None, **more: Any) -> Claim:
    return Claim("mine", "a claim", "nowhere", "node", kind, left, right, **{**HERE, **more})


@cache
def read(folder: Path) -> Results:
    return Results.read(folder)


def verdict(folder: Path, one: Claim) -> Verdict:
    return judge(read(folder), [one])[0]


ATTACKED = {name: Side(name, "f1", "attacked") for name in ("vanilla", "ln", "at", "fgai")}
CLEAN = {name: Side(name, "f1", "clean") for name in ("vanilla", "ln", "at", "fgai")}


def test_the_list_is_complete_and_names_what_exists() -> None:
    claims = load_claims()
    assert len(claims) >= 12
    assert len({one.id for one in claims}) == len(claims)
    for one in claims:
        assert one.suite in SUITES
        assert one.suite == "ablation" or one.left.defense in DEFENSES
        assert (one.right is None) == (one.kind in ("best", "positive", "status"))


def test_a_clear_difference_is_supported_and_its_opposite_is_not(wide: Path) -> None:
    found = verdict(wide, claim("greater", ATTACKED["fgai"], ATTACKED["vanilla"]))
    assert found.said == "supported"
    assert found.value == pytest.approx(0.45)
    assert found.bounds == (pytest.approx(0.45), pytest.approx(0.45))
    opposite = verdict(wide, claim("greater", ATTACKED["vanilla"], ATTACKED["fgai"]))
    assert (opposite.said, opposite.decisions[0].outcome) == ("not supported", "fails")


def test_a_margin_must_be_exceeded(wide: Path) -> None:
    one = claim("greater", ATTACKED["fgai"], ATTACKED["vanilla"])
    assert verdict(wide, replace(one, margin=0.4)).said == "supported"
    assert verdict(wide, replace(one, margin=0.5)).said == "not supported"


def test_an_open_cell_is_not_support(wide: Path) -> None:
    found = verdict(wide, claim("greater", ATTACKED["ln"], ATTACKED["at"]))
    assert (found.said, found.decisions[0].outcome) == ("not supported", "open")
    assert found.deciding == list(found.decisions)


def test_two_seeds_decide_nothing(broken: Path) -> None:
    found = verdict(broken, claim("greater", ATTACKED["fgai"], ATTACKED["vanilla"]))
    assert found.said == "not tested"
    assert found.advice == "only 2 of 5 seeds: fgai-bench run --suite node"


def test_closeness_needs_the_whole_interval(wide: Path) -> None:
    one = claim("close", CLEAN["fgai"], CLEAN["vanilla"], margin=0.025)  # the difference is -0.02
    assert verdict(wide, one).said == "supported"
    assert verdict(wide, replace(one, margin=0.01)).said == "not supported"


def test_best_means_bold(wide: Path) -> None:
    assert verdict(wide, claim("best", ATTACKED["ln"])).said == "supported"
    assert verdict(wide, claim("best", ATTACKED["at"])).said == "supported"  # not to be told from LN
    assert verdict(wide, claim("best", ATTACKED["fgai"])).said == "not supported"
    jsd = Side("fgai", "g_jsd", "attacked")
    assert verdict(wide, claim("best", jsd, better="lower")).said == "supported"


def test_a_sign_is_tested(wide: Path) -> None:
    assert verdict(wide, claim("positive", Side("vanilla", "f_slope_neg", "attacked"))).said == "supported"
    assert verdict(wide, claim("positive", Side("fgai", "f_slope_neg", "attacked"))).said == "not supported"


def test_magnitudes_are_compared_as_magnitudes(wide: Path) -> None:
    sides = [Side(name, "f_slope_neg", "attacked") for name in ("vanilla", "fgai")]  # 0.2 and -0.05
    assert verdict(wide, claim("greater", *sides, magnitude=True)).value == pytest.approx(0.15)


def test_ratios_of_cost_need_one_seed(wide: Path) -> None:
    sides = [Side(name, "train_peak_mib", "train") for name in ("fgai", "vanilla")]
    one = claim("ratio", *sides, limit=1.5)
    found = verdict(wide, replace(one, suite="cost"))
    assert (found.said, found.value) == ("supported", pytest.approx(1.4))
    assert verdict(wide, replace(one, suite="cost", limit=1.2)).said == "not supported"


def test_a_status_is_a_fact(wide: Path) -> None:
    side = Side("pro-gnn", "train_seconds", "train")
    one = replace(claim("status", side, status="oom"), suite="cost", datasets=("arxiv-topology",))
    assert verdict(wide, one).said == "supported"
    runs = replace(one, left=Side("fgai", "train_seconds", "train"), datasets=("amazon-photo",))
    assert verdict(wide, runs).said == "not supported"


def test_missing_cells_that_could_change_the_answer_leave_it_open(wide: Path) -> None:
    both = {"datasets": ("amazon-photo", "amazon-cs")}
    held = claim("greater", ATTACKED["fgai"], ATTACKED["vanilla"], **both)
    assert verdict(wide, held).said == "not tested"
    assert verdict(wide, replace(held, share=0.5)).said == "supported"
    against = claim("greater", ATTACKED["vanilla"], ATTACKED["fgai"], **both)
    assert verdict(wide, against).said == "not supported"  # one cell against it is enough


def test_holm_makes_many_cells_harder(bench: Any, fill_bench: Any) -> None:
    made = bench()
    fill_bench(made, seeds=range(3))  # three seeds: the least p is 1/27
    fill_bench(made, seeds=range(3), dataset="amazon-cs")
    folder = made.close()
    alone = claim("greater", ATTACKED["fgai"], ATTACKED["vanilla"])
    assert verdict(folder, alone).said == "supported"
    together = replace(alone, datasets=("amazon-photo", "amazon-cs"))
    found = verdict(folder, together)  # 2/27 is not below 0.05
    assert (found.said, found.count("open")) == ("not supported", 2)


def test_a_store_of_another_suite_tests_nothing(bench: Any, fill_bench: Any) -> None:
    made = bench()
    fill_bench(made, seeds=range(2), suite="quick", dataset="cora")
    results = Results.read(made.close())
    verdicts = judge(results)
    assert {one.said for one in verdicts} == {"not tested"}
    assert all(f"fgai-bench run --suite {one.claim.suite}" in one.advice for one in verdicts)
    assert len(to_csv(verdicts).splitlines()) == 1 + len(verdicts)
    assert to_markdown(verdicts, results).count("## ") == len(verdicts)
