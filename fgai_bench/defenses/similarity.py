"""Compute the similarity of the two ends of every edge, without holding all pairs of rows at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from fgai_bench.models.edges import SortedEdges
from fgai_bench.sums.ordered import sum_at

_ENTRIES = 2**25  # limit of gathered entries: 128 MiB per side in single precision


class _EdgeDots(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, edges: SortedEdges) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.edges = edges
        dots = rows.new_empty(edges.source.numel())
        for part, source, destination in _parts(edges, rows.size(1)):
            torch.sum(rows.index_select(0, source) * rows.index_select(0, destination), 1, out=dots[part])
        return dots

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (rows,) = ctx.saved_tensors
        total = torch.zeros_like(rows)
        for part, source, destination in _parts(ctx.edges, rows.size(1)):
            weight = grad[part].unsqueeze(1)
            total += sum_at(destination, rows.index_select(0, source).mul_(weight), len(rows))
            total += sum_at(source, rows.index_select(0, destination).mul_(weight), len(rows))
        return total, None


def _parts(edges: SortedEdges, width: int) -> Iterator[tuple[slice, Tensor, Tensor]]:
    size = max(_ENTRIES // max(width, 1), 1)
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
