"""Chosen settings in a suite: which lines they are for, what they may not hold, and what a run makes of them."""

from __future__ import annotations

from typing import Any

import pytest

from fgai_bench.run.plan import plan
from fgai_bench.suites import SuiteError, load_suite, resolve
from fgai_bench.suites.overrides import committed_settings, with_settings
from fgai_bench.suites.schema import DefenseLine
from fgai_bench.tuning import SearchCell

CELL = {"task": "node", "dataset": "cora", "model": "gat", "defense": "fgai"}
CHOSEN: dict[str, Any] = {
    "when": CELL, "trials": 8, "trial": 3, "training": {"lr": 0.003}, "defense": {"closeness": 3.0, "unit": "node"},
    "inner": {"nodes": 40},
}  # fmt: skip
SUITE: dict[str, Any] = {
    "name": "mine", "datasets": ["cora", "citeseer"], "models": ["gat"], "seeds": 1, "tuned": [CHOSEN],
    "defenses": ["vanilla", {"name": "fgai", "options": {"closeness": 1.5, "k": 0.4}}],
}  # fmt: skip


def trainings(settings: str) -> dict[tuple[str, str], Any]:
    made = plan(resolve(SUITE, settings=settings))
    return {
        (member.dataset, member.label): made.steps[member.step] for member in made.members if member.kind == "train"
    }


def test_published_settings_are_the_suite_as_it_is_written():
    assert set(trainings("published")) == {(d, n) for d in ("cora", "citeseer") for n in ("vanilla", "fgai")}
    assert resolve(SUITE) == resolve(SUITE, settings="published")


def test_a_tuned_line_runs_where_settings_were_chosen_and_keeps_what_the_line_names():
    both, alone = trainings("both"), trainings("tuned")
    assert set(alone) == {("cora", "fgai tuned")}
    assert set(both) == {*trainings("published"), *alone}
    step, own = alone["cora", "fgai tuned"], both["cora", "fgai"]
    assert step.config["defense"]["options"] == {"closeness": 1.5, "k": 0.4, "unit": "node"}
    assert (step.config["training"]["lr"], step.config["inner"]["threat"]["nodes"]) == (0.003, 40)
    assert own.config["defense"]["options"] == {"closeness": 1.5, "k": 0.4}
    assert step.inputs["teacher"] == own.inputs["teacher"]  # the teacher is the suite's own vanilla model


def test_an_ablation_of_chosen_settings_takes_each_term_away():
    """With `--settings tuned` every line of the suite is another training, as it is with its own settings."""
    for settings in ("published", "tuned"):
        made = plan(resolve("ablation", models=["gat"], seeds=1, settings=settings))
        options = {
            m.label.removesuffix(" tuned"): made.steps[m.step].config["defense"]["options"]
            for m in made.members
            if m.kind == "train"
        }
        assert options["prediction+explanation"]["similarity"] == 0
        assert options["none"]["similarity"] == options["none"]["prediction"] == options["none"]["explanation"] == 0
        assert options["k-10"]["k"] == 0.1
    assert options["similarity+prediction+explanation"]["unit"] == "node"


def test_what_a_line_names_itself_is_not_searched():
    suite = load_suite(SUITE)
    plain, named = (
        SearchCell(suite, "node", "cora", "gat", line, 1).space
        for line in (DefenseLine(name="fgai"), suite.defenses[1])
    )
    assert set(plain) - set(named) == {"defense.closeness"}  # k is in no space


def test_members_say_how_many_trials_their_settings_come_from():
    made = plan(resolve(SUITE, settings="both"))
    assert {(member.label, member.trials) for member in made.members} == {
        ("vanilla", 0), ("fgai", 0), ("fgai tuned", 8),
    }  # fmt: skip
    assert all(("trials" in member.plain()) == bool(member.trials) for member in made.members)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"threat": {"nodes": 1}}, "threat model belongs to the suite"),
        ({"when": {**CELL, "dataset": ["cora", "citeseer"]}}, "for one task, one dataset"),
        ({"trials": 0}, "trials"),
    ],
)
def test_settings_that_cannot_have_been_chosen_are_refused(change, said):
    with pytest.raises(SuiteError, match=said):
        load_suite({**SUITE, "tuned": [{**CHOSEN, **change}]})


def test_unknown_settings_and_suites_without_any_are_answered_with_a_sentence():
    with pytest.raises(SuiteError, match="possible are published, tuned, both"):
        resolve(SUITE, settings="tunde")
    with pytest.raises(SuiteError, match="no settings have been chosen"):
        with_settings(load_suite({**SUITE, "defenses": ["row-norm"]}), "tuned")


def test_committed_settings_have_one_choice_per_cell():
    cells = [setting.when for setting in committed_settings()]
    assert len(cells) == len(set(map(repr, cells)))
