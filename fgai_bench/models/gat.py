"""Define the model GAT (Velickovic et al. 2018, https://arxiv.org/abs/1710.10903)."""

from typing import ClassVar

from torch import Tensor

from fgai_bench.models.kernels.segments import AttentionCall, attend_additively
from fgai_bench.models.sorted_edges import NodeMask, SortedEdges
from fgai_bench.models.stacked_attention import AttentionLayer, StackedAttention


class GATLayer(AttentionLayer):
    """Additive attention: ``s_ij = LeakyReLU(a_src . W h_j + a_dst . W h_i)``, ``out_i = sum_j softmax_j(s_ij) W h_j``.

    Shapes: projected ``(N, H * D)`` -> out ``(N, H * D)``, weights ``(E, H)``.
    """

    coefficients = ("att_src", "att_dst")
    att_src: Tensor
    att_dst: Tensor

    def forward(
        self, projected: Tensor, edges: SortedEdges, shift: Tensor | None = None, mask: NodeMask | None = None
    ) -> tuple[Tensor, Tensor]:
        values = projected.view(-1, self.heads, self.out_channels)  # (N, H, D)
        call = AttentionCall.of(self, edges, shift, mask)
        out, weights = attend_additively(values, self.att_src, self.att_dst, call)
        return out.flatten(1) + self.bias, weights


class GAT(StackedAttention):
    """Graph Attention Network; arguments as in :class:`StackedAttention`."""

    summary = "Graph Attention Network: additive scores of source and destination"
    paper = "https://arxiv.org/abs/1710.10903"
    tags = ("attention", "differentiable")
    cost: ClassVar[dict[str, float]] = {"arrays_per_node": 4.0}

    layer_class = GATLayer
