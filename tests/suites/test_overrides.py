"""What a command line changes about a suite."""

from __future__ import annotations

import pytest

from fgai_bench.registry import RegistryError
from fgai_bench.run.plan import plan
from fgai_bench.suites import SuiteError, load_suite, resolve


def test_a_name_of_the_suite_narrows_it() -> None:
    (suite,) = resolve("quick", models=["gatv2"], defenses=["fgai"], seeds=1)
    assert (suite.models, [line.name for line in suite.defenses], suite.seeds) == (("gatv2",), ["fgai"], (0,))


def test_a_registered_name_takes_the_place_of_the_list() -> None:
    (suite,) = resolve("quick", datasets=["csbm-1e3"], defenses=["row-norm", "vanilla"])
    assert suite.datasets == ("csbm-1e3",)
    assert [line.name for line in suite.defenses] == ["row-norm", "vanilla"]


def test_an_unknown_name_gets_the_nearest_ones() -> None:
    with pytest.raises(RegistryError, match=r"unknown model 'gatt'; the nearest names are: gat"):
        resolve("quick", models=["gatt"])


def test_a_label_means_its_row_and_a_name_all_rows_of_it() -> None:
    (one,) = resolve("ablation", defenses=["scope-node"])
    (all_of_it,) = resolve("ablation", defenses=["fgai"])
    assert [line.label for line in one.defenses] == ["scope-node"]
    assert {line.name for line in all_of_it.defenses} == {"fgai"}
    assert len(all_of_it.defenses) == len([line for line in load_suite("ablation").defenses if line.name == "fgai"])


def test_set_changes_the_threat_under_both_its_names() -> None:
    assert plan(resolve("quick", assignments=["attack.steps=50"])) == plan(
        resolve("quick", assignments=["threat.steps=50"])
    )
    attacked = [
        s.config for s in plan(resolve("quick", assignments=["attack.steps=50"])).steps.values() if s.kind == "attack"
    ]
    assert {config["threat"]["steps"] for config in attacked} == {50}


def test_set_reaches_exactly_what_it_names() -> None:
    assignments = ["fgai.k=0.25", "gat.hidden=4", "training.epochs=7"]
    steps = plan(resolve("quick", models=["gat", "gatv2"], assignments=assignments)).steps.values()
    trained = [step.config for step in steps if step.kind == "train"]
    assert {c["defense"]["options"].get("k") for c in trained if c["defense"]["name"] == "fgai"} == {0.25}
    assert {c["defense"]["options"].get("k") for c in trained if c["defense"]["name"] != "fgai"} == {None}
    assert {c["model"]["options"].get("hidden") for c in trained if c["model"]["name"] == "gatv2"} == {None}
    assert {c["training"]["epochs"] for c in trained} == {7}


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        ("attack.steps", "write key=value"),
        ("attack.restart=5", "unknown key 'restart'; did you mean 'restarts'?"),
        ("attack.steps=-5", "steps: input should be greater than or equal to 0"),
        ("steps=5", "no such key; possible are threat.OPTION, attack.OPTION"),
        ("gt.hidden=5", "no such key"),
        ("time_limit=never", "time_limit: input should be a valid number"),
        ("fgai.k=[1", "--set fgai.k: "),
        ("threads=0", "threads: input should be greater than or equal to 1"),
    ],
)
def test_a_wrong_assignment_is_answered_with_a_sentence(assignment: str, sentence: str) -> None:
    with pytest.raises(SuiteError) as caught:
        resolve("quick", assignments=[assignment])
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_set_overrides_an_option_on_the_line_of_a_defense() -> None:
    grid = {"name": "mine", "datasets": ["cora"], "models": ["gat"], "seeds": 1}
    suite = {**grid, "defenses": [{"name": "fgai", "options": {"k": 0.5}}]}
    planned = plan(resolve(suite, assignments=["fgai.k=0.7"]))
    options = {step.config["defense"]["name"]: step.config["defense"]["options"] for step in planned.steps.values()}
    assert options == {"vanilla": {}, "fgai": {"k": 0.7}}
