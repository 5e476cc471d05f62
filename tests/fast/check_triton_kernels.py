"""Print the errors of the sparse product and of the solvers of small matrices, each against torch's own.

Run with the device as its argument; ``TRITON_INTERPRET=1`` runs the kernels on a CPU.
"""

from __future__ import annotations

import sys
import warnings

import torch

from fgai_bench.fast import triton_small_matrices
from fgai_bench.fast.ordered_sums import CHUNK, SparseRows
from fgai_bench.fast.triton_product import product


def of_product(device: str) -> float:
    """Rows from empty to many pieces long, one width that fills a tile and one that does not."""
    draw, largest = torch.Generator().manual_seed(0), 0.0
    dense = torch.randn(12, 3 * CHUNK, generator=draw, dtype=torch.float64)
    dense *= torch.rand(dense.shape, generator=draw) < torch.linspace(0, 1, 12)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sparse = dense.to_sparse_csr().to(device)
    rows = SparseRows(sparse.crow_indices(), sparse.col_indices(), (12, 3 * CHUNK))
    for width, kind in ((5, torch.float64), (160, torch.float32)):
        other = torch.randn(3 * CHUNK, width, generator=draw, dtype=kind).to(device)
        given = (rows.pointer, rows.short_column, *rows.chunks, CHUNK)
        found, again = (product(*given, sparse.values().to(kind), other) for _ in range(2))
        if not torch.equal(found, again):
            return float("inf")
        expected = dense.to(device, kind) @ other
        largest = max(largest, float((found - expected).abs().max() / expected.abs().max()))
    return largest


def of_small_matrices(device: str) -> tuple[float, float]:
    """A factor of a nearly singular Gram matrix, and the eigenvectors of a matrix with equal eigenvalues."""
    draw = torch.Generator().manual_seed(0)
    block = torch.randn(50, 9, generator=draw, dtype=torch.float64) * torch.logspace(0, -4, 9, dtype=torch.float64)
    basis = block.to(device) @ triton_small_matrices.inverse_factor((block.T @ block).to(device), 1e-300).T
    unit = torch.eye(9, dtype=torch.float64, device=device)
    rotation = torch.linalg.qr(torch.randn(9, 9, generator=draw, dtype=torch.float64))[0]
    values = torch.tensor([2.0, 2.0, 1.0, 0.0, 0.0, -1.0, -3.0, -3.0, 5.0], dtype=torch.float64)
    matrix = (rotation * values @ rotation.T).to(device)
    found, vectors = triton_small_matrices.eigen(matrix)
    errors = (matrix @ vectors - vectors * found, vectors.T @ vectors - unit)
    return float((basis.T @ basis - unit).abs().max()), max(float(error.abs().max()) for error in errors)


if __name__ == "__main__":
    print(of_product(sys.argv[1]), *of_small_matrices(sys.argv[1]))
