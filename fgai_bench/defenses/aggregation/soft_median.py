"""Define the defense Soft Median (Geisler et al. 2021, https://arxiv.org/abs/2110.14038) on DeepRobust's GCN."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from fgai_bench.defenses.deeprobust_gcn import GCNOptions
from fgai_bench.defenses.edge_products import EdgeProducts
from fgai_bench.defenses.plain_gcn import PlainGCNModel
from fgai_bench.defenses.vanilla import ReplacedModel
from fgai_bench.fast.ordered_sums import rows_at
from fgai_bench.models.base import HeadWeights, Output, head_weights, keyed_attention, layer_shifts
from fgai_bench.models.kernels.segments import AttentionCall, attend
from fgai_bench.models.sorted_edges import SortedEdges, sorted_edges
from fgai_bench.options import OWN_NETWORK, LogRange, Space

Neighbourhoods = tuple[EdgeProducts, Tensor | None]  # the edges, and the share of each that is present, if not all is


def neighbour_median(values: Tensor, edges: SortedEdges, presence: Tensor | None = None) -> Tensor:
    """Return the median of every node's in-neighbours and itself, feature by feature: ``(N, D) -> (N, D)``.

    It is the smallest value up to which half of the weight lies, so of two values the lower one. ``edges`` have loops;
    ``presence``, ``(E,)``, is the weight of each sorted edge.

    >>> edges = sorted_edges(torch.tensor([[1, 2], [0, 0]]), 3)
    >>> neighbour_median(torch.tensor([[5.0], [1.0], [9.0]]), edges).view(-1).tolist()
    [5.0, 1.0, 9.0]
    """
    (nodes, width), begin = values.shape, edges.pointer[:-1]
    rank = values.detach().t().argsort(dim=1, stable=True).argsort(1)  # (D, N)
    key = edges.destination * nodes + rank.index_select(1, edges.source)  # (D, E)
    order = (key.int() if nodes**2 < 2**31 else key).argsort(1)  # by destination, then by value
    if presence is None:
        place = (begin + (edges.pointer.diff() - 1) // 2).expand(width, -1)  # (D, N)
    else:
        running = presence.detach().double()[order].cumsum(1)  # (D, E)
        ends = F.pad(running, (1, 0)).index_select(1, edges.pointer)  # (D, N + 1)
        middle = torch.searchsorted(running, ((ends[:, :-1] + ends[:, 1:]) / 2).contiguous())
        place = torch.maximum(begin, torch.minimum(middle, edges.pointer[1:] - 1))
    chosen = edges.source[order.gather(1, place)].t() * width + torch.arange(width, device=values.device)  # (N, D)
    return rows_at(chosen.flatten(), values.flatten()).view(nodes, width)


class SoftMedianModel(PlainGCNModel):
    r"""A GCN of two layers that averages with weights which fall with the distance from the neighbours' median.

    With :math:`\bar x_i` the median of the rows :math:`x_j = (h W)_j` of the in-neighbours and of i itself, feature by
    feature, and d features:

    .. math::
        c_{ij} = \lVert \bar x_i - x_j \rVert_2 \qquad
        \alpha_{ij} = \frac{a_{ij} \exp(-c_{ij} / (T \sqrt d))}{\sum_l a_{il} \exp(-c_{il} / (T \sqrt d))} \qquad
        h_i' = \sum_j \alpha_{ij} x_j + b

    ``a`` is 1 for an edge; edge weights stand in its place, in the median too. The paper takes the entries of a
    normalised or a diffused adjacency instead (Soft Median GDC). Here all neighbours count alike, so a layer is local
    and its weights are an attention. A high temperature T gives the mean, a low one a row near the median.
    """

    local = True
    defaults: ClassVar[dict[str, Any]] = {"temperature": 0.5}

    @property
    def injection_radius(self) -> int | None:
        return self.hops - 1

    def structure(self, profile: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Any:
        return EdgeProducts(sorted_edges(edge_index, profile.shape[0])), edge_weight

    def averaged(self, values: Tensor, structure: Neighbourhoods, shift: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the soft medians of all neighbourhoods, ``(N, D) -> (N, D)``, and the sorted weights, ``(E, 1)``."""
        products, weight = structure
        edges = products.edges
        presence = None if weight is None else edges.in_order(F.pad(weight, (0, edges.added), value=1.0))
        distance = products.distances(values, neighbour_median(values, edges, presence))  # (E,)
        scores = -distance.unsqueeze(1) / (self.config["temperature"] * math.sqrt(values.shape[1]))
        out, weights = attend(scores, values.unsqueeze(1).contiguous(), AttentionCall(edges, shift))
        return out.squeeze(1), weights

    def classified(self, support: Tensor, structure: Neighbourhoods, score_shift: Tensor | None = None) -> Output:
        return self._classified(support, structure, score_shift)[0]

    def _classified(
        self, support: Tensor, structure: Neighbourhoods, score_shift: Tensor | None = None
    ) -> tuple[Output, tuple[HeadWeights, ...]]:
        edges, (first, second) = structure[0].edges, (self.network.gc1, self.network.gc2)
        shifts = layer_shifts(2, edges, score_shift, structure[1])
        mixed, before = self.averaged(support, structure, shifts[0])
        h = F.relu(mixed + first.bias)  # (N, hidden)
        logits, last = self.averaged(self.dropped(h) @ second.weight, structure, shifts[1])
        out = Output(logits + second.bias, keyed_attention(edges, last), (h,))
        return out, (head_weights(edges, before), head_weights(edges, last))

    def with_layers(self, h: Tensor, edge_index: Tensor) -> tuple[Output, tuple[HeadWeights, ...]]:
        return self._classified(h, self.structure(h, edge_index, None))


class SoftMedianOptions(GCNOptions):
    """The size of the network, and ``temperature``: how fast weights fall with the distance from the median."""

    temperature: float = Field(0.5, gt=0, le=1e6)


class SoftMedian(ReplacedModel):
    """Soft Median in place of the model; options as in :class:`SoftMedianOptions`."""

    summary = "Soft Median: neighbours weighed by how near they are to the neighbourhood's median"
    paper = "https://arxiv.org/abs/2110.14038"
    tags: ClassVar[tuple[str, ...]] = ("node", "replaces-model")
    options_class = SoftMedianOptions
    model_class = SoftMedianModel
    search_space: ClassVar[Space | None] = {**OWN_NETWORK, "defense.temperature": LogRange(0.05, 2.0)}
