"""Compute fused attention on CUDA (Triton): score, softmax, dropout and sum in one kernel, two for the gradients.

One program handles one destination (or one source, for the gradients that sums over sources need). A node's tensors
lie side by side in ``x``, ``(N, P, H, D)``; the values ``v`` are a part of it. The scores are ``given``, or one of

============ ======================================= ===========================
``linear``   ``s_e = LeakyReLU(c . v_j + d . v_i)``  ``x = v``
``dynamic``  ``s_e = c . LeakyReLU(v_j + r_i)``      ``x = (v, r)``
``dot``      ``s_e = factor * k_j . q_i``            ``x = (q, k, v)``
============ ======================================= ===========================

for an edge e from j to i, in every head, with ``c, d``: ``(H, D)``. With ``g`` the gradient of the output, ``w_e`` the
weights, ``u_e`` the gradient of the returned weights and ``m_e`` the dropout factors:

``t_e = m_e g_i . v_j + u_e``,  ``ds_e = w_e (t_e - sum_f w_f t_f)``,  ``dv_j = sum_e w_e m_e g_i``

where ``sum_f w_f m_f g_i . v = g_i . out_i``, so no second pass is needed unless ``u`` is there.

A whole gradient goes over the edges by destination, which leaves ``w_e m_e`` and ``ds_e`` of every edge for the sums by
source. Where the gradient of a few nodes is wanted, each of the two passes goes over their edges only, and the one by
source computes ``ds_e`` itself, from sums of each destination.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from fgai_bench.fast.cuda_graphs import side_by_side
from fgai_bench.models.sorted_edges import NodeMask, SortedEdges

PARTS = {"given": 1, "linear": 1, "dynamic": 2, "dot": 3}
FORMS = tuple(PARTS)
LINEAR, DYNAMIC, DOT = (tl.constexpr(FORMS.index(form)) for form in ("linear", "dynamic", "dot"))
EVERY, OTHERS, HUBS = (tl.constexpr(x) for x in range(3))
"""Which nodes a launch looks at. Hubs get wider programs, lest all wait for one that goes through its many edges."""
USUAL, WIDE = (256, 1), (8192, 8)
"""Values that a program holds at a time, and its warps: the fastest of a sweep over graphs and shapes."""


@triton.jit
def _segment(Pointer, Hubs, Wanted, H: tl.constexpr, SOME: tl.constexpr, NODES: tl.constexpr):
    """Return the program's node, where its edges begin and end, and its number of heads.

    ``Hubs`` lists the hubs, or says of every node whether it is one. A hub has no edges and no heads where it is not
    its turn; a node that is not wanted has heads, whose results are 0, but no edges.
    """
    node = tl.program_id(0)
    if NODES == HUBS:
        node = tl.load(Hubs + node).to(tl.int32)
    start, end = tl.load(Pointer + node), tl.load(Pointer + node + 1)
    heads = start * 0 + H
    if NODES == OTHERS:
        heads = tl.where(tl.load(Hubs + node) != 0, 0, heads)
        end = tl.where(heads > 0, end, start)
    if SOME:
        end = tl.where(tl.load(Wanted + node) != 0, end, start)
    return node, start, end, heads


@triton.jit
def _row(X, node, h, d, mask, D: tl.constexpr, ROW: tl.constexpr):
    """Load ``(BH, BD)`` the row of one node in ``X``, whose rows are ``ROW`` apart."""
    return tl.load(X + node * ROW + h[:, None] * D + d[None, :], mask=mask, other=0.0)


@triton.jit
def _rows(X, nodes, h, d, mask, D: tl.constexpr, ROW: tl.constexpr):
    """Load ``(BE, BH, BD)`` the rows of the nodes ``(BE,)`` in ``X``, whose rows are ``ROW`` apart."""
    return tl.load(X + nodes[:, None, None] * ROW + h[None, :, None] * D + d[None, None, :], mask=mask, other=0.0)


@triton.jit
def _per_edge(X, e, h, mask, ROW: tl.constexpr):
    """Load ``(BE, BH)`` the rows of the edges ``(BE,)`` in ``X``, whose rows are ``ROW`` apart."""
    return tl.load(X + e[:, None] * ROW + h[None, :], mask=mask, other=0.0)


@triton.jit
def _leaky(x, slope):
    return tl.where(x > 0, x, slope * x)


@triton.jit
def _bent(x, slope):
    """Return the derivative of LeakyReLU."""
    return tl.where(x > 0, 1.0, slope)


@triton.jit
def _kept(Seed, e, h, p, H: tl.constexpr):
    """Return ``(BE, BH)`` dropout factors, the same in every pass since they depend on edge, head and seed only."""
    return tl.where(tl.rand(tl.load(Seed), e[:, None] * H + h[None, :]) >= p, 1.0 / (1.0 - p), 0.0)


@triton.jit
def _forward(Source, Pointer, Hubs, Wanted, X, Scores, C, C2, Shift, Out, Weights, Seed, p, factor,
             H: tl.constexpr, D: tl.constexpr, BH: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
             ROW: tl.constexpr, FORM: tl.constexpr, SHIFT: tl.constexpr, DROPOUT: tl.constexpr, SOME: tl.constexpr,
             NODES: tl.constexpr):  # fmt: skip
    node, start, end, mine = _segment(Pointer, Hubs, Wanted, H, SOME, NODES)
    h, d = tl.arange(0, BH), tl.arange(0, BD)
    heads, channels = h < mine, d < D
    own = heads[:, None] & channels[None, :]
    Values = X + ROW - H * D if FORM == DOT else X
    if FORM == LINEAR:
        direction = _row(C, 0, h, d, own, D, ROW)
        here = tl.sum(_row(X, node, h, d, own, D, ROW) * _row(C2, 0, h, d, own, D, ROW), 1)
    if FORM == DYNAMIC:
        direction = _row(C, 0, h, d, own, D, ROW)
        target = _row(X + H * D, node, h, d, own, D, ROW)
    if FORM == DOT:
        target = _row(X, node, h, d, own, D, ROW)
    largest = tl.full((BH,), float("-inf"), tl.float32)
    total = tl.zeros((BH,), tl.float32)
    mixed = tl.zeros((BH, BD), tl.float32)
    score = tl.full((BE, BH), float("-inf"), tl.float32)
    far = tl.where(end - start > BE, end, start)  # a single block of scores stays in registers
    for first in range(start, end, BE):
        e = first + tl.arange(0, BE)
        inside = e < end
        j = tl.load(Source + e, mask=inside, other=0)
        flat = inside[:, None] & heads[None, :]
        mask = flat[:, :, None] & channels[None, None, :]
        value = _rows(Values, j, h, d, mask, D, ROW)
        if FORM == LINEAR:
            score = _leaky(tl.sum(value * direction[None, :, :], 2) + here[None, :], factor)
        elif FORM == DYNAMIC:
            score = tl.sum(_leaky(value + target[None, :, :], factor) * direction[None, :, :], 2)
        elif FORM == DOT:
            score = factor * tl.sum(_rows(X + H * D, j, h, d, mask, D, ROW) * target[None, :, :], 2)
        else:
            score = _per_edge(Scores, e, h, flat, H)
        if SHIFT:
            score += tl.load(Shift + e, mask=inside, other=0.0)[:, None]
        tl.store(Weights + e[:, None] * H + h[None, :], score, mask=(e < far)[:, None] & heads[None, :])
        score = tl.where(flat, score, float("-inf"))
        higher = tl.where(heads, tl.maximum(largest, tl.max(score, 0)), 0.0)
        shrink = tl.exp(largest - higher)
        weight = tl.exp(score - higher[None, :])
        total = total * shrink + tl.sum(weight, 0)
        if DROPOUT:
            weight *= _kept(Seed, e, h, p, H)
        mixed = mixed * shrink[:, None] + tl.sum(weight[:, :, None] * value, 0)
        largest = higher
    total = tl.where(heads & (total != 0), total, 1.0)  # 0 for a node without computed edges
    tl.store(Out + node * (H * D) + h[:, None] * D + d[None, :], mixed / total[:, None], mask=own)
    log_sum = largest + tl.log(total)
    if far > start:
        tl.debug_barrier()  # the scores that other threads of this program have stored are read below
        for first in range(start, end, BE):
            e = first + tl.arange(0, BE)
            flat = (e < end)[:, None] & heads[None, :]
            place = Weights + e[:, None] * H + h[None, :]
            tl.store(place, tl.exp(tl.load(place, mask=flat, other=0.0) - log_sum[None, :]), mask=flat)
    else:
        e = start + tl.arange(0, BE)
        flat = (e < end)[:, None] & heads[None, :]
        tl.store(Weights + e[:, None] * H + h[None, :], tl.exp(score - log_sum[None, :]), mask=flat)


@triton.jit
def _by_destination(Source, Pointer, Hubs, Wanted, Position, X, C, C2, Out, Weights, GradOut, GradWeights,
                    GradX, GradEdges, GradBoth, GradC, GradShift, Seed, p, factor,
                    H: tl.constexpr, D: tl.constexpr, BH: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
                    ROW: tl.constexpr, FORM: tl.constexpr, SHIFT: tl.constexpr, DROPOUT: tl.constexpr,
                    DIRECT: tl.constexpr, KEPT: tl.constexpr, SOME: tl.constexpr, NODES: tl.constexpr):  # fmt: skip
    node, start, end, mine = _segment(Pointer, Hubs, Wanted, H, SOME, NODES)
    h, d = tl.arange(0, BH), tl.arange(0, BD)
    heads, channels = h < mine, d < D
    own = heads[:, None] & channels[None, :]
    Values = X + ROW - H * D if FORM == DOT else X
    grad = _row(GradOut, node, h, d, own, D, H * D)
    mean = tl.sum(grad * _row(Out, node, h, d, own, D, H * D), 1)  # (BH,) sum_f w_f t_f
    if DIRECT:
        for first in range(start, end, BE):
            e = first + tl.arange(0, BE)
            flat = (e < end)[:, None] & heads[None, :]
            mean += tl.sum(_per_edge(Weights, e, h, flat, H) * _per_edge(GradWeights, e, h, flat, H), 0)
    if FORM == LINEAR:
        direction = _row(C, 0, h, d, own, D, ROW)
        here = tl.sum(_row(X, node, h, d, own, D, ROW) * _row(C2, 0, h, d, own, D, ROW), 1)
        total = tl.zeros((BH,), tl.float32)
    if FORM == DYNAMIC:
        direction = _row(C, 0, h, d, own, D, ROW)
        target = _row(X + H * D, node, h, d, own, D, ROW)
        grad_target, grad_direction = tl.zeros((BH, BD), tl.float32), tl.zeros((BH, BD), tl.float32)
    if FORM == DOT:
        grad_target = tl.zeros((BH, BD), tl.float32)
    for first in range(start, end, BE):
        e = first + tl.arange(0, BE)
        inside = e < end
        j = tl.load(Source + e, mask=inside, other=0)
        flat = inside[:, None] & heads[None, :]
        mask = flat[:, :, None] & channels[None, None, :]
        value = _rows(Values, j, h, d, mask, D, ROW)
        weight = _per_edge(Weights, e, h, flat, H)
        towards = tl.sum(value * grad[None, :, :], 2)  # (BE, BH)
        kept = weight
        if DROPOUT:
            factors = _kept(Seed, e, h, p, H)
            towards *= factors
            kept *= factors
        if DIRECT:
            towards += _per_edge(GradWeights, e, h, flat, H)
        change = weight * (towards - mean[None, :])
        if SHIFT:
            tl.store(GradShift + e, tl.sum(change, 1), mask=inside)
        if FORM == LINEAR:
            change *= _bent(tl.sum(value * direction[None, :, :], 2) + here[None, :], factor)
            total += tl.sum(change, 0)
        if FORM == DYNAMIC:
            pair = value + target[None, :, :]
            grad_target += tl.sum(change[:, :, None] * _bent(pair, factor), 0) * direction
            grad_direction += tl.sum(change[:, :, None] * _leaky(pair, factor), 0)
        if FORM == DOT:
            grad_target += factor * tl.sum(change[:, :, None] * _rows(X + H * D, j, h, d, mask, D, ROW), 0)
        if KEPT:
            position = tl.load(Position + e, mask=inside, other=0)  # among the edges ordered by source
            place = GradEdges + position[:, None] * (2 * H) + h[None, :]
            tl.store(place, kept, mask=flat)
            tl.store(place + H, change, mask=flat)
    if FORM == LINEAR:
        tl.store(GradBoth + node * (2 * H) + H + h, total, mask=heads)
    if FORM == DYNAMIC:
        tl.store(GradX + node * ROW + H * D + h[:, None] * D + d[None, :], grad_target, mask=own)
        tl.store(GradC + node * (H * D) + h[:, None] * D + d[None, :], grad_direction, mask=own)
    if FORM == DOT:
        tl.store(GradX + node * ROW + h[:, None] * D + d[None, :], grad_target, mask=own)


@triton.jit
def _by_source(Target, Pointer, Hubs, Wanted, X, C, C2, GradOut, GradEdges, GradBoth, GradX, Order, Weights,
               GradWeights, Mean, There, Seed, p, factor, H: tl.constexpr, D: tl.constexpr, BH: tl.constexpr,
               BD: tl.constexpr, BE: tl.constexpr, ROW: tl.constexpr, FORM: tl.constexpr, DIRECT: tl.constexpr,
               FEW: tl.constexpr, SOME: tl.constexpr, NODES: tl.constexpr):  # fmt: skip
    node, start, end, mine = _segment(Pointer, Hubs, Wanted, H, SOME, NODES)
    h, d = tl.arange(0, BH), tl.arange(0, BD)
    heads, channels = h < mine, d < D
    own = heads[:, None] & channels[None, :]
    grad_value = tl.zeros((BH, BD), tl.float32)
    if FEW or FORM == DYNAMIC:
        value = _row(X + ROW - H * D if FORM == DOT else X, node, h, d, own, D, ROW)
    if FORM == LINEAR:
        total = tl.zeros((BH,), tl.float32)
        direction = _row(C, 0, h, d, own, D, ROW)
        if FEW:
            here = tl.sum(value * direction, 1)
    if FORM == DYNAMIC:
        direction = _row(C, 0, h, d, own, D, ROW)
    if FORM == DOT:
        grad_key = tl.zeros((BH, BD), tl.float32)
    for first in range(start, end, BE):
        k = first + tl.arange(0, BE)
        inside = k < end
        i = tl.load(Target + k, mask=inside, other=0)
        flat = inside[:, None] & heads[None, :]
        mask = flat[:, :, None] & channels[None, None, :]
        grad = _rows(GradOut, i, h, d, mask, D, H * D)
        if FEW:
            e = tl.load(Order + k, mask=inside, other=0)
            kept = _per_edge(Weights, e, h, flat, H)
            towards = tl.sum(grad * value[None, :, :], 2)
            if DIRECT:
                towards += _per_edge(GradWeights, e, h, flat, H)
            change = kept * (towards - _per_edge(Mean, i, h, flat, H))
            if FORM == LINEAR:
                change *= _bent(here[None, :] + _per_edge(There, i, h, flat, H), factor)
        else:
            kept = _per_edge(GradEdges, k, h, flat, 2 * H)
            change = _per_edge(GradEdges + H, k, h, flat, 2 * H)
        grad_value += tl.sum(kept[:, :, None] * grad, 0)
        if FORM == LINEAR:
            total += tl.sum(change, 0)
        if FORM == DYNAMIC:
            bent = _bent(value[None, :, :] + _rows(X + H * D, i, h, d, mask, D, ROW), factor)
            grad_value += tl.sum(change[:, :, None] * bent, 0) * direction
        if FORM == DOT:
            grad_key += factor * tl.sum(change[:, :, None] * _rows(X, i, h, d, mask, D, ROW), 0)
    place = GradX + node * ROW + h[:, None] * D + d[None, :]
    if FORM == LINEAR:
        arriving = tl.load(GradBoth + node * (2 * H) + H + h, mask=heads, other=0.0)
        grad_value += total[:, None] * direction
        grad_value += arriving[:, None] * _row(C2, 0, h, d, own, D, ROW)
        tl.store(GradBoth + node * (2 * H) + h, total, mask=heads)
    if FORM == DOT:
        tl.store(place + H * D, grad_key, mask=own)
        place += 2 * H * D
    tl.store(place, grad_value, mask=own)


@dataclass(frozen=True)
class _Call:
    """The arguments that the forward and the backward pass of one call share."""

    edges: SortedEdges
    form: str
    dropout: float
    seed: Tensor
    factor: float
    mask: NodeMask | None

    def launch(self, kernel: Any, segments: Tensor, which: str, *inputs: Any, x: Tensor, **flags: bool) -> None:
        """Run a kernel over all nodes: once, or at the same time for hubs and for the others if the graph has hubs."""
        heads, channels = x.shape[-2:]
        tiled = [triton.next_power_of_2(extent) for extent in (heads, channels)]
        width = tiled[0] * tiled[1]
        wanted, some = (segments, False) if self.mask is None else (getattr(self.mask, which), True)

        def run(nodes: Any, listed: Tensor, count: int, size: tuple[int, int]) -> None:
            tile, warps = size
            kernel[(count,)](
                *inputs[:1], segments, listed, wanted, *inputs[1:], self.seed, self.dropout, self.factor,
                H=heads, D=channels, BH=tiled[0], BD=tiled[1], BE=max(2, min(128, tile // width)),
                ROW=PARTS[self.form] * heads * channels, FORM=FORMS.index(self.form), SOME=some,
                NODES=nodes.value, num_warps=warps, **flags,
            )  # fmt: skip

        if len(hubs := self.edges.hubs):
            side_by_side(
                partial(run, HUBS, hubs, len(hubs), WIDE),
                partial(run, OTHERS, self.edges.is_hub, self.edges.num_nodes, USUAL),
                x.device,
            )
        else:
            run(EVERY, segments, self.edges.num_nodes, USUAL)


class _FusedAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: _Call, x: Tensor, *given: Tensor | None) -> Any:
        heads, channels = x.shape[-2:]
        (source, pointer), shift = call.edges.by_destination, given[3]
        out, weights = x.new_empty(x.size(0), heads, channels), x.new_empty(source.numel(), heads)
        inputs = [x if given_one is None else given_one for given_one in given]  # scores, c, d and the shift
        call.launch(
            _forward, pointer, "destinations", source, x, *inputs, out, weights,
            x=x, SHIFT=shift is not None, DROPOUT=call.dropout > 0,
        )  # fmt: skip
        ctx.call, ctx.has_shift = call, shift is not None
        ctx.save_for_backward(x, *inputs[1:3], out, weights)
        ctx.set_materialize_grads(False)
        return out, weights

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor | None, grad_weights: Tensor | None) -> Any:
        x, c, d, out, weights = ctx.saved_tensors
        call, form, (nodes, heads, channels) = ctx.call, ctx.call.form, out.shape
        grad_out = torch.zeros_like(out) if grad_out is None else grad_out.contiguous()
        grad_x = torch.empty_like(x)
        for_sources = ctx.needs_input_grad[1] or (form == "linear" and any(ctx.needs_input_grad[3:5]))
        few = for_sources and call.mask is not None and form != "given" and not ctx.has_shift and not call.dropout
        kept = (for_sources and not few) or form == "given"
        blank = x.new_empty if call.mask is None else x.new_zeros
        grad_edges = blank(len(weights) if kept else 0, 2, heads)  # by source: weight after dropout, gradient of score
        grad_both = x.new_empty(nodes, 2, heads) if form == "linear" else x  # of c . v_j and d . v_i
        grad_c = torch.empty_like(out) if form == "dynamic" else None
        grad_shift = x.new_empty(len(weights)) if ctx.has_shift else None
        direct, *written = (x if gradient is None else gradient for gradient in (grad_weights, grad_c, grad_shift))
        direct, is_direct = direct.contiguous(), grad_weights is not None
        source, pointer = call.edges.by_destination
        target, position, pointer_out, order = call.edges.by_source
        call.launch(
            _by_destination, pointer, "sources" if few else "destinations", source, position, x, c, d, out, weights,
            grad_out, direct, grad_x, grad_edges, grad_both, *written,
            x=x, SHIFT=ctx.has_shift, DROPOUT=call.dropout > 0, DIRECT=is_direct, KEPT=kept,
        )  # fmt: skip
        if for_sources:
            mean = there = x
            if few:
                mean = (grad_out * out).sum(-1)  # (N, H)
                there = (x * d).sum(-1) if form == "linear" else x
                if is_direct:
                    offsets = call.edges.pointer
                    mean += torch.segment_reduce(weights * direct, "sum", offsets=offsets, axis=0, unsafe=True)
            call.launch(
                _by_source, pointer_out, "sources", target, x, c, d, grad_out, grad_edges, grad_both, grad_x,
                order, weights, direct, mean, there, x=x, DIRECT=is_direct, FEW=few,
            )  # fmt: skip
        grad_scores = grad_edges[:, 1].index_select(0, position) if form == "given" else None
        grad_d = None
        if form == "linear" and any(ctx.needs_input_grad[3:5]):
            every = grad_both.flatten(1).T @ x.flatten(1)  # (2 H, H D): of every head with every head's values
            grad_c, grad_d = every.view(2, heads, heads, channels).diagonal(0, 1, 2).mT.contiguous()
        elif grad_c is not None:
            grad_c = grad_c.sum(0)
        return None, grad_x, grad_scores, grad_c, grad_d, grad_shift


def fused_attention(
    x: Tensor,
    edges: SortedEdges,
    form: str,
    scores: Tensor | None = None,
    c: Tensor | None = None,
    d: Tensor | None = None,
    shift: Tensor | None = None,
    factor: float = 0.0,
    dropout: float = 0.0,
    seed: Tensor | None = None,
    mask: NodeMask | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute scores, softmax over each destination's in-edges and the weighted sum of the values, in one kernel.

    Args:
        x: ``(N, P, H, D)`` the nodes' tensors, see the module; ``(N, H, D)`` if these are the values alone.
        edges, mask: as in :class:`fgai_bench.models.kernels.segments.AttentionCall`; at masked destinations sums are 0.
        form, scores, c, d: of the scores, see the module; ``(E, H)`` given ones, in sorted order.
        shift: ``(E,)`` added to the scores of every head, in sorted order.
        factor: the slope of the LeakyReLU, or the scale of a dot product.
        dropout, seed: share of dropped weights, and the ``(1,)`` integer on the device that they are drawn from.

    Returns:
        ``(N, H, D)`` sums and ``(E, H)`` weights before dropout, in sorted order.
    """
    if 2 * edges.source.numel() * x.size(-2) >= 2**31:
        raise ValueError(f"fused_attention counts in 32 bits: {edges.source.numel()} edges are too many")
    call = _Call(edges, form, dropout, edges.pointer if seed is None else seed, factor, mask)
    return _FusedAttention.apply(call, *(None if y is None else y.contiguous() for y in (x, scores, c, d)), shift)
