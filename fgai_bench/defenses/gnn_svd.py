"""Define GNN-SVD (Entezari et al. 2020, https://doi.org/10.1145/3336191.3371789): a GCN on a low-rank graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from fgai_bench.defenses.deeprobust_gcn import (
    Aggregation,
    GCNModel,
    GCNOptions,
    ReplacedModel,
    inverse_root,
    normalised,
    quiet,
)
from fgai_bench.fast.ordered_sums import SparseRows, sum_at
from fgai_bench.models.sorted_edges import OncePerGraph
from fgai_bench.options import OWN_NETWORK, Choice, Space

with quiet():
    from deeprobust.graph.defense import GCNSVD

WIDTH = 8
"""Vectors of a block, and copies of one singular value that it finds; where there are more, the block is widened."""
RESIDUAL = 1e-10
"""Of the slowest pair at the end, over the largest squared singular value."""
NEGLIGIBLE = 1e-7
"""Singular value over the largest below which it is rounding: the square has half of the digits."""
GROWTH = 1.1
"""By how much the basis grows from one test for convergence to the next."""


@dataclass(frozen=True)
class LowRank:
    """A low-rank graph ``A_k = left core right``: ``(N, k), (k, k), (k, N)``."""

    left: Tensor
    core: Tensor
    right: Tensor

    def dense(self) -> Tensor:
        """Return ``A_k`` itself: ``(N, N)``."""
        return self.left @ self.core @ self.right

    def product(self, h: Tensor) -> Tensor:
        """Return ``A_k h`` through the factors: ``(N, D) -> (N, D)``."""
        return self.left @ (self.core @ (self.right @ h))


def truncated_svd(edge_index: Tensor, num_nodes: int, rank: int, edge_weight: Tensor | None = None) -> LowRank:
    """Return the ``rank`` largest singular values of the adjacency (destinations in the rows) and their vectors.

    >>> low = truncated_svd(torch.tensor([[0, 1], [1, 0]]), 2, rank=2)
    >>> low.dense().round(decimals=4).abs().tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    source, destination = edge_index
    weight = torch.ones_like(source) if edge_weight is None else edge_weight.detach()
    matrix = SparseMatrix.of(destination, source, weight.double(), num_nodes)
    if num_nodes <= 4 * rank:  # the iteration needs room above the rank; so small a matrix is left to the CPU
        left, values, right = torch.linalg.svd((matrix @ torch.eye(num_nodes).to(matrix.values)).cpu())
        left, values, right = left[:, :rank], values[:rank], right[:rank]
    else:
        left, values, right = largest_singular(matrix, rank)
    return LowRank(*(part.float().to(source.device) for part in (left, values.diag(), right)))


@dataclass(frozen=True)
class SparseMatrix:
    """A matrix A, (N, N) in float64, by its rows and by those of its transpose.

    Attributes:
        rows, values: positions of the entries of A, and (nnz,) the entries.
        columns, transposed: the same of ``A^T``.
    """

    rows: SparseRows
    values: Tensor
    columns: SparseRows
    transposed: Tensor

    @classmethod
    def of(cls, row: Tensor, column: Tensor, values: Tensor, size: int) -> SparseMatrix:
        """Return the matrix of these entries, (nnz,) each; those at the same place add up."""
        return cls(*_by_row(row, column, values, size), *_by_row(column, row, values, size))

    def __matmul__(self, block: Tensor) -> Tensor:
        return self.rows.product(self.values, block.contiguous())

    def gram(self, block: Tensor) -> Tensor:
        """Return ``A^T A`` times a block: ``(N, b) -> (N, b)``."""
        return self.columns.product(self.transposed, self @ block)


def _by_row(row: Tensor, column: Tensor, values: Tensor, size: int) -> tuple[SparseRows, Tensor]:
    ordered, order = row.sort(stable=True)
    pointer = torch.searchsorted(ordered, torch.arange(size + 1, device=row.device))
    return SparseRows(pointer, column[order], (size, size)), values[order]


def largest_singular(matrix: SparseMatrix, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    r"""Return left vectors, values and right vectors, ``(N, k), (k,), (k, N)``, largest first, for ``k = rank < N``.

    Block Lanczos with full reorthogonalisation on :math:`G = A^T A`. With an orthonormal basis :math:`Q` of the span
    of :math:`X, G X, G^2 X, \dots` for a random block :math:`X`,

    .. math:: Q^T G Q = S \Theta S^T, \qquad V = Q S_k, \qquad U = A V \Theta_k^{-1/2}

    until :math:`\lVert G v_i - \theta_i v_i \rVert` is small for the largest ``k``. The start has a fixed seed, so that
    the vectors depend on the matrix and the kind of device alone. The left vector of a value 0 is 0.
    """
    width = WIDTH
    squares, right = _lanczos(matrix, rank, width)
    while width < right.shape[0] and occurs_often(squares, width):
        width *= 2
        squares, right = _lanczos(matrix, rank, width)
    values = squares.clamp(min=0).sqrt()
    values = torch.where(values > NEGLIGIBLE * values[0], values, 0)
    left = (matrix @ right) / torch.where(values > 0, values, torch.inf)
    return left, values, right.t()


def _lanczos(matrix: SparseMatrix, rank: int, width: int) -> tuple[Tensor, Tensor]:
    """Return the ``rank`` largest eigenvalues of ``A^T A``, ``(k,)``, and their vectors, ``(N, k)``."""
    size, device = matrix.rows.shape[0], matrix.values.device
    start = torch.randn(size, min(width, size), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    block = torch.linalg.qr(start.to(device)).Q  # (N, b)
    basis, projected, tested = block[:, :0], block.new_zeros(0, 0), 0.0
    while True:
        before, after = basis.shape[1], basis.shape[1] + block.shape[1]
        basis = torch.cat([basis, block], 1)  # (N, m)
        image = matrix.gram(block)
        share = basis.t() @ image  # (m, b)
        projected = torch.nn.functional.pad(projected, (0, after - before, 0, after - before))  # Q^T G Q
        projected[:, before:], projected[before:] = share, share.t()
        rest, coupling = torch.linalg.qr(image - basis @ share)
        if after >= GROWTH * tested or after == size:
            tested = after
            squares, rotation = torch.linalg.eigh(projected)
            squares, rotation = squares[-rank:].flip(0), rotation[:, -rank:].flip(1)
            residuals = (coupling @ rotation[before:]).norm(dim=0)
            if after == size or bool((residuals <= RESIDUAL * squares[0]).all()):
                return squares, basis @ rotation
        block = torch.linalg.qr(rest - basis @ (basis.t() @ rest)).Q[:, : size - after]


def occurs_often(squares: Tensor, times: int) -> bool:
    """Return whether one of the values above the last, ``(k,)`` in descending order, occurs that many times.

    >>> occurs_often(torch.tensor([3.0, 2.0, 2.0, 1.0]), 2), occurs_often(torch.tensor([3.0, 2.0, 1.0, 1.0]), 2)
    (True, False)
    """
    same = RESIDUAL * squares[0]
    above = squares[squares > squares[-1] + same]
    count = above.numel() - times + 1
    return count > 0 and bool((above[:count] - above[times - 1 :] <= same).any())


@cache
def _known_low_rank(rank: int) -> Any:
    return OncePerGraph(lambda edge_index, num_nodes: truncated_svd(edge_index, num_nodes, rank))


def low_rank(edge_index: Tensor, num_nodes: int, rank: int, edge_weight: Tensor | None = None) -> LowRank:
    """Return the low-rank graph, computed once per graph; with weights, differentiable in them.

    With weights the core is ``left^T A_w right^T``: its value is that of the singular values, and its gradient the
    exact gradient with the singular vectors held fixed.
    """
    if edge_weight is None:
        return _known_low_rank(rank)(edge_index, num_nodes)
    factors = truncated_svd(edge_index, num_nodes, rank, edge_weight)
    messages = edge_weight.unsqueeze(1) * factors.right.t()[edge_index[0]]  # (E, k)
    spread = sum_at(edge_index[1], messages, num_nodes)  # (N, k)
    return LowRank(factors.left, factors.left.t() @ spread, factors.right)


class GNNSVDModel(GCNModel):
    """DeepRobust's GCNSVD: a GCN on ``D^(-1/2) (A_k + I) D^(-1/2)``, where ``A_k`` is the truncated SVD of the graph.

    Every input graph gets its own decomposition. Row sums of a low-rank graph may be negative: such a node
    gets degree 0 (GCNSVD gets NaN there).

    Args:
        rank: k, how many singular values are kept.
        dense: build ``A_k`` as an N x N matrix instead of multiplying through its factors; the same function.
        arguments: as in :class:`GCNModel`.
    """

    global_because = "its low-rank graph depends on all edges"

    network_class = GCNSVD
    defaults: ClassVar[dict[str, Any]] = {"rank": 15, "dense": False}

    def recordable(self, new_edges: bool) -> bool:
        return not new_edges and not self.config["dense"]

    def structure(self, profile: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Aggregation:
        low = low_rank(edge_index, profile.shape[0], self.config["rank"], edge_weight)
        if self.config["dense"]:
            adjacency = normalised(low.dense())
            return lambda h: adjacency @ h
        scale = inverse_root(low.product(torch.ones_like(low.left[:, :1])) + 1)  # (N, 1)
        return lambda h: scale * (low.product(scale * h) + scale * h)


class GNNSVDOptions(GCNOptions):
    """The size of the network, and ``rank``: how many singular values are kept."""

    rank: int = Field(15, ge=1)


class GNNSVDSparse(ReplacedModel):
    """GNN-SVD through the factors of the low-rank graph; options as in :class:`GNNSVDOptions`."""

    name = "gnn-svd-sparse"
    summary = "GNN-SVD through the factors of the low-rank graph: the same function, for large graphs"
    paper = "https://doi.org/10.1145/3336191.3371789"
    version = "3"  # a shorter block Lanczos: other last bits
    tags: ClassVar[tuple[str, ...]] = ("node", "replaces-model", "no-attention")
    options_class = GNNSVDOptions
    model_class = GNNSVDModel
    search_space: ClassVar[Space | None] = {**OWN_NETWORK, "defense.rank": Choice(5, 15, 50, 150)}


class GNNSVD(GNNSVDSparse):
    """GNN-SVD with the low-rank graph as an N x N matrix; options as in :class:`GNNSVDOptions`."""

    name = "gnn-svd"
    summary = "GNN-SVD: a GCN on the truncated SVD of the graph (DeepRobust)"
    paper = "https://doi.org/10.1145/3336191.3371789"
    version = "3"  # a shorter block Lanczos: other last bits
    tags = ("node", "replaces-model", "no-attention", "dense")
    matrices = 6
    form: ClassVar[dict[str, Any]] = {"dense": True}
