"""Score edges on a CPU (Numba): dot products and dynamic attention without a tensor per edge and channel."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fgai_bench.models.kernels import numba_loops
from fgai_bench.models.kernels.numba_threads import NOTHING, over_rows
from fgai_bench.models.sorted_edges import SortedEdges


class DotScores(torch.autograd.Function):
    """Compute ``s_e = q_dst(e) . k_src(e)``: ``(N, H, D), (N, H, D) -> (E, H)``, both contiguous."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, edges: SortedEdges) -> Tensor:
        ctx.save_for_backward(query, key)
        ctx.edges = edges
        scores = query.new_empty(edges.source.numel(), query.shape[1])
        over_rows(numba_loops.dot_scores, edges.pointer, edges.source, edges.pointer, query, key, scores)
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        query, key = ctx.saved_tensors
        grad_query, grad_key, none = torch.empty_like(query), torch.empty_like(key), query.new_empty(0, 0)
        (source, pointer), grad = ctx.edges.arrays, grad.contiguous()
        places, everywhere = (pointer, source, pointer), NOTHING
        over_rows(numba_loops.sum_by_destination, *places, grad, key, grad_query)
        over_rows(numba_loops.sum_by_source, *places, everywhere, everywhere, grad, query, grad_key, none, none)
        return grad_query, grad_key, None


class DynamicScores(torch.autograd.Function):
    """Compute ``s_e = a . LeakyReLU(l_src(e) + r_dst(e))``: ``(N, H, D), (N, H, D), (H, D) -> (E, H)``."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, att: Tensor, edges: SortedEdges, slope: float) -> Tensor:
        left, right, att = left.contiguous(), right.contiguous(), att.contiguous()
        ctx.save_for_backward(left, right, att)
        ctx.edges, ctx.slope = edges, slope
        scores = left.new_empty(edges.source.numel(), left.shape[1])
        places = (edges.pointer, edges.source, edges.pointer)
        over_rows(numba_loops.dynamic_scores, *places, left, right, att, slope, scores)
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        left, right, att = ctx.saved_tensors
        grad_left, grad_right, grad_att = torch.empty_like(left), torch.empty_like(right), torch.empty_like(right)
        places = (ctx.edges.pointer, ctx.edges.source, ctx.edges.pointer)
        given = (left, right, att, ctx.slope, grad.contiguous())
        over_rows(numba_loops.dynamic_gradient_by_source, *places, *given, grad_left)
        over_rows(numba_loops.dynamic_gradient_by_destination, *places, *given, grad_right, grad_att)
        return grad_left, grad_right, grad_att.sum(0), None, None
