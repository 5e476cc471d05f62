"""Wrap PyG's GNNExplainer, and make a model look as PyG's explainers expect it: one weight in [0, 1] per edge."""

from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.explain import Explainer as PyGExplainer
from torch_geometric.explain import GNNExplainer
from torch_geometric.nn import MessagePassing

from fgai_bench.explainers.base import Explainer
from fgai_bench.models.base import AttentionModel, frozen_eval
from fgai_bench.seeds import isolated_rng

MODEL = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}


class _Layer(MessagePassing):
    """An identity layer on which PyG sets an edge mask, and by which it counts hops and reads embeddings."""

    def forward(self, h: Tensor) -> Tensor:
        return h


class Surface(nn.Module):
    """A model as PyG's explainers see it: embedded nodes and edges to logits, with masks on its edges.

    An edge with the mask p has the edge weight p in every layer: ``softmax(scores + log p)``.
    """

    def __init__(self, model: AttentionModel) -> None:
        super().__init__()
        self.model = model
        self.hops = nn.ModuleList(_Layer() for _ in range(model.hops))

    def forward(self, h: Tensor, edge_index: Tensor) -> Tensor:
        last: Any = self.hops[-1]
        mask = last._edge_mask
        if mask is not None and last._apply_sigmoid:
            mask = mask.sigmoid()
        return last(self.model.propagate(h, edge_index, edge_weight=mask).logits)


class GNNExplainerMasks(Explainer):
    """GNNExplainer (Ying et al. 2019): gradient descent finds an edge mask for each node.

    Args:
        epochs, lr: epochs and learning rate of the search.
    """

    summary = "GNNExplainer: for each node an edge mask of its own, by gradient descent"
    paper = "https://arxiv.org/abs/1903.03894"
    tags = ("post-hoc", "random")

    def __init__(self, epochs: int = 50, lr: float = 0.05) -> None:
        self.epochs, self.lr = epochs, lr

    def explain(self, model: AttentionModel, data: Data, nodes: Tensor, seed: int) -> Tensor:
        with frozen_eval(model):
            surface, h = Surface(model).eval(), model.embed(data.x).detach()
            masks = [self._mask(surface, h, data.edge_index, node, seed) for node in nodes.tolist()]
        return torch.stack(masks) if masks else h.new_zeros(0, data.edge_index.size(1))

    def _mask(self, surface: Surface, h: Tensor, edge_index: Tensor, node: int, seed: int) -> Tensor:
        algorithm = GNNExplainer(epochs=self.epochs, lr=self.lr)
        explainer = PyGExplainer(surface, algorithm, "model", MODEL, edge_mask_type="object")
        with isolated_rng(seed, "explain"):
            return explainer(h, edge_index, index=node).edge_mask.detach()
