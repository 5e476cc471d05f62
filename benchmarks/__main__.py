"""``python -m benchmarks [DATASET ...] [--device cuda] [--out FILE]``: a table of medians, spreads and ratios.

Ours against PyG (the peer) with dense features, in turn, in one process; the floor is what moving the bytes of a layer
takes at the speed of a large copy, if no row that an edge gathers is in a cache.
``--only layer,injection`` runs the rows that begin so.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import torch
from tabulate import tabulate
from torch import Tensor, nn

from benchmarks.peers import CONVOLUTIONS, PeerModel, peer_injection, peer_training
from benchmarks.timing import Timed, alternate, peak_mib
from fgai_bench.attacks import ThreatModel
from fgai_bench.attacks.injection import InjectionAttack, injected_edges
from fgai_bench.defenses import DEFENSES, Training
from fgai_bench.defenses.vanilla import Vanilla
from fgai_bench.fast.cuda_graphs import Replayed, own_stream
from fgai_bench.metrics import g_jsd, node_jsd
from fgai_bench.models import align, build_model
from fgai_bench.models.gat import GATLayer
from fgai_bench.models.gatv2 import GATv2Layer
from fgai_bench.models.gt import dot_product_attention
from fgai_bench.models.kernels.segments import AttentionCall
from fgai_bench.models.options import AttentionOptions
from fgai_bench.models.sorted_edges import SortedEdges, sorted_edges
from fgai_bench.tasks.node_classification import NodeProblem

MODELS_TIMED = ("gat", "gatv2", "gt")
HEADER = ["what", "dataset", "ours ms", "+-", "peer ms", "+-", "ratio", "ours MiB", "peer MiB", "floor ms", "above"]


@dataclass
class Bench:
    """One dataset on one device."""

    problem: NodeProblem
    dataset: str
    device: str
    rounds: int

    def __post_init__(self) -> None:
        self.data, self.split = self.problem.data, self.problem.split
        self.shape = (self.data.x.shape[1], self.problem.num_outputs)
        self.epochs = 200 if self.device == "cuda" else 3

    def dense(self) -> Tensor:
        """The features as a PyG user has them."""
        return self.data.x.to_dense() if self.data.x.layout == torch.sparse_csr else self.data.x

    def row(
        self, what: str, timed: dict[str, Timed], peaks: tuple[float | None, float | None] = (None, None), floor=None
    ) -> list[object]:
        """One row of the table; of two alternatives, the first is ours."""
        ours, peer = timed.values()
        ratio, above = peer.median / ours.median, None if floor is None else ours.median / floor
        times = [ours.median, ours.spread, peer.median, peer.spread]
        return [what, self.dataset, *times, ratio, *peaks, floor, above]

    def layers(self, speed: float) -> Iterator[list[object]]:
        """One hidden attention layer on projected nodes, forward and backward, 8 heads x 8."""
        nodes, edge_index = self.data.x.shape[0], self.data.edge_index
        edges = sorted_edges(edge_index, nodes)
        for name, ours in our_layers(edges).items():
            ours, theirs = ours.to(self.device), CONVOLUTIONS[name](64, 8, heads=8).to(self.device)
            h = torch.randn(nodes, 64, device=self.device, requires_grad=True)
            both_ways = partial(forward_and_backward, torch.randn(nodes, 64, device=self.device))
            calls = {"ours": partial(both_ways, ours, h), "peer": partial(both_ways, theirs, h, edge_index)}
            repeat, floor = 10 if self.device == "cuda" else 1, bytes_moved(name, edges) / speed
            yield self.row(f"layer {name}", alternate(calls, self.device, self.rounds, repeat=repeat), floor=floor)
            if self.device != "cuda":
                continue
            with own_stream(torch.device(self.device)):
                recorded = Replayed(calls["ours"])
                timed = alternate({**calls, "ours": recorded}, self.device, self.rounds, warm_up=5, repeat=20)
                yield self.row(f"layer {name}, recorded", timed, floor=floor)

    def epoch(self, name: str) -> list[object]:
        """Training with validation, per epoch."""
        model, peer = build_model(name, *self.shape).to(self.device), PeerModel(name, *self.shape).to(self.device)
        training = Training(epochs=self.epochs)

        def ours() -> None:
            Vanilla().fit(model, self.data, self.split, training=training)

        ours_peak = peak_mib(ours, self.device)
        x = self.dense()
        calls = {"ours": ours, "peer": lambda: peer_training(peer, self.data, x, self.split, self.epochs)}
        timed = alternate(calls, self.device, min(self.rounds, 5), warm_up=1, per=self.epochs)
        return self.row(f"epoch {name}", timed, (ours_peak, peak_mib(calls["peer"], self.device)))

    def attack(self) -> list[object]:
        """The injection attack, ten steps, on untrained models of the same size."""
        model, peer = build_model("gat", *self.shape).to(self.device), PeerModel("gat", *self.shape).to(self.device)
        threat, targets = ThreatModel(), self.problem.targets

        def ours() -> None:
            InjectionAttack()(model, self.data, targets, threat=threat)

        ours_peak = peak_mib(ours, self.device)
        x = self.dense()

        def theirs() -> None:
            edges = injected_edges(self.data.x.shape[0], targets, threat, 0)
            peer_injection(peer, self.data, x, edges, targets)

        calls = {"ours": ours, "peer": theirs}
        timed = alternate(calls, self.device, min(self.rounds, 5), warm_up=1)
        return self.row("injection attack, 10 steps", timed, (ours_peak, peak_mib(calls["peer"], self.device)))

    def defended(self, name: str, defense: str) -> list[object]:
        """An epoch of a defense with an inner maximisation, and of our vanilla training in the columns of the peer."""
        model, data = build_model(name, *self.shape).to(self.device), self.problem.training_data
        made, training = DEFENSES[defense](), Training(epochs=self.epochs)
        needed: dict[str, Any] = {"teacher": model} if "needs-teacher" in made.tags else {}
        if "needs-inner" in made.tags:
            needed["inner"] = self.problem.inner(dict(made.inner_options))
        calls: dict[str, Callable[[], object]] = {
            defense: lambda: made.fit(model, data, self.split, training=training, **needed),
            "vanilla": lambda: Vanilla().fit(model, data, self.split, training=training),
        }
        peaks = peak_mib(calls[defense], self.device), peak_mib(calls["vanilla"], self.device)
        timed = alternate(calls, self.device, 3, warm_up=1, per=self.epochs)
        return self.row(f"epoch {name} {defense} | vanilla", timed, peaks)

    def metrics(self) -> list[object]:
        """g-JSD with alignment, and node-JSD in the columns of the peer, on an attacked graph."""
        model = build_model("gat", *self.shape).to(self.device)
        attacked = InjectionAttack()(model, self.data, self.problem.targets, threat=ThreatModel(steps=1))
        clean, after = (self.problem.output(model, graph).attention for graph in (self.data, attacked.data))
        assert clean is not None
        assert after is not None
        calls = {"g-JSD": lambda: g_jsd(*align(clean, after)), "node-JSD": lambda: node_jsd(clean, after)}
        return self.row("g-JSD | node-JSD", alternate(calls, self.device, min(self.rounds, 5)))

    def rows(self, speed: float, only: tuple[str, ...]) -> Iterator[list[object]]:
        """Every row whose name begins with one of ``only``."""
        if "layer".startswith(only):
            yield from self.layers(speed)
        for name in ("gat", "gatv2"):
            if f"epoch {name}".startswith(only):
                yield self.epoch(name)
        for name, defense in product(MODELS_TIMED, ("at", "fgai", "fgai-attention")):
            if f"defended {name} {defense}".startswith(only):
                yield self.defended(name, defense)
        for what, measure in (("injection", self.attack), ("metrics", self.metrics)):
            if what.startswith(only):
                yield measure()


def forward_and_backward(grad: Tensor, layer: nn.Module, h: Tensor, *rest: Tensor) -> None:
    """A layer on ``h``, and the gradients of ``h`` and all parameters for the gradient ``grad`` of its output."""
    torch.autograd.grad(layer(h, *rest), [h, *layer.parameters()], grad)


def our_layers(edges: SortedEdges) -> dict[str, nn.Module]:
    """Our hidden layers of 8 heads x 8 on 64 channels, as modules of the projected nodes alone."""
    undropped = AttentionOptions(dropout=0.0, attention_dropout=0.0)
    return {
        "gat": _OnEdges(GATLayer(64, 8, 8, undropped), edges),
        "gatv2": _OnEdges(GATv2Layer(64, 8, 8, undropped), edges),
        "gt": _Transformer(edges),
    }


class _OnEdges(nn.Module):
    def __init__(self, layer: GATLayer | GATv2Layer, edges: SortedEdges) -> None:
        super().__init__()
        self.layer, self.edges = layer, edges

    def forward(self, h: Tensor) -> Tensor:
        return self.layer(self.layer.project(h), self.edges)[0]


class _Transformer(nn.Module):
    """The attention of our transformer, with the projections that PyG's layer has: query, key, value and skip."""

    def __init__(self, edges: SortedEdges) -> None:
        super().__init__()
        self.project, self.skip, self.edges = nn.Linear(64, 3 * 64), nn.Linear(64, 64), edges

    def forward(self, h: Tensor) -> Tensor:
        qkv = self.project(h).view(h.size(0), 3, 8, 8)
        return dot_product_attention(qkv, AttentionCall(self.edges))[0].flatten(1) + self.skip(h)


def bytes_moved(name: str, edges: SortedEdges) -> int:
    """What a forward and a backward pass of a layer on ``(N, 64)`` move if no row that an edge gathers is cached.

    Per node its input, projections and output, and the gradients of all of them; per edge a row of values going forward
    and one going back to each end (with dot products, one of keys and queries as well), both ends of the edge, and the
    weights of eight heads written and read.
    """
    projections, gathered = {"gat": (1, 3), "gatv2": (2, 4), "gt": (4, 6)}[name]
    per_node = 2 * (1 + 2 * projections + 1) * 64 * 4
    return edges.num_nodes * per_node + edges.source.numel() * (gathered * 64 * 4 + 2 * 2 * 8 + 2 * 8 * 4)


def bandwidth(device: str) -> float:
    """Bytes per millisecond of a large copy on this device, by torch's threads, counting reads and writes."""
    source = torch.zeros(2**28 if device == "cuda" else 2**25, device=device)
    target = torch.empty_like(source)
    timed = alternate({"copy": lambda: target.copy_(source)}, device, rounds=10, repeat=5)
    return 2 * source.numel() * 4 / timed["copy"].median


def exponent(rows: list[list[object]], sizes: list[int], what: str) -> float:
    """The slope of log time over log edges, by least squares, of the rows named ``what``."""
    points = [
        (math.log(size), math.log(row[2]))  # type: ignore[arg-type]
        for row, size in zip([row for row in rows if row[0] == what], sizes, strict=True)
    ]
    mean_x, mean_y = (sum(p[k] for p in points) / len(points) for k in (0, 1))
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def main() -> None:
    """Run the benchmarks and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", default=["cora"])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--data-root", default=os.environ.get("FGAI_BENCH_DATA"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--only",
        default="",
        help="layer, epoch gat, epoch gatv2, defended [MODEL [DEFENSE]], injection or metrics, several by commas",
    )
    parser.add_argument("--out", default=None, help="also write the table to this CSV file")
    arguments = parser.parse_args()
    rows, sizes, speed = [], [], bandwidth(arguments.device)
    for dataset in arguments.datasets:
        problem = NodeProblem.prepare(dataset, 0, arguments.data_root, arguments.device)
        sizes.append(problem.data.edge_index.size(1))
        bench = Bench(problem, dataset, arguments.device, arguments.rounds)
        for row in bench.rows(speed, tuple(arguments.only.split(","))):
            rows.append(row)
            print(f"{row[0]}, {dataset}: {row[2]:.3f} ms, {row[4]:.3f} ms", file=sys.stderr, flush=True)
    print(tabulate(rows, headers=HEADER, floatfmt=".3f"))
    if len(sizes) > 2 and all(dataset.startswith("csbm") for dataset in arguments.datasets):
        for what in dict.fromkeys(str(row[0]) for row in rows):
            print(f"{what}: time grows with the edges to the power {exponent(rows, sizes, what):.2f}")
    if arguments.out:
        with open(arguments.out, "w", newline="") as file:
            csv.writer(file).writerows([HEADER, *rows])


if __name__ == "__main__":
    main()
