"""Factor and diagonalise small symmetric matrices where their tensors live; on CUDA nothing is read back."""

from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

FLOOR = 1e-15
"""Of the pivots of a matrix with ones on its diagonal: columns that depend on others become noise, not infinite."""


@cache
def triton_is_here() -> bool:
    """Tell whether Triton can be imported."""
    return find_spec("triton") is not None


def inverse_factor(gram: Tensor) -> Tensor:
    """Return ``L^{-1}`` of ``G = L L^T``, a matrix with ones on its diagonal: ``(m, m) -> (m, m)`` in float64.

    >>> inverse_factor(torch.tensor([[1.0, 0.6], [0.6, 1.0]], dtype=torch.float64))
    tensor([[ 1.0000,  0.0000],
            [-0.7500,  1.2500]], dtype=torch.float64)
    """
    if gram.is_cuda and triton_is_here():
        from fgai_bench.fast import triton_small_matrices

        return triton_small_matrices.inverse_factor(gram, FLOOR)
    unit = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    return torch.linalg.solve_triangular(torch.linalg.cholesky_ex(gram + FLOOR * unit)[0], unit, upper=False)


def eigen(symmetric: Tensor, rough: bool = False) -> tuple[Tensor, Tensor]:
    """Return the eigenvalues, largest first, and their vectors in columns: ``(m, m) -> (m,), (m, m)`` in float64.

    On CUDA, rough ones take half as long and are right to some digits.

    >>> values, vectors = eigen(torch.tensor([[1.0, 2.0], [2.0, 1.0]], dtype=torch.float64))
    >>> values.tolist(), vectors.abs().round(decimals=4).tolist()
    ([3.0, -1.0], [[0.7071, 0.7071], [0.7071, 0.7071]])
    """
    if symmetric.is_cuda and triton_is_here():
        from fgai_bench.fast import triton_small_matrices

        values, vectors = triton_small_matrices.eigen(symmetric, rough)
        values, order = values.sort(descending=True)
        return values, vectors[:, order]
    values, vectors = torch.linalg.eigh(symmetric)
    return values.flip(0), vectors.flip(1)
