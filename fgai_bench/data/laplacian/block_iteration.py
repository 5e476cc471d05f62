"""Compute the Laplacian's eigenvectors by block iteration in torch: few and large steps, made for an accelerator."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.utils import remove_self_loops, to_undirected

from fgai_bench.data.errors import DataError
from fgai_bench.fast.ordered_sums import SparseRows
from fgai_bench.fast.small_matrices import eigen, inverse_factor
from fgai_bench.seeds import uniform

GUARD_VECTORS = 16
"""Vectors beyond the wanted ones: the eigenvalue that ends the block decides how fast the wanted ones converge."""
RESIDUAL = 1e-8
"""Of the slowest vector at the end. The vectors are then off by some 1e-6: this over the distance to what lies outside
the block, 0.01 to 0.1 in citation, purchase and co-author graphs."""
LARGEST_GROWTH = 1e4
"""How far the error of one vector may grow in the others within a round, before they are orthogonalised again."""
NARROWEST_GAP = 1e-4
"""From the last wanted eigenvalue to the end of the filter, where a cluster of eigenvalues is wider than the block."""
MAX_DEGREE = 500
MAX_ROUNDS = 100


def block_eigenvectors(edge_index: Tensor, num_nodes: int, k: int) -> Tensor:
    r"""Return the ``k`` smallest non-trivial eigenvectors of the normalised Laplacian, on the device of ``edge_index``.

    Chebyshev-filtered subspace iteration on :math:`M = I - L`, whose wanted eigenvalues are the largest. A round
    multiplies a block of ``m = k + GUARD_VECTORS`` vectors by a polynomial in :math:`M` that is at most 1 on
    :math:`[-1, c]` and grows fast above :math:`c`, the smallest eigenvalue that the block has found so far; then it
    makes the block orthonormal and turns it into the best approximations of eigenvectors in its span:

    .. math:: Q = \mathrm{orth}(T_d(M_c) X), \qquad Q^T M Q = S \Theta S^T, \qquad X \leftarrow Q S

    until :math:`\lVert M x_j - \theta_j x_j \rVert` is small for the first ``k``. The start has a fixed seed: an
    encoding depends on its graph alone. Memory is O(E + N m).

    Shapes: (2, E) -> (N, min(k, N - components)), float64, columns of unit length, sorted by eigenvalue; zero at
    isolated nodes. Direction, order, loops and repetitions of edges do not matter.
    """
    rows, columns = to_undirected(remove_self_loops(edge_index)[0], num_nodes=num_nodes)
    matrix = Normalised.of(rows, columns, num_nodes)
    trivial = Trivial.of(connected_components(rows, columns, num_nodes), matrix.degree)
    dimension = num_nodes - trivial.count
    k = min(k, dimension)
    block = start_block(num_nodes, min(k + GUARD_VECTORS, dimension) if k else 0, edge_index.device)
    return iterate(matrix, trivial, block, k)[0] if k else block


def start_block(nodes: int, columns: int, device: torch.device) -> Tensor:
    """Return the start of the iteration, ``(N, m)`` in float64, which depends on the size alone."""
    return uniform((nodes, columns), 0, "laplacian", device).double() - 0.5


@dataclass(frozen=True)
class Normalised:
    """The matrix ``D^{-1/2} A D^{-1/2} = I - L``, (N, N) in float64; its spectrum lies in [-1, 1].

    Attributes:
        entries: positions of its entries.
        values: (nnz,) the entries.
        degree: (N,) number of neighbours of each node.
    """

    entries: SparseRows
    values: Tensor
    degree: Tensor

    @classmethod
    def of(cls, rows: Tensor, columns: Tensor, num_nodes: int, counted: Tensor | None = None) -> Normalised:
        """Return the matrix of the edges ``counted`` (nnz,), or of all, given in both directions and sorted by row."""
        pointer = torch.searchsorted(rows, torch.arange(num_nodes + 1, device=rows.device))
        counted = torch.ones_like(rows, dtype=torch.bool) if counted is None else counted
        before = F.pad(counted.cumsum(0), (1, 0))
        degree = before[pointer[1:]] - before[pointer[:-1]]
        scale = degree.clamp(min=1).double().rsqrt()
        values = scale[rows] * scale[columns] * counted
        return cls(SparseRows(pointer, columns, (num_nodes, num_nodes)), values, degree)

    def __matmul__(self, block: Tensor) -> Tensor:
        return self.entries.product(self.values, block)


@dataclass(frozen=True)
class Trivial:
    """The vectors ``D^{1/2} 1_C`` of eigenvalue 0, one for each connected component ``C``, of unit length.

    Attributes:
        component: (N,) the smallest node of each node's component.
        entry: (N, 1) each node's entry in the vector of its component; 1 at an isolated node.
        members: the nodes of each component, in the row of its smallest node.
    """

    component: Tensor
    entry: Tensor
    members: SparseRows

    @classmethod
    def of(cls, component: Tensor, degree: Tensor) -> Trivial:
        """Return the trivial vectors of a graph with these components and degrees, (N,) each."""
        nodes = component.numel()
        square = degree.clamp(min=1).double()
        total = torch.zeros_like(square).index_add_(0, component, square)  # of integers: exact in any order
        ordered, order = component.sort(stable=True)
        pointer = torch.searchsorted(ordered, torch.arange(nodes + 1, device=component.device))
        return cls(component, (square / total[component]).sqrt()[:, None], SparseRows(pointer, order, (nodes, nodes)))

    @property
    def count(self) -> int:
        """Return the number of components."""
        return int((self.component == torch.arange(self.component.numel(), device=self.component.device)).sum())

    def removed(self, block: Tensor) -> Tensor:
        """Return the part of each column that is orthogonal to every trivial vector: (N, m) -> (N, m)."""
        share = self.members.product(self.entry[self.members.column, 0], block)
        return block - self.entry * share[self.component]


def connected_components(rows: Tensor, columns: Tensor, num_nodes: int) -> Tensor:
    """Return the smallest node of each node's component, (N,), for edges given in both directions.

    Every node points at a smaller one of its component, at first itself. In a round it and the node that it points at
    turn to the smallest that a neighbour's pointer points at (FastSV, https://arxiv.org/abs/1910.05971); chains of
    pointers halve each time, so that the rounds grow with the logarithm of N.

    >>> connected_components(torch.tensor([0, 3, 1, 2]), torch.tensor([3, 0, 2, 1]), num_nodes=5)
    tensor([0, 1, 1, 0, 4])
    """
    pointer = torch.arange(num_nodes, device=rows.device)
    while True:
        lowest = lower_pointers(pointer, rows, columns)
        if torch.equal(lowest, pointer):
            return pointer
        pointer = lowest


def lower_pointers(pointer: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return the pointers after one round of :func:`connected_components`: (N,) -> (N,)."""
    far = pointer[pointer]
    lowest = far.scatter_reduce(0, rows, far[columns], "amin")
    return lowest.scatter_reduce(0, pointer, lowest, "amin")


class Round(NamedTuple):
    """One application of the filter: where the interval that is damped ends, and the degree of the polynomial."""

    cut: float
    degree: int


def iterate(matrix: Normalised, trivial: Trivial, block: Tensor, k: int) -> tuple[Tensor, list[Round]]:
    """Return the first ``k`` vectors, (N, k), and the rounds that it took to find them from this start, (N, m)."""
    rounds: list[Round] = []
    block = orthonormal(block, trivial)
    for _ in range(MAX_ROUNDS):
        found, block, largest = ritz(matrix, block)
        values, residuals = found.tolist(), largest.tolist()
        if max(residuals[:k]) <= RESIDUAL:
            return block[:, :k], rounds
        cut = max(min(values[-1], values[k - 1] - NARROWEST_GAP), NARROWEST_GAP - 1)
        rounds.append(Round(cut, _degree(values[:k], residuals[:k], cut)))
        block = orthonormal(filtered(matrix, trivial, block, rounds[-1]), trivial)
    nodes = block.shape[0]
    raise DataError(f"the Laplacian of this graph of {nodes} nodes does not converge in {MAX_ROUNDS} rounds")


def growth(value: float, cut: float) -> float:
    """Return ``a`` such that ``T_d``, stretched to be in [-1, 1] on ``[-1, cut]``, is ``cosh(a d)`` at ``value``.

    >>> growth(1.0, cut=0.0) == math.acosh(3)
    True
    """
    return math.acosh(max((2 * value + 1 - cut) / (1 + cut), 1 + 1e-12))


def _degree(values: list[float], residuals: list[float], cut: float) -> int:
    """Return the degree that lets all vectors converge, or the largest at which none of them dominates the block."""
    pairs = list(zip(values, residuals, strict=True))
    enough = max(math.acosh(max(2 * residual / RESIDUAL, 1)) / growth(value, cut) for value, residual in pairs)
    # the true eigenvalue may exceed its approximation by the residual, and then its vector grows faster
    safe = min(math.acosh(LARGEST_GROWTH / max(r, RESIDUAL)) / growth(min(value + r, 1), cut) for value, r in pairs)
    return max(2, math.ceil(min(enough, safe, MAX_DEGREE)))


def filtered(matrix: Normalised, trivial: Trivial, block: Tensor, turn: Round, cut: Tensor | None = None) -> Tensor:
    """Return ``T_degree`` of the matrix, stretched from [-1, cut] to [-1, 1], times the block: (N, m) -> (N, m).

    ``T_{j+1}(a) = 2 a T_j(a) - T_{j-1}(a)``. The trivial vectors, which rounding brings back, grow fastest of all: they
    are removed before they have grown by more than 1e8. ``cut``, (): that of the round, if only the device knows it.
    """
    end = block.new_full((), turn.cut) if cut is None else cut
    doubled = replace(matrix, values=matrix.values * (4 / (1 + end)))  # twice what is stretched
    shift = 2 * (1 - end) / (1 + end)
    every = max(1, int(math.acosh(1e8) / growth(1.0, turn.cut)))
    before, now = block, (doubled @ block).addcmul_(block, shift).div_(2)
    for step in range(1, turn.degree):
        if step % every == 0:
            before, now = trivial.removed(before), trivial.removed(now)
        before, now = now, (doubled @ now).addcmul_(now, shift).sub_(before)
    return now


def orthonormal(block: Tensor, trivial: Trivial) -> Tensor:
    """Return an orthonormal basis of the columns without the trivial vectors, (N, m) -> (N, m), by Cholesky twice."""
    for _ in range(2):
        block = trivial.removed(block)
        block = block / block.norm(dim=0)
        block = block @ inverse_factor(block.T @ block).T
    return block


def ritz(matrix: Normalised, basis: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return approximate eigenvalues (largest first), their vectors (N, m) and residuals, from an orthonormal basis."""
    image = matrix @ basis
    values, rotation = eigen(basis.T @ image)
    vectors = basis @ rotation
    return values, vectors, (image @ rotation - vectors * values).norm(dim=0)
