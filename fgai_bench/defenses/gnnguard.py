"""Define the defense GNNGuard (Zhang and Zitnik 2020, https://arxiv.org/abs/2006.08149) on DeepRobust's GCN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from fgai_bench.defenses.deeprobust_gcn import GCNModel, GCNOptions, dense_adjacency, edge_presence
from fgai_bench.defenses.edge_products import EdgeProducts
from fgai_bench.defenses.vanilla import ReplacedModel
from fgai_bench.models.attention import Attention, edge_keys
from fgai_bench.models.base import Output, keyed_attention
from fgai_bench.models.sorted_edges import SortedEdges, sorted_edges
from fgai_bench.options import OWN_NETWORK, LogRange, Space


@dataclass(frozen=True)
class EdgeWise:
    """One coefficient per edge: ``(E,)`` in the order of the sorted edges."""

    products: EdgeProducts
    presence: Tensor

    @classmethod
    def of(cls, edge_index: Tensor, num_nodes: int, edge_weight: Tensor | None) -> EdgeWise:
        edges = sorted_edges(edge_index, num_nodes)
        return cls(EdgeProducts(edges), edge_presence(edges, edge_weight))

    @property
    def edges(self) -> SortedEdges:
        return self.products.edges

    def coefficients(self, unit: Tensor, threshold: float) -> Tensor:
        """Return the defense coefficients of unit rows ``(N, F)``; non-negative, and summing to one per destination."""
        return self.shares(self.products.dots(unit), threshold)

    def shares(self, similarity: Tensor, threshold: float) -> Tensor:
        """Return the coefficients of edges whose ends are so similar: ``(E,) -> (E,)``."""
        loop = self.edges.source == self.edges.destination
        present = self.presence * ~loop  # (E,)
        kept = similarity >= threshold
        weight = kept * present * similarity
        sums = self.products.totals(weight), self.products.totals(kept * present)  # (N,) each
        total, count = map(self.products.at_destination, sums)  # (E,) each
        return torch.where(loop, 1.0, _share(weight, total, count)) / (count + 1)

    def shifted(self, coefficients: Tensor, score_shift: Tensor) -> Tensor:
        """Return ``w e^d / sum(w e^d)`` per destination, for a shift d in the order of the attention."""
        raised = coefficients * score_shift[self.edges.order].exp()
        return raised / self.products.at_destination(self.products.totals(raised))

    def aggregated(self, coefficients: Tensor, values: Tensor) -> Tensor:
        """Return ``out_i = sum_j w_ij v_j``: ``(N, D) -> (N, D)``."""
        return self.products.sums(coefficients, values)

    def attention(self, coefficients: Tensor) -> Attention:
        return keyed_attention(self.edges, coefficients.unsqueeze(1))


@dataclass(frozen=True)
class GrownGraph:
    """A graph with new nodes, and the similarities of the first layer that their features do not change.

    Attributes:
        graph: with the new nodes.
        similarity: ``(E,)`` of the ends of every edge between nodes that were there before.
        place: ``(M,)`` the edges between a new node and another one, among the sorted edges.
        new: ``(M,)`` the new node of each, counted from the first of them.
        other: ``(M, P)`` the unit rows of the other ends.
        new_nodes: R, how many are new.
    """

    graph: EdgeWise
    similarity: Tensor
    place: Tensor
    new: Tensor
    other: Tensor
    new_nodes: int

    @classmethod
    def of(cls, unit: Tensor, edge_index: Tensor, new_nodes: int) -> GrownGraph | None:
        """Return the graph for unit rows ``(N, P)`` of the nodes before; None if new nodes have edges to each other."""
        longer = torch.cat([unit, unit.new_zeros(new_nodes, unit.size(1))])
        graph = EdgeWise.of(edge_index, len(longer), None)
        source, destination = graph.edges.source, graph.edges.destination
        is_new = (source >= len(unit)).int() + (destination >= len(unit)).int()  # (E,) how many of the ends
        if bool(((is_new == 2) & (source != destination)).any()):
            return None
        place = (is_new == 1).nonzero().view(-1)
        ends = source[place], destination[place]
        new, other = torch.maximum(*ends) - len(unit), longer[torch.minimum(*ends)]
        return cls(graph, graph.products.dots(longer), place, new, other, new_nodes)

    def similarities(self, unit: Tensor) -> Tensor:
        """Return the similarity of the ends of every edge for unit rows of the new nodes: ``(R, P) -> (E,)``."""
        of_new = (unit @ self.other.t()).gather(0, self.new.unsqueeze(0)).squeeze(0)  # (M,)
        return self.similarity.index_copy(0, self.place, of_new)


@dataclass(frozen=True)
class Pairwise:
    """One coefficient per pair of nodes: ``(N, N)``, destinations in the rows. Parallel edges are one edge.

    The methods are those of :class:`EdgeWise`.
    """

    edges: SortedEdges
    adjacency: Tensor

    @classmethod
    def of(cls, edge_index: Tensor, num_nodes: int, edge_weight: Tensor | None) -> Pairwise:
        adjacency = dense_adjacency(edge_index, num_nodes, edge_weight)
        off_diagonal = ~torch.eye(num_nodes, dtype=torch.bool, device=adjacency.device)
        return cls(sorted_edges(edge_index, num_nodes), adjacency * off_diagonal)

    def coefficients(self, unit: Tensor, threshold: float) -> Tensor:
        similarity = unit @ unit.t()  # (N, N)
        kept = similarity >= threshold
        weight = kept * self.adjacency * similarity
        total, count = weight.sum(1, keepdim=True), (kept * self.adjacency).sum(1, keepdim=True)  # (N, 1) each
        return _share(weight, total, count) / (count + 1) + torch.diag(1 / (count.squeeze(1) + 1))

    def shifted(self, coefficients: Tensor, score_shift: Tensor) -> Tensor:
        source, destination = self.edges.edge_index
        raised = coefficients * torch.ones_like(coefficients).index_put((destination, source), score_shift.exp())
        return raised / raised.sum(1, keepdim=True)

    def aggregated(self, coefficients: Tensor, values: Tensor) -> Tensor:
        return coefficients @ values

    def attention(self, coefficients: Tensor) -> Attention:
        source, destination = self.edges.edge_index
        keys = edge_keys(self.edges.edge_index, len(coefficients))
        _, pair, parallel = keys.unique(return_inverse=True, return_counts=True)  # they share their pair's coefficient
        weight = coefficients[destination, source] / parallel[pair]
        return Attention(self.edges.edge_index, weight, self.edges.added)


def _share(weight: Tensor, total: Tensor, count: Tensor) -> Tensor:
    """Return ``weight / total * count``, and 0 for a destination that has lost all its neighbours."""
    # For such a destination the weight is 0, so total and count may be anything that keeps its gradient finite.
    return weight / torch.where(total > 0, total, 1.0) * torch.where(count > 0, count, 1.0)


Structure = tuple[EdgeWise | Pairwise, Tensor]


class GNNGuardModel(GCNModel):
    r"""A GCN that weighs each neighbour by how similar it is.

    In layer k, with ``n_i`` the neighbours of i whose similarity reaches the threshold, and ``N_i`` those nodes:

    .. math::
        s_{ij} = \cos(h_i, h_j) \qquad
        \alpha_{ij} = \frac{s_{ij}}{\sum_{l \in N_i} s_{il}} \cdot \frac{n_i}{n_i + 1} \; (j \in N_i) \qquad
        \alpha_{ii} = \frac{1}{n_i + 1}

    .. math::
        \omega^{(1)} = \alpha^{(1)} \qquad \omega^{(k)} = \beta \omega^{(k-1)} + (1 - \beta) \alpha^{(k)} \qquad
        h^{(k)} = \mathrm{ReLU}(\omega^{(k)} h^{(k-1)} W_k + b_k)

    with a learned memory ``beta`` in (0, 1). The coefficients of a destination are non-negative and sum to one; those
    of the last layer are the attention. The gradient flows through the similarities, so attacks see them.

    With ``dense`` there are N x N coefficients instead of one per edge; the function is the same.
    """

    defaults: ClassVar[dict[str, Any]] = {"threshold": 0.1, "dense": False}

    def __init__(self, in_channels: int, num_classes: int, **arguments: Any) -> None:
        super().__init__(in_channels, num_classes, **arguments)
        self.memory = nn.Parameter(torch.zeros(()))  # beta = sigmoid(memory)

    @property
    def injection_radius(self) -> int | None:
        return self.hops - 1  # coefficients of a node depend on its own in-neighbours

    def capturable(self, new_edges: bool) -> bool:
        return not new_edges and not self.config["dense"]

    def profile(self, x: Tensor) -> Tensor:
        return F.normalize(x.to_dense())  # (N, F)

    def structure(self, profile: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Structure:
        kind = Pairwise if self.config["dense"] else EdgeWise
        graph = kind.of(edge_index, profile.shape[0], edge_weight)
        return graph, graph.coefficients(profile, self.config["threshold"])

    def surroundings(self, embedded: Tensor, clean: Output, edge_index: Tensor, new_nodes: int) -> GrownGraph | None:
        """Return the similarities that the features of new nodes do not change: nearly all of the first layer's."""
        if self.training or self.config["dense"]:
            return None
        return GrownGraph.of(embedded[:, self.config["hidden"] :], edge_index, new_nodes)

    def completed(self, affected: GrownGraph, profile: Tensor) -> Structure:
        similarity = affected.similarities(profile[len(profile) - affected.new_nodes :])
        return affected.graph, affected.graph.shares(similarity, self.config["threshold"])

    def classified(self, support: Tensor, structure: Structure, score_shift: Tensor | None = None) -> Output:
        graph, first = structure
        convolution_1, convolution_2 = self.network.gc1, self.network.gc2
        h = F.relu(graph.aggregated(first, support) + convolution_1.bias)  # (N, hidden)
        similar = graph.coefficients(F.normalize(h), self.config["threshold"])
        last = torch.lerp(similar, first, self.memory.sigmoid())
        if score_shift is not None:
            last = graph.shifted(last, score_shift)
        logits = graph.aggregated(last, self.dropped(h) @ convolution_2.weight) + convolution_2.bias
        return Output(logits, graph.attention(last))


class GNNGuardOptions(GCNOptions):
    """The size of the network, and ``threshold``: the similarity below which an edge is pruned."""

    threshold: float = Field(0.1, gt=0, le=1)


class GNNGuardSparse(ReplacedModel):
    """GNNGuard with one coefficient per edge; options as in :class:`GNNGuardOptions`."""

    summary = "GNNGuard edge by edge: the same function, for large graphs"
    paper = "https://arxiv.org/abs/2006.08149"
    version = "3"  # sums by sparse products: other last bits
    tags: ClassVar[tuple[str, ...]] = ("node", "replaces-model")
    profiles = 5
    options_class = GNNGuardOptions
    model_class = GNNGuardModel
    search_space: ClassVar[Space | None] = {**OWN_NETWORK, "defense.threshold": LogRange(0.01, 0.5)}


class GNNGuard(GNNGuardSparse):
    """GNNGuard with N x N similarities and coefficients; options as in :class:`GNNGuardOptions`."""

    summary = "GNNGuard: neighbours weighed by similarity, on DeepRobust's GCN"
    paper = "https://arxiv.org/abs/2006.08149"
    version = "1"
    tags = ("node", "replaces-model", "dense")
    matrices = 15
    form: ClassVar[dict[str, Any]] = {"dense": True}
