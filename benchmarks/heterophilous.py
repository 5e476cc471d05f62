"""Clean scores on heterophilous graphs: of the suites' networks, and of a GAT to which parts are added one by one.

    python -m benchmarks.heterophilous actor squirrel-filtered --networks mlp gcn gat gcn-tuned gat-tuned --splits 10
    python -m benchmarks.heterophilous minesweeper --splits 3

One row per graph, network and split of its authors; `gcn-tuned` and `gat-tuned` have the settings that a search has
chosen. Rows that the file already has are not measured again.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import torch
from sklearn.metrics import accuracy_score, roc_auc_score
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GATConv

import fgai_bench as fb
from fgai_bench.suites.overrides import committed_settings
from fgai_bench.suites.schema import DefenseLine, TunedSetting

COLUMNS = ("dataset", "network", "split", "score")
HEADS, WIDTH = 8, 64
Options = dict[str, Any]
PARTS: dict[str, Options] = {  # each has one part more than the one before
    "head": {},
    "embedded": {"embed": True},
    "residual": {"embed": True, "residual": True},
    "layer-norm": {"embed": True, "residual": True, "norm": True},
    "feed-forward": {"embed": True, "residual": True, "norm": True, "feed_forward": True},
    "five-layers": {"embed": True, "residual": True, "norm": True, "feed_forward": True, "layers": 5},
}
OURS: dict[str, tuple[str, Options]] = {  # by a defense, some of which bring a network of their own
    "mlp": ("mlp", {}),
    "gcn": ("gcn", {}),
    "gat": ("vanilla", {}),
    "no-dropout": ("vanilla", {"dropout": 0.0, "attention_dropout": 0.0}),
}
TUNED = {"gcn-tuned": "gcn", "gat-tuned": "vanilla"}  # the defense whose chosen settings they have


class Block(nn.Module):
    """One attention layer with the parts that are asked for around it."""

    def __init__(self, width: int, norm: bool, residual: bool, feed_forward: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width) if norm else nn.Identity()
        self.attention = GATConv(width, WIDTH // HEADS, heads=HEADS)
        wider = (nn.Linear(WIDTH, 2 * WIDTH), nn.ELU(), nn.Linear(2 * WIDTH, WIDTH))
        self.after = nn.Sequential(*wider) if feed_forward else nn.ELU()
        self.residual = residual

    def forward(self, h: Tensor, edge_index: Tensor) -> Tensor:
        """Return the next representation of every node: ``(N, WIDTH)``."""
        out: Tensor = self.after(self.attention(self.norm(h), edge_index))
        return h + out if self.residual else out


class Network(nn.Module):
    """Features, embedded or not, blocks of attention, and a linear layer on top; no dropout."""

    def __init__(
        self,
        data: Data,
        *,
        layers: int = 2,
        embed: bool = False,
        norm: bool = False,
        residual: bool = False,
        feed_forward: bool = False,
    ) -> None:
        super().__init__()
        features = data.x.shape[1]
        self.embed = nn.Sequential(nn.Linear(features, WIDTH), nn.ELU()) if embed else nn.Identity()
        widths = [WIDTH if embed else features] + [WIDTH] * (layers - 1)
        self.blocks = nn.ModuleList(Block(width, norm, residual, feed_forward) for width in widths)
        self.head = nn.Linear(WIDTH, data.num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits: ``(N, C)``."""
        h = self.embed(x)
        for block in self.blocks:
            h = block(h, edge_index)
        out: Tensor = self.head(h)
        return out


def settings(dataset: str, defense: str) -> TunedSetting:
    """Return what a search has chosen for a defense on a graph."""
    (chosen,) = (
        known
        for known in committed_settings()
        if known.split == "transductive" and known.when.matches("node", dataset, "gat", DefenseLine(name=defense))
    )
    return chosen


def measured(dataset: str, name: str, split: int, root: str | None) -> float:
    """Return the test score, in the best epoch on validation, of a network trained on one split of a graph."""
    data = fb.load_dataset(dataset, split, root, sparse=name not in PARTS)  # sparse where suites have them so
    torch.manual_seed(split)
    if name in TUNED:
        chosen = settings(dataset, TUNED[name])
        model = fb.build_model("gat", data, seed=split, **chosen.model)
        model = fb.fit(TUNED[name], model, data, seed=split, **chosen.training, **chosen.defense)
    elif name in OURS:
        defense, options = OURS[name]
        model = fb.fit(defense, fb.build_model("gat", data, seed=split, **options), data, seed=split)
    else:
        model = fb.fit("vanilla", Network(data, **PARTS[name]), data, seed=split)
    with torch.no_grad():
        logits = model.eval()(data).logits[data.test_mask]
    labels = data.y[data.test_mask]
    if data.score == "roc_auc":
        return float(roc_auc_score(labels, logits[:, 1] - logits[:, 0]))
    return float(accuracy_score(labels, logits.argmax(1)))


def main() -> None:
    """Measure what is asked for and not yet in the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+")
    parser.add_argument("--networks", nargs="+", choices=(*OURS, *TUNED, *PARTS), default=(*OURS, *PARTS))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--csv", type=Path, default=Path("benchmarks/measured/heterophilous.csv"))
    parser.add_argument("--data-root", default=None)
    asked = parser.parse_args()
    known = set()
    if asked.csv.exists():
        with asked.csv.open(newline="", encoding="utf-8") as file:
            known = {(row["dataset"], row["network"], int(row["split"])) for row in csv.DictReader(file)}
    with asked.csv.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        if not known:
            writer.writerow(COLUMNS)
        for dataset in asked.datasets:
            for name in asked.networks:
                for split in range(asked.splits):
                    if (dataset, name, split) not in known:
                        score = measured(dataset, name, split, asked.data_root)
                        writer.writerow([dataset, name, split, f"{score:.6f}"])
                        file.flush()
                        print(dataset, name, split, f"{score:.3f}", flush=True)


if __name__ == "__main__":
    main()
