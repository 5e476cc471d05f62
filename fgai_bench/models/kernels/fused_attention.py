"""Fused attention on CUDA (Triton): score, softmax, dropout and weighted sum in one kernel, two for the gradients.

One program handles one destination (or one source, for the gradients that sums over sources need). Forward keeps the
log-sum-exp of each destination only; the gradients recompute the weights from it. With ``g`` the gradient of the
output, ``a_e`` the weights, ``u_e`` the gradient of the returned weights and ``m_e`` the dropout factors:

``d_e = m_e g_i . v_j + u_e``,  ``ds_e = a_e (d_e - sum_f a_f d_f)``,  ``dv_j = sum_e a_e m_e g_i``

where ``sum_f a_f m_f g_i . v = g_i . out_i``, so no second pass is needed unless ``u`` is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from fgai_bench.models.edges import SortedEdges


@triton.jit
def _into(node, first, end, Source, BE: tl.constexpr):
    """A block of the edges into ``node``: ``(BE,)`` positions, whether they are there, destinations and sources."""
    e = first + tl.arange(0, BE)
    inside = e < end
    return e, inside, tl.zeros((BE,), tl.int64) + node, tl.load(Source + e, mask=inside, other=0)


@triton.jit
def _scores(e, i, j, inside, h, heads, Scores, BySource, ByDestination, Shift, slope, H: tl.constexpr,
            ADDITIVE: tl.constexpr, SHIFT: tl.constexpr):  # fmt: skip
    """``(BE, BH)`` scores of a block of edges, -inf outside, and the derivative of the non-linearity."""
    mask = inside[:, None] & heads[None, :]
    if ADDITIVE:
        raw = tl.load(BySource + j[:, None] * H + h[None, :], mask=mask, other=0.0)
        raw += tl.load(ByDestination + i[:, None] * H + h[None, :], mask=mask, other=0.0)
        derivative = tl.where(raw > 0, 1.0, slope)
        score = raw * derivative
    else:
        score = tl.load(Scores + e[:, None] * H + h[None, :], mask=mask, other=0.0)
        derivative = tl.full(score.shape, 1.0, tl.float32)
    if SHIFT:
        score += tl.load(Shift + e, mask=inside, other=0.0)[:, None]
    return tl.where(mask, score, float("-inf")), derivative


@triton.jit
def _kept(Seed, e, h, p, H: tl.constexpr):
    """``(BE, BH)`` dropout factors, the same in every pass because they depend on the edge, the head and the seed."""
    return tl.where(tl.rand(tl.load(Seed), e[:, None] * H + h[None, :]) >= p, 1.0 / (1.0 - p), 0.0)


@triton.jit
def _forward(Source, Pointer, Values, Scores, BySource, ByDestination, Shift, Out, LogSum, Weights, Seed, p, slope,
             H: tl.constexpr, D: tl.constexpr, BH: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
             ADDITIVE: tl.constexpr, SHIFT: tl.constexpr, DROPOUT: tl.constexpr):  # fmt: skip
    node = tl.program_id(0).to(tl.int64)
    start, end = tl.load(Pointer + node), tl.load(Pointer + node + 1)
    h, d = tl.arange(0, BH), tl.arange(0, BD)
    heads, channels = h < H, d < D
    largest = tl.full((BH,), float("-inf"), tl.float32)
    total = tl.zeros((BH,), tl.float32)
    mixed = tl.zeros((BH, BD), tl.float32)
    for first in range(start, end, BE):
        e, inside, i, j = _into(node, first, end, Source, BE)
        score, _ = _scores(e, i, j, inside, h, heads, Scores, BySource, ByDestination, Shift, slope, H, ADDITIVE, SHIFT)
        higher = tl.where(heads, tl.maximum(largest, tl.max(score, 0)), 0.0)
        shrink = tl.exp(largest - higher)
        weight = tl.exp(score - higher[None, :])
        total = total * shrink + tl.sum(weight, 0)
        if DROPOUT:
            weight *= _kept(Seed, e, h, p, H)
        mask = inside[:, None, None] & heads[None, :, None] & channels[None, None, :]
        value = tl.load(
            Values + j[:, None, None] * (H * D) + h[None, :, None] * D + d[None, None, :], mask=mask, other=0.0
        )
        mixed = mixed * shrink[:, None] + tl.sum(weight[:, :, None] * value, 0)
        largest = higher
    total = tl.where(heads, total, 1.0)
    log_sum = largest + tl.log(total)
    tl.store(LogSum + node * H + h, log_sum, mask=heads)
    place = node * (H * D) + h[:, None] * D + d[None, :]
    tl.store(Out + place, mixed / total[:, None], mask=heads[:, None] & channels[None, :])
    for first in range(start, end, BE):
        e, inside, i, j = _into(node, first, end, Source, BE)
        score, _ = _scores(e, i, j, inside, h, heads, Scores, BySource, ByDestination, Shift, slope, H, ADDITIVE, SHIFT)
        tl.store(
            Weights + e[:, None] * H + h[None, :],
            tl.exp(score - log_sum[None, :]),
            mask=inside[:, None] & heads[None, :],
        )


@triton.jit
def _by_destination(Source, Pointer, Values, Scores, BySource, ByDestination, Shift, Out, LogSum, GradOut, GradWeights,
                    GradScores, GradByDestination, GradShift, Seed, p, slope,
                    H: tl.constexpr, D: tl.constexpr, BH: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
                    ADDITIVE: tl.constexpr, SHIFT: tl.constexpr, DROPOUT: tl.constexpr,
                    WEIGHTS: tl.constexpr):  # fmt: skip
    node = tl.program_id(0).to(tl.int64)
    start, end = tl.load(Pointer + node), tl.load(Pointer + node + 1)
    h, d = tl.arange(0, BH), tl.arange(0, BD)
    heads, channels = h < H, d < D
    place = node * (H * D) + h[:, None] * D + d[None, :]
    own = heads[:, None] & channels[None, :]
    grad = tl.load(GradOut + place, mask=own, other=0.0)
    log_sum = tl.load(LogSum + node * H + h, mask=heads, other=0.0)
    mean = tl.sum(grad * tl.load(Out + place, mask=own, other=0.0), 1)  # (BH,) sum_f a_f d_f
    if WEIGHTS:
        for first in range(start, end, BE):
            e, inside, i, j = _into(node, first, end, Source, BE)
            score, _ = _scores(
                e, i, j, inside, h, heads, Scores, BySource, ByDestination, Shift, slope, H, ADDITIVE, SHIFT
            )
            direct = tl.load(
                GradWeights + e[:, None] * H + h[None, :], mask=inside[:, None] & heads[None, :], other=0.0
            )
            mean += tl.sum(tl.exp(score - log_sum[None, :]) * direct, 0)
    total = tl.zeros((BH,), tl.float32)
    for first in range(start, end, BE):
        e, inside, i, j = _into(node, first, end, Source, BE)
        score, slope_at = _scores(
            e, i, j, inside, h, heads, Scores, BySource, ByDestination, Shift, slope, H, ADDITIVE, SHIFT
        )
        weight = tl.exp(score - log_sum[None, :])
        mask = inside[:, None, None] & heads[None, :, None] & channels[None, None, :]
        value = tl.load(
            Values + j[:, None, None] * (H * D) + h[None, :, None] * D + d[None, None, :], mask=mask, other=0.0
        )
        towards = tl.sum(value * grad[None, :, :], 2)  # (BE, BH)
        if DROPOUT:
            towards *= _kept(Seed, e, h, p, H)
        flat = inside[:, None] & heads[None, :]
        if WEIGHTS:
            towards += tl.load(GradWeights + e[:, None] * H + h[None, :], mask=flat, other=0.0)
        change = tl.where(flat, weight * (towards - mean[None, :]), 0.0)
        if SHIFT:
            tl.store(GradShift + e, tl.sum(change, 1), mask=inside)
        change *= slope_at
        total += tl.sum(change, 0)
        tl.store(GradScores + e[:, None] * H + h[None, :], change, mask=flat)
    if ADDITIVE:
        tl.store(GradByDestination + node * H + h, total, mask=heads)


@triton.jit
def _by_source(Order, Pointer, Destination, Scores, BySource, ByDestination, Shift, LogSum, GradOut, GradScores,
               GradValues, GradBySource, Seed, p, slope,
               H: tl.constexpr, D: tl.constexpr, BH: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
               ADDITIVE: tl.constexpr, SHIFT: tl.constexpr, DROPOUT: tl.constexpr):  # fmt: skip
    node = tl.program_id(0).to(tl.int64)
    start, end = tl.load(Pointer + node), tl.load(Pointer + node + 1)
    h, d = tl.arange(0, BH), tl.arange(0, BD)
    heads, channels = h < H, d < D
    values = tl.zeros((BH, BD), tl.float32)
    total = tl.zeros((BH,), tl.float32)
    for first in range(start, end, BE):
        k = first + tl.arange(0, BE)
        inside = k < end
        e = tl.load(Order + k, mask=inside, other=0)
        i = tl.load(Destination + e, mask=inside, other=0)
        j = tl.zeros((BE,), tl.int64) + node
        score, _ = _scores(e, i, j, inside, h, heads, Scores, BySource, ByDestination, Shift, slope, H, ADDITIVE, SHIFT)
        flat = inside[:, None] & heads[None, :]
        log_sum = tl.load(LogSum + i[:, None] * H + h[None, :], mask=flat, other=0.0)
        weight = tl.exp(score - log_sum)
        if DROPOUT:
            weight *= _kept(Seed, e, h, p, H)
        mask = flat[:, :, None] & channels[None, None, :]
        grad = tl.load(
            GradOut + i[:, None, None] * (H * D) + h[None, :, None] * D + d[None, None, :], mask=mask, other=0.0
        )
        values += tl.sum(weight[:, :, None] * grad, 0)
        if ADDITIVE:
            total += tl.sum(tl.load(GradScores + e[:, None] * H + h[None, :], mask=flat, other=0.0), 0)
    own = heads[:, None] & channels[None, :]
    tl.store(GradValues + node * (H * D) + h[:, None] * D + d[None, :], values, mask=own)
    if ADDITIVE:
        tl.store(GradBySource + node * H + h, total, mask=heads)


@dataclass(frozen=True)
class _Call:
    """What stays the same between the passes of one call."""

    edges: SortedEdges
    additive: bool
    dropout: float
    seed: Tensor
    slope: float

    def sizes(self, values: Tensor) -> dict[str, int]:
        heads, channels = values.shape[1:]
        padded = triton.next_power_of_2(heads) * triton.next_power_of_2(channels)
        return {
            "H": heads,
            "D": channels,
            "BH": triton.next_power_of_2(heads),
            "BD": triton.next_power_of_2(channels),
            "BE": max(4, min(64, 2048 // padded)),
        }


class _FusedAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: _Call, values: Tensor, first: Tensor, second: Tensor, shift: Tensor | None) -> Any:
        edges = call.edges
        out, log_sum = torch.empty_like(values), values.new_empty(values.shape[:2])
        weights = values.new_empty(edges.source.numel(), values.shape[1])
        scores, by_source, by_destination = (values, first, second) if call.additive else (first, values, values)
        _forward[(edges.num_nodes,)](
            edges.source, edges.pointer, values, scores, by_source, by_destination, values if shift is None else shift,
            out, log_sum, weights, call.seed, call.dropout, call.slope, **call.sizes(values),
            ADDITIVE=call.additive, SHIFT=shift is not None, DROPOUT=call.dropout > 0,
        )  # fmt: skip
        ctx.call, ctx.has_shift = call, shift is not None
        ctx.save_for_backward(values, first, second, values if shift is None else shift, out, log_sum)
        ctx.set_materialize_grads(False)
        return out, weights

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor | None, grad_weights: Tensor | None) -> Any:
        values, first, second, shift, out, log_sum = ctx.saved_tensors
        call, edges = ctx.call, ctx.call.edges
        grad_out = torch.zeros_like(values) if grad_out is None else grad_out.contiguous()
        scores, by_source, by_destination = (values, first, second) if call.additive else (first, values, values)
        grad_scores = values.new_empty(edges.source.numel(), values.shape[1])
        grad_values, grad_source = torch.empty_like(values), values.new_empty(values.shape[:2])
        grad_destination = torch.empty_like(grad_source)
        grad_shift = values.new_empty(edges.source.numel()) if ctx.has_shift else None
        settings = {"ADDITIVE": call.additive, "SHIFT": ctx.has_shift, "DROPOUT": call.dropout > 0}
        settings |= call.sizes(values)
        _by_destination[(edges.num_nodes,)](
            edges.source, edges.pointer, values, scores, by_source, by_destination, shift, out, log_sum, grad_out,
            values if grad_weights is None else grad_weights.contiguous(), grad_scores, grad_destination,
            values if grad_shift is None else grad_shift, call.seed, call.dropout, call.slope,
            WEIGHTS=grad_weights is not None, **settings,
        )  # fmt: skip
        order, pointer = edges.by_source
        _by_source[(edges.num_nodes,)](
            order, pointer, edges.destination, scores, by_source, by_destination, shift, log_sum, grad_out,
            grad_scores, grad_values, grad_source, call.seed, call.dropout, call.slope, **settings,
        )  # fmt: skip
        if call.additive:
            return None, grad_values, grad_source, grad_destination, grad_shift
        return None, grad_values, grad_scores, None, grad_shift


def fused_attention(
    values: Tensor,
    first: Tensor,
    second: Tensor | None,
    edges: SortedEdges,
    shift: Tensor | None = None,
    slope: float = 0.2,
    dropout: float = 0.0,
    seed: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Softmax over each destination's in-edges and the weighted sum of the values, in one kernel.

    Args:
        values: ``(N, H, D)``.
        first: ``(N, H)`` the source's part of additive scores, or, without ``second``, ``(E, H)`` finished scores.
        second: ``(N, H)`` the destination's part: ``s_e = LeakyReLU(first_src + second_dst)``.
        edges: the graph's sorted edges.
        shift: ``(E,)`` added to the scores of every head, in sorted order.
        slope: of the LeakyReLU.
        dropout: share of weights that are dropped, drawn from ``seed``.
        seed: ``(1,)`` integer of the dropout, on the device, so that a replayed recording draws anew.

    Returns:
        ``(N, H, D)`` sums and ``(E, H)`` weights before dropout, in sorted order.
    """
    if dropout and seed is None:
        raise ValueError("fused_attention needs a seed for its dropout")
    call = _Call(edges, second is not None, dropout, edges.pointer if seed is None else seed, slope)
    other = first if second is None else second
    return _FusedAttention.apply(call, values.contiguous(), first.contiguous(), other.contiguous(), shift)
