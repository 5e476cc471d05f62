"""Define a Graph Transformer with Laplacian encodings (Dwivedi and Bresson 2021, https://arxiv.org/abs/2012.09699)."""

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fgai_bench.data.laplacian.encodings import grown_encoding, laplacian_encoding
from fgai_bench.data.laplacian.extended_graph import Solved
from fgai_bench.fast.cached_results import OncePerTensor
from fgai_bench.fast.ordered_sums import rows_at
from fgai_bench.fast.small_matrices import triton_is_here
from fgai_bench.models.affected_nodes import ChangedRows
from fgai_bench.models.base import (
    DROPOUT_SPACE,
    ConfiguredModel,
    HeadWeights,
    Output,
    head_weights,
    keyed_attention,
    layer_shifts,
)
from fgai_bench.models.features import FeatureProjection
from fgai_bench.models.kernels.numba_threads import runs_compiled
from fgai_bench.models.kernels.segments import AttentionCall, attend, fused_kernel
from fgai_bench.models.options import GTOptions
from fgai_bench.models.sorted_edges import NodeMask, SortedEdges, sorted_edges

ENCODINGS = 8


_solved = OncePerTensor(Solved.of)


@OncePerTensor
def _encodings(edge_index: Tensor, num_nodes: int) -> Tensor:
    before = sorted_edges(edge_index, num_nodes).before
    if before is None or not edge_index.is_cuda:
        return laplacian_encoding(edge_index, num_nodes, ENCODINGS).to(edge_index.device)
    new_edges = edge_index[:, before.edge_index.size(1) - before.added :]
    return grown_encoding(_solved(before.edge_index, before.num_nodes, ENCODINGS), new_edges, num_nodes)


def dot_scores(query: Tensor, key: Tensor, edges: SortedEdges) -> Tensor:
    """Return ``s_e = q_dst(e) . k_src(e)``: ``(N, H, D), (N, H, D) -> (E, H)``."""
    query, key = query.contiguous(), key.contiguous()
    if runs_compiled(query):
        from fgai_bench.models.kernels.numba_scores import DotScores

        return DotScores.apply(query, key, edges)
    return (rows_at(edges.destination, query) * rows_at(edges.source, key)).sum(-1)


def dot_product_attention(qkv: Tensor, call: AttentionCall) -> tuple[Tensor, Tensor]:
    """Call :func:`attend` with the scores ``s_e = q_dst(e) . k_src(e) / sqrt(D)``; ``qkv``: ``(N, 3, H, D)``."""
    scale = 1 / math.sqrt(qkv.size(-1))
    if fused := fused_kernel(qkv, "dot", call):
        return fused(factor=scale)
    query, key, value = qkv.unbind(1)
    return attend(scale * dot_scores(query, key, call.edges), value.contiguous(), call)


class GTLayer(nn.Module):
    """One transformer block over the edges.

    ``s_ij = q_i . k_j / sqrt(d)``, ``h = norm(h + O sum_j softmax_j(s_ij) v_j)``, ``h = norm(h + FFN(h))``.

    Shapes: ``(N, width) -> (N, width)``, weights ``(E, H)``.
    """

    def __init__(self, width: int, heads: int, chosen: GTOptions) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"the width {width} of a graph transformer must be a multiple of its heads, {heads}")
        self.heads, self.dropout, self.attention_dropout = heads, chosen.dropout, chosen.attention_dropout
        self.score_clip = chosen.score_clip
        norm = nn.LayerNorm if chosen.layer_norm else nn.BatchNorm1d
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm_attention, self.norm_feed = norm(width), norm(width)
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))

    def forward(self, h: Tensor, edges: SortedEdges, shift: Tensor | None = None) -> tuple[Tensor, Tensor]:
        mixed, weights = self.mixed(self.qkv(h), edges, shift)
        return self.fed(h, mixed), weights

    def mixed(
        self, qkv: Tensor, edges: SortedEdges, shift: Tensor | None = None, mask: NodeMask | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return ``(N, width)`` sums of values by attention and ``(E, H)`` weights; ``qkv``: ``(N, 3 width)``."""
        qkv = qkv.view(qkv.size(0), 3, self.heads, -1)  # (N, 3, H, d)
        mixed, weights = dot_product_attention(qkv, AttentionCall.of(self, edges, shift, mask))
        return mixed.flatten(1), weights

    def fed(self, h: Tensor, mixed: Tensor) -> Tensor:
        """Return the block's output from its input and what the attention adds to it, row by row."""
        h = self.norm_attention(h + self.out(F.dropout(mixed, self.dropout, self.training)))
        return self.norm_feed(h + F.dropout(self.feed(h), self.dropout, self.training))


class GT(ConfiguredModel):
    """Graph Transformer: ``h = W x + P (Laplacian encodings)``, transformer blocks, a three-layer read-out.

    The encodings follow the graph: a changed edge index gets its own. A node sees itself through a self-loop.
    """

    summary = "Graph Transformer with Laplacian positional encodings"
    paper = "https://arxiv.org/abs/2012.09699"
    tags = ("attention", "differentiable", "positional-encoding")
    cost: ClassVar[dict[str, float]] = {"arrays_per_node": 12.6}
    global_because = "its Laplacian encodings describe the whole graph"
    options_class = GTOptions
    layers: Any  # a list of GTLayer
    search_space = DROPOUT_SPACE

    def build(self, in_channels: int, num_classes: int, chosen: Any) -> None:
        width = chosen.hidden
        self.project = FeatureProjection(in_channels, width, chosen.dropout, chosen.input_norm, bias=True)
        self.encode = nn.Linear(ENCODINGS, width)
        self.layers = nn.ModuleList(GTLayer(width, h, chosen) for h in chosen.heads)
        self.read_out = nn.Sequential(
            nn.Linear(width, width // 2),
            nn.ReLU(),
            nn.Linear(width // 2, width // 4),
            nn.ReLU(),
            nn.Linear(width // 4, num_classes),
            *([nn.ELU()] if chosen.output_activation == "elu" else []),
        )

    def capturable(self, new_edges: bool) -> bool:
        return not new_edges or triton_is_here()  # the solver of their encodings needs its kernels

    def embed(self, x: Tensor) -> Tensor:
        return self.project(x)

    def propagate(
        self,
        h: Tensor,
        edge_index: Tensor,
        score_shift: Tensor | None = None,
        edge_weight: Tensor | None = None,
        affected: ChangedRows | None = None,
    ) -> Output:
        if affected is not None and score_shift is None and edge_weight is None:
            return self._propagated_where_changed(h, edge_index, affected)
        return self._propagated(h, edge_index, score_shift, edge_weight)[0]

    def surroundings(self, embedded: Tensor, clean: Output, edge_index: Tensor, new_nodes: int) -> ChangedRows | None:
        """Return the blocks' inputs on the new graph, whose encodings differ everywhere from those before."""
        h = torch.cat([embedded, embedded.new_zeros(new_nodes, embedded.size(1))])
        edges = sorted_edges(edge_index, h.size(0))
        if self.training or edges.before is None or not self.config["self_loops"]:
            return None
        inputs = [self._encoded(h, edge_index)]
        for layer in self.layers:
            out, weights = layer(inputs[-1], edges)
            inputs.append(out)
        return ChangedRows.of(inputs[:-1], self.read_out(inputs[-1]), weights, edges, new_nodes)

    def joined(self, edge_index: Tensor, graphs: Sequence[Tensor], num_nodes: int, new_nodes: int) -> bool:
        each = [_encodings(graph, num_nodes + new_nodes) for graph in graphs]
        encodings = torch.cat([rows[:num_nodes] for rows in each] + [rows[num_nodes:] for rows in each])
        _encodings.remember(edge_index, encodings.size(0), encodings)
        return True

    def _encoded(self, h: Tensor, edge_index: Tensor) -> Tensor:
        return h + self.encode(_encodings(edge_index, h.size(0)).to(h.dtype))

    def _propagated_where_changed(self, h: Tensor, edge_index: Tensor, affected: ChangedRows) -> Output:
        """Return the output with only those rows computed anew that the new nodes change; without hidden layers."""
        rows = affected.rows[0]
        assert rows is not None
        encoded = self.encode(_encodings(edge_index, h.size(0)).index_select(0, rows).to(h.dtype))
        new = h.index_select(0, rows) + encoded  # (R, width)
        for depth, (block, known) in enumerate(zip(self.layers, affected.inputs, strict=True)):
            qkv = affected.replaced(depth, affected.prepared(depth, block.qkv), block.qkv(new))
            mixed, weights = block.mixed(qkv, affected.edges, None, affected.mask(depth))
            given = affected.replaced(depth, known, new)
            if depth == len(self.layers) - 1:
                new = block.fed(given, mixed)
            elif (rows := affected.rows[depth + 1]) is None:
                new = affected.filled(depth + 1, block.fed(given, mixed))
            else:
                new = block.fed(given.index_select(0, rows), mixed.index_select(0, rows))
        logits, weights = affected.output(self.read_out(new), weights)
        return Output(logits, keyed_attention(affected.edges, weights))

    def with_layers(self, h: Tensor, edge_index: Tensor) -> tuple[Output, tuple[HeadWeights, ...]]:
        return self._propagated(h, edge_index)

    def restricted(self, part: Tensor, rows: Tensor, edge_index: Tensor, num_nodes: int) -> bool:
        """Let a part keep the encodings of the whole graph; everything else that a block computes is local."""
        _encodings.remember(part, rows.numel(), _encodings(edge_index, num_nodes)[rows])
        return True

    def _propagated(
        self, h: Tensor, edge_index: Tensor, score_shift: Tensor | None = None, edge_weight: Tensor | None = None
    ) -> tuple[Output, tuple[HeadWeights, ...]]:
        """Return the output and the attention of every layer."""
        edges = sorted_edges(edge_index, h.size(0))
        h = self._encoded(h, edge_index)
        shifts = layer_shifts(len(self.layers), edges, score_shift, edge_weight, self.config["self_loops"])
        given, seen = [h], []
        for layer, shift in zip(self.layers, shifts, strict=True):
            h, weights = layer(h, edges, shift)
            given.append(h)
            seen.append(head_weights(edges, weights))
        return Output(self.read_out(h), keyed_attention(edges, weights), tuple(given[:-1])), tuple(seen)

    def shifting(self, out: Output, h: Tensor, edge_index: Tensor) -> Callable[[Tensor], Output]:
        last, edges, given = self.layers[-1], sorted_edges(edge_index, h.size(0)), out.hidden[-1]
        qkv = last.qkv(given)

        def shifted(score_shift: Tensor) -> Output:
            (shift,) = layer_shifts(1, edges, score_shift, None, self.config["self_loops"])
            mixed, weights = last.mixed(qkv, edges, shift)
            return Output(self.read_out(last.fed(given, mixed)), keyed_attention(edges, weights), out.hidden)

        return shifted
