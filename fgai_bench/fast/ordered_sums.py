"""Add rows up by index, and multiply sparse matrices, each sum in the order in which its terms are given.

The library's own ``index_add`` and sparse products add on a GPU in whatever order the threads arrive, so that two
trainings from one seed drift apart. Here every sum has one order, that of its entries.
"""

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

CHUNK = 128
"""Entries of a row that one program adds; the sums of a longer row's chunks are added in their order."""


class _SumAt(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, index: Tensor, size: int) -> Tensor:
        ctx.save_for_backward(index)
        if not values.is_cuda:
            return values.new_zeros(size, *values.shape[1:]).index_add_(0, index, values)
        ordered, order = index.sort(stable=True)
        offsets = torch.searchsorted(ordered, torch.arange(size + 1, device=index.device))
        rows = values.index_select(0, order).flatten(1) if values.dim() > 1 else values.index_select(0, order)
        total = torch.segment_reduce(rows, "sum", offsets=offsets, axis=0, unsafe=True, initial=0)
        return total.view(size, *values.shape[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (index,) = ctx.saved_tensors
        return grad.index_select(0, index), None, None


def sum_at(index: Tensor, values: Tensor, size: int) -> Tensor:
    """Return ``out_i = sum_{e: index(e) = i} values_e`` in the order of e: ``(E,), (E, ...) -> (size, ...)``.

    >>> sum_at(torch.tensor([1, 0, 1]), torch.tensor([1.0, 2.0, 3.0]), size=3).tolist()
    [2.0, 4.0, 0.0]
    """
    return _SumAt.apply(values, index, size)


class _RowsAt(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.size = len(values)
        return values.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        return sum_at(index, grad, ctx.size), None


def rows_at(index: Tensor, values: Tensor) -> Tensor:
    """Return ``values_index(e)`` for each e, ``(E,), (N, ...) -> (E, ...)``: its gradient is :func:`sum_at`."""
    return _RowsAt.apply(values, index)


@dataclass(frozen=True)
class SparseRows:
    """The positions of the non-zeros of an ``(R, C)`` matrix, row by row (CSR).

    Attributes:
        pointer: ``(R + 1,)`` where the entries of each row begin.
        column: ``(nnz,)`` the column of each entry.
        shape: ``(R, C)``.
    """

    pointer: Tensor
    column: Tensor
    shape: tuple[int, int]

    @cached_property
    def chunks(self) -> tuple[Tensor, Tensor]:
        """Return how the rows are shared among programs, in pieces of at most ``CHUNK``, at least one for each row.

        ``(R + 1,)`` the first piece of each row, and ``(pieces,)`` the row of each piece, R for those beyond the last:
        their number is a bound, so that nothing is read back from the device.
        """
        count = ((self.pointer.diff() + CHUNK - 1) // CHUNK).clamp(min=1)  # (R,)
        first = torch.cat([count.new_zeros(1), count.cumsum(0)])
        pieces = torch.arange(count.numel() + self.column.numel() // CHUNK, device=self.pointer.device)
        return first.int(), (torch.searchsorted(first, pieces, right=True) - 1).int()

    @cached_property
    def short_column(self) -> Tensor:
        """Return the columns in 32 bits, as kernels read them."""
        return self.column.int()

    def product(self, values: Tensor, dense: Tensor) -> Tensor:
        """Return the product of the matrix with these ``values`` and a dense one: ``(nnz,), (C, M) -> (R, M)``.

        >>> rows = SparseRows(torch.tensor([0, 2, 3]), torch.tensor([0, 1, 0]), (2, 2))
        >>> rows.product(torch.tensor([1.0, 2.0, 3.0]), torch.eye(2)).tolist()
        [[1.0, 2.0], [3.0, 0.0]]
        """
        if not dense.is_cuda:
            # The reduce form is torch's own multi-threaded kernel; the plain product waits for a vendor library.
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
                matrix = torch.sparse_csr_tensor(self.pointer, self.column, values, self.shape, check_invariants=False)
            return torch.sparse.mm(matrix, dense, "sum")
        try:
            from fgai_bench.fast.triton_product import product
        except ImportError:  # no Triton
            row = torch.repeat_interleave(torch.arange(self.shape[0], device=dense.device), self.pointer.diff())
            return sum_at(row, values.unsqueeze(1) * dense.index_select(0, self.column), self.shape[0])
        return product(self.pointer, self.short_column, *self.chunks, CHUNK, values, dense)
