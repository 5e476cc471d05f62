"""Find what an attacked graph changed: the features of existing nodes, dense or sparse."""

from __future__ import annotations

import torch
from torch import Tensor

from fgai_bench.fast.ordered_sums import sum_at


def row_differences(before: Tensor, after: Tensor) -> Tensor:
    """Return the largest absolute change of an entry in each original row, dense or CSR: ``(N, F), (M, F) -> (N,)``.

    >>> row_differences(torch.tensor([[0.0, 1.0], [2.0, 0.0]]), torch.tensor([[0.0, 1.0], [2.0, 3.0], [9.0, 9.0]]))
    tensor([0., 3.])
    """
    rows = before.shape[0]
    if before.layout != torch.sparse_csr:
        return before.new_zeros(rows) if before is after else (after[:rows] - before).abs().amax(1)
    nnz = before.values().numel()
    same = torch.equal(after.crow_indices()[: rows + 1], before.crow_indices())
    if same and torch.equal(after.values()[:nnz], before.values()) and _same_columns(before, after, nnz):
        return before.values().new_zeros(rows)
    return _sparse_row_difference(before, after)


def _same_columns(before: Tensor, after: Tensor, nnz: int) -> bool:
    return torch.equal(after.col_indices()[:nnz], before.col_indices())


def _sparse_row_difference(before: Tensor, after: Tensor) -> Tensor:
    """Largest absolute difference per original row of two CSR matrices: ``(N,)``."""
    coo = [m.to_sparse_coo().coalesce() for m in (before, after)]
    rows, columns = before.shape[0], before.shape[1]
    keys, values = [], []
    for sign, m in zip((-1, 1), coo, strict=True):
        (row, column), value = m.indices(), m.values()
        inside = row < rows
        keys.append(row[inside] * columns + column[inside])
        values.append(sign * value[inside])
    unique, inverse = torch.unique(torch.cat(keys), return_inverse=True)
    totals = sum_at(inverse, torch.cat(values), unique.numel()).abs()
    return totals.new_zeros(rows).scatter_reduce_(0, unique // columns, totals, "amax")
