"""Define what RUNG and Elastic GNN share: a perceptron whose logits are smoothed over the graph, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from fgai_bench.defenses.deeprobust_gcn import GCNOptions, edge_presence, inverse_root
from fgai_bench.defenses.edge_products import EdgeProducts
from fgai_bench.defenses.plain_gcn import PlainGCNModel
from fgai_bench.models.base import Output
from fgai_bench.models.sorted_edges import sorted_edges


class SmoothingOptions(GCNOptions):
    """The size of the perceptron, and ``steps``: how often its logits are smoothed."""

    hidden: int = Field(64, ge=1, le=65_536)
    steps: int = Field(10, ge=1, le=1000)


@dataclass(frozen=True)
class ScaledGraph:
    """A graph with its degrees: the ``(E,)`` weights of its sorted edges, ``(N,)`` their sums at the destinations.

    Every node has a loop (``loop``: ``(E,)`` boolean); ``scale`` is one by the root of the degree, ``(N, 1)``.
    """

    products: EdgeProducts
    presence: Tensor
    loop: Tensor
    degree: Tensor
    scale: Tensor

    @classmethod
    def of(cls, edge_index: Tensor, num_nodes: int, edge_weight: Tensor | None = None) -> ScaledGraph:
        edges = sorted_edges(edge_index, num_nodes)
        products, presence = EdgeProducts(edges), edge_presence(edges, edge_weight)
        degree = products.totals(presence)
        return cls(products, presence, edges.source == edges.destination, degree, inverse_root(degree).unsqueeze(1))


class SmoothedLogits(PlainGCNModel):
    """A perceptron ``relu(x W_1 + b_1) W_2 + b_2``, then ``steps`` of smoothing, which subclasses implement.

    A message is divided by the root of its sender's degree, so it reaches one hop further than the steps alone. A step
    sends messages over ``hops_per_step`` edges.
    """

    hops_per_step: ClassVar[int] = 1

    @property
    def hops(self) -> int:
        return self.hops_per_step * self.config["steps"]

    def structure(self, profile: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Any:
        return ScaledGraph.of(edge_index, profile.shape[0], edge_weight)

    def classified(self, support: Tensor, structure: ScaledGraph, score_shift: Tensor | None = None) -> Output:
        first, second = self.network.gc1, self.network.gc2
        logits = self.dropped(F.relu(support + first.bias)) @ second.weight + second.bias
        return self.smoothed(logits, structure, score_shift)

    def smoothed(self, h: Tensor, graph: ScaledGraph, score_shift: Tensor | None) -> Output:
        """Return the output for the perceptron's logits: ``(N, C) -> Output``."""
        raise NotImplementedError
