"""The suites that travel with the package."""

from __future__ import annotations

import csv
import subprocess
import sys
from functools import cache
from importlib.resources import files
from pathlib import Path

import pytest

from fgai_bench.cli import main
from fgai_bench.run.plan import Plan, plan
from fgai_bench.suites import SUITES, load_suite, resolve

METHODS = {
    "GAT": "vanilla",
    "GAT+LN": "ln",
    "GAT+AT": "at",
    "GAT+FGAI": "fgai",
    "Pro-GNN": "pro-gnn",
    "GNN-SVD": "gnn-svd",
    "GNNGuard": "gnnguard",
}
TERMS = ("similarity", "prediction", "explanation")  # the paper's L1, L2, L3
BUDGET = ("inject_nodes", "edges_per_node", "step", "steps")
STAND_IN = {"ogbn-arxiv": "arxiv-topology"}


@cache
def planned(suite: str) -> Plan:
    """The steps of the first seed of a suite."""
    return plan(resolve(suite, seeds=1))


def published(table: str) -> list[dict[str, str]]:
    return list(csv.DictReader(files("fgai_bench.baselines").joinpath("fgai", f"{table}.csv").read_text().splitlines()))


def paper_cells() -> set[tuple[str, ...]]:
    """Every trial of the six tables as (suite, dataset, model, label)."""
    cells: set[tuple[str, ...]] = set()
    for table, suite in (("table1_stability", "node"), ("table2_f1", "node"), ("table_f_slope", "node")):
        cells |= {(suite, row["dataset"], row["model"], row["defense"]) for row in published(table)}
    cells |= {("link", row["dataset"], row["model"], row["defense"]) for row in published("table_link_prediction")}
    for row in published("table_ablation"):
        on = [term for term, key in zip(TERMS, ("l1", "l2", "l3"), strict=True) if row[key] == "1"]
        cells.add(("ablation", "amazon-photo", row["model"], "+".join(on)))
    cells |= {("cost", row["dataset"], "gat", METHODS[row["method"]]) for row in published("table_cost")}
    return {(suite, STAND_IN.get(dataset, dataset), *rest) for suite, dataset, *rest in cells}


@pytest.mark.parametrize("name", list(SUITES))
def test_every_suite_is_valid_and_bears_its_name(name: str) -> None:
    suite = load_suite(name)
    assert suite.name == name
    assert suite.summary


def test_dry_run_of_full_lists_the_papers_six_tables(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "--suite", "full", "--seeds", "1", "--dry-run", "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert " GiB of memory" in printed
    rows = [line.split() for line in printed.splitlines()]
    listed = {(row[0], row[2], row[3], row[5]) for row in rows if len(row) > 7}
    wanted = paper_cells()
    assert len(wanted) == 3 * 4 * 5 + 12 + 21 + 21
    assert wanted - listed == set()


def test_every_trial_of_the_papers_tables_has_five_seeds() -> None:
    seeds = {part.name: part.seeds for part in resolve("full")}
    assert {seeds[name] for name in ("node", "link", "ablation", "definition", "stress")} == {(0, 1, 2, 3, 4)}


def test_amazon_has_its_own_prediction_weight_and_arxiv_its_own_model() -> None:
    trained = [step.config for step in planned("node").steps.values() if step.kind == "train"]
    fgai = {c["dataset"]["name"]: c["defense"]["options"] for c in trained if c["defense"]["name"] == "fgai"}
    assert fgai["amazon-photo"] == {"prediction": 0.8}
    assert fgai["coauthor-cs"] == {}
    assert fgai["arxiv-topology"] == {"explanation": 10**7, "similarity": 5 * 10**7}
    arxiv = [c["model"] for c in trained if c["dataset"]["name"] == "arxiv-topology" and c["model"]["name"] == "gat"]
    assert arxiv[0]["options"] == {"hidden": 128, "heads": [4, 2], "dropout": 0.05, "attention_dropout": 0}


def test_published_budgets_are_those_of_the_released_settings() -> None:
    wanted = {
        (row["dataset"], row["model"], defense): tuple(float(row[key]) for key in BUDGET)
        for row in published("released_settings")
        for defense in row["used_for"].split(", ")
        if row["task"] == "node"
    }
    attacks = [step.config for step in planned("published-budgets").steps.values() if step.kind == "attack"]
    found = {
        tuple(config[key]["name"] for key in ("dataset", "model", "defense")): tuple(
            config["threat"][key] for key in ("nodes", "edges_per_node", "step", "steps")
        )
        for config in attacks
    }
    assert len(found) == 4 * 3 * 4
    assert found == {cell: wanted[cell] for cell in found}


def test_published_budgets_train_nothing_that_node_does_not() -> None:
    node, unequal = planned("node"), planned("published-budgets")
    assert {step.kind for hash, step in unequal.steps.items() if hash not in node.steps} == {"attack"}
    assert all(member.flags == ("unequal budgets",) for member in unequal.members)
    assert "published-budgets" not in {part.name for part in resolve("full")}


@pytest.mark.parametrize("suite", ["stress", "large-budget"])
def test_models_of_the_real_graphs_are_those_of_node(suite: str) -> None:
    node, other = planned("node"), planned(suite)
    trained = {member.step for member in other.members if member.kind == "train" and member.dataset != "cora"}
    assert trained
    assert trained <= node.steps.keys()


def test_planning_does_not_wait_for_torch() -> None:
    script = (
        "import sys; from fgai_bench.suites import resolve; from fgai_bench.run.plan import plan;"
        "plan(resolve('node', seeds=1)); print([m for m in ('torch', 'pandas', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=Path.cwd())
    assert done.stdout == "[]\n", done.stderr
