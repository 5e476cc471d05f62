"""Apply dropout and project features on a CPU (Numba); dropped entries are never multiplied."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fgai_bench.models.kernels import numba_loops
from fgai_bench.models.kernels.numba_threads import over_rows


def _rows_of(count: int, length: int) -> Tensor:
    """Return where the rows of a dense matrix begin: ``(count + 1,)``."""
    return torch.arange(count + 1) * length


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float, seed: int) -> Tensor:
        ctx.p, ctx.seed = p, seed
        x, out = x.contiguous(), x.new_empty(x.shape)
        over_rows(numba_loops.dropout, _rows_of(*x.shape), x, seed, p, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _Dropout.apply(grad, ctx.p, ctx.seed), None, None


def dropout(x: Tensor, p: float, seed: int) -> Tensor:
    """Return ``x`` with a share p of its entries at zero and the others divided by 1 - p: ``(N, C) -> (N, C)``."""
    return _Dropout.apply(x, p, seed)


class _SparseProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, first: Tensor, columns: Tensor, kept: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(first, columns, kept)
        ctx.features = weight.shape[0]
        out = weight.new_empty(first.numel() - 1, weight.shape[1])
        over_rows(numba_loops.sparse_product, first, first, columns, kept, weight.contiguous(), out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, None, Tensor]:
        first, columns, kept = ctx.saved_tensors
        grad_weight = grad.new_empty(ctx.features, grad.shape[1])
        evenly = _rows_of(ctx.features, kept.numel() // max(1, ctx.features))
        over_rows(numba_loops.sparse_product_gradient, evenly, first, columns, kept, grad.contiguous(), grad_weight)
        return None, None, None, grad_weight


def dropped_product(x: Tensor, weight: Tensor, p: float, seed: int) -> Tensor:
    """Return ``dropout(x) @ weight`` for constant features, dense or sparse CSR: ``(N, F), (F, C) -> (N, C)``.

    Only the entries that are neither zero nor dropped are gathered and multiplied.
    """
    sparse = x.layout == torch.sparse_csr
    pointer = x.crow_indices() if sparse else _rows_of(*x.shape)
    column = x.col_indices() if sparse else pointer.new_empty(0)
    values = x.values() if sparse else x.detach().contiguous().view(-1)
    first = pointer.new_zeros(x.shape[0] + 1)
    over_rows(numba_loops.count_kept, pointer, pointer, values, seed, p, first[1:])
    first = first.cumsum(0)
    total = int(first[-1])
    columns, kept = torch.empty(total, dtype=torch.int32), values.new_empty(total)
    over_rows(numba_loops.gather_kept, pointer, pointer, column, values, seed, p, first, columns, kept)
    return _SparseProduct.apply(first, columns, kept, weight)
