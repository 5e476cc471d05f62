"""Compute the largest singular values of a sparse matrix by block Lanczos in torch: made for an accelerator."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fgai_bench.fast.ordered_sums import SparseRows

WIDTH = 8
"""Vectors of a block, and copies of one singular value that it finds; where there are more, the block is widened."""
RESIDUAL = 1e-10
"""Of the slowest pair at the end, over the largest squared singular value. The vectors are then off by this over the
distance from the last squared value that is kept to the next, 1e-5 to 1e-1 in citation and co-purchase graphs."""
VANISHED = 1e-13
"""Length below which what is left of a vector is rounding, over the length that it had."""
NEGLIGIBLE = 1e-7
"""Singular value over the largest below which it is rounding: the square has half of the digits."""
STRIDE = 1.1
"""By how much the basis grows from one test for convergence to the next."""


@dataclass(frozen=True)
class SparseMatrix:
    """A matrix A, (N, N) in float64, by its rows and by those of its transpose.

    Attributes:
        rows, values: positions of the entries of A, and (nnz,) the entries.
        columns, turned: the same of ``A^T``.
    """

    rows: SparseRows
    values: Tensor
    columns: SparseRows
    turned: Tensor

    @classmethod
    def of(cls, row: Tensor, column: Tensor, values: Tensor, size: int) -> SparseMatrix:
        """Return the matrix of these entries, (nnz,) each; those at the same place add up."""
        return cls(*_by_row(row, column, values, size), *_by_row(column, row, values, size))

    @property
    def size(self) -> int:
        """Return N."""
        return self.rows.shape[0]

    def __matmul__(self, block: Tensor) -> Tensor:
        return self.rows.product(self.values, block)

    def gram(self, block: Tensor) -> Tensor:
        """Return ``A^T A`` times vectors that are given in rows: ``(b, N) -> (b, N)``."""
        return self.columns.product(self.turned, self @ block.t().contiguous()).t()


def _by_row(row: Tensor, column: Tensor, values: Tensor, size: int) -> tuple[SparseRows, Tensor]:
    ordered, order = row.int().sort(stable=True)
    pointer = torch.searchsorted(ordered, torch.arange(size + 1, dtype=torch.int, device=row.device))
    return SparseRows(pointer, column[order], (size, size)), values[order]


def largest_singular(matrix: SparseMatrix, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    r"""Return left vectors, values and right vectors, ``(N, k), (k,), (k, N)``, largest first, for ``k = rank < N``.

    Block Lanczos with full reorthogonalisation on :math:`G = A^T A`. With an orthonormal basis :math:`Q` of the span
    of :math:`X, G X, G^2 X, \dots` for a random block :math:`X`,

    .. math:: Q^T G Q = S \Theta S^T, \qquad V = Q S_k, \qquad U = A V \Theta_k^{-1/2}

    until :math:`\lVert G v_i - \theta_i v_i \rVert` is small for the largest ``k``. The start has a fixed seed, so that
    the vectors depend on the matrix and the kind of device alone; those of values that are 0 are left to chance on the
    right and 0 on the left. Memory is O(E + N m) for m vectors in the basis, some 10 k for small k and 4 k for large.
    """
    width = WIDTH
    while True:
        space = Krylov(matrix, min(width, matrix.size), room=4 * rank + 256)
        squares, right = grow(space, rank)
        if space.complete or not occurs_often(squares, width):
            break
        width *= 2
    values = squares.clamp(min=0).sqrt()
    values = torch.where(values > NEGLIGIBLE * values[0], values, 0)
    left = (matrix @ right.t().contiguous()) / torch.where(values > 0, values, torch.inf)
    return left, values, right


def grow(space: Krylov, rank: int) -> tuple[Tensor, Tensor]:
    """Return the ``rank`` largest eigenvalues of ``A^T A``, ``(k,)``, and their vectors, ``(k, N)``."""
    wanted = 2.0 * rank + 64
    while True:
        while space.size < wanted and not space.complete:
            space.extend()
        squares, rotation, residuals = space.ritz(rank)
        if space.complete or bool((residuals <= RESIDUAL * squares[0]).all()):
            return squares, rotation.t() @ space.basis[: space.size]
        wanted = STRIDE * space.size


def occurs_often(squares: Tensor, times: int) -> bool:
    """Return whether one of the values above the last, ``(k,)`` in descending order, occurs that many times.

    >>> occurs_often(torch.tensor([3.0, 2.0, 2.0, 1.0]), 2), occurs_often(torch.tensor([3.0, 2.0, 1.0, 1.0]), 2)
    (True, False)
    """
    same = RESIDUAL * squares[0]
    above = squares[squares > squares[-1] + same]
    count = above.numel() - times + 1
    return count > 0 and bool((above[:count] - above[times - 1 :] <= same).any())


class Krylov:
    """An orthonormal basis Q of the span of ``X, G X, G^2 X, ...`` for ``G = A^T A`` and a random block X.

    Attributes:
        size: m, how many vectors the basis has.
        last: where the last block begins.
        basis: ``(room, N)`` the vectors, in the first m rows.
        projected: ``(room, room)`` the lower triangle of ``Q^T G Q``, in the first m rows and columns.
        block: ``(b, N)`` the vectors that come next.
        coupling: ``(b, b)`` what G times the last block has outside the basis, as columns: coordinates of equal length.
        scale: () the largest norm of G times a block.
    """

    def __init__(self, matrix: SparseMatrix, width: int, room: int) -> None:
        self.matrix, self.generator = matrix, torch.Generator().manual_seed(0)
        self.size, self.last = 0, 0
        self.basis = matrix.values.new_empty(room, matrix.size)
        self.projected = matrix.values.new_zeros(room, room)
        self.coupling, self.scale = matrix.values.new_zeros(width, width), matrix.values.new_zeros(())
        self.block = self._outside(self.random(width))

    @property
    def complete(self) -> bool:
        """Return whether the basis spans everything."""
        return self.size == self.matrix.size

    def random(self, width: int) -> Tensor:
        """Return the next random vectors, ``(b, N)``: the same on every device."""
        drawn = torch.randn(width, self.matrix.size, dtype=torch.float64, generator=self.generator)
        return drawn.to(self.basis.device)

    def extend(self) -> None:
        """Take the next block X into the basis, and what ``G X`` adds to the span as the one after it.

        ``G X`` meets no more of the basis than X and the block before it, since G is symmetric and takes every earlier
        block into the span of those up to the next.
        """
        before, self.last = self.last, self.size
        self._append(self.block)
        near = self.basis[before : self.size]
        image = self.matrix.gram(self.block)
        share = (near @ image.t()).t()  # (b, c)
        self.projected[self.last : self.size, before : self.size] = share
        self.scale = torch.maximum(self.scale, image.norm())
        rest, self.coupling = torch.linalg.qr(torch.addmm(image, share, near, alpha=-1).t())
        self.block = self._outside(self._filled(rest)[: self.matrix.size - self.size])

    def ritz(self, rank: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return eigenvalues of ``Q^T G Q`` (largest first), their vectors and residuals, ``(k,), (m, k), (k,)``."""
        squares, rotation = torch.linalg.eigh(self.projected[: self.size, : self.size])
        squares, rotation = squares[-rank:].flip(0), rotation[:, -rank:].flip(1)
        return squares, rotation, (self.coupling @ rotation[self.last :]).norm(dim=0)

    def _append(self, block: Tensor) -> None:
        """Append vectors, ``(b, N)``, to the basis, with room for half as many again where there was none."""
        self.size += len(block)
        if self.size > len(self.basis):
            more = self.size + self.size // 2 - len(self.basis)
            self.basis = torch.cat([self.basis, self.basis.new_empty(more, self.matrix.size)])
            self.projected = F.pad(self.projected, (0, more, 0, more))
        self.basis[self.last : self.size] = block

    def _filled(self, rest: Tensor) -> Tensor:
        """Return the directions of what the last block adds, and random ones where it is mere rounding.

        The matrix of b x b is too small for an accelerator and left to the CPU.

        Args:
            rest: ``(N, b)`` an orthonormal basis of what is added, in which ``coupling`` gives it.

        Returns:
            ``(b, N)``, not yet orthonormal.
        """
        rotation, lengths, _ = torch.linalg.svd(self.coupling.cpu())
        known = int((lengths > VANISHED * float(self.scale)).sum())
        if known == len(lengths):
            return rest.t()
        return torch.cat([rotation[:, :known].t().to(rest) @ rest.t(), self.random(len(lengths) - known)])

    def _outside(self, block: Tensor) -> Tensor:
        """Return an orthonormal basis of what the vectors have outside the span: ``(b, N) -> (b, N)``."""
        basis = self.basis[: self.size]
        return torch.linalg.qr(torch.addmm(block, (basis @ block.t()).t(), basis, alpha=-1).t()).Q.t()
