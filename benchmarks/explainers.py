"""Time and peak memory of every explainer: ``python -m benchmarks.explainers [DATASET ...] [--device cuda]``.

Explainers that score blocks of nodes explain every test node; those that search for each node explain eight of them.
The last row of a graph is the true effect of edges on the shared nodes, which suites measure once for each attack. The
model is a vanilla GAT, trained for a few epochs: time does not depend on what it has learned. Memory is what torch
allocated on a GPU during the call, or the resident set of the process on a CPU.
"""

from __future__ import annotations

import argparse
import csv
import os
from collections.abc import Callable

import torch
from tabulate import tabulate
from torch import Tensor

from fgai_bench.defenses import DEFENSES, Training
from fgai_bench.explainers import EXPLAINERS, BlockExplainer
from fgai_bench.metrics import measure
from fgai_bench.models import AttentionModel, build_model
from fgai_bench.tasks.explanations import SAMPLE, SEARCHED_SAMPLE, measured_effects
from fgai_bench.tasks.node_classification import NodeProblem

HEADER = ("dataset", "what", "nodes", "(node, edge) pairs", "seconds", "peak MiB", "memory")


def timed(call: Callable[[], int], device: str) -> tuple[int, float, float, str]:
    """Return what a call counts, its seconds and its peak memory, after nothing else."""
    with measure(device) as cost:
        counted = call()
    return counted, cost.seconds, cost.peak_mib, cost.memory


def explained(name: str, problem: NodeProblem, model: AttentionModel, nodes: Tensor) -> int:
    """Explain nodes and keep nothing; return how many scores there were."""
    explainer = EXPLAINERS[name]()
    if isinstance(explainer, BlockExplainer):
        return sum(block.values.numel() for block in explainer.stream(model, problem.data, nodes))
    return explainer.sparse(model, problem.data, nodes)(problem.data, nodes).values.numel()


def rows(dataset: str, model_name: str, device: str, root: str | None, only: tuple[str, ...], epochs: int):
    """Yield a row for each explainer on one graph, and one for the true effects."""
    problem = NodeProblem.prepare(dataset, 0, root, device)
    model = build_model(model_name, problem.data.x.shape[1], problem.num_outputs).to(device)
    model = DEFENSES["vanilla"]().fit(model, problem.training_data, problem.split, training=Training(epochs=epochs))
    test, few = problem.split.test, problem.split.test[:SEARCHED_SAMPLE]
    explained("attention-last", problem, model, few)  # sorts edges and compiles kernels
    explained("saliency", problem, model, few)
    for name in EXPLAINERS.names():
        if name.startswith(only):
            nodes = few if "post-hoc" in EXPLAINERS.entry(name).tags else test
            found = timed(lambda name=name, nodes=nodes: explained(name, problem, model, nodes), device)
            yield [dataset, name, nodes.numel(), *found]
    if "effects".startswith(only):
        call = lambda: measured_effects(problem, model, problem.data, 0).clean.values.size(0)  # noqa: E731
        yield [dataset, "effects", min(SAMPLE, test.numel()), *timed(call, device)]


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", default=["cora"])
    parser.add_argument("--model", default="gat")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--data-root", default=os.environ.get("FGAI_BENCH_DATA"))
    parser.add_argument("--only", default="", help="beginnings of names, several by commas; effects for true effects")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--out", default=None, help="also write the table to this CSV file")
    asked = parser.parse_args()
    table = []
    for dataset in asked.datasets:
        for row in rows(
            dataset, asked.model, asked.device, asked.data_root, tuple(asked.only.split(",")), asked.epochs
        ):
            table.append(row)
            print(tabulate([row], floatfmt=".3f", tablefmt="plain"), flush=True)
    print(tabulate(table, headers=HEADER, floatfmt=".3f"))
    if asked.out:
        with open(asked.out, "w", newline="") as file:
            csv.writer(file).writerows([HEADER, *table])


if __name__ == "__main__":
    main()
