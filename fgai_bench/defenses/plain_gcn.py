"""Define the control of the defenses that replace the model: the GCN that they build on, without a defense."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fgai_bench.defenses.deeprobust_gcn import GCNModel, GCNOptions, edge_presence, inverse_root
from fgai_bench.defenses.edge_products import EdgeProducts
from fgai_bench.defenses.vanilla import ReplacedModel
from fgai_bench.models.base import Output
from fgai_bench.models.sorted_edges import sorted_edges
from fgai_bench.options import OWN_NETWORK, Space


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

    def __call__(self, h: Tensor) -> Tensor:
        """Return ``D^(-1/2) A D^(-1/2) h``: ``(N, D) -> (N, D)``."""
        return self.scale * self.products.sums(self.presence, self.scale * h)


class PlainGCNModel(GCNModel):
    """DeepRobust's GCN on ``S = D^(-1/2) (A + I) D^(-1/2)``; arguments as in :class:`GCNModel`."""

    @property
    def injection_radius(self) -> int | None:
        return self.hops  # one more than layers alone: a message is divided by the root of its sender's degree

    def capturable(self, new_edges: bool) -> bool:
        return not new_edges

    def structure(self, profile: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> ScaledGraph:
        return ScaledGraph.of(edge_index, profile.shape[0], edge_weight)

    def surroundings(self, embedded: Tensor, clean: Output, edge_index: Tensor, new_nodes: int) -> ScaledGraph:
        """Return the whole structure: no features change it."""
        return self.structure(embedded.new_zeros(len(embedded) + new_nodes, 0), edge_index, None)


class PlainGCN(ReplacedModel):
    """A GCN in place of the model, trained as it is (Kipf and Welling 2017); options as in :class:`GCNOptions`.

    What GNN-SVD, GNNGuard and the others that replace the model withstand is the work of their defense only as far as
    it is more than what this withstands.
    """

    summary = "a GCN in place of the model, without a defense: the control of those that replace it (DeepRobust)"
    paper = "https://arxiv.org/abs/1609.02907"
    tags: ClassVar[tuple[str, ...]] = ("node", "replaces-model", "no-attention")
    search_space: ClassVar[Space | None] = OWN_NETWORK
    options_class = GCNOptions
    model_class = PlainGCNModel
