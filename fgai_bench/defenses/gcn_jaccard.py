"""Define GCN-Jaccard (Wu et al. 2019, https://arxiv.org/abs/1903.01610): edges between dissimilar nodes are dropped."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.defenses.deeprobust_gcn import (
    Aggregation,
    GCNModel,
    GCNOptions,
    ReplacedModel,
    edge_presence,
    edge_wise,
    quiet,
)
from fgai_bench.defenses.edge_products import EdgeProducts
from fgai_bench.models.features import dense
from fgai_bench.models.sorted_edges import SortedEdges, sorted_edges

with quiet():
    from deeprobust.graph.defense import GCNJaccard as DeepRobustGCNJaccard

Similarity = Literal["jaccard", "cosine"]


class GCNJaccardModel(GCNModel):
    """DeepRobust's GCNJaccard; the edges of every input graph are dropped by the features of that graph.

    An edge stays if ``J_ij = |x_i and x_j| / |x_i or x_j|`` over the non-zero features reaches the threshold (or the
    cosine similarity, for features that are not binary). Which edges stay is a constant of the gradient, which flows
    through the convolutions over them.

    Args:
        threshold: similarity below which an edge is dropped.
        similarity: ``jaccard`` or ``cosine``.
        arguments: as in :class:`GCNModel`.
    """

    network_class = DeepRobustGCNJaccard

    defaults: ClassVar[dict[str, Any]] = {"threshold": 0.01, "similarity": "jaccard"}

    @property
    def injection_radius(self) -> int | None:
        return self.hops  # as for the plain GCN; similarities depend on the two ends of an edge

    def profile(self, x: Tensor) -> Tensor:
        known = dense(x.detach())
        return (known != 0).to(known.dtype) if self.config["similarity"] == "jaccard" else F.normalize(known)

    def structure(self, profile: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Aggregation:
        edges = sorted_edges(edge_index, profile.shape[0])
        stays = self.similarities(profile.detach(), edges) >= self.config["threshold"]
        stays |= edges.source == edges.destination
        return edge_wise(edges, stays * edge_presence(edges, edge_weight))

    def similarities(self, profile: Tensor, edges: SortedEdges) -> Tensor:
        """Return the similarity of the ends of each sorted edge: ``(N, P) -> (E,)``; 0 for nodes without features."""
        shared = EdgeProducts(edges).dots(profile).double()
        if self.config["similarity"] == "cosine":
            return shared
        size = profile.sum(1).double()  # (N,)
        return shared / (size[edges.source] + size[edges.destination] - shared).clamp(min=1)


class GCNJaccardOptions(GCNOptions):
    """The size of the network, and which edges are dropped.

    Attributes:
        threshold: similarity below which an edge is dropped.
        similarity: ``jaccard``, ``cosine``, or None: Jaccard if the training graph's features are 0 or 1.
    """

    threshold: float = Field(0.01, ge=0, le=1)
    similarity: Similarity | None = None


class GCNJaccard(ReplacedModel):
    """GCN-Jaccard; options as in :class:`GCNJaccardOptions`."""

    name = "gcn-jaccard"
    summary = "GCN-Jaccard: edges between dissimilar nodes dropped (DeepRobust)"
    paper = "https://arxiv.org/abs/1903.01610"
    version = "2"  # sums by sparse products: other last bits
    tags = ("node", "replaces-model", "no-attention")
    profiles = 5

    options_class = GCNJaccardOptions

    def build(self, data: Data, num_classes: int, seed: int) -> GCNModel:
        options = self.options.model_dump()
        options["similarity"] = options["similarity"] or ("jaccard" if _binary(data.x) else "cosine")
        return GCNJaccardModel(data.x.shape[1], num_classes, seed=seed, **options)


def _binary(x: Tensor) -> bool:
    values = x.values() if x.layout == torch.sparse_csr else x
    return bool(((values == 0) | (values == 1)).all())
