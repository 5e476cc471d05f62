"""A small graph with masks, and networks that a user trains on it without this package."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GAT, GATConv, TransformerConv

from fgai_bench.testing.fixture import CLASSES, FEATURES, tiny_graph

EPOCHS = 40


class WithBatchNorm(nn.Module):
    """Two GATConv layers with batch normalisation between them, as many people write them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = GATConv(FEATURES, 8, heads=2)
        self.norm = nn.BatchNorm1d(16)
        self.second = GATConv(16, CLASSES)

    def forward(self, x, edge_index):
        x = F.dropout(x, 0.2, training=self.training)
        return F.log_softmax(self.second(F.elu(self.norm(self.first(x, edge_index))), edge_index), dim=1)


class Transformers(nn.Module):
    """Two TransformerConv layers, called with the graph itself."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = TransformerConv(FEATURES, 8, heads=2), TransformerConv(16, CLASSES)

    def forward(self, data):
        return self.second(self.first(data.x, data.edge_index).relu(), data.edge_index)


class WithEdgeAttributes(nn.Module):
    """Two GATConv layers that need edge attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = GATConv(FEATURES, 8, heads=2, edge_dim=2)
        self.second = GATConv(16, CLASSES, edge_dim=2)

    def forward(self, x, edge_index, edge_attr):
        return self.second(self.first(x, edge_index, edge_attr).relu(), edge_index, edge_attr)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "own": WithBatchNorm,
    "gat": lambda: GAT(FEATURES, 8, 2, CLASSES, heads=2),
    "gatv2": lambda: GAT(FEATURES, 8, 2, CLASSES, heads=2, v2=True),
    "transformer": Transformers,
}


def masked_graph() -> Data:
    """Return the tiny graph with boolean masks in the place of indices."""
    data = tiny_graph()
    masks = {}
    for part in ("train", "val", "test"):
        masks[f"{part}_mask"] = torch.zeros(data.num_nodes, dtype=torch.bool)
        masks[f"{part}_mask"][data[f"{part}_index"]] = True
    return Data(x=data.x, edge_index=data.edge_index, y=data.y, **masks)


def trained(network: nn.Module, data: Data, *inputs: str, epochs: int = EPOCHS) -> nn.Module:
    """Train a network as a user does, without this package."""
    optimiser = torch.optim.Adam(network.parameters(), lr=0.02)
    names = ("x", "edge_index", *inputs)
    for _ in range(epochs):
        network.train()
        optimiser.zero_grad()
        logits = network(data) if isinstance(network, Transformers) else network(*(data[name] for name in names))
        F.cross_entropy(logits[data.train_mask], data.y[data.train_mask]).backward()
        optimiser.step()
    return network.eval()
