"""Compute the attention core of all layers: softmax over each destination's in-edges, and the weighted sum of values.

The formulas here are the plain twins of the fused kernels. They keep ``(E, heads, channels)`` tensors alive for the
backward pass; the kernels do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fgai_bench.fast.ordered_sums import rows_at, sum_at
from fgai_bench.models.kernels.numba_threads import runs_compiled
from fgai_bench.models.sorted_edges import NodeMask, SortedEdges

FusedKernel = Callable[..., tuple[Tensor, Tensor]]
LARGEST_FUSED = 1024
_plain: ContextVar[bool] = ContextVar("plain", default=False)


@contextmanager
def plain_attention() -> Iterator[None]:
    """Compute attention without fused kernels: sums are then differentiable in the weights that a layer returns."""
    before = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(before)


def segment_sum(values: Tensor, edges: SortedEdges) -> Tensor:
    """Return the sum per destination: ``(E, H) -> (N, H)``."""
    return torch.segment_reduce(values, "sum", offsets=edges.pointer, axis=0, unsafe=True)


class _SegmentSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, edges: SortedEdges) -> Tensor:
        largest = torch.segment_reduce(scores, "max", offsets=edges.pointer, axis=0, unsafe=True)  # (N, H)
        weights = (scores - largest.index_select(0, edges.destination)).exp_()  # (E, H)
        weights /= segment_sum(weights, edges).index_select(0, edges.destination)
        ctx.save_for_backward(weights)
        ctx.edges = edges
        return weights

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (weights,) = ctx.saved_tensors
        weighted = weights * grad
        return weighted - weights * segment_sum(weighted, ctx.edges).index_select(0, ctx.edges.destination), None


def segment_softmax(scores: Tensor, edges: SortedEdges) -> Tensor:
    """Return the softmax of scores over each destination's in-edges: ``(E, H) -> (E, H)``, sorted by destination.

    ``w_e = exp(s_e) / sum_{f: dst(f) = dst(e)} exp(s_f)``

    >>> from fgai_bench.models.sorted_edges import sorted_edges
    >>> edges = sorted_edges(torch.tensor([[1], [0]]), 2)  # with the added loops: 1->0, 0->0, 1->1
    >>> segment_softmax(torch.zeros(3, 1), edges).view(-1).tolist()
    [0.5, 0.5, 1.0]
    """
    return _SegmentSoftmax.apply(scores, edges)


def weighted_sum(weights: Tensor, values: Tensor, edges: SortedEdges) -> Tensor:
    """Return ``out_i = sum_{e: dst(e) = i} w_e * v_src(e)``: ``(E, H), (N, H, D) -> (N, H, D)``."""
    return sum_at(edges.destination, rows_at(edges.source, values) * weights.unsqueeze(-1), len(values))


def clipped(scores: Tensor, clip: float | None) -> Tensor:
    """Return ``c tanh(s / c)``, which lies between -c and c, or the scores as they are: ``(E, H) -> (E, H)``."""
    return scores if clip is None else clip * torch.tanh(scores / clip)


@dataclass(frozen=True)
class AttentionCall:
    """What the attention of a layer depends on beside its tensors.

    Attributes:
        edges: the graph's sorted edges.
        shift: ``(E,)`` added to the scores of every head, in the order of ``edges.edge_index``.
        dropout: share of the weights that are dropped.
        mask: the nodes to be computed. Elsewhere the sums and gradients may be anything finite: a kernel skips them.
        clip: the bound of scores that are :func:`clipped`.
    """

    edges: SortedEdges
    shift: Tensor | None = None
    dropout: float = 0.0
    mask: NodeMask | None = None
    clip: float | None = None

    @classmethod
    def of(cls, layer: Any, edges: SortedEdges, shift: Tensor | None, mask: NodeMask | None) -> AttentionCall:
        """Return the call of a layer, which drops weights while it trains."""
        return cls(edges, shift, layer.attention_dropout if layer.training else 0.0, mask, layer.score_clip)


def attend(scores: Tensor, values: Tensor, call: AttentionCall) -> tuple[Tensor, Tensor]:
    """Turn scores into attention weights and return the weighted sum of the values.

    Shapes: ``(E, H)`` in sorted order, ``(N, H, D)`` -> ``(N, H, D)`` and the weights before dropout, ``(E, H)``.
    """
    scores, edges = clipped(scores, call.clip), call.edges
    if fused := fused_kernel(values, "given", call):
        return fused(scores=scores)
    if call.shift is not None:
        scores = scores + edges.in_order(call.shift).unsqueeze(-1)
    weights = segment_softmax(scores, edges)
    return weighted_sum(F.dropout(weights, call.dropout), values, edges), weights


def attend_additively(
    values: Tensor, att_src: Tensor, att_dst: Tensor, call: AttentionCall, slope: float = 0.2
) -> tuple[Tensor, Tensor]:
    """Call :func:`attend` with ``s_e = LeakyReLU(att_src . v_src(e) + att_dst . v_dst(e))``, both ``(H, D)``."""
    if fused := fused_kernel(values, "linear", call):
        return fused(c=att_src, d=att_dst, factor=slope)
    by_source, by_destination = (values.flatten(1) @ _per_head(att) for att in (att_src, att_dst))  # (N, H) each
    if fused := fused_kernel(values, "additive", call):
        return fused(scores=by_source, others=by_destination, factor=slope)
    scores = rows_at(call.edges.source, by_source) + rows_at(call.edges.destination, by_destination)  # (E, H)
    return attend(F.leaky_relu(scores, slope), values, call)


def _per_head(att: Tensor) -> Tensor:
    """Return the matrix that takes the inner product with ``att`` in every head: ``(H, D) -> (H * D, H)``.

    A matrix product is used since its gradient is one, too; that of a sum would be a slow batch of small products.
    """
    heads = torch.eye(att.size(0), dtype=att.dtype, device=att.device)
    return (att.unsqueeze(-1) * heads.unsqueeze(1)).flatten(0, 1)


def fused_kernel(x: Tensor, form: str, call: AttentionCall) -> FusedKernel | None:
    """Return the fused kernel for ``x`` and a call, itself called as ``kernel(**scores)``.

    On CUDA it takes ``x``, ``(N, P, H, D)`` or ``(N, H, D)``, and scores in the forms of
    :mod:`fgai_bench.models.kernels.triton_attention`, in single precision and for heads that fit one program; on a CPU
    with Numba, values ``(N, H, D)`` and scores that are ``given`` or ``additive``. None where there is none, where a
    kernel would have to clip the scores, and inside of :func:`plain_attention`.
    """
    kernel = None
    if _plain.get() or (call.clip is not None and form != "given"):
        return None
    if runs_compiled(x):
        from fgai_bench.models.kernels import numba_attention

        kernel = numba_attention.fused_attention if form in numba_attention.FORMS else None
    elif x.is_cuda and x.dtype == torch.float32 and x.shape[-2:].numel() <= LARGEST_FUSED and x.numel() < 2**31:
        kernel = _cuda_kernel(form)
    return None if kernel is None else partial(_fused, kernel, x, form, call)


def _fused(kernel: FusedKernel, x: Tensor, form: str, call: AttentionCall, **scores: Any) -> tuple[Tensor, Tensor]:
    in_order = None if call.shift is None else call.edges.in_order(call.shift)
    # From the generator that the plain path draws from, and on the device, so that a replayed capture draws anew.
    seed = torch.randint(2**31 - 1, (1,), device=x.device) if call.dropout else None
    return kernel(x, call.edges, form, shift=in_order, dropout=call.dropout, seed=seed, mask=call.mask, **scores)


@cache
def _cuda_kernel(form: str) -> FusedKernel | None:
    try:
        from fgai_bench.models.kernels.triton_attention import FORMS, fused_attention
    except ImportError:
        return None
    return fused_attention if form in FORMS else None
