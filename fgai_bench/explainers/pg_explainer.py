"""Wrap PyG's PGExplainer: one weight in [0, 1] per edge, by a network trained on the clean graph."""

import warnings

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.explain import Explainer as PyGExplainer
from torch_geometric.explain import PGExplainer

from fgai_bench.explainers.base import Answer, Explainer
from fgai_bench.explainers.gnn_explainer import MODEL, Surface
from fgai_bench.models.base import AttentionModel, frozen_eval
from fgai_bench.seeds import isolated_rng


class PGExplainerMasks(Explainer):
    """PGExplainer (Luo et al. 2020): a small network predicts masks from embeddings, trained on the clean graph.

    Args:
        epochs, lr: epochs and learning rate of its training, which visits the explained nodes in every epoch.
    """

    summary = "PGExplainer: edge masks by a network trained on the clean graph"
    paper = "https://arxiv.org/abs/2011.04573"
    tags = ("post-hoc", "random")

    def __init__(self, epochs: int = 10, lr: float = 0.003) -> None:
        self.epochs, self.lr = epochs, lr

    def fitted(self, model: AttentionModel, data: Data, nodes: Tensor, *, seed: int = 0) -> Answer:
        with frozen_eval(model), isolated_rng(seed, "explain"):
            surface, h = Surface(model).eval(), model.embed(data.x).detach()
            explainer = self._trained(surface, h, data.edge_index, nodes)

        def answer(graph: Data, explained: Tensor) -> Tensor:
            with frozen_eval(model), isolated_rng(seed, "explain"):
                embedded = model.embed(graph.x).detach()
                target = surface(embedded, graph.edge_index).argmax(1)
                masks = [
                    explainer(embedded, graph.edge_index, target=target, index=node).edge_mask.detach()
                    for node in explained.tolist()
                ]
            return torch.stack(masks) if masks else embedded.new_zeros(0, graph.edge_index.size(1))

        return answer

    def _trained(self, surface: Surface, h: Tensor, edge_index: Tensor, nodes: Tensor) -> PyGExplainer:
        algorithm = PGExplainer(epochs=self.epochs, lr=self.lr)
        algorithm.mlp.to(h.device)
        explainer = PyGExplainer(surface, algorithm, "phenomenon", MODEL, edge_mask_type="object")
        with torch.no_grad():
            target = surface(h, edge_index).argmax(1)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Converting a tensor with requires_grad=True to a scalar")
            for epoch in range(self.epochs):
                for node in nodes.tolist():
                    algorithm.train(epoch, surface, h, edge_index, target=target, index=node)
        return explainer
