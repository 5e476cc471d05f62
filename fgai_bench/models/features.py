"""Project node features: ``x W`` for dense or sparse CSR features, with dropout and normalisation."""

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fgai_bench.data.graph import select_rows
from fgai_bench.fast.cached_results import OncePerTensor
from fgai_bench.fast.ordered_sums import SparseRows
from fgai_bench.models.kernels.numba_threads import runs_compiled

Norm = Literal["none", "row", "layer"]


Pattern = tuple[SparseRows, SparseRows, Tensor]


@OncePerTensor
def _pattern(x: Tensor) -> Pattern:
    """Return the positions of the non-zeros in a CSR matrix and in its transpose, and where each goes in the latter."""
    crow, col, (rows, columns) = x.crow_indices(), x.col_indices(), x.shape
    row = torch.repeat_interleave(torch.arange(rows, device=x.device), crow.diff())  # (nnz,)
    to_transpose = (col * rows + row).argsort()
    counts = torch.bincount(col, minlength=columns)
    crow_t = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    return SparseRows(crow, col, (rows, columns)), SparseRows(crow_t, row[to_transpose], (columns, rows)), to_transpose


class _SparseProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: Tensor, pattern: Pattern) -> Tensor:
        ctx.save_for_backward(values)
        rows, *ctx.transposed = pattern
        return rows.product(values, weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, None]:
        (values,), (transposed, order) = ctx.saved_tensors, ctx.transposed
        return None, transposed.product(values[order], grad.contiguous()), None


def feature_product(x: Tensor, weight: Tensor, dropout: float = 0.0, training: bool = False) -> Tensor:
    """Return ``dropout(x) @ weight``: ``(N, F), (F, C) -> (N, C)``; x dense or sparse CSR.

    Zeros stay zero under dropout, so for sparse features only the stored values are dropped. Features in CSR are
    constants: no gradient flows to them.
    """
    if training and dropout > 0 and runs_compiled(weight):
        return _compiled_product(x, weight, dropout)
    if x.layout != torch.sparse_csr:
        return F.dropout(x, dropout, training) @ weight
    values = F.dropout(x.values(), dropout, training)
    return _SparseProduct.apply(values, weight, _pattern(x))


def _compiled_product(x: Tensor, weight: Tensor, dropout: float) -> Tensor:
    """Return ``dropout(x) @ weight`` by CPU kernels; with constant features the dropped entries cost nothing."""
    from fgai_bench.models.kernels import numba_product

    seed = int(torch.randint(2**31 - 1, (1,)))  # from the generator that the plain path draws from
    if x.requires_grad:
        return numba_product.dropout(x, dropout, seed) @ weight
    return numba_product.dropped_product(x, weight, dropout, seed)


def row_sums(x: Tensor, of: Callable[[Tensor], Tensor] = lambda value: value) -> Tensor:
    """Return ``sum_f of(x_f)`` per row, for ``of`` with ``of(0) = 0``: ``(N, F) -> (N, 1)``; x dense or sparse CSR."""
    if x.layout != torch.sparse_csr:
        return of(x).sum(1, keepdim=True)
    return torch.segment_reduce(of(x.values()), "sum", offsets=x.crow_indices(), unsafe=True).unsqueeze(1)


def dense_rows(x: Tensor, rows: Tensor) -> Tensor:
    """Return the given rows of ``x`` as a dense matrix: ``(N, F), (R,) -> (R, F)``; x dense or sparse CSR."""
    return select_rows(x, rows).to_dense()


def append_rows(x: Tensor, rows: Tensor) -> Tensor:
    """Append dense rows to ``x``, in the layout of ``x``: ``(N, F), (R, F) -> (N + R, F)``."""
    if x.layout != torch.sparse_csr:
        return torch.cat([x, rows])
    full = torch.arange(x.shape[1], device=x.device).repeat(rows.shape[0])  # every column of every new row
    ends = x.crow_indices()[-1] + x.shape[1] * torch.arange(1, rows.shape[0] + 1, device=x.device)
    return torch.sparse_csr_tensor(
        torch.cat([x.crow_indices(), ends]),
        torch.cat([x.col_indices(), full]),
        torch.cat([x.values(), rows.flatten()]),
        (x.shape[0] + rows.shape[0], x.shape[1]),
        check_invariants=False,
    )


def replace_rows(x: Tensor, place: Tensor, rows: Tensor) -> Tensor:
    """Copy ``x`` with its rows ``place`` set to ``rows``, in the same layout: ``(N, F), (R,), (R, F) -> (N, F)``."""
    if x.layout != torch.sparse_csr:
        return x.index_copy(0, place, rows)
    before = x.to_sparse_coo().coalesce()
    kept = ~torch.isin(before.indices()[0], place) & (before.values() != 0)
    row, column = rows.nonzero(as_tuple=True)
    indices = torch.cat([before.indices()[:, kept], torch.stack([place[row], column])], dim=1)
    values = torch.cat([before.values()[kept], rows[row, column]])
    return torch.sparse_coo_tensor(indices, values, x.shape, check_invariants=False).coalesce().to_sparse_csr()


class FeatureProjection(nn.Module):
    """Compute ``norm(x) W``, node-wise, without ever building the normalised features.

    ``norm`` is the identity, ``x / sum(|x|)`` (``row``), or layer normalisation with learned scale and shift
    (``layer``): ``((x - mean) / std * gamma + beta) W = (x (gamma W) - mean (gamma^T W)) / std + beta^T W``,
    which keeps sparse features sparse. Dropout acts on the entries of x.

    Shapes: ``(N, in_channels) -> (N, out_channels)``.
    """

    def __init__(
        self, in_channels: int, out_channels: int, dropout: float = 0.0, norm: Norm = "none", bias: bool = False
    ) -> None:
        super().__init__()
        self.dropout, self.norm = dropout, norm
        bound = math.sqrt(6 / (in_channels + out_channels))
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None
        if norm == "layer":
            self.gamma = nn.Parameter(torch.ones(in_channels))
            self.beta = nn.Parameter(torch.zeros(in_channels))

    def forward(self, x: Tensor) -> Tensor:
        if self.norm == "layer":
            h = self._layer_normalised(x)
        else:
            h = feature_product(x, self.weight, self.dropout, self.training)
            if self.norm == "row":
                h = h / row_sums(x, torch.abs).clamp(min=1e-12)
        return h if self.bias is None else h + self.bias

    def _layer_normalised(self, x: Tensor, epsilon: float = 1e-5) -> Tensor:
        mean = row_sums(x) / x.shape[1]  # (N, 1)
        variance = (row_sums(x, torch.square) / x.shape[1] - mean.square()).clamp(min=0)
        scaled = self.gamma.unsqueeze(1) * self.weight  # (F, C)
        centred = feature_product(x, scaled, self.dropout, self.training) - mean * scaled.sum(0)
        return centred * (variance + epsilon).rsqrt() + self.beta @ self.weight
