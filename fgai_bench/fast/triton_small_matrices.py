"""Factor and diagonalise one small symmetric matrix on CUDA (Triton), without a word to the host.

One program holds the whole matrix in its registers. The library's solvers report to the host whether they succeeded,
which cannot be captured; these do a fixed number of steps.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

SWEEPS = 9
"""Of Jacobi rotations over all pairs; a matrix of 24 columns is diagonal to the last bit after seven."""
ROUGH_SWEEPS = 4


@triton.jit
def _inverse_factor(Gram, Out, M, SIZE: tl.constexpr, FLOOR: tl.constexpr):
    i, j = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    inside = (i < M) & (j < M)
    unit = tl.where(i == j, 1.0, 0.0).to(tl.float64)
    rest = tl.where(inside, tl.load(Gram + i * M + j, mask=inside, other=0.0), unit)
    inverse = unit
    for step in range(M):
        column = tl.sum(tl.where(j == step, rest, 0.0), 1)  # (SIZE,) of rows
        row = tl.arange(0, SIZE)
        pivot = tl.sqrt(tl.maximum(tl.sum(tl.where(row == step, column, 0.0), 0), FLOOR))
        factor = tl.where(row > step, column / pivot, 0.0)  # (SIZE,)
        mine = tl.sum(tl.where(i == step, inverse, 0.0), 0) / pivot  # (SIZE,) the step's row, divided
        inverse = tl.where(i == step, mine[None, :], inverse - factor[:, None] * mine[None, :])
        across = tl.sum(tl.where(i == step, rest, 0.0), 0) / pivot
        rest -= factor[:, None] * tl.where(row > step, across, 0.0)[None, :]
    tl.store(Out + i * M + j, inverse, mask=inside)


@triton.jit
def _rotate(Symmetric, Values, Vectors, M, SIZE: tl.constexpr, ROUNDS: tl.constexpr):
    i, j = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    inside = (i < M) & (j < M)
    matrix = tl.load(Symmetric + i * M + j, mask=inside, other=0.0)
    vectors = tl.where(i == j, 1.0, 0.0).to(tl.float64)
    row = tl.arange(0, SIZE)
    last = SIZE - 1
    for turn in range(ROUNDS):
        # a tournament: in a round the players i and j meet if i + j = turn (mod SIZE - 1); who is left meets the last
        partner = (turn % last - row + last) % last
        odd = (turn % last) * (SIZE // 2) % last
        partner = tl.where(row == last, odd, tl.where(row == odd, last, partner))
        meets = j == partner[:, None]
        own = tl.sum(tl.where(i == j, matrix, 0.0), 1)  # (SIZE,) the diagonal
        other = tl.sum(tl.where(meets, tl.sum(tl.where(i == j, matrix, 0.0), 0)[None, :], 0.0), 1)
        # of both halves, which rounding makes differ: a pair must turn by one angle
        shared = (tl.sum(tl.where(meets, matrix, 0.0), 1) + tl.sum(tl.where(meets, matrix, 0.0), 0)) / 2
        apart = tl.abs(shared) > 1e-300
        ratio = (other - own) / tl.where(apart, 2 * shared, 1.0)
        first = (ratio > 0) | ((ratio == 0) & (row < partner))
        tangent = tl.where(first, 1.0, -1.0) / (tl.abs(ratio) + tl.sqrt(1 + ratio * ratio))
        tangent = tl.where(apart, tangent, 0.0)
        cosine = 1 / tl.sqrt(1 + tangent * tangent)
        sine = tangent * cosine  # of a row's own turn towards its partner; the partner's is the negative
        across = tl.broadcast_to(partner[None, :], (SIZE, SIZE))
        down = tl.broadcast_to(partner[:, None], (SIZE, SIZE))
        matrix = matrix * cosine[None, :] - tl.gather(matrix, across, 1) * sine[None, :]
        vectors = vectors * cosine[None, :] - tl.gather(vectors, across, 1) * sine[None, :]
        matrix = matrix * cosine[:, None] - tl.gather(matrix, down, 0) * sine[:, None]
    tl.store(Values + row, tl.sum(tl.where(i == j, matrix, 0.0), 1), mask=row < M)
    tl.store(Vectors + i * M + j, vectors, mask=inside)


def inverse_factor(gram: Tensor, floor: float) -> Tensor:
    """Return ``L^{-1}`` of ``G = L L^T``, ``(m, m) -> (m, m)`` in float64; no pivot counts as less than ``floor``."""
    out = torch.empty_like(gram)
    size = max(16, triton.next_power_of_2(gram.shape[0]))
    _inverse_factor[(1,)](gram.contiguous(), out, gram.shape[0], SIZE=size, FLOOR=floor, num_warps=4)
    return out


def eigen(symmetric: Tensor, rough: bool = False) -> tuple[Tensor, Tensor]:
    """Return eigenvalues ``(m,)``, in no order, and vectors ``(m, m)`` in columns, of a matrix in float64."""
    sweeps = ROUGH_SWEEPS if rough else SWEEPS
    count = symmetric.shape[0]
    values, vectors = symmetric.new_empty(count), torch.empty_like(symmetric)
    size = max(16, triton.next_power_of_2(count))
    _rotate[(1,)](
        symmetric.contiguous(), values, vectors, count, SIZE=size, ROUNDS=sweeps * (size - 1), num_warps=4
    )  # fmt: skip
    return values, vectors
