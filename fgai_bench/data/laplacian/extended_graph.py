"""Compute the Laplacian's eigenvectors of a graph that was extended by nodes, in the steps of the graph before.

An attack that injects nodes needs the encodings of a new graph in every epoch. The steps are those of the graph before,
so nothing is read back, and CUDA captures the solver with the epoch. Convergence is checked after the capture.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch_geometric.utils import remove_self_loops, to_undirected

from fgai_bench.data.errors import DataError
from fgai_bench.data.laplacian.block_iteration import (
    GUARD_VECTORS,
    NARROWEST_GAP,
    Normalised,
    Round,
    Trivial,
    block_eigenvectors,
    connected_components,
    filtered,
    growth,
    iterate,
    lower_pointers,
    orthonormal,
    ritz,
    start_block,
)
from fgai_bench.fast.cuda_graphs import capturing, check_when_left
from fgai_bench.fast.small_matrices import eigen

EXTRA_GROWTH = 10.0
"""By how much more the last round of a grown graph filters, since its spectrum may converge more slowly."""
ACCEPTED_RESIDUAL = 1e-5
"""Largest residual of a grown graph; with more it is solved anew. The real graphs have some 5e-9 with twenty nodes
more, wherever these hang, and 4e-6 with a hundred that each join three components."""


class UnconvergedError(DataError):
    """Raised when a graph that was solved inside a capture turns out not to have converged."""


@dataclass(frozen=True)
class Solved:
    """A solved graph, with everything that solving its extensions needs.

    Attributes:
        rows, columns: (nnz,) its edges in both directions, sorted by row, without loops and repetitions.
        component: (N,) the smallest node of each node's component.
        k: number of eigenvectors.
        rounds: the steps that lead to those of a grown graph; none where this one is too small to tell.
        largest: () largest residual of all graphs that grew out of it and have not been looked at.
    """

    rows: Tensor
    columns: Tensor
    component: Tensor
    k: int
    rounds: tuple[Round, ...]
    largest: Tensor

    @classmethod
    def of(cls, edge_index: Tensor, num_nodes: int, k: int) -> Solved:
        """Solve a graph by block iteration and keep the rounds that it took, the last one longer by the margin."""
        rows, columns = to_undirected(remove_self_loops(edge_index)[0], num_nodes=num_nodes)
        component = connected_components(rows, columns, num_nodes)
        matrix = Normalised.of(rows, columns, num_nodes)
        trivial = Trivial.of(component, matrix.degree)
        solved = cls(rows, columns, component, k, (), matrix.values.new_zeros(()))
        if num_nodes - trivial.count < k + GUARD_VECTORS:
            return solved
        start = start_block(num_nodes, k + GUARD_VECTORS, rows.device)
        solved = replace(solved, rounds=_rounds_to(matrix, trivial, start, k))
        check_when_left(solved.check)
        return solved

    def check(self) -> None:
        """Raise an :class:`UnconvergedError` if a graph solved since the last look did not converge."""
        residual = float(self.largest)
        self.largest.zero_()
        if not residual <= ACCEPTED_RESIDUAL:
            raise UnconvergedError(f"the Laplacian of a graph that grew in a capture is off by {residual:.1e}")

    def grown(self, new_edges: Tensor, num_nodes: int) -> Tensor:
        """Return the eigenvectors of the graph with more nodes and edges, (N', <= k), as ``block_eigenvectors`` does.

        ``new_edges``, (2, M), are those that the graph before lacks; direction and repetitions do not matter.
        """
        if not self.rounds:
            if capturing():
                raise DataError(f"a graph of {self.component.numel()} nodes is too small to capture what grows of it")
            every = torch.cat([torch.stack([self.rows, self.columns]), new_edges], dim=1)
            return block_eigenvectors(every, num_nodes, self.k)
        matrix = self._matrix(new_edges, num_nodes)
        graph = matrix, Trivial.of(self._components(new_edges, num_nodes), matrix.degree)
        start = start_block(num_nodes, self.k + GUARD_VECTORS, self.rows.device)
        try:
            vectors, residual = _followed(self.rounds, *graph, start, self.k)
        except torch.linalg.LinAlgError:  # one vector has outgrown all others of the block
            residual = start.new_full((), math.nan)
        if capturing():
            self.largest.copy_(torch.maximum(self.largest, residual))
        elif not float(residual) <= ACCEPTED_RESIDUAL:  # nor is NaN
            vectors, _ = iterate(*graph, start, self.k)
        return vectors * (matrix.degree > 0)[:, None]

    def _matrix(self, new_edges: Tensor, num_nodes: int) -> Normalised:
        """Return the normalised adjacency: known edges and new ones in one order, repetitions and loops uncounted."""
        source, target = new_edges
        known = self.rows * num_nodes + self.columns
        keys = torch.cat([known, source * num_nodes + target, target * num_nodes + source]).sort().values
        rows, columns = keys // num_nodes, keys % num_nodes
        counted = rows != columns
        counted[1:] &= keys[1:] != keys[:-1]
        return Normalised.of(rows, columns, num_nodes, counted)

    def _components(self, new_edges: Tensor, num_nodes: int) -> Tensor:
        """Return the components, (N',), joined by the new edges: those of a graph whose nodes are the known ones.

        Twice as many rounds as the slowest of many graphs took; a component left in two has a residual that tells.
        """
        before = self.component.numel()
        known = torch.cat([self.component, torch.arange(before, num_nodes, device=self.component.device)])
        rows, columns = torch.cat([known[new_edges], known[new_edges].flip(0)], dim=1)
        pointer = torch.arange(num_nodes, device=known.device)
        joining = num_nodes - before or new_edges.size(1)
        for _ in range(2 * math.ceil(math.log2(joining + 2)) + 4):
            pointer = lower_pointers(pointer, rows, columns)
        return pointer[known]


def _followed(
    rounds: tuple[Round, ...], matrix: Normalised, trivial: Trivial, start: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    """Return the eigenvectors, (N, k), and their largest residual, (), after rounds of known degrees."""
    block = orthonormal(start, trivial)
    for i, turn in enumerate(rounds):
        cut = None  # that of the round: every random block has about the same
        if i:
            values, _ = eigen(block.T @ (matrix @ block), rough=True)
            cut = torch.minimum(values[-1], values[k - 1] - NARROWEST_GAP).clamp(min=NARROWEST_GAP - 1)
        block = orthonormal(filtered(matrix, trivial, block, turn, cut), trivial)
    _, vectors, residuals = ritz(matrix, block)
    return vectors[:, :k], residuals[:k].max()


def _rounds_to(matrix: Normalised, trivial: Trivial, start: Tensor, k: int) -> tuple[Round, ...]:
    """Return the rounds that lead from a first block, (N, m), to ``k`` eigenvectors, the last longer by the margin."""
    vectors, rounds = iterate(matrix, trivial, start, k)
    slowest = float((vectors[:, -1] * (matrix @ vectors)[:, -1]).sum())
    rounds = rounds or [Round(slowest - NARROWEST_GAP, 2)]
    more = math.ceil(math.acosh(EXTRA_GROWTH) / growth(slowest, rounds[-1].cut))
    return (*rounds[:-1], rounds[-1]._replace(degree=rounds[-1].degree + more))
