"""``python -m benchmarks [DATASET ...] [--device cuda] [--out FILE]``: a table of medians, spreads and ratios."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable

import torch
import torch.nn.functional as F
from tabulate import tabulate

from benchmarks.peers import CONVOLUTIONS, PeerModel, peer_injection
from benchmarks.timing import Timed, alternate
from fgai_bench.attacks import ThreatModel
from fgai_bench.attacks.injection import InjectionAttack, injected_edges
from fgai_bench.defenses.fgai import FGAI
from fgai_bench.defenses.training import Training
from fgai_bench.defenses.vanilla import Vanilla
from fgai_bench.metrics import g_jsd, node_jsd
from fgai_bench.models import align, build_model
from fgai_bench.models.edges import sorted_edges
from fgai_bench.models.gat import GATLayer
from fgai_bench.models.gatv2 import GATv2Layer
from fgai_bench.tasks.node_classification import NodeProblem

HEADER = ["what", "dataset", "ours ms", "+-", "PyG ms", "+-", "ratio", "ours MiB", "PyG MiB", "floor ms"]


def layer(problem: NodeProblem, name: str, device: str) -> tuple[dict[str, Timed], float]:
    """One hidden attention layer on projected nodes, forward and backward, 8 heads x 8."""
    nodes, edge_index = problem.data.x.shape[0], problem.data.edge_index
    ours = {"gat": GATLayer, "gatv2": GATv2Layer}[name](64, 8, 8).to(device)
    theirs = CONVOLUTIONS[name](64, 8, heads=8).to(device)
    h = torch.randn(nodes, 64, device=device, requires_grad=True)
    edges = sorted_edges(edge_index, nodes)

    def run_ours() -> None:
        out, _ = ours(ours.project(h), edges)
        out.sum().backward()

    def run_theirs() -> None:
        theirs(h, edge_index).sum().backward()

    # Read and write each value, gradient and index once: the least a forward and a backward pass can move.
    moved = nodes * 64 * 4 * 8 + edges.source.numel() * (8 * 3 + 8 * 4 * 2)
    return alternate({"ours": run_ours, "PyG": run_theirs}, device), moved


def epoch(problem: NodeProblem, name: str, device: str, rounds: int) -> dict[str, Timed]:
    """One training step and one validation."""
    data, split = problem.data, problem.split
    ours = build_model(name, data.x.shape[1], problem.num_outputs).to(device)
    theirs = PeerModel(name, data.x.shape[1], problem.num_outputs).to(device)
    x = data.x.to_dense() if data.x.layout == torch.sparse_csr else data.x

    def step(model: torch.nn.Module, predict: Callable[[], torch.Tensor]) -> Callable[[], None]:
        optimiser = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)

        def run() -> None:
            model.train()
            optimiser.zero_grad(set_to_none=True)
            F.cross_entropy(predict()[split.train], data.y[split.train]).backward()
            optimiser.step()
            model.eval()
            with torch.no_grad():
                predict()[split.val].argmax(1).eq(data.y[split.val]).float().mean().item()

        return run

    calls = {
        "ours": step(ours, lambda: ours(data).logits),
        "PyG": step(theirs, lambda: theirs(x, data.edge_index)),
    }
    return alternate(calls, device, rounds)


def attack(problem: NodeProblem, device: str, rounds: int) -> dict[str, Timed]:
    """The injection attack, ten steps, on untrained models of the same size."""
    data, threat = problem.data, ThreatModel()
    ours = build_model("gat", data.x.shape[1], problem.num_outputs).to(device)
    theirs = PeerModel("gat", data.x.shape[1], problem.num_outputs).to(device)
    x = data.x.to_dense() if data.x.layout == torch.sparse_csr else data.x
    edges = injected_edges(x.shape[0], problem.targets, threat, 0)
    calls = {
        "ours": lambda: InjectionAttack()(ours, data, problem.targets, threat=threat),
        "PyG": lambda: peer_injection(theirs, data, x, edges, problem.targets),
    }
    return alternate(calls, device, rounds, warm_up=1)


def fgai_training(problem: NodeProblem, device: str) -> dict[str, Timed]:
    """Ten epochs of FGAI beside ten epochs of vanilla training (in the column of the peer)."""
    data, split = problem.training_data, problem.split
    model = build_model("gat", data.x.shape[1], problem.num_outputs).to(device)
    inner = problem.inner(FGAI.inner_options)
    training = Training(epochs=10)
    calls = {
        "ours": lambda: FGAI().fit(model, data, split, teacher=model, inner=inner, training=training),
        "PyG": lambda: Vanilla().fit(model, data, split, training=training),
    }
    return alternate(calls, device, rounds=3, warm_up=1)


def metrics(problem: NodeProblem, device: str) -> dict[str, Timed]:
    """g-JSD with alignment (ours) beside node-JSD (in the column of the peer), on an attacked graph."""
    model = build_model("gat", problem.data.x.shape[1], problem.num_outputs).to(device)
    attacked = InjectionAttack()(model, problem.data, problem.targets, threat=ThreatModel(steps=1))
    clean, after = problem.output(model, problem.data), problem.output(model, attacked.data)
    assert clean.attention is not None
    assert after.attention is not None
    pair = clean.attention, after.attention
    return alternate({"ours": lambda: g_jsd(*align(*pair)), "PyG": lambda: node_jsd(*pair)}, device, rounds=5)


def row(what: str, dataset: str, timed: dict[str, Timed], floor: float | None = None) -> list[object]:
    ours, peer = timed["ours"], timed["PyG"]
    ratio = peer.median / ours.median
    return [
        what,
        dataset,
        ours.median,
        ours.spread,
        peer.median,
        peer.spread,
        ratio,
        ours.peak_mib,
        peer.peak_mib,
        floor,
    ]


def bandwidth(device: str) -> float | None:
    """Bytes per millisecond of a large copy on this CUDA device, counting reads and writes."""
    if device != "cuda":
        return None
    source = torch.empty(2**28, device=device)
    target = torch.empty_like(source)
    timed = alternate({"copy": lambda: target.copy_(source)}, device, rounds=10)
    return 2 * source.numel() * 4 / timed["copy"].median


def main() -> None:
    """Run the benchmarks and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("datasets", nargs="*", default=["cora"])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--data-root", default=None)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", default=None, help="also write the table to this CSV file")
    arguments = parser.parse_args()
    rows, speed = [], bandwidth(arguments.device)
    for dataset in arguments.datasets:
        problem = NodeProblem.prepare(dataset, 0, arguments.data_root, arguments.device)
        for name in ("gat", "gatv2"):
            timed, moved = layer(problem, name, arguments.device)
            rows.append(row(f"layer {name}", dataset, timed, moved / speed if speed else None))
        for name in ("gat", "gatv2"):
            rows.append(row(f"epoch {name}", dataset, epoch(problem, name, arguments.device, arguments.rounds)))
        rows.append(row("injection attack", dataset, attack(problem, arguments.device, min(3, arguments.rounds))))
        rows.append(row("10 epochs FGAI | vanilla", dataset, fgai_training(problem, arguments.device)))
        rows.append(row("g-JSD | node-JSD", dataset, metrics(problem, arguments.device)))
    print(tabulate(rows, headers=HEADER, floatfmt=".2f"))
    if arguments.out:
        with open(arguments.out, "w", newline="") as file:
            csv.writer(file).writerows([HEADER, *rows])


if __name__ == "__main__":
    main()
