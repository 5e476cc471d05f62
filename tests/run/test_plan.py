"""The plan: pure, shared where things are the same, new where anything differs."""

from __future__ import annotations

from typing import Any

import pytest

from fgai_bench.cli import main
from fgai_bench.defenses import DEFENSES
from fgai_bench.run.plan import Plan, plan
from fgai_bench.suites import SuiteError, resolve


def planned(suite: Any, **overrides: Any) -> Plan:
    return plan(resolve(suite, **overrides))


def test_steps_follow_those_they_build_on(tiny: dict[str, Any]) -> None:
    seen: set[str] = set()
    for hash, step in planned(tiny).steps.items():
        assert seen.issuperset(step.inputs.values())
        seen.add(hash)


def test_vanilla_is_the_teacher_and_is_trained_once(tiny: dict[str, Any]) -> None:
    steps = planned(tiny).steps
    trained = {(s.config["defense"]["name"], s.config["seed"]): s for s in steps.values() if s.kind == "train"}
    assert trained["fgai", 1].inputs == {"teacher": trained["vanilla", 1].hash}
    assert trained["at", 1].inputs == {}
    assert len(trained) == 6


def test_a_teacher_is_trained_even_if_nobody_asked_for_its_row(tiny: dict[str, Any]) -> None:
    narrow = planned(tiny, defenses=["fgai"], seeds=1)
    assert [step.config["defense"]["name"] for step in narrow.steps.values() if step.kind == "train"] == [
        "vanilla",
        "fgai",
    ]
    assert {member.label for member in narrow.members} == {"fgai"}
    assert set(narrow.steps) <= set(planned(tiny).steps)


@pytest.mark.parametrize(
    ("assignment", "redone"),
    [
        ("attack.nodes=6", {"attack"}),
        ("fgai.k=0.4", {"train", "clean", "attack"}),
        ("inner.steps=3", {"train", "clean", "attack"}),
        ("training.epochs=4", {"train", "clean", "attack"}),
        ("sanity=true", {"clean"}),
        ("threads=2", {"train", "clean", "attack"}),
        ("time_limit=60", set()),
    ],
)
def test_what_changes_the_result_is_a_new_step_and_nothing_else_is(
    assignment: str, redone: set[str], tiny: dict[str, Any]
) -> None:
    before, after = planned(tiny).steps, planned(tiny, assignments=[assignment]).steps
    assert {step.kind for hash, step in after.items() if hash not in before} == redone


def test_a_new_version_of_an_entry_is_a_new_step(tiny: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    before = planned(tiny).steps
    monkeypatch.setitem(DEFENSES._entries, "at", replace(DEFENSES.entry("at"), version="2"))
    new = [step for hash, step in planned(tiny).steps.items() if hash not in before]
    assert {step.config["defense"]["name"] for step in new} == {"at"}
    assert len(new) == 2 * 4


def test_the_device_is_part_of_the_identity(tiny: dict[str, Any]) -> None:
    suites = resolve(tiny)
    assert not set(plan(suites, "cpu").steps) & set(plan(suites, "cuda").steps)


def test_a_label_is_not(tiny: dict[str, Any]) -> None:
    labelled = {**tiny, "defenses": ["vanilla", "at", {"name": "fgai", "label": "ours"}]}
    assert set(planned(labelled).steps) == set(planned(tiny).steps)


def test_suites_that_want_the_same_thing_share_it(tiny: dict[str, Any]) -> None:
    other = {**tiny, "name": "other", "defenses": ["vanilla"], "attacks": ["injection"]}
    both = plan([*resolve(tiny), *resolve(other)])
    assert set(both.steps) == set(planned(tiny).steps)
    assert {member.suite for member in both.members} == {"tiny", "other"}


def test_what_is_timed_is_never_shared_with_what_is_not(tiny: dict[str, Any]) -> None:
    assert not set(planned({**tiny, "exclusive": True}).steps) & set(planned(tiny).steps)


def test_the_options_of_a_row_win_over_the_settings_of_the_suite(tiny: dict[str, Any]) -> None:
    rows = ["fgai", {"name": "fgai", "label": "off", "options": {"prediction": 0}}]
    settings = [{"when": {"defense": "fgai"}, "defense": {"prediction": 0.8}}]
    found = planned({**tiny, "defenses": rows, "settings": settings, "seeds": 1})
    options = {m.label: found.steps[m.step].config["defense"]["options"] for m in found.members if m.kind == "train"}
    assert options == {"fgai": {"prediction": 0.8}, "off": {"prediction": 0}}


def test_a_sweep_differs_in_its_budget_only_and_the_scenario_is_the_attacks_own(tiny: dict[str, Any]) -> None:
    attacks = ["injection", {"name": "injection", "label": "more", "threat": {"nodes": 9}}, "random-edges"]
    found = planned({**tiny, "attacks": attacks, "seeds": 1, "defenses": ["vanilla"]})
    threats = {m.attack_label: found.steps[m.step].config["threat"] for m in found.members if m.kind == "attack"}
    assert threats["more"] == {**threats["injection"], "nodes": 9}
    assert threats["random-edges"]["scenario"] == "edges"


def test_transfer_is_crafted_on_the_vanilla_model_and_leaves_vanilla_out(tiny: dict[str, Any]) -> None:
    attacks = [{"name": "injection", "label": "transfer", "transfer": True}]
    found = planned({**tiny, "attacks": attacks, "seeds": 1})
    crafted = {m.label: found.steps[m.step].inputs for m in found.members if m.kind == "attack"}
    trained = {m.label: m.step for m in found.members if m.kind == "train"}
    assert crafted == {name: {"model": trained[name], "teacher": trained["vanilla"]} for name in ("at", "fgai")}


def test_agreement_holds_every_seed_against_the_first(tiny: dict[str, Any]) -> None:
    found = planned({**tiny, "agreement": True, "seeds": 3})
    steps = [found.steps[m.step] for m in found.members if m.kind == "agree"]
    assert len(steps) == 3 * 2
    assert {found.steps[step.inputs["other"]].config["seed"] for step in steps} == {0}


def test_budgets_that_contradict_each_other_are_refused(tiny: dict[str, Any]) -> None:
    with pytest.raises(SuiteError, match=r"feature_low 0\.5 must not exceed feature_high 0\.0"):
        planned({**tiny, "settings": [{"threat": {"feature_low": 0.5}}, {"threat": {"feature_high": 0.0}}]})


def test_the_budget_of_an_inner_attack_is_of_what_it_changes_unless_said_otherwise(tiny: dict[str, Any]) -> None:
    def scenario(**inner: Any) -> str:
        steps = planned({**tiny, "defenses": ["at"], "inner": inner, "seeds": 1}).steps.values()
        (trained,) = (step for step in steps if step.kind == "train")
        return str(trained.config["inner"]["threat"]["scenario"])

    attacks = ("injection", "prbcd", "random-edges", "feature-pgd")
    assert [scenario(attack=name) for name in attacks] == ["injection", "edges", "edges", "features"]
    assert scenario(attack="prbcd", threat={"scenario": "features"}) == "features"


def test_an_attack_with_a_budget_of_its_own_is_explained_if_the_suite_names_it(tiny: dict[str, Any]) -> None:
    lines = ["injection", {"name": "explanation-edges", "threat": {"scenario": "edges", "edges": 4}}]
    lines.append({"name": "injection", "label": "strong", "threat": {"steps": 50}})
    suite = {**tiny, "attacks": lines, "explainers": ["uniform"]}
    for named, expected in (([], {"injection"}), (["explanation-edges"], {"explanation-edges"})):
        members = planned({**suite, "explained_attacks": named}).members
        assert {m.attack_label for m in members if m.kind == "explain"} == expected


def test_a_plan_says_that_no_explainer_is_asked(tiny: dict[str, Any]) -> None:
    suite = {**tiny, "attacks": ["injection", "worst"], "explainers": ["uniform"], "explained_attacks": ["worst"]}
    assert planned(suite).left_out == ()
    (warning,) = planned(suite, attacks=["injection"]).left_out
    assert "no explanation is planned" in warning
    assert "attacks worst" in warning
    assert planned({**suite, "explainers": []}, attacks=["injection"]).left_out == ()


def test_a_network_without_attention_has_no_attack_on_it_and_is_not_explained(tiny: dict[str, Any]) -> None:
    asked = {"attacks": ["injection", "explanation"], "explainers": ["uniform"], "explained_models": ["gat"]}
    lines = ["vanilla", "gcn", "gnnguard-sparse"]
    members = planned({**tiny, **asked, "defenses": lines}).members
    aimed = {name: {m.attack for m in members if m.defense == name and m.kind == "attack"} for name in lines}
    assert aimed["gcn"] == {"injection"}
    assert aimed["vanilla"] == aimed["gnnguard-sparse"] == {"injection", "explanation"}
    assert {m.defense for m in members if m.kind == "explain"} == {"vanilla"}
    unlimited = planned({**tiny, **asked, "defenses": lines, "explained_models": []}).members
    assert {m.defense for m in unlimited if m.kind == "explain"} == set(lines)


def test_rows_without_chosen_settings_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    some = ["ln", "soft-median", "rung", "elastic-gnn"]
    made = planned("graphs", settings="tuned", seeds=1, defenses=some)
    assert {member.dataset for member in made.members} == {
        "amazon-photo", "amazon-cs", "coauthor-cs", "coauthor-physics",
    }  # fmt: skip
    everywhere, elsewhere = made.left_out
    assert "gat/soft-median tuned, gat/rung tuned, gat/elastic-gnn tuned" in everywhere
    assert " on tolokers, minesweeper, actor, squirrel-filtered, chameleon-filtered, because no settings" in elsewhere
    assert planned("graphs", seeds=1).left_out == ()
    graphs = ["run", "--suite", "graphs", "--settings", "tuned", "--dry-run", "--device", "cpu", "--defenses", "ln"]
    assert main([*graphs, "--datasets", "amazon-photo,minesweeper"]) == 0
    assert " on minesweeper, because no settings have been chosen" in " ".join(capsys.readouterr().out.split())
    assert main([*graphs, "--datasets", "minesweeper"]) == 2
    assert " on minesweeper, because no settings have been chosen" in " ".join(capsys.readouterr().err.split())


def test_a_grid_without_anything_to_run_says_why(tiny: dict[str, Any]) -> None:
    with pytest.raises(SuiteError, match=r"^nothing to run: .* on csbm-1e3, because it is not for the task link$"):
        planned({**tiny, "tasks": ["link"]})
    with pytest.raises(SuiteError, match=r"^nothing to run: no line of the suite is for one of its models$"):
        planned({**tiny, "defenses": [{"name": "ln", "models": ["gt"]}]})
