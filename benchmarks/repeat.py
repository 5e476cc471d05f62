"""Train and attack twice with one seed and compare bits: every model, defense and task on the given graphs.

    python -m benchmarks.repeat --datasets cora amazon-photo coauthor-cs --out measured

Prints a line for each pair that differs, and a table of digests that another process can be held against.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fgai_bench.attacks import ATTACKS, Attacked
from fgai_bench.defenses import DEFENSES, Training
from fgai_bench.fast import cuda_graphs
from fgai_bench.models import build_model
from fgai_bench.tasks.base import Problem
from fgai_bench.tasks.link_prediction import LinkProblem
from fgai_bench.tasks.node_classification import NodeProblem

TASKS: dict[str, type[Problem]] = {"node": NodeProblem, "link": LinkProblem}
COLUMNS = ("task", "dataset", "model", "defense", "attacks", "training", "attack", "equal", "unrecorded", "seconds")


def main() -> None:
    """Write a row for every (task, dataset, model, defense) that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=["cora"])
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--models", nargs="+", default=["gat", "gatv2", "gt"])
    parser.add_argument("--defenses", nargs="+", default=["vanilla", "ln", "row-norm", "at", "fgai", "fgai-attention"])
    parser.add_argument("--attacks", nargs="+", default=["injection"])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--data-root", default=None)
    parser.add_argument("--out", type=Path, default=Path("measured"))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    name = "_".join([*asked.datasets, *asked.tasks, *asked.models])
    with (asked.out / f"repeat_{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for task in asked.tasks:
            for dataset in asked.datasets:
                problem = TASKS[task].prepare(dataset, 0, root=asked.data_root, device=asked.device)
                for model in asked.models:
                    for row in rows(problem, model, asked.defenses, asked.attacks, asked.epochs):
                        writer.writerow({"task": task, "dataset": dataset, "model": model, **row})
                        file.flush()
                        print(task, dataset, model, *row.values(), flush=True)


def rows(problem: Problem, model: str, defenses: list[str], attacks: list[str], epochs: int) -> Any:
    """Yield what two trainings and two attacks of each defense give, and a training that is not recorded."""
    teacher = trained(problem, model, "vanilla", epochs, None)
    for defense in defenses:
        began = time.perf_counter()
        first, second = (trained(problem, model, defense, epochs, teacher) for _ in range(2))
        found = [digest_of_attacks(problem, made, attacks) for made in (first, second)]
        digests = [digest(made.state_dict().values()) for made in (first, second)]
        plain = digest(unrecorded(problem, model, defense, epochs, teacher).state_dict().values())
        yield {
            "defense": defense,
            "attacks": " ".join(attacks),
            "training": digests[0],
            "attack": found[0],
            "equal": digests[0] == digests[1] and found[0] == found[1],
            "unrecorded": plain == digests[0],
            "seconds": round(time.perf_counter() - began, 1),
        }


def trained(problem: Problem, model: str, defense: str, epochs: int, teacher: nn.Module | None) -> Any:
    """Train a model by a defense with the problem's seed."""
    made = build_model(model, problem.data.x.shape[1], problem.num_outputs, seed=0).to(problem.data.edge_index.device)
    method = DEFENSES[defense]()
    tags = DEFENSES.entry(defense).tags
    return method.fit(
        made,
        problem.training_data,
        problem.split,
        0,
        supervision=problem.supervision,
        teacher=teacher if "needs-teacher" in tags else None,
        inner=problem.inner(dict(getattr(method, "inner_options", {}))) if "needs-inner" in tags else None,
        training=Training(epochs=epochs),
    )


def unrecorded(problem: Problem, model: str, defense: str, epochs: int, teacher: nn.Module | None) -> Any:
    """Train as :func:`trained` does, without CUDA graphs."""
    call = cuda_graphs.Replayed.__call__
    cuda_graphs.Replayed.__call__ = lambda self: self._work()  # type: ignore[method-assign]
    try:
        return trained(problem, model, defense, epochs, teacher)
    finally:
        cuda_graphs.Replayed.__call__ = call  # type: ignore[method-assign]


def digest_of_attacks(problem: Problem, model: Any, attacks: list[str]) -> str:
    """Return the digest of all graphs that the attacks find and of what is measured on them."""
    tensors: list[Tensor] = []
    for name in attacks:
        found: Attacked = ATTACKS[name]()(model, problem.data, problem.targets, seed=1, readout=problem.readout)
        x, measured = found.data.x, problem.attacked(model, found).metrics
        tensors += [found.data.edge_index, x.values() if x.layout == torch.sparse_csr else x]
        tensors.append(torch.tensor([measured[name] for name in sorted(measured)], dtype=torch.float64))
    return digest(tensors)


def digest(tensors: Any) -> str:
    """Return eight bytes of the SHA-256 of the tensors' bits."""
    sha = hashlib.sha256()
    for tensor in tensors:
        sha.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return sha.hexdigest()[:16]


if __name__ == "__main__":
    main()
