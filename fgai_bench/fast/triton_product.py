"""Multiply a sparse matrix by a dense one on CUDA (Triton), every sum in the order of the row's entries.

One program adds one piece of a row. A row of a single piece is then done; the sums of the pieces of longer rows, such
as those of a common word in the transposed features, wait in a buffer and are added by a second kernel.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

WIDEST = 128
"""Columns of a tile; wider products take several programs per piece."""
TILE, WARPS = 1024, 2
"""Products that a program forms at a time, and its warps: the fastest of a sweep over features and widths."""


@triton.jit
def _add_pieces(Pointer, Column, Values, Dense, First, Row, Out, Partial, R, M, CHUNK: tl.constexpr,
                BE: tl.constexpr, BM: tl.constexpr):  # fmt: skip
    piece = tl.program_id(0)
    row = tl.load(Row + piece)
    if row >= R:
        return
    first, after = tl.load(First + row), tl.load(First + row + 1)
    start = tl.load(Pointer + row) + (piece - first) * CHUNK
    end = tl.minimum(start + CHUNK, tl.load(Pointer + row + 1))
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    wanted = m < M
    total = tl.zeros((BE, BM), Dense.dtype.element_ty)
    for begin in range(start, end, BE):
        e = begin + tl.arange(0, BE)
        inside = e < end
        column = tl.load(Column + e, mask=inside, other=0).to(tl.int64)
        value = tl.load(Values + e, mask=inside, other=0.0)
        rows = tl.load(Dense + column[:, None] * M + m[None, :], mask=inside[:, None] & wanted[None, :], other=0.0)
        total += value[:, None] * rows
    added = tl.sum(total, 0)
    if after - first > 1:
        tl.store(Partial + piece.to(tl.int64) * M + m, added, mask=wanted)
    else:
        tl.store(Out + row.to(tl.int64) * M + m, added, mask=wanted)


@triton.jit
def _add_sums(First, Partial, Out, M, BM: tl.constexpr):
    row = tl.program_id(0)
    first, after = tl.load(First + row), tl.load(First + row + 1)
    if after - first == 1:
        return
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    wanted = m < M
    total = tl.zeros((BM,), Out.dtype.element_ty)
    place = Partial + first.to(tl.int64) * M + m
    for _ in range(first, after):
        total += tl.load(place, mask=wanted, other=0.0)
        place += M
    tl.store(Out + row.to(tl.int64) * M + m, total, mask=wanted)


def product(
    pointer: Tensor, column: Tensor, first: Tensor, row: Tensor, chunk: int, values: Tensor, dense: Tensor
) -> Tensor:
    """Return the product of a sparse matrix and a dense one, ``(R, C), (C, M) -> (R, M)``.

    The matrix has the ``pointer`` and ``column`` of :class:`fgai_bench.fast.ordered_sums.SparseRows`, whose ``chunks``
    of at most ``chunk`` entries are ``first`` and ``row``; all but the pointer are in 32 bits.
    """
    dense, rows, width = dense.contiguous(), first.numel() - 1, dense.shape[1]
    out = dense.new_empty(rows, width)
    if not out.numel():
        return out
    partial = dense.new_empty(row.numel(), width)
    tile = min(triton.next_power_of_2(width), WIDEST)
    blocks = triton.cdiv(width, tile)
    _add_pieces[(row.numel(), blocks)](
        pointer, column, values.contiguous(), dense, first, row, out, partial, rows, width,
        CHUNK=chunk, BE=max(1, min(32, TILE // tile)), BM=tile, num_warps=WARPS,
    )  # fmt: skip
    _add_sums[(rows, blocks)](first, partial, out, width, BM=tile, num_warps=1)
    return out
