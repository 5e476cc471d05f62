"""Hold the standard attack against every other one and against further search, on real graphs.

Run on a machine with a GPU; several processes may write to one folder, each a file of its own:

    python -m benchmarks.standard_attack "amazon-photo/gat/fgai tuned/0" --out measured

A row is named by graph, model, label and seed, as in the suite ``node``. It is trained, attacked by every injection
attack, and then attacked further from where the standard attack ended: by its own local search with another seed
(``continued``), and by a plain one that knows a single move (``plain``).
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fgai_bench.api import certify
from fgai_bench.attacks import ATTACKS, ThreatModel
from fgai_bench.attacks.base import Attacked, Victim
from fgai_bench.attacks.local_search import SIDE_BY_SIDE, LocalSearch
from fgai_bench.attacks.objectives import margins
from fgai_bench.attacks.search import SMALL, PortfolioMember, PortfolioSearch
from fgai_bench.defenses import DEFENSES, Training
from fgai_bench.metrics import NotApplicable
from fgai_bench.models import AttentionModel, build_model
from fgai_bench.models.base import frozen_eval
from fgai_bench.run.plan import Trial
from fgai_bench.suites import load_suite
from fgai_bench.suites.overrides import with_settings
from fgai_bench.tasks.node_classification import NodeProblem

SUITE = with_settings(load_suite("node"), "both")
LINES = {line.title: line for line in SUITE.defenses}
WEAKER = ("injection", "random-injection", "learned-placement")
FURTHER = 4000  # gradients of a continuation
MOVED, ROUND = (0.01, 0.2), 25  # share of the edges that the plain search moves, and gradients of its round
COLUMNS = (
    *("dataset", "model", "label", "seed", "clean", *WEAKER, "worst", "continued", "plain", "in-domain", "floor"),
    *("gradients", "seconds", "seconds_train", "seconds_in-domain", "flags", "curve"),
)


def main() -> None:
    """Measure the rows that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="+", help="GRAPH/MODEL/LABEL/SEED")
    parser.add_argument("--parts", default="weaker,continued,plain,in-domain,floor")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=Path("measured"))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    for name in asked.rows:
        row = measured(name, asked.device, set(asked.parts.split(",")))
        path = asked.out / f"{name.replace('/', '_').replace(' ', '-')}.csv"
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerow(row)
        print(name, *(f"{key} {row.get(key, '')}" for key in COLUMNS[4:-1]), flush=True)


def measured(name: str, device: str, parts: set[str]) -> dict[str, Any]:
    """Train and attack one row."""
    dataset, model, label, number = name.split("/")
    seed = int(number)
    problem = NodeProblem.prepare(dataset, seed, device=device)
    began = time.perf_counter()
    trained = trained_by(problem, dataset, model, label, seed)
    row: dict[str, Any] = {"dataset": dataset, "model": model, "label": label, "seed": seed}
    row |= {"seconds_train": _since(began), "clean": problem.clean(trained).metrics["f1"]}

    def attacked(attack: str, **threat: Any) -> tuple[Attacked, float]:
        found = ATTACKS[attack]()(trained, problem.data, problem.targets, threat=ThreatModel(**threat), seed=seed)
        return found, problem.attacked(trained, found).metrics["f1"]

    if "weaker" in parts:
        row |= {other: attacked(other)[1] for other in WEAKER}
    attacked("injection")  # kernels are compiled before the clock runs
    began = time.perf_counter()
    worst, row["worst"] = attacked("worst")
    row |= {"seconds": _since(began), "gradients": worst.ledger.gradient_calls, "flags": "; ".join(worst.flags)}
    row["curve"] = json.dumps([round(1 - harm, 4) for harm in worst.curve[:: max(1, len(worst.curve) // 50)]])
    with frozen_eval(trained):
        for part, continuation in (("continued", continued), ("plain", plainly_continued)):
            if part in parts:
                search = PortfolioSearch(Victim(trained, problem.data, problem.targets), ThreatModel(), seed)
                row[part] = continuation(search, member_of(search, worst))
    if "in-domain" in parts:
        began = time.perf_counter()
        row["in-domain"] = attacked("worst", features="in-domain")[1]
        row["seconds_in-domain"] = _since(began)
    if "floor" in parts:
        with suppress(NotApplicable):
            row["floor"] = certify(trained, problem.data, ThreatModel(), targets=problem.targets).score
    return row


def trained_by(problem: NodeProblem, dataset: str, model: str, label: str, seed: int) -> AttentionModel:
    """Train one row with its settings in the suite."""
    line = LINES[label]
    options, needs = Trial(SUITE, "node", dataset, model, line, seed).settings, DEFENSES.entry(line.name).tags
    teacher = None
    if "needs-teacher" in needs:
        vanilla = "vanilla tuned" if line.tuned else "vanilla"
        teacher = trained_by(problem, dataset, model, vanilla, seed)
    defense = DEFENSES[line.name](**{**options["defense"], **line.options})
    sizes = problem.data.x.shape[1], problem.num_outputs
    made = build_model(model, *sizes, seed=seed, **{**SUITE.model, **options["model"]}).to(problem.targets.device)
    inner = {**dict(getattr(defense, "inner_options", {})), "steps": 10, **SUITE.inner.threat, **options["inner"]}
    return defense.fit(
        made,
        problem.training_data,
        problem.split,
        seed,
        supervision=problem.supervision,
        training=Training(**{**SUITE.training.model_dump(), **options["training"]}),
        teacher=teacher,
        inner=problem.inner(inner) if "needs-inner" in needs else None,
    )


def member_of(search: PortfolioSearch, attacked: Attacked) -> PortfolioMember:
    """Return the attacked graph as a member of a search, with its score."""
    size, threat = search.embedded.size(0), search.threat
    edges = attacked.data.edge_index[:, search.victim.data.edge_index.size(1) :]
    owner, target = edges[:, edges[0] >= size]
    attached = torch.full((threat.nodes, threat.edges_per_node), -1, device=owner.device)
    for node in range(threat.nodes):
        own = target[owner == size + node]
        attached[node, : own.numel()] = own
    assert attacked.injected is not None
    return search.tried(PortfolioMember("recorded", attached, "margin", SMALL, attacked.injected))


def continued(search: PortfolioSearch, start: PortfolioMember) -> float:
    """Return what the standard attack's local search leaves after further gradients, with another seed."""
    local = LocalSearch(search, [start], start, 1000 + (search.seed or 0))
    local.go_on(FURTHER)
    print("  gains", {name: round(gain, 4) for name, gain in local.gains.items() if gain})
    return local.best.score


def plainly_continued(search: PortfolioSearch, best: PortfolioMember) -> float:
    """Return what a plain local search leaves: random edges move to standing targets that are near the border."""
    draw, targets = np.random.default_rng(2000 + (search.seed or 0)), search.victim.targets.cpu().numpy()
    while search.calls < FURTHER:
        with torch.no_grad():
            logits = search.victim.read(search.scene(best.attached).output(best.features))
        margin = margins(logits, search.truth).cpu().numpy()
        tries = []
        for _ in range(SIDE_BY_SIDE):
            flat = best.attached.cpu().numpy().copy().reshape(-1)
            number = max(1, round(draw.uniform(*MOVED) * flat.size))
            standing = np.where((margin > 0) & ~np.isin(targets, flat), margin, np.inf)
            near = standing.argsort(kind="stable")[: 3 * number]
            near = near[np.isfinite(standing[near])]
            number = min(number, near.size)
            flat[draw.choice(flat.size, number, replace=False)] = targets[draw.choice(near, number, replace=False)]
            attached = torch.from_numpy(flat).view_as(best.attached).to(best.attached.device)
            tries.append(replace(best, attached=attached, step=float(draw.choice([0.01, 0.025, 0.1]))))
        best = min(best, *search.climb_all(tries, ROUND), key=lambda member: member.score)
    return best.score


def _since(began: float) -> float:
    return round(time.perf_counter() - began, 2)


if __name__ == "__main__":
    main()
