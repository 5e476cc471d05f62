"""Define the model GATv2 (Brody et al. 2022, https://arxiv.org/abs/2105.14491)."""

from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from fgai_bench.fast.ordered_sums import rows_at
from fgai_bench.models.kernels.numba_threads import runs_compiled
from fgai_bench.models.kernels.segments import AttentionCall, attend, fused_kernel
from fgai_bench.models.sorted_edges import NodeMask, SortedEdges
from fgai_bench.models.stacked_attention import AttentionLayer, StackedAttention


def dynamic_scores(left: Tensor, right: Tensor, att: Tensor, edges: SortedEdges, slope: float = 0.2) -> Tensor:
    """Return ``s_e = a . LeakyReLU(l_src(e) + r_dst(e))``: ``(N, H, D), (N, H, D), (H, D) -> (E, H)``."""
    if runs_compiled(left):
        from fgai_bench.models.kernels.numba_scores import DynamicScores

        return DynamicScores.apply(left, right, att, edges, slope)
    pairs = rows_at(edges.source, left) + rows_at(edges.destination, right)  # (E, H, D)
    return (F.leaky_relu(pairs, slope) * att).sum(-1)


def attend_dynamically(sides: Tensor, att: Tensor, call: AttentionCall, slope: float = 0.2) -> tuple[Tensor, Tensor]:
    """Call :func:`attend` on the left side of ``sides``, ``(N, 2, H, D)``, with scores as in :func:`dynamic_scores`."""
    if fused := fused_kernel(sides, "dynamic", call):
        return fused(c=att, factor=slope)
    left, right = sides.unbind(1)
    return attend(dynamic_scores(left, right, att, call.edges, slope), left.contiguous(), call)


class GATv2Layer(AttentionLayer):
    """Dynamic attention: ``s_ij = a . LeakyReLU(W_l h_j + W_r h_i)``, ``out_i = sum_j softmax_j(s_ij) W_l h_j``.

    Shapes: projected ``(N, 2 * H * D)`` (left, then right) -> out ``(N, H * D)``, weights ``(E, H)``.
    """

    projections = 2
    coefficients = ("att",)
    att: Tensor

    def forward(
        self, projected: Tensor, edges: SortedEdges, shift: Tensor | None = None, mask: NodeMask | None = None
    ) -> tuple[Tensor, Tensor]:
        sides = projected.view(-1, 2, self.heads, self.out_channels)
        out, weights = attend_dynamically(sides, self.att, AttentionCall.of(self, edges, shift, mask))
        return out.flatten(1) + self.bias, weights


class GATv2(StackedAttention):
    """GATv2; arguments as in :class:`StackedAttention`."""

    summary = "GATv2: dynamic attention, the non-linearity inside the score"
    paper = "https://arxiv.org/abs/2105.14491"
    tags = ("attention", "differentiable")
    cost: ClassVar[dict[str, float]] = {"arrays_per_node": 4.7}

    layer_class = GATv2Layer
