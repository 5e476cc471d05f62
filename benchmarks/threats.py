"""Hold three threat models against one network on 50,000 nodes, and print what its card says under each.

python -m benchmarks.threats [--attacks injection,worst] [--device cuda]
"""

from __future__ import annotations

import argparse
import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GATConv

import fgai_bench as fb
from fgai_bench.card.text import headline


class Net(nn.Module):
    """Two GATConv layers."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.first, self.second = GATConv(features, 8, heads=4), GATConv(32, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(F.elu(self.first(x, edge_index)), edge_index)


def main() -> None:
    """Train the network and print one card per threat."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attacks", default="injection,worst")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", help="one of the threats, by name")
    parser.add_argument("--epochs", type=int, default=40)
    asked = parser.parse_args()
    torch.manual_seed(0)
    data = fb.load_dataset("csbm", edges=250_000).to(asked.device)
    network = Net(data.num_node_features, data.num_classes).to(asked.device)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(asked.epochs):
        optimizer.zero_grad()
        F.cross_entropy(network(data.x, data.edge_index)[data.train_mask], data.y[data.train_mask]).backward()
        optimizer.step()
    bounds = {"feature_low": float(data.x.min()), "feature_high": float(data.x.max())}
    threats: dict[str, fb.ThreatModel | str] = {
        "auto": "auto",
        "by hand, step 0.1": fb.ThreatModel(nodes=20, edges_per_node=10, step=0.1, **bounds),
        "by hand": fb.ThreatModel(nodes=20, edges_per_node=10, **bounds),
        "500 nodes": fb.ThreatModel(nodes=500, edges_per_node=10, **bounds),
    }
    for name, threat in threats.items() if asked.only is None else [(asked.only, threats[asked.only])]:
        started = time.perf_counter()
        card = fb.evaluate(network, data, asked.attacks.split(","), threat)  # type: ignore[arg-type]
        print(f"{name} ({time.perf_counter() - started:.0f} s), {card.prediction}: {headline(card)[0]}", flush=True)
        for row in card.rows:
            print(f"    {row.quantity} {row.attack} {row.value:.3f} [{row.low:.3f}, {row.high:.3f}]")
        for alarm in card.alarms:
            print(f"    ! {alarm}")


if __name__ == "__main__":
    main()
