"""The peer: the models, the training and the attack as one writes them with PyG and dense features."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GATv2Conv, TransformerConv

from fgai_bench.data.splits import Split

CONVOLUTIONS = {"gat": GATConv, "gatv2": GATv2Conv, "gt": TransformerConv}


class PeerModel(nn.Module):
    """Two PyG layers of the reference sizes: 8 heads x 8, ELU, one head to the classes; dropout 0.6."""

    def __init__(self, name: str, in_channels: int, num_classes: int) -> None:
        super().__init__()
        convolution = CONVOLUTIONS[name]
        self.first = convolution(in_channels, 8, heads=8, dropout=0.6)
        self.second = convolution(64, num_classes, heads=1, dropout=0.6)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = F.elu(self.first(F.dropout(x, 0.6, self.training), edge_index))
        return self.second(F.dropout(h, 0.6, self.training), edge_index)


def peer_training(model: nn.Module, data: Data, x: Tensor, split: Split, epochs: int) -> nn.Module:
    """A training with validation after every epoch, the parameters of the best epoch kept."""
    model = copy.deepcopy(model)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    best, best_state = -1.0, model.state_dict()
    for _ in range(epochs):
        model.train()
        optimiser.zero_grad()
        F.cross_entropy(model(x, data.edge_index)[split.train], data.y[split.train]).backward()
        optimiser.step()
        model.eval()
        with torch.no_grad():
            right = model(x, data.edge_index)[split.val].argmax(1) == data.y[split.val]
        if (reached := right.float().mean().item()) > best:
            best, best_state = reached, copy.deepcopy(model.state_dict())
    model.load_state_dict(best_state)
    return model


def peer_injection(
    model: nn.Module, data: Data, x: Tensor, edges: Tensor, targets: Tensor, steps: int = 10, step: float = 0.1
) -> Tensor:
    """PGD on injected features, all nodes projected anew at every step: the features found, ``(nodes, F)``."""
    model.eval()
    with torch.no_grad():
        prediction = model(x, data.edge_index)[targets].argmax(1)
    attacked = torch.cat([data.edge_index, edges], dim=1)
    features = torch.zeros(int(edges.max()) + 1 - x.shape[0], x.shape[1], device=x.device)
    for _ in range(steps):
        features.requires_grad_(True)
        loss = F.cross_entropy(model(torch.cat([x, features]), attacked)[targets], prediction)
        (gradient,) = torch.autograd.grad(loss, features)
        features = (features.detach() + step * gradient.sign()).clamp(-1, 1)
    return features
