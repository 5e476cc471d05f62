"""Hold the standard attack against every other one, and against twice its own search, on real graphs.

Run on a machine with a GPU; several processes may write to one folder, each a file of its own:

    python -m benchmarks.standard_attack --model gat --dataset amazon-photo --seed 0 --twice --out measured
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.plain_cover import covered_attack
from fgai_bench.attacks import ATTACKS, ThreatModel
from fgai_bench.defenses import DEFENSES, Training
from fgai_bench.models import AttentionModel, build_model
from fgai_bench.models.base import frozen_eval
from fgai_bench.run.plan import Trial
from fgai_bench.suites import load_suite
from fgai_bench.suites.schema import DefenseLine
from fgai_bench.tasks.base import Problem
from fgai_bench.tasks.link_prediction import LinkProblem
from fgai_bench.tasks.node_classification import NodeProblem

OTHERS = {"injection": {}, "random-injection": {}}
COLUMNS = (
    *("model", "dataset", "seed", "defense", "clean", *OTHERS, "plain-cover", "worst", "worst-twice"),
    *("reached_share", "f1_reached", "gradient_calls", "seconds_train", "seconds_worst", "flags"),
    *("overlap_injection", "overlap_explanation", "kept_explanation", "task"),
)
TASKS: dict[str, tuple[type[Problem], str]] = {"node": (NodeProblem, "f1"), "link": (LinkProblem, "roc_auc")}
BUDGETS: dict[str, dict[str, Any]] = {"node": {}, "link": {"nodes": 15, "edges_per_node": 25}}


def main() -> None:
    """Train the defenses of one cell, attack each, and write a row for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=list(TASKS), default="node")
    parser.add_argument("--model", default="gat")
    parser.add_argument("--dataset", default="amazon-photo")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--defenses", default="vanilla,ln,at,fgai")
    parser.add_argument("--twice", action="store_true", help="also search twice as long")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--data-root", default=None)
    parser.add_argument("--out", type=Path, default=Path("measured"))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    with (asked.out / f"{asked.task}_{asked.model}_{asked.dataset}_{asked.seed}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        problem = TASKS[asked.task][0].prepare(asked.dataset, asked.seed, root=asked.data_root, device=asked.device)
        teacher = trained_by(problem, asked.model, asked.dataset, "vanilla", asked.seed, None)
        for name in asked.defenses.split(","):
            row = cell(problem, asked.model, asked.dataset, name, asked.seed, teacher, asked.twice)
            writer.writerow(row)
            file.flush()
            print(*(f"{key} {value}" for key, value in row.items() if value != ""), flush=True)


def trained_by(
    problem: Problem, model: str, dataset: str, name: str, seed: int, teacher: AttentionModel | None
) -> AttentionModel:
    """Train one model by one defense with the settings of the task's suite."""
    suite = load_suite(problem.task)
    options = Trial(suite, problem.task, dataset, model, DefenseLine(name=name), seed).settings
    defense = DEFENSES[name](**options["defense"])
    made = build_model(
        model, problem.data.x.shape[1], problem.num_outputs, seed=seed, **suite.model, **options["model"]
    )
    needs = DEFENSES.entry(name).tags
    inner = {**dict(getattr(defense, "inner_options", {})), "steps": 10, **suite.inner.threat, **options["inner"]}
    return defense.fit(
        made.to(problem.targets.device),
        problem.training_data,
        problem.split,
        seed,
        supervision=problem.supervision,
        training=Training(**{**suite.training.model_dump(), **options["training"]}),
        teacher=teacher if "needs-teacher" in needs else None,
        inner=problem.inner(inner) if "needs-inner" in needs else None,
    )


def cell(
    problem: Problem, model: str, dataset: str, name: str, seed: int, teacher: AttentionModel, twice: bool
) -> dict[str, Any]:
    """Train by one defense and return its row; the vanilla model is the teacher of FGAI and everybody's surrogate."""
    began = time.perf_counter()
    trained = trained_by(problem, model, dataset, name, seed, teacher)
    score = TASKS[problem.task][1]
    row: dict[str, Any] = {"task": problem.task, "model": model, "dataset": dataset, "seed": seed, "defense": name}
    row["seconds_train"] = round(time.perf_counter() - began, 2)
    row["clean"] = problem.clean(trained).metrics[score]

    def attacked(attack: str, surrogate: AttentionModel | None = None, **changes: Any) -> Any:
        threat, given = ThreatModel(**BUDGETS[problem.task], **changes), (trained, problem.data, problem.targets)
        return ATTACKS[attack]()(*given, seed=seed, threat=threat, readout=problem.readout, surrogate=surrogate)

    for other, changes in OTHERS.items():
        metrics = problem.attacked(trained, attacked(other, **changes)).metrics
        row[other] = metrics[score]
        if other == "injection":
            row["overlap_injection"] = metrics.get("topk_overlap_reached", "")
    if isinstance(problem, NodeProblem):
        with frozen_eval(trained):
            row["plain-cover"] = _f1(problem, trained, covered_attack(trained, problem.data, problem.targets))
        metrics = problem.attacked(trained, attacked("explanation")).metrics
        row |= {"overlap_explanation": metrics["topk_overlap_reached"], "kept_explanation": metrics["kept_by_attack"]}
    began = time.perf_counter()
    worst = attacked("worst", surrogate=teacher)
    row["seconds_worst"] = round(time.perf_counter() - began, 2)
    metrics = problem.attacked(trained, worst).metrics
    row |= {"worst": metrics[score], **{key: metrics.get(key, "") for key in ("reached_share", "f1_reached")}}
    row |= {"gradient_calls": worst.ledger.gradient_calls, "flags": "; ".join(worst.flags)}
    again = attacked("worst-twice", surrogate=teacher) if twice else None
    row["worst-twice"] = "" if again is None else problem.attacked(trained, again).metrics[score]
    return row


def _f1(problem: NodeProblem, model: AttentionModel, graph: Any) -> float:
    test = problem.split.test
    right = problem.output(model, graph).logits[test].argmax(1) == problem.data.y[test]
    return float(right.float().mean())


if __name__ == "__main__":
    main()
