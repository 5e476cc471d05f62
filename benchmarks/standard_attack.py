"""Hold the standard attack against every other one and against further search.

Run on a machine with a GPU, or on small graphs without; several processes may write to one folder, a file for each row:

    python -m benchmarks.standard_attack "amazon-photo,coauthor-cs/gat/vanilla,fgai tuned/0,1" --out measured
    python -m benchmarks.standard_attack "amazon-photo/gat/vanilla/0" --parts timing --out measured/timed  # alone
    python -m benchmarks.standard_attack --out measured --collect standard_attack.csv

A row is named by graph, model, label and seed, as in the suite ``node``. It is trained, attacked by every injection
attack, and then attacked further from where the standard attack ended: by its own local search with another seed
(``continued``), and by a plain one that knows a single move (``plain``). Every process takes the next row that no other
has: those with a ``.csv`` or a ``.claim`` in the folder are left out. A row that failed or was cut off leaves its
claim: delete it to measure the row again.
The order within a seed is random, so that such a run leaves a balanced sample.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tabulate import tabulate

from benchmarks.standard_attack_tables import TABLES, WEAKER, read_rows
from fgai_bench.api import certify
from fgai_bench.attacks import ATTACKS
from fgai_bench.attacks.auto_threat import chosen_threat
from fgai_bench.attacks.base import Attacked, Victim
from fgai_bench.attacks.local_search import SIDE_BY_SIDE, LocalSearch
from fgai_bench.attacks.objectives import margins
from fgai_bench.attacks.search import SMALL, PortfolioMember, PortfolioSearch
from fgai_bench.attacks.worst import Worst
from fgai_bench.defenses import DEFENSES, Training
from fgai_bench.metrics import NotApplicable
from fgai_bench.models import AttentionModel, build_model
from fgai_bench.models.base import frozen_eval
from fgai_bench.run.plan import TEACHER, Trial
from fgai_bench.suites import load_suite
from fgai_bench.suites.overrides import with_settings
from fgai_bench.tasks.node_classification import NodeProblem

SUITE = with_settings(load_suite("node"), "both")
LINES = {line.title: line for line in SUITE.defenses}
PARTS = ("weaker", "continued", "plain", "in-domain", "floor", "timing")
MOVED, ROUND = (0.01, 0.2), 25  # share of the edges that the plain search moves, and gradients of its round
COLUMNS = (
    *("dataset", "model", "label", "seed", "threat", "clean", *WEAKER, "worst", "further", "continued", "plain"),
    *("in-domain", "floor", "gradients", "edges", "seconds", "processor_seconds", "flags", "curve"),
)


def main() -> int:
    """Measure the rows that are asked for, or collect what was measured; return 1 if a row failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", help="GRAPHS/MODELS/LABELS/SEEDS, each one name or several with commas")
    parser.add_argument("--parts", default="weaker,continued,plain,in-domain,floor", help=f"some of {','.join(PARTS)}")
    parser.add_argument("--threat", default="paper", choices=("paper", "auto"))
    parser.add_argument("--further", type=int, default=4000, help="gradients of a continuation")
    parser.add_argument("--within", type=float, default=float("inf"), help="seconds after which no row is begun")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=Path("measured"))
    parser.add_argument("--collect", type=Path, help="write all rows of the folder to this file, and print tables")
    asked = parser.parse_args()
    if asked.collect:
        return collect(asked.out, asked.collect)
    asked.out.mkdir(parents=True, exist_ok=True)
    began, failed = time.perf_counter(), 0
    for name in expanded(asked.rows):
        if time.perf_counter() - began > asked.within:
            break
        path = asked.out / f"{name.replace('/', '_').replace(' ', '-')}_{asked.threat}.csv"
        if path.exists() or not claimed(path.with_suffix(".claim")):
            continue
        try:
            row = measured(name, asked.threat, asked.device, set(asked.parts.split(",")), asked.further)
        except Exception:  # the other rows are worth having
            traceback.print_exc()
            failed += 1
            continue
        write(path, [row])
        path.with_suffix(".claim").unlink()
        print(name, *(f"{key} {row.get(key, '')}" for key in COLUMNS[4:-1]), flush=True)
    return int(failed > 0)


def expanded(rows: list[str]) -> list[str]:
    """Return the names of all rows, those of the first seed first, otherwise in a random order that is always the same.

    >>> expanded(["cora/gat,gt/vanilla/0,1"])
    ['cora/gt/vanilla/0', 'cora/gat/vanilla/0', 'cora/gt/vanilla/1', 'cora/gat/vanilla/1']
    """
    names = ["/".join(parts) for row in rows for parts in product(*(part.split(",") for part in row.split("/")))]
    return sorted(names, key=lambda name: (int(name.rpartition("/")[2]), hashlib.sha256(name.encode()).hexdigest()))


def claimed(path: Path) -> bool:
    """Tell whether nobody else has this file, and take it."""
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows to a file that is there wholly or not at all."""
    part = path.with_suffix(".part")
    with part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    part.replace(path)


def collect(folder: Path, path: Path) -> int:
    """Write the rows of a folder to one file and print its tables; return 1 if a row is below its floor.

    A row may be in several files, as one whose time was measured by itself: what a file lacks comes from the next.
    """
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for file in sorted(folder.rglob("*.csv")):
        for row in read_rows(file):
            known = found.setdefault(tuple(row[key] for key in COLUMNS[:5]), row)
            known |= {key: value for key, value in row.items() if not known[key]}
    rows = [found[key] for key in sorted(found)]
    write(path, rows)
    for name, table in TABLES.items():
        header, *lines = table(rows)
        print(f"{name}\n{tabulate(lines, header, tablefmt='github', disable_numparse=True)}\n")
    return int(any(row["floor"] and float(row["worst"]) < float(row["floor"]) - 1e-6 for row in rows))


class RecordedWorst(Worst):
    """The standard attack, which keeps the score of its local search by gradients taken."""

    def searched(self, search: PortfolioSearch, edges: int) -> LocalSearch:
        local = super().searched(search, edges)
        self.history = local.history
        return local


def measured(name: str, threat_name: str, device: str, parts: set[str], further: int) -> dict[str, Any]:
    """Train and attack one row."""
    dataset, model, label, number = name.split("/")
    seed = int(number)
    problem = prepared(dataset, seed, device)
    trained = trained_by(dataset, model, label, seed, device)
    vanilla = trained_by(dataset, model, TEACHER.title, seed, device)
    threat = chosen_threat(threat_name, problem.data, problem.targets).threat
    row: dict[str, Any] = {"dataset": dataset, "model": model, "label": label, "seed": seed, "threat": threat_name}
    row["clean"] = problem.clean(trained).metrics["f1"]
    worst_attack = RecordedWorst()

    def attacked(attack: Any, **changes: Any) -> tuple[Attacked, float]:
        changed = threat.model_copy(update=changes)
        surrogate = None if vanilla is trained else vanilla  # as in a suite
        found = attack(trained, problem.data, problem.targets, threat=changed, seed=seed, surrogate=surrogate)
        return found, problem.attacked(trained, found).metrics["f1"]

    if "weaker" in parts:
        row |= {other: attacked(ATTACKS[other]())[1] for other in WEAKER}
    began = time.process_time()
    worst, row["worst"] = attacked(worst_attack)
    row["processor_seconds"] = round(time.process_time() - began, 1)
    row |= {"gradients": worst.ledger.gradient_calls, "edges": worst.ledger.edges, "flags": "; ".join(worst.flags)}
    if "timing" in parts:  # again, now that every kernel is compiled
        began = time.perf_counter()
        attacked(worst_attack)
        row["seconds"] = round(time.perf_counter() - began, 2)
    if not trained.ignores_edges(problem.data):
        curve = list(worst_attack.history)
        with frozen_eval(trained):
            victim = Victim(trained, problem.data, problem.targets)
            if "continued" in parts:
                search = PortfolioSearch(victim, threat, seed)
                local = continued(search, member_of(search, worst), further)
                row |= {"further": further, "continued": local.best.score}
                curve += [(worst.ledger.gradient_calls + calls, score) for calls, score in local.history]
            if "plain" in parts:
                search = PortfolioSearch(victim, threat, seed)
                row |= {"further": further, "plain": plainly_continued(search, member_of(search, worst), further)}
        row["curve"] = json.dumps([(calls, round(score, 4)) for calls, score in curve])
    if "in-domain" in parts:
        row["in-domain"] = attacked(Worst(), features="in-domain")[1]
    if "floor" in parts:
        with suppress(NotApplicable):
            row["floor"] = certify(trained, problem.data, threat, targets=problem.targets).score
    return row


@lru_cache(maxsize=4)
def prepared(dataset: str, seed: int, device: str) -> NodeProblem:
    """Return a graph with its split."""
    return NodeProblem.prepare(dataset, seed, device=device)


@lru_cache(maxsize=8)
def trained_by(dataset: str, model: str, label: str, seed: int, device: str) -> AttentionModel:
    """Train one row with its settings in the suite."""
    problem, line = prepared(dataset, seed, device), LINES[label]
    options, needs = Trial(SUITE, "node", dataset, model, line, seed).settings, DEFENSES.entry(line.name).tags
    teacher = trained_by(dataset, model, TEACHER.title, seed, device) if "needs-teacher" in needs else None
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
    return search.tried(PortfolioMember(attached, "margin", SMALL, attacked.injected))


def continued(search: PortfolioSearch, start: PortfolioMember, further: int) -> LocalSearch:
    """Return the standard attack's local search after further gradients, with another seed."""
    local = LocalSearch(search, [start], start, 1000 + (search.seed or 0))
    local.go_on(further)
    return local


def plainly_continued(search: PortfolioSearch, best: PortfolioMember, further: int) -> float:
    """Return what a plain local search leaves: random edges move to standing targets that are near the border."""
    draw, targets = np.random.default_rng(2000 + (search.seed or 0)), search.victim.targets.cpu().numpy()
    while search.calls < further:
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


if __name__ == "__main__":
    sys.exit(main())
