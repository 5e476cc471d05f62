"""Compute the similarity of the two ends of every edge, without holding all pairs of rows at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from fgai_bench.models.edges import SortedEdges
from fgai_bench.sums.ordered import SparseRows

_ENTRIES, _ENTRIES_ON_CPU = 2**27, 2**19  # gathered at a time, per side: half a GiB; what a cache holds


class _EdgeDots(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, edges: SortedEdges) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.edges = edges
        dots = rows.new_empty(edges.source.numel())
        for part, source, destination in _parts(edges, rows):
            torch.sum(rows.index_select(0, source) * rows.index_select(0, destination), 1, out=dots[part])
        return dots

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """With ``G_ij`` the gradient of the edge from j to i: ``(G + G^T) rows``."""
        (rows,) = ctx.saved_tensors
        edges, shape = ctx.edges, (len(rows), len(rows))
        arriving = SparseRows(edges.pointer, edges.source, shape).product(grad, rows)
        destination, _, pointer, order = edges.by_source
        leaving = SparseRows(pointer.long(), destination.long(), shape).product(grad.index_select(0, order), rows)
        return arriving + leaving, None


def _parts(edges: SortedEdges, rows: Tensor) -> Iterator[tuple[slice, Tensor, Tensor]]:
    entries = _ENTRIES_ON_CPU if rows.device.type == "cpu" else _ENTRIES
    size = max(entries // max(rows.size(1), 1), 1)
    for begin in range(0, edges.source.numel(), size):
        part = slice(begin, begin + size)
        yield part, edges.source[part], edges.destination[part]


def edge_dots(rows: Tensor, edges: SortedEdges) -> Tensor:
    """Return ``rows_src(e) . rows_dst(e)`` for each edge, in the order of the sorted edges: ``(N, F) -> (E,)``.

    For unit rows this is the cosine similarity, for 0/1 rows the number of shared features.

    >>> from fgai_bench.models.edges import sorted_edges
    >>> edges = sorted_edges(torch.tensor([[1], [0]]), 2)  # with the added loops: 1->0, 0->0, 1->1
    >>> edge_dots(torch.tensor([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]), edges).tolist()
    [1.0, 2.0, 2.0]
    """
    return _EdgeDots.apply(rows, edges)


def dense(x: Tensor) -> Tensor:
    """Return the features as a dense matrix, from either layout: ``(N, F) -> (N, F)``."""
    return x.to_dense() if x.layout == torch.sparse_csr else x
