"""Define one attention layer over embedded features: networks whose nodes see their neighbours and nothing further.

A node's output depends on its own in-edges alone, so an injected edge changes the node that it leads to and no other:
see :mod:`fgai_bench.certificates.reach`.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from fgai_bench.models.base import DROPOUT_SPACE
from fgai_bench.models.features import FeatureProjection, Norm
from fgai_bench.models.gat import GATLayer
from fgai_bench.models.gatv2 import GATv2Layer
from fgai_bench.models.kernels.elu import elu
from fgai_bench.models.options import OneHopOptions
from fgai_bench.models.sorted_edges import NodeMask, SortedEdges
from fgai_bench.models.stacked_attention import AttentionLayer, StackedAttention
from fgai_bench.options import Choice, Space


class OneHopLayer(nn.Module):
    """Attention over embedded features ``h = ELU(W x + b)`` with averaged heads, plus a linear skip connection.

    ``logits_i = mean_heads(sum_j w_ij V h_j) + c + U h_i``.

    Shapes: projected ``(N, K)`` -> out ``(N, C)``, weights ``(E, H)``.
    """

    def __init__(self, layer: type[AttentionLayer], in_channels: int, num_classes: int, chosen: OneHopOptions) -> None:
        super().__init__()
        norm: Norm = "layer" if chosen.layer_norm else "none"
        self.embed = FeatureProjection(in_channels, chosen.hidden, chosen.dropout, chosen.input_norm, bias=True)
        self.attend = layer(chosen.hidden, num_classes, chosen.heads[0], chosen, norm)
        self.skip = FeatureProjection(chosen.hidden, num_classes, chosen.dropout) if chosen.skip else None
        self.width = self.attend.project.weight.shape[1]

    def project(self, x: Tensor) -> Tensor:
        """Return the projections of the embedded features for the attention and for the skip connection, side by side.

        Shapes: ``(N, in_channels) -> (N, K)``.
        """
        h = elu(self.embed(x))  # (N, hidden)
        parts = [self.attend.project(h)] if self.skip is None else [self.attend.project(h), self.skip(h)]
        return torch.cat(parts, dim=1)

    def forward(
        self, projected: Tensor, edges: SortedEdges, shift: Tensor | None = None, mask: NodeMask | None = None
    ) -> tuple[Tensor, Tensor]:
        attended, weights = self.attend(projected[:, : self.width].contiguous(), edges, shift, mask)  # (N, H * C)
        out = attended.view(-1, self.attend.heads, self.attend.out_channels).mean(1)
        return out if self.skip is None else out + projected[:, self.width :], weights


class OneHop(StackedAttention):
    """One attention layer over embedded features; options as in :class:`fgai_bench.models.options.OneHopOptions`."""

    options_class = OneHopOptions
    search_space: ClassVar[Space] = {**DROPOUT_SPACE, "model.hidden": Choice(64, 128)}

    def build(self, in_channels: int, num_classes: int, chosen: Any) -> None:
        self.layers = nn.ModuleList([OneHopLayer(self.layer_class, in_channels, num_classes, chosen)])


class GATOneHop(OneHop):
    """One layer of GAT's additive attention over embedded features; arguments as in :class:`OneHop`."""

    summary = "one GAT layer over embedded features, with a skip connection: no second hop to attack"
    paper = "https://arxiv.org/abs/1710.10903"
    tags = ("attention", "differentiable")
    cost: ClassVar[dict[str, float]] = {"arrays_per_node": 6.0}
    layer_class = GATLayer


class GATv2OneHop(OneHop):
    """One layer of GATv2's dynamic attention over embedded features; arguments as in :class:`OneHop`."""

    summary = "one GATv2 layer over embedded features, with a skip connection: no second hop to attack"
    paper = "https://arxiv.org/abs/2105.14491"
    tags = ("attention", "differentiable")
    cost: ClassVar[dict[str, float]] = {"arrays_per_node": 7.0}
    layer_class = GATv2Layer
