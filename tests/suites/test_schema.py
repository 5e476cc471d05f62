"""Suites as written: what is understood, and what is refused in which words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fgai_bench.run.plan import plan
from fgai_bench.suites import SuiteError, load_suite
from fgai_bench.suites.load import grids, parse

GRID: dict[str, Any] = {"name": "mine", "datasets": ["cora"], "models": ["gat"], "defenses": ["vanilla"]}


def test_short_forms_mean_their_long_forms() -> None:
    short = load_suite({**GRID, "defenses": ["fgai"], "attacks": ["injection"], "seeds": 3, "threat": "links"})
    long = load_suite(
        {
            **GRID,
            "defenses": [{"name": "fgai"}],
            "attacks": [{"name": "injection"}],
            "seeds": [0, 1, 2],
            "threat": {"nodes": 15, "edges_per_node": 25},
        }
    )
    assert short == long


def test_numbers_with_an_exponent_are_numbers() -> None:
    assert parse("{a: 1e5, b: 5E-4, c: .5e2, d: v1e5}") == {"a": 1e5, "b": 5e-4, "c": 50.0, "d": "v1e5"}


def test_the_inner_attack_has_its_own_budget() -> None:
    suite = load_suite({**GRID, "threat": {"steps": 50}})
    assert (suite.inner.threat["step"], suite.inner.threat["steps"], suite.threat.steps) == (0.05, 10, 50)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"datasetz": ["cora"]}, "unknown key 'datasetz'; did you mean 'datasets'?"),
        ({"threat": {"node": 3}}, "unknown key 'threat.node'; did you mean 'nodes'?"),
        ({"threat": {"nodes": -1}}, "threat.nodes: input should be greater than or equal to 0, not -1"),
        ({"threat": {"feature_low": 2.0}}, "threat: feature_low 2.0 must not exceed feature_high 1.0"),
        (
            {"threat": "weak"},
            "threat: unknown threat model 'weak'; possible are paper, links, in-domain",
        ),
        ({"training": {"epochs": "many"}}, "training.epochs: input should be a valid integer"),
        ({"training": {"lr": float("nan")}}, "training.lr: a finite number is needed, not nan"),
        ({"attacks": [{"name": "injection", "threat": {"nodes": -1}}]}, "attacks[0].threat: nodes: input should be"),
        ({"attacks": [{"label": "x"}]}, "the key 'attacks[0].name' is missing"),
        ({"defenses": ["fgai", "fgai"]}, "defenses names 'fgai' twice; give one of them another label"),
        ({"seeds": 0}, "seeds: a number of seeds lies between 1 and 10000, not 0"),
        ({"seeds": [-1]}, "seeds: seeds are whole numbers from 0"),
        ({"models": []}, "the key 'models' must name at least one thing"),
        ({"include": ["node"]}, "a suite has either 'include' or a grid of its own, not both"),
        ({"settings": [{"defense": {"k": 0.5}}]}, "settings[0]: the key 'defense' needs 'when: {defense: NAME}'"),
        (
            {"settings": [{"when": {"defense": "fgai"}, "threat": {"nodes": 5}}]},
            "a threat model belongs to the suite, never to a defense",
        ),
        ({"time_limit": 0}, "time_limit: input should be greater than 0, not 0"),
    ],
)
def test_what_is_wrong_is_said_with_its_key(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SuiteError) as caught:
        load_suite({**GRID, **change})
    assert str(caught.value).startswith(f"the suite: {sentence}")
    assert "\n" not in str(caught.value)


def test_unequal_budgets_must_be_asked_for() -> None:
    settings = [{"when": {"defense": "vanilla"}, "threat": {"nodes": 5}}]
    assert load_suite({**GRID, "settings": settings, "unequal_budgets": True}).unequal_budgets


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("datasets: [cora", "is not valid YAML: "),
        ("- cora", "must be a mapping with keys such as datasets"),
        ("name: a\nname: b", "is not valid YAML: the key 'name' stands twice"),
        ("a: &x [*x]", "an alias such as *name is not supported"),
        ("", "must be a mapping"),
        ("!!python/object/apply:os.getcwd []", "is not valid YAML: could not determine a constructor"),
    ],
)
def test_a_file_that_is_no_suite_is_refused(text: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(SuiteError) as caught:
        load_suite(path)
    assert sentence in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_is_refused_with_the_names_that_are(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match=r"there is no suite file .*mine\.yaml; names of suites are: ablation, cost"):
        load_suite(str(tmp_path / "mine.yaml"))


def test_a_file_is_named_after_itself_and_may_include_a_neighbour(tmp_path: Path) -> None:
    from fgai_bench.suites.load import grids

    (tmp_path / "part.yaml").write_text("datasets: [cora]\nmodels: [gat]\ndefenses: [vanilla]\n")
    (tmp_path / "whole.yaml").write_text("include: [part.yaml, quick]\n")
    assert [part.name for part in grids(load_suite(tmp_path / "whole.yaml"))] == ["part", "quick"]


def test_a_suite_that_includes_itself_is_refused(tmp_path: Path) -> None:
    from fgai_bench.suites.load import grids

    (tmp_path / "loop.yaml").write_text("include: [loop.yaml]\n")
    with pytest.raises(SuiteError, match="includes itself"):
        grids(load_suite(tmp_path / "loop.yaml"))


def test_an_attack_may_have_a_threat_model_of_its_own_by_name() -> None:
    suite = load_suite({**GRID, "attacks": ["worst", {"name": "worst", "threat": "in-domain"}], "seeds": 1})
    plain, own = suite.attacks
    assert (plain.title, own.title) == ("worst", "worst in-domain")
    assert (plain.threat, own.threat) == ({}, {"features": "in-domain"})
    steps = [step.config["threat"] for step in plan([suite]).steps.values() if step.kind == "attack"]
    assert sorted(threat.get("features", "range") for threat in steps) == ["in-domain", "range"]


def test_a_suite_that_is_included_again_and_again_is_loaded_once(tmp_path: Path) -> None:
    """Twenty levels that name the next one twice stand for a million files."""
    (tmp_path / "20.yaml").write_text("datasets: [cora]\nmodels: [gat]\ndefenses: [vanilla]\n")
    for level in range(20):
        (tmp_path / f"{level}.yaml").write_text(f"include: [{level + 1}.yaml, ./{level + 1}.yaml]\n")
    assert [part.name for part in grids(load_suite(tmp_path / "0.yaml"))] == ["20"]
