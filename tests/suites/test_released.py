"""The settings of the released program: what it trains, what it starts from, and one deviation at a time."""

from __future__ import annotations

import csv
from importlib.resources import files
from typing import Any

import pytest

from fgai_bench.run.plan import Plan, plan
from fgai_bench.suites import SuiteError, resolve

GRAPHS = ["amazon-photo", "amazon-cs", "coauthor-cs", "coauthor-physics", "arxiv-topology"]
NUMBERS = {
    "epochs": ("training", "epochs"), "lr": ("training", "lr"), "weight_decay": ("training", "weight_decay"),
    "hidden": ("model", "hidden"), "lambda_prediction": ("defense", "prediction"), "k": ("defense", "k"),
    "lambda_explanation": ("defense", "explanation"), "lambda_similarity": ("defense", "similarity"),
    "inject_nodes": ("inner", "nodes"), "edges_per_node": ("inner", "edges_per_node"), "step": ("inner", "step"),
}  # fmt: skip


def options(config: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        "model": config["model"]["options"],
        "training": config["training"],
        "defense": {"name": config["defense"]["name"], **config["defense"]["options"]},
        "inner": config["inner"]["threat"] if config["inner"] else {},
    }


def trainings(made: Plan) -> dict[tuple[str, str, str], Any]:
    return {(m.dataset, m.model, m.label): made.steps[m.step] for m in made.members if m.kind == "train"}


@pytest.fixture(scope="module")
def released() -> Plan:
    return plan(resolve("node", settings="released", seeds=1, attacks=["injection"]))


def test_every_configuration_is_trained_with_its_numbers(released: Plan) -> None:
    rows = csv.DictReader(
        files("fgai_bench.baselines").joinpath("fgai", "released_settings.csv").read_text().splitlines()
    )
    found, wanted = trainings(released), 0
    for row in rows:
        dataset = {"ogbn-arxiv": "arxiv-topology"}.get(row["dataset"], row["dataset"])
        for method in row["used_for"].split(", ") if row["task"] == "node" and dataset in GRAPHS else ():
            chosen = options(found[dataset, row["model"], f"{method} released"].config)
            wanted += 1
            for column, (section, option) in NUMBERS.items():
                if row[column] and chosen[section]:
                    assert chosen[section].get(option, float(row[column])) == float(row[column])
            assert chosen["model"]["heads"] == [int(heads) for heads in row["heads"].split()]
    assert len(found) == wanted == 5 * 3 * 4 - 1  # there is no FGAI of GT on arXiv


def test_what_the_program_decides_itself(released: Plan) -> None:
    found = {cell: options(step.config) for cell, step in trainings(released).items()}
    photo = found["amazon-photo", "gat", "fgai released"]
    assert {"aim": "train", "explanation_attack": "own", "anchor": "teacher"}.items() <= photo["defense"].items()
    assert photo["model"]["self_loops"] is False
    assert photo["model"]["output_activation"] == "elu"
    assert {chosen["training"]["keep"] for chosen in found.values()} == {"last"}
    assert found["amazon-cs", "gat", "at released"]["defense"] == {"name": "at", "aim": "all"}
    assert found["amazon-cs", "gt", "vanilla released"]["model"]["dropout"] == 0
    assert "output_activation" not in found["amazon-cs", "gt", "vanilla released"]["model"]
    assert "self_loops" not in found["arxiv-topology", "gat", "fgai released"]["model"]


def test_ln_divides_rows_by_their_sum_and_is_switched_off_for_gatv2(released: Plan) -> None:
    found = trainings(released)
    for model in ("gat", "gt"):
        plain, normed = (options(found["coauthor-cs", model, f"{n} released"].config) for n in ("vanilla", "ln"))
        assert normed == {**plain, "model": {**plain["model"], "input_norm": "row"}}
    assert found["coauthor-cs", "gatv2", "ln released"].hash == found["coauthor-cs", "gatv2", "vanilla released"].hash


def test_the_teacher_is_the_released_vanilla_model(released: Plan) -> None:
    found = trainings(released)
    for dataset in GRAPHS:
        teacher = found[dataset, "gat", "vanilla released"].hash
        assert found[dataset, "gat", "fgai released"].inputs == {"teacher": teacher}


def test_budgets_of_the_evaluation_stay_those_of_the_suite(released: Plan) -> None:
    assert {step.config["threat"]["edges_per_node"] for step in released.steps.values() if step.kind == "attack"} == {
        20
    }
    unequal = plan(resolve("published-budgets", settings="released", seeds=1, models=["gat"]))
    steps = [unequal.steps[m.step] for m in unequal.members if m.kind == "attack"]
    assert {(s.config["defense"]["name"], s.config["threat"]["edges_per_node"]) for s in steps} == {
        ("vanilla", 40), ("at", 40), ("fgai", 20),
    }  # fmt: skip


def test_what_is_set_overrides_released_settings() -> None:
    made = plan(resolve("node", settings="released", seeds=1, assignments=["training.epochs=3", "fgai.k=0.5"]))
    assert {options(step.config)["training"]["epochs"] for step in trainings(made).values()} == {3}
    assert trainings(made)["amazon-photo", "gat", "fgai released"].config["defense"]["options"]["k"] == 0.5


def test_what_was_not_released_is_answered_with_a_sentence() -> None:
    assert {m.dataset for m in plan(resolve("quick", settings="released", datasets=["cora"])).members} == {"cora"}
    with pytest.raises(SuiteError, match="nothing to run"):
        plan(resolve("node", settings="released", datasets=["cora"]))
    with pytest.raises(SuiteError, match="whose methods are vanilla, ln, at, fgai"):
        resolve("ablation", settings="released")
    with pytest.raises(SuiteError, match="no configuration of vanilla with gat on cora"):
        plan(resolve("published-budgets", datasets=["cora"]))
    with pytest.raises(SuiteError, match="'unequal_budgets' is true"):
        resolve({"name": "mine", "datasets": ["cora"], "models": ["gat"], "defenses": ["at"],
                 "attacks": [{"name": "injection", "budgets": "released"}]})  # fmt: skip


OWN, TEACHERS = "own", "teacher"
DEFAULTS = {  # what an option is where a configuration does not say it
    "aim": {"at": "train", "fgai": "all"}, "anchor": "teacher", "explanation_attack": "own",
    "output_activation": "none",
    "input_norm": "none", "self_loops": True, "hidden": 8, "heads": [8], "dropout": 0.6, "attention_dropout": 0.6,
    "explanation": 1e5, "similarity": 1e5, "prediction": 1.0, "k": 0.5,
    "keep": {"ln": "best", "vanilla": "best", "at": "best"},
}  # fmt: skip
SWITCHED: dict[str, set[tuple[str, str, str]]] = {
    "one-attack": {(OWN, "defense", "explanation_attack")},
    "aim": {(OWN, "defense", "aim")},
    "inner-budget": {(OWN, "inner", "step"), (OWN, "inner", "edges_per_node")},
    "weights": {(OWN, "defense", name) for name in ("explanation", "similarity", "k")},
    "prediction-weight": {(OWN, "defense", "prediction")},
    "self-loops": {(who, "model", "self_loops") for who in (OWN, TEACHERS)},
    "no-elu": {(who, "model", "output_activation") for who in (OWN, TEACHERS)},
    "best-epoch": {(who, "training", "keep") for who in (OWN, TEACHERS)},
    "learning-rate": {(who, "training", "lr") for who in (OWN, TEACHERS)},
    "layer-norm": {(OWN, "defense", "name"), (OWN, "model", "input_norm")},
}


def default(method: str, option: str) -> Any:
    value = DEFAULTS.get(option)
    return value.get(method) if isinstance(value, dict) else value


@pytest.fixture(scope="module")
def deviations() -> dict[tuple[str, str, str], dict[tuple[str, str, str], Any]]:
    """What is set for each training of the suite and for its teacher, by dataset, method and deviation."""
    made = plan(resolve("deviations", seeds=1))

    def flat(step: Any) -> dict[tuple[str, str, str], Any]:
        steps = {OWN: step, **({TEACHERS: made.steps[step.inputs["teacher"]]} if step.inputs else {})}
        return {
            (who, section, option): value
            for who, one in steps.items()
            for section, values in options(one.config).items()
            for option, value in values.items()
            if value != default(one.config["defense"]["name"], option)
        }

    return {(dataset, *label.split("/")): flat(step) for (dataset, _, label), step in trainings(made).items()}  # type: ignore[misc]


def different(one: dict[Any, Any], other: dict[Any, Any]) -> set[tuple[str, str, str]]:
    return {key for key in {*one, *other} if one.get(key) != other.get(key)}


def test_each_line_of_the_deviations_switches_what_it_is_called_after(deviations: Any) -> None:
    for (dataset, method, deviation), here in deviations.items():
        if deviation not in ("published", "released"):
            switched = different(deviations[dataset, method, "released"], here)
            assert switched
            assert switched <= SWITCHED[deviation]


def test_every_difference_between_released_and_published_is_that_of_some_line(deviations: Any) -> None:
    for dataset, method in {place[:2] for place in deviations}:
        lines = {deviation: flat for (*place, deviation), flat in deviations.items() if place == [dataset, method]}
        start, end = lines.pop("released"), lines.pop("published")
        for key in different(start, end) - {(OWN, "defense", "name")}:
            assert any(line.get(key) == end.get(key) for line in lines.values()), (dataset, method, key)


def test_the_end_of_the_deviations_is_what_the_suite_node_has() -> None:
    made, node = plan(resolve("deviations", seeds=1)), plan(resolve("node", seeds=1, models=["gat"]))
    ends = [step.hash for (_, _, label), step in trainings(made).items() if label.endswith("/published")]
    assert len(ends) == 6
    assert set(ends) <= set(node.steps)
