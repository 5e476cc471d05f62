"""Fused attention on CUDA (Triton): score, softmax, dropout and weighted sum in one kernel, two for the gradients.

One program handles one destination (or one source, for the gradients that sums over sources need). The scores are
``given``, or one of the forms

=========== ==================================================== =======================
``additive`` ``s_e = LeakyReLU(a_j + b_i)``                       ``a, b``: ``(N, H)``
``dynamic``  ``s_e = sum_d c_d LeakyReLU(v_j + b_i)_d``           ``b``: ``(N, H, D)``
``dot``      ``s_e = scale * a_j . b_i``                          ``a, b``: ``(N, H, D)``
=========== ==================================================== =======================

for an edge e from j to i. With ``g`` the gradient of the output, ``w_e`` the weights, ``u_e`` the gradient of the
returned weights and ``m_e`` the dropout factors:

``d_e = m_e g_i . v_j + u_e``,  ``ds_e = w_e (d_e - sum_f w_f d_f)``,  ``dv_j = sum_e w_e m_e g_i``

where ``sum_f w_f m_f g_i . v = g_i . out_i``, so no second pass is needed unless ``u`` is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from fgai_bench.models.edges import Part, SortedEdges

FORMS = {"given": 0, "additive": 1, "dynamic": 2, "dot": 3}
ADDITIVE = tl.constexpr(1)
DYNAMIC = tl.constexpr(2)
DOT = tl.constexpr(3)
EVERY, OTHERS, HUBS = (tl.constexpr(x) for x in range(3))
"""Which nodes a launch looks at. Hubs get wider programs, lest all wait for one that goes through its many edges."""


@triton.jit
def _segment(Pointer, Hubs, Wanted, H: tl.constexpr, SOME: tl.constexpr, NODES: tl.constexpr):
    """The program's node, where its edges begin and end, and its heads.

    ``Hubs`` lists the hubs, or says of every node whether it is one. A hub has no edges and no heads where it is not
    its turn; a node that is not wanted has heads, whose results are 0, but no edges.
    """
    node = tl.program_id(0).to(tl.int64)
    if NODES == HUBS:
        node = tl.load(Hubs + node)
    start, end = tl.load(Pointer + node), tl.load(Pointer + node + 1)
    heads = start * 0 + H
    if NODES == OTHERS:
        heads = tl.where(tl.load(Hubs + node) != 0, 0, heads)
        end = tl.where(heads > 0, end, start)
    if SOME:
        end = tl.where(tl.load(Wanted + node) != 0, end, start)
    return node, start, end, heads


@triton.jit
def _row(X, node, h, d, mask, H: tl.constexpr, D: tl.constexpr):
    """``(BH, BD)`` what ``X`` ``(N, H, D)`` has for one node."""
    return tl.load(X + node * (H * D) + h[:, None] * D + d[None, :], mask=mask, other=0.0)


@triton.jit
def _rows(X, nodes, h, d, mask, H: tl.constexpr, D: tl.constexpr):
    """``(BE, BH, BD)`` what ``X`` ``(N, H, D)`` has for the nodes ``(BE,)``."""
    return tl.load(X + nodes[:, None, None] * (H * D) + h[None, :, None] * D + d[None, None, :], mask=mask, other=0.0)


@triton.jit
def _per_edge(X, e, h, mask, H: tl.constexpr):
    """``(BE, BH)`` what ``X`` ``(E, H)`` has for the edges ``(BE,)``; also for nodes, with an ``X`` of ``(N, H)``."""
    return tl.load(X + e[:, None] * H + h[None, :], mask=mask, other=0.0)


@triton.jit
def _leaky(x, slope):
    return tl.where(x > 0, x, slope * x)


@triton.jit
def _bent(x, slope):
    """The derivative of LeakyReLU."""
    return tl.where(x > 0, 1.0, slope)


@triton.jit
def _kept(Seed, e, h, p, H: tl.constexpr):
    """``(BE, BH)`` dropout factors, the same in every pass because they depend on the edge, the head and the seed."""
    return tl.where(tl.rand(tl.load(Seed), e[:, None] * H + h[None, :]) >= p, 1.0 / (1.0 - p), 0.0)


@triton.jit
def _forward(Source, Pointer, Hubs, Wanted, Values, A, B, C, Shift, Out, Weights, Seed, p, factor,
             H: tl.constexpr, D: tl.constexpr, BH: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
             FORM: tl.constexpr, SHIFT: tl.constexpr, DROPOUT: tl.constexpr, SOME: tl.constexpr,
             NODES: tl.constexpr):  # fmt: skip
    node, start, end, mine = _segment(Pointer, Hubs, Wanted, H, SOME, NODES)
    h, d = tl.arange(0, BH), tl.arange(0, BD)
    heads, channels = h < mine, d < D
    own = heads[:, None] & channels[None, :]
    if FORM == ADDITIVE:
        here = tl.load(B + node * H + h, mask=heads, other=0.0)
    if (FORM == DYNAMIC) | (FORM == DOT):
        target = _row(B, node, h, d, own, H, D)
    if FORM == DYNAMIC:
        direction = _row(C, 0, h, d, own, H, D)
    largest = tl.full((BH,), float("-inf"), tl.float32)
    total = tl.zeros((BH,), tl.float32)
    mixed = tl.zeros((BH, BD), tl.float32)
    for first in range(start, end, BE):
        e = first + tl.arange(0, BE)
        inside = e < end
        j = tl.load(Source + e, mask=inside, other=0)
        flat = inside[:, None] & heads[None, :]
        mask = flat[:, :, None] & channels[None, None, :]
        value = _rows(Values, j, h, d, mask, H, D)
        if FORM == ADDITIVE:
            score = _leaky(_per_edge(A, j, h, flat, H) + here[None, :], factor)
        elif FORM == DYNAMIC:
            score = tl.sum(_leaky(value + target[None, :, :], factor) * direction[None, :, :], 2)
        elif FORM == DOT:
            score = factor * tl.sum(_rows(A, j, h, d, mask, H, D) * target[None, :, :], 2)
        else:
            score = _per_edge(A, e, h, flat, H)
        if SHIFT:
            score += tl.load(Shift + e, mask=inside, other=0.0)[:, None]
        tl.store(Weights + e[:, None] * H + h[None, :], score, mask=flat)
        score = tl.where(flat, score, float("-inf"))
        higher = tl.where(heads, tl.maximum(largest, tl.max(score, 0)), 0.0)
        shrink = tl.exp(largest - higher)
        weight = tl.exp(score - higher[None, :])
        total = total * shrink + tl.sum(weight, 0)
        if DROPOUT:
            weight *= _kept(Seed, e, h, p, H)
        mixed = mixed * shrink[:, None] + tl.sum(weight[:, :, None] * value, 0)
        largest = higher
    total = tl.where(heads & (total != 0), total, 1.0)  # 0 where no edge was looked at
    tl.store(Out + node * (H * D) + h[:, None] * D + d[None, :], mixed / total[:, None], mask=own)
    log_sum = largest + tl.log(total)
    tl.debug_barrier()  # the scores that other threads of this program have stored are read below
    for first in range(start, end, BE):
        e = first + tl.arange(0, BE)
        flat = (e < end)[:, None] & heads[None, :]
        place = Weights + e[:, None] * H + h[None, :]
        tl.store(place, tl.exp(tl.load(place, mask=flat, other=0.0) - log_sum[None, :]), mask=flat)


@triton.jit
def _by_destination(Source, Pointer, Hubs, Wanted, Values, A, B, C, Out, Weights, GradOut, GradWeights,
                    GradScores, GradB, GradC, GradShift, Seed, p, factor,
                    H: tl.constexpr, D: tl.constexpr, BH: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
                    FORM: tl.constexpr, SHIFT: tl.constexpr, DROPOUT: tl.constexpr, DIRECT: tl.constexpr,
                    SOME: tl.constexpr, NODES: tl.constexpr):  # fmt: skip
    node, start, end, mine = _segment(Pointer, Hubs, Wanted, H, SOME, NODES)
    h, d = tl.arange(0, BH), tl.arange(0, BD)
    heads, channels = h < mine, d < D
    own = heads[:, None] & channels[None, :]
    grad = _row(GradOut, node, h, d, own, H, D)
    mean = tl.sum(grad * _row(Out, node, h, d, own, H, D), 1)  # (BH,) sum_f w_f d_f
    if DIRECT:
        for first in range(start, end, BE):
            e = first + tl.arange(0, BE)
            flat = (e < end)[:, None] & heads[None, :]
            mean += tl.sum(_per_edge(Weights, e, h, flat, H) * _per_edge(GradWeights, e, h, flat, H), 0)
    if FORM == ADDITIVE:
        here = tl.load(B + node * H + h, mask=heads, other=0.0)
        total = tl.zeros((BH,), tl.float32)
    if (FORM == DYNAMIC) | (FORM == DOT):
        target = _row(B, node, h, d, own, H, D)
        grad_target = tl.zeros((BH, BD), tl.float32)
    if FORM == DYNAMIC:
        direction = _row(C, 0, h, d, own, H, D)
        grad_direction = tl.zeros((BH, BD), tl.float32)
    for first in range(start, end, BE):
        e = first + tl.arange(0, BE)
        inside = e < end
        j = tl.load(Source + e, mask=inside, other=0)
        flat = inside[:, None] & heads[None, :]
        mask = flat[:, :, None] & channels[None, None, :]
        value = _rows(Values, j, h, d, mask, H, D)
        towards = tl.sum(value * grad[None, :, :], 2)  # (BE, BH)
        if DROPOUT:
            towards *= _kept(Seed, e, h, p, H)
        if DIRECT:
            towards += _per_edge(GradWeights, e, h, flat, H)
        change = _per_edge(Weights, e, h, flat, H) * (towards - mean[None, :])
        if SHIFT:
            tl.store(GradShift + e, tl.sum(change, 1), mask=inside)
        if FORM == ADDITIVE:
            change *= _bent(_per_edge(A, j, h, flat, H) + here[None, :], factor)
            total += tl.sum(change, 0)
        if FORM == DYNAMIC:
            pair = value + target[None, :, :]
            grad_target += tl.sum(change[:, :, None] * _bent(pair, factor), 0) * direction
            grad_direction += tl.sum(change[:, :, None] * _leaky(pair, factor), 0)
        if FORM == DOT:
            grad_target += factor * tl.sum(change[:, :, None] * _rows(A, j, h, d, mask, H, D), 0)
        tl.store(GradScores + e[:, None] * H + h[None, :], change, mask=flat)
    place = node * (H * D) + h[:, None] * D + d[None, :]
    if FORM == ADDITIVE:
        tl.store(GradB + node * H + h, total, mask=heads)
    if (FORM == DYNAMIC) | (FORM == DOT):
        tl.store(GradB + place, grad_target, mask=own)
    if FORM == DYNAMIC:
        tl.store(GradC + place, grad_direction, mask=own)


@triton.jit
def _by_source(Order, Pointer, Hubs, Wanted, Destination, Values, B, C, Weights, GradOut, GradScores, GradValues, GradA,
               Seed, p, factor,
               H: tl.constexpr, D: tl.constexpr, BH: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
               FORM: tl.constexpr, DROPOUT: tl.constexpr, SOME: tl.constexpr, NODES: tl.constexpr):  # fmt: skip
    node, start, end, mine = _segment(Pointer, Hubs, Wanted, H, SOME, NODES)
    h, d = tl.arange(0, BH), tl.arange(0, BD)
    heads, channels = h < mine, d < D
    own = heads[:, None] & channels[None, :]
    grad_value = tl.zeros((BH, BD), tl.float32)
    if FORM == ADDITIVE:
        total = tl.zeros((BH,), tl.float32)
    if FORM == DYNAMIC:
        value = _row(Values, node, h, d, own, H, D)
        direction = _row(C, 0, h, d, own, H, D)
    if FORM == DOT:
        grad_key = tl.zeros((BH, BD), tl.float32)
    for first in range(start, end, BE):
        k = first + tl.arange(0, BE)
        inside = k < end
        e = tl.load(Order + k, mask=inside, other=0)
        i = tl.load(Destination + e, mask=inside, other=0)
        flat = inside[:, None] & heads[None, :]
        mask = flat[:, :, None] & channels[None, None, :]
        weight = _per_edge(Weights, e, h, flat, H)
        if DROPOUT:
            weight *= _kept(Seed, e, h, p, H)
        grad_value += tl.sum(weight[:, :, None] * _rows(GradOut, i, h, d, mask, H, D), 0)
        if FORM == ADDITIVE:
            total += tl.sum(_per_edge(GradScores, e, h, flat, H), 0)
        if FORM == DYNAMIC:
            change = _per_edge(GradScores, e, h, flat, H)
            bent = _bent(value[None, :, :] + _rows(B, i, h, d, mask, H, D), factor)
            grad_value += tl.sum(change[:, :, None] * bent, 0) * direction
        if FORM == DOT:
            change = _per_edge(GradScores, e, h, flat, H)
            grad_key += factor * tl.sum(change[:, :, None] * _rows(B, i, h, d, mask, H, D), 0)
    place = node * (H * D) + h[:, None] * D + d[None, :]
    tl.store(GradValues + place, grad_value, mask=own)
    if FORM == ADDITIVE:
        tl.store(GradA + node * H + h, total, mask=heads)
    if FORM == DOT:
        tl.store(GradA + place, grad_key, mask=own)


@dataclass(frozen=True)
class _Call:
    """What stays the same between the passes of one call."""

    edges: SortedEdges
    form: str
    dropout: float
    seed: Tensor
    factor: float
    part: Part | None

    def launch(self, kernel: Any, segments: Tensor, which: str, *inputs: Any, values: Tensor, **flags: bool) -> None:
        """Run a kernel over all nodes: once, or once for hubs and once for the others if the graph has hubs."""
        heads, channels = values.shape[1:]
        tiled = [triton.next_power_of_2(size) for size in (heads, channels)]
        width = tiled[0] * tiled[1]
        wanted, some = (segments, False) if self.part is None else (getattr(self.part, which), True)
        hubs, is_hub = self.edges.hubs, self.edges.is_hub
        everywhere = [(EVERY, segments, self.edges.num_nodes)]
        for nodes, listed, count in (
            [(HUBS, hubs, len(hubs)), (OTHERS, is_hub, len(is_hub))] if len(hubs) else everywhere
        ):
            tile, warps = (8192, 8) if nodes is HUBS else (1024, 1 if width <= 64 else 2)
            kernel[(count,)](
                *inputs[:1], segments, listed, wanted, *inputs[1:], self.seed, self.dropout, self.factor,
                H=heads, D=channels, BH=tiled[0], BD=tiled[1], BE=max(2, min(128, tile // width)),
                FORM=FORMS[self.form], DROPOUT=self.dropout > 0, SOME=some, NODES=nodes.value, num_warps=warps, **flags,
            )  # fmt: skip


class _FusedAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: _Call, values: Tensor, *given: Tensor | None) -> Any:
        edges, shift = call.edges, given[3]
        out = torch.empty_like(values)
        weights = values.new_empty(edges.source.numel(), values.shape[1])
        inputs = [values if x is None else x for x in given]  # a, b, c and the shift
        call.launch(
            _forward, edges.pointer, "destinations", edges.source, values, *inputs, out, weights,
            values=values, SHIFT=shift is not None,
        )  # fmt: skip
        ctx.call, ctx.has_shift = call, shift is not None
        ctx.save_for_backward(values, *inputs[:3], out, weights)
        ctx.set_materialize_grads(False)
        return out, weights

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor | None, grad_weights: Tensor | None) -> Any:
        values, a, b, c, out, weights = ctx.saved_tensors
        call, edges = ctx.call, ctx.call.edges
        grad_out = torch.zeros_like(values) if grad_out is None else grad_out.contiguous()
        grad_values = torch.empty_like(values)
        grad_scores = torch.empty_like(weights) if call.part is None else torch.zeros_like(weights)
        grad_a, grad_b = (torch.empty_like(x) if call.form in ("additive", "dot") else None for x in (a, b))
        grad_c = None
        if call.form == "dynamic":
            grad_b, grad_c = torch.empty_like(b), torch.empty_like(values)
        grad_shift = values.new_empty(edges.source.numel()) if ctx.has_shift else None
        direct, *written = (values if x is None else x for x in (grad_weights, grad_b, grad_c, grad_shift))
        call.launch(
            _by_destination, edges.pointer, "destinations", edges.source, values, a, b, c, out, weights, grad_out,
            direct.contiguous(), grad_scores, *written,
            values=values, SHIFT=ctx.has_shift, DIRECT=grad_weights is not None,
        )  # fmt: skip
        order, pointer = edges.by_source
        call.launch(
            _by_source, pointer, "sources", order, edges.destination, values, b, c, weights, grad_out, grad_scores,
            grad_values, values if grad_a is None else grad_a, values=values,
        )  # fmt: skip
        if call.form == "given":
            grad_a = grad_scores
        return None, grad_values, grad_a, grad_b, None if grad_c is None else grad_c.sum(0), grad_shift


def fused_attention(
    values: Tensor,
    edges: SortedEdges,
    form: str,
    a: Tensor | None = None,
    b: Tensor | None = None,
    c: Tensor | None = None,
    shift: Tensor | None = None,
    factor: float = 0.0,
    dropout: float = 0.0,
    seed: Tensor | None = None,
    part: Part | None = None,
) -> tuple[Tensor, Tensor]:
    """Scores, softmax over each destination's in-edges and the weighted sum of the values, in one kernel.

    Args:
        values: ``(N, H, D)``.
        edges: the graph's sorted edges.
        form: of the scores: ``given`` (``a`` is ``(E, H)``), ``additive``, ``dynamic`` or ``dot``, see the module.
        a: the source's part of the scores, ``(N, H)`` or ``(N, H, D)``; for ``dynamic`` it is ``values``.
        b: the destination's part, ``(N, H)`` or ``(N, H, D)``.
        c: ``(H, D)`` the direction that dynamic scores are measured along.
        shift: ``(E,)`` added to the scores of every head, in sorted order.
        factor: the slope of the LeakyReLU, or the scale of a dot product.
        dropout: share of weights that are dropped, drawn from ``seed``.
        seed: ``(1,)`` integer of the dropout, on the device, so that a replayed recording draws anew.
        part: the nodes that matter; at other destinations the sums are 0 and the weights arbitrary, and other sources
            get the gradient 0.

    Returns:
        ``(N, H, D)`` sums and ``(E, H)`` weights before dropout, in sorted order.
    """
    if dropout and seed is None:
        raise ValueError("fused_attention needs a seed for its dropout")
    call = _Call(edges, form, dropout, edges.pointer if seed is None else seed, factor, part)
    inputs = (None if x is None else x.contiguous() for x in (a, b, c))
    return _FusedAttention.apply(call, values.contiguous(), *inputs, shift)
