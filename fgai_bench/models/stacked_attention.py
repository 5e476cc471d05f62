"""Define what GAT and GATv2 share: attention layers on top of each other, with ELU between them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from fgai_bench.models.affected_nodes import AffectedNodes
from fgai_bench.models.base import (
    DROPOUT_SPACE,
    ConfiguredModel,
    HeadWeights,
    Output,
    head_weights,
    keyed_attention,
    layer_shifts,
)
from fgai_bench.models.features import FeatureProjection, Norm
from fgai_bench.models.kernels.elu import elu
from fgai_bench.models.options import AttentionOptions
from fgai_bench.models.sorted_edges import sorted_edges


class StackedAttention(ConfiguredModel):
    """Hidden attention layers with concatenated heads and ELU, then one single-head layer to the classes.

    ``h = ELU(layer(h))`` for each hidden layer, ``logits = layer(h)``.
    """

    local = True
    search_space = DROPOUT_SPACE
    layer_class: ClassVar[type[AttentionLayer]]
    options_class = AttentionOptions
    layers: Any  # a list of AttentionLayer

    def build(self, in_channels: int, num_classes: int, chosen: Any) -> None:
        self.layers, width, norm = nn.ModuleList(), in_channels, chosen.input_norm
        for channels, heads in [*((chosen.hidden, heads) for heads in chosen.heads), (num_classes, 1)]:
            self.layers.append(self.layer_class(width, channels, heads, chosen, norm))
            width, norm = channels * heads, "layer" if chosen.layer_norm else "none"

    def capturable(self, new_edges: bool) -> bool:
        return True

    def embed(self, x: Tensor) -> Tensor:
        return self.layers[0].project(x)

    def propagate(
        self,
        h: Tensor,
        edge_index: Tensor,
        score_shift: Tensor | None = None,
        edge_weight: Tensor | None = None,
        affected: AffectedNodes | None = None,
    ) -> Output:
        unshifted = score_shift is None and edge_weight is None and self.config["self_loops"]
        if affected is not None and not h.is_cuda and unshifted:
            return self._propagated_in_parts(h, affected)
        return self._propagated(h, edge_index, score_shift, edge_weight, affected)[0]

    def _propagated_in_parts(self, h: Tensor, affected: AffectedNodes) -> Output:
        """Return the output, computed anew only where new nodes change it; it has no hidden layers."""
        for depth, (layer, part) in enumerate(zip(self.layers, affected.parts, strict=True)):
            out, weights = layer(h.index_select(0, part.rows), part.edges, None, part.mask)
            changed = out.index_select(0, part.inside)
            if depth < len(self.layers) - 1:
                h = affected.next_input(depth, changed, self.layers[depth + 1].following)
        return Output(*affected.output(self._logits(changed), weights))

    def _logits(self, h: Tensor) -> Tensor:
        return elu(h) if self.config["output_activation"] == "elu" else h

    def with_layers(self, h: Tensor, edge_index: Tensor) -> tuple[Output, tuple[HeadWeights, ...]]:
        return self._propagated(h, edge_index)

    def _propagated(
        self,
        h: Tensor,
        edge_index: Tensor,
        score_shift: Tensor | None = None,
        edge_weight: Tensor | None = None,
        affected: AffectedNodes | None = None,
    ) -> tuple[Output, tuple[HeadWeights, ...]]:
        """Return the output and the attention of every layer."""
        edges = sorted_edges(edge_index, h.size(0))
        shifts = layer_shifts(len(self.layers), edges, score_shift, edge_weight, self.config["self_loops"])
        hidden, seen = list[Tensor](), list[HeadWeights]()
        for depth, (layer, shift) in enumerate(zip(self.layers, shifts, strict=True)):
            projected = h if depth == 0 else layer.following(hidden[-1])
            h, weights = layer(projected, edges, shift, affected and affected.mask(depth))
            hidden.append(affected.filled(depth, h) if affected and depth < len(self.layers) - 1 else h)
            seen.append(head_weights(edges, weights))
        return Output(self._logits(h), keyed_attention(edges, weights), tuple(hidden[:-1])), tuple(seen)

    def shifting(self, out: Output, h: Tensor, edge_index: Tensor) -> Callable[[Tensor], Output]:
        last, edges = self.layers[-1], sorted_edges(edge_index, h.size(0))
        projected = last.following(out.hidden[-1]) if out.hidden else h

        def shifted(score_shift: Tensor) -> Output:
            (shift,) = layer_shifts(1, edges, score_shift, None, self.config["self_loops"])
            h, weights = last(projected, edges, shift)
            return Output(self._logits(h), keyed_attention(edges, weights), out.hidden)

        return shifted


class AttentionLayer(nn.Module):
    """One attention layer: a node-wise projection, then attention to the projected nodes over the edges.

    Subclasses declare in :attr:`projections` how many projections of the features they need (side by side in
    ``project``), and implement ``forward(projected, edges, shift, mask) -> (out (N, H*D), weights (E, H))``.
    """

    projections: ClassVar[int] = 1
    coefficients: ClassVar[tuple[str, ...]] = ()  # names of its parameters (H, D)

    def __init__(
        self, in_channels: int, out_channels: int, heads: int, chosen: AttentionOptions, norm: Norm = "none"
    ) -> None:
        super().__init__()
        self.heads, self.out_channels = heads, out_channels
        self.attention_dropout, self.score_clip = chosen.attention_dropout, chosen.score_clip
        self.project = FeatureProjection(in_channels, self.projections * heads * out_channels, chosen.dropout, norm)
        self.bias = nn.Parameter(torch.zeros(heads * out_channels))
        bound = math.sqrt(6 / (heads + out_channels))
        for name in self.coefficients:
            setattr(self, name, nn.Parameter(torch.empty(heads, out_channels).uniform_(-bound, bound)))

    def following(self, h: Tensor) -> Tensor:
        """Return the projection of the output of the layer before, row by row."""
        return self.project(elu(h))
