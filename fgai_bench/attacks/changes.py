"""Find what an attacked graph changed: the features of existing nodes, dense or sparse."""

from __future__ import annotations

import torch
from torch import Tensor


def row_differences(before: Tensor, after: Tensor) -> Tensor:
    """Return the largest absolute change of an entry in each original row, dense or CSR: ``(N, F), (M, F) -> (N,)``.

    >>> row_differences(torch.tensor([[0.0, 1.0], [2.0, 0.0]]), torch.tensor([[0.0, 1.0], [2.0, 3.0], [9.0, 9.0]]))
    tensor([0., 3.])
    """
    rows = before.shape[0]
    if before.layout != torch.sparse_csr:
        return before.new_zeros(rows) if before is after else (after[:rows] - before).abs().amax(1)
    kept = after.to_sparse_coo().coalesce()
    inside = kept.indices()[0] < rows
    originals = torch.sparse_coo_tensor(
        kept.indices()[:, inside], kept.values()[inside], before.shape, check_invariants=False
    )
    change = (originals - before.to_sparse_coo()).coalesce()
    return before.values().new_zeros(rows).scatter_reduce_(0, change.indices()[0], change.values().abs(), "amax")
