"""Define what RUNG and Elastic GNN share: a perceptron whose logits are smoothed over the graph, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field
from torch import Tensor

from fgai_bench.defenses.deeprobust_gcn import edge_presence, inverse_root
from fgai_bench.defenses.edge_products import EdgeProducts
from fgai_bench.fast.cached_results import OncePerTensor
from fgai_bench.models.base import Output
from fgai_bench.models.mlp import MLP
from fgai_bench.models.options import MLPOptions
from fgai_bench.models.sorted_edges import SortedEdges, sorted_edges


class PropagationOptions(MLPOptions):
    """The size of the perceptron, and ``steps``: how often its logits are smoothed."""

    steps: int = Field(10, ge=1, le=1000)


@dataclass(frozen=True)
class ScaledGraph:
    """A graph with its degrees; every node counts itself as a neighbour.

    Attributes:
        products: of the sorted edges.
        presence: ``(E,)`` the weight of each sorted edge.
        loop: ``(E,)`` boolean, which edges are loops.
        degree: ``(N,)`` the weight that arrives.
        scale: ``(N, 1)`` one by the root of the degree.
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

    @property
    def edges(self) -> SortedEdges:
        return self.products.edges


_graph = OncePerTensor(ScaledGraph.of)


class PropagatedMLP(MLP):
    """A perceptron, then ``steps`` of smoothing; subclasses implement :meth:`smoothed`.

    Symmetric normalisation divides a message by the root of its sender's degree, so layers are not local.

    Attributes:
        hops_per_step: how many edges a message travels in one step.
    """

    local = False
    global_because = "its messages are divided by the degree of their sender"
    hops_per_step: ClassVar[int] = 1

    @property
    def hops(self) -> int:
        return self.hops_per_step * self.config["steps"]

    @property
    def injection_radius(self) -> int | None:
        return self.hops  # one more than its steps alone, as in a GCN

    def hops_behind(self, out: Output) -> int | None:
        return None

    def recordable(self, new_edges: bool) -> bool:
        return not new_edges

    def propagate(
        self, h: Tensor, edge_index: Tensor, score_shift: Tensor | None = None, edge_weight: Tensor | None = None
    ) -> Output:
        whole = edge_weight is None
        graph = _graph(edge_index, len(h)) if whole else ScaledGraph.of(edge_index, len(h), edge_weight)
        return self.smoothed(h, graph, score_shift)

    def smoothed(self, h: Tensor, graph: ScaledGraph, score_shift: Tensor | None) -> Output:
        """Return the output for the perceptron's logits: ``(N, C) -> Output``."""
        raise TypeError(f"{type(self).__name__} must implement smoothed(h, graph, score_shift)")
