"""Compute fused attention on a CPU (Numba): score, softmax, dropout and sum in one loop, two for the gradients."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fgai_bench.models.kernels import numba_loops
from fgai_bench.models.kernels.numba_threads import NOTHING, Values, over_rows
from fgai_bench.models.sorted_edges import NodeMask, SortedEdges


@dataclass(frozen=True)
class _Call:
    """The arguments that the forward and the backward pass of one call share."""

    edges: SortedEdges
    additive: bool
    slope: float
    dropout: float
    seed: int
    wanted: Values  # (N,) boolean, the destinations to be computed; empty for all
    asked: Values  # (N,) boolean, the nodes whose gradient is needed; empty for all


class _FusedAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: _Call, values: Tensor, first: Tensor, second: Tensor, shift: Tensor) -> Any:
        (source, pointer), p = call.edges.arrays, call.dropout
        out, weights = torch.empty_like(values), values.new_empty(len(source), values.shape[1])
        kept = torch.empty_like(weights) if p else weights
        over_rows(
            numba_loops.attention, pointer, source, pointer, call.wanted, values, first, second, shift,
            call.additive, call.slope, call.seed, p, out, weights, kept,
        )  # fmt: skip
        ctx.call = call
        ctx.save_for_backward(values, first, second, shift, out, weights, kept)
        ctx.set_materialize_grads(False)
        return out, weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor | None, grad_weights: Tensor | None) -> Any:
        values, first, second, shift, out, weights, kept = ctx.saved_tensors
        call, (source, pointer) = ctx.call, ctx.call.edges.arrays
        grad_out = torch.zeros_like(values) if grad_out is None else grad_out.contiguous()
        grad_weights = values.new_empty(0, 0) if grad_weights is None else grad_weights.contiguous()
        grad_scores, grad_shift = torch.empty_like(weights), torch.zeros_like(shift)
        grad_first = torch.empty_like(first) if call.additive else first.new_empty(0, 0)
        grad_second = torch.empty_like(grad_first)
        places = (pointer, source, pointer, call.wanted, call.asked)
        over_rows(
            numba_loops.scores_gradient, *places, values, first, second, call.additive, call.slope, out, weights, kept,
            grad_out, grad_weights, grad_scores, grad_second, grad_shift,
        )  # fmt: skip
        grad_values = torch.empty_like(values)
        if any(ctx.needs_input_grad[1:3]):
            over_rows(numba_loops.sum_by_source, *places, kept, grad_out, grad_values, grad_scores, grad_first)
        if call.additive:
            return None, grad_values, grad_first, grad_second, grad_shift
        return None, grad_values, grad_scores, None, grad_shift


FORMS = ("given", "additive")


def fused_attention(
    values: Tensor,
    edges: SortedEdges,
    form: str,
    scores: Tensor,
    others: Tensor | None = None,
    shift: Tensor | None = None,
    factor: float = 0.0,
    dropout: float = 0.0,
    seed: Tensor | None = None,
    mask: NodeMask | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute the same as :func:`fgai_bench.models.kernels.triton_attention.fused_attention`, for two forms of scores.

    ``given``, ``(E, H)``, or ``additive``: ``LeakyReLU(scores_src + others_dst)``, both ``(N, H)``. With ``mask``,
    edges that touch no node whose gradient is needed add nothing to any gradient.
    """
    masks = (NOTHING, NOTHING) if mask is None else (mask.destinations, mask.sources)
    call = _Call(edges, form == "additive", factor, dropout, 0 if seed is None else int(seed), *masks)
    moved = values.new_empty(0) if shift is None else shift
    return _FusedAttention.apply(
        call, *(x.contiguous() for x in (values, scores, scores if others is None else others, moved))
    )
