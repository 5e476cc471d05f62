"""Explanations on the edges that they cover: their time, the theorem of one-hop networks, and all rows again.

``python -m benchmarks.covered_edges time [coauthor-physics]``: seconds of the true effects of 256 nodes and of every
explainer that reads attention, with all of its measures.
``python -m benchmarks.covered_edges contribution [DATASET ...]``: rank correlation of ``contribution`` and of the last
attention with true effects, one-hop GAT, all four graphs if none is named.
``python -m benchmarks.covered_edges rows RUN [ATTACK]``: the rows of the study again, published and tuned settings, ten
seeds of GAT and five of the others; then ``fgai-bench report RUN --only measures,measure_agreement,explanations``.
The attack, ``injection`` unless another is named, decides how stable explanations are; how right they are, it does not.
"""

from __future__ import annotations

import os
import sys

import torch
from tabulate import tabulate

import fgai_bench as fb
from fgai_bench.explainers import EXPLAINERS
from fgai_bench.metrics import measure
from fgai_bench.suites import load_suite
from fgai_bench.suites.overrides import changed
from fgai_bench.tasks.explanations import explain_offers, measured_effects
from fgai_bench.tasks.measurement import measured
from fgai_bench.tasks.node_classification import NodeProblem

GRAPHS = ("amazon-photo", "amazon-cs", "coauthor-cs", "coauthor-physics")
DEFENSES = ("vanilla", "ln", "at", "fgai", "fgai-attention")
SEEDS = {"gat": 10, "gatv2": 5, "gt": 5, "gat-one-hop": 5, "gatv2-one-hop": 5}
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def trained(dataset: str, model: str, epochs: int = 200) -> tuple[NodeProblem, fb.models.AttentionModel]:
    """Return a problem and a vanilla model trained on it."""
    problem = NodeProblem.prepare(dataset, 0, os.environ.get("FGAI_BENCH_DATA"), DEVICE)
    built = fb.build_model(model, problem.data, seed=0).to(DEVICE)
    return problem, fb.fit("vanilla", built, problem.data, seed=0, epochs=epochs)


def time(dataset: str = "coauthor-physics", model: str = "gat") -> None:
    """Print seconds of effects and of every explainer that reads attention, and their sum."""
    problem, network = trained(dataset, model, epochs=20)
    attacked = fb.attack("random-injection", network, problem.data, threat="paper", seed=0).data
    measured_effects(problem, network, attacked, 0, 8)  # compiles kernels
    with measure(DEVICE) as cost:
        effects = measured_effects(problem, network, attacked, 0)
    rows = [["effects", effects.clean.values.size(0) + effects.attacked.values.size(0), cost.seconds, cost.peak_mib]]
    for name in [name for name in EXPLAINERS.names() if "attention" in EXPLAINERS.entry(name).tags]:
        with measure(DEVICE) as cost:
            found = measured(explain_offers(EXPLAINERS[name](), problem, network, attacked, effects, 0))
        rows.append([name, len(found.metrics), cost.seconds, cost.peak_mib])
    rows.append(["sum", "", sum(row[2] for row in rows), ""])
    print(f"{dataset}, {model}, {effects.clean.nodes.numel()} nodes, {DEVICE}")
    print(tabulate(rows, headers=("what", "deletions or metrics", "seconds", "peak MiB"), floatfmt=".2f"))


def contribution(*datasets: str) -> None:
    """Print rank correlations with the sizes of effects on the logit and on the probability."""
    rows = []
    for dataset in datasets or GRAPHS:
        problem, network = trained(dataset, "gat-one-hop")
        effects = measured_effects(problem, network, problem.data, 0)
        for name in ("contribution", "attention-last", "uniform"):
            found = measured(explain_offers(EXPLAINERS[name](), problem, network, problem.data, effects, 0)).metrics
            rows.append([dataset, name, *(found[f"effect_spearman{of}_covered_clean"] for of in ("_logit", ""))])
    print(tabulate(rows, headers=("dataset", "explainer", "logit", "probability"), floatfmt=".3f"))


def rows(run: str, attack: str = "injection") -> None:
    """Run the rows of the study into a folder; what it holds is not run again."""
    node, stress = (changed(load_suite(name), explained_attacks=[attack]) for name in ("node", "stress"))
    shared = {"attacks": [attack], "device": DEVICE, "data_root": os.environ.get("FGAI_BENCH_DATA")}
    for model, seeds in SEEDS.items():
        grid = {"datasets": GRAPHS, "models": [model], "defenses": DEFENSES, "seeds": seeds}
        settings = "both" if model in ("gat", "gatv2", "gt") else "published"
        fb.run(node, run, settings=settings, **grid, **shared)
    fb.run(stress, run, datasets=("amazon-photo", "cora"), seeds=10, **shared)


if __name__ == "__main__":
    asked = {"time": time, "contribution": contribution, "rows": rows}
    if len(sys.argv) < 2 or sys.argv[1] not in asked:
        sys.exit(__doc__)
    asked[sys.argv[1]](*sys.argv[2:])
