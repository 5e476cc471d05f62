"""Compute products over the edges of a graph, such as similarities of their ends, without holding all pairs of rows."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from fgai_bench.fast.ordered_sums import SparseRows
from fgai_bench.models.sorted_edges import SortedEdges

_ENTRIES, _ENTRIES_ON_CPU = 2**27, 2**19  # gathered at a time, per side: half a GiB; what a cache holds
_NEAR = 1e-6  # a distance that counts as zero


@dataclass(frozen=True)
class EdgeProducts:
    """Products over the sorted edges of a graph; their gradients are such products, too.

    What a GPU needs to know of the edges is made once, so an object lives as long as its graph is worked on.
    """

    edges: SortedEdges

    @cached_property
    def arriving(self) -> SparseRows:
        """Return the edges by destination: ``(N, N)``."""
        size = self.edges.num_nodes
        return SparseRows(self.edges.pointer, self.edges.source, (size, size))

    @cached_property
    def leaving(self) -> tuple[SparseRows, Tensor]:
        """Return the edges by source, ``(N, N)``, and the place of each among the sorted edges, ``(E,)``."""
        destination, _, pointer, order = self.edges.by_source
        size = self.edges.num_nodes
        return SparseRows(pointer.long(), destination.long(), (size, size)), order

    def dots(self, rows: Tensor) -> Tensor:
        """Return ``rows_src(e) . rows_dst(e)`` for each edge: ``(N, F) -> (E,)``.

        For unit rows this is the cosine similarity, for 0/1 rows the number of shared features.

        >>> from fgai_bench.models.sorted_edges import sorted_edges
        >>> edges = sorted_edges(torch.tensor([[1], [0]]), 2)  # with the added loops: 1->0, 0->0, 1->1
        >>> EdgeProducts(edges).dots(torch.tensor([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])).tolist()
        [1.0, 2.0, 2.0]
        """
        return _Dots.apply(rows, self)

    def distances(self, at_source: Tensor, at_destination: Tensor) -> Tensor:
        """Return ``|a_src(e) - b_dst(e)|_2`` for each edge: ``(N, F), (N, F) -> (E,)``; at zero the gradient is zero.

        >>> from fgai_bench.models.sorted_edges import sorted_edges
        >>> edges = sorted_edges(torch.tensor([[1], [0]]), 2)  # with the added loops: 1->0, 0->0, 1->1
        >>> EdgeProducts(edges).distances(torch.tensor([[0.0, 0.0], [3.0, 4.0]]), torch.zeros(2, 2)).tolist()
        [5.0, 0.0, 5.0]
        """
        return _Distances.apply(at_source, at_destination, self)

    def sums(self, weights: Tensor, values: Tensor) -> Tensor:
        """Return ``out_i = sum_{e: dst(e) = i} w_e v_src(e)``: ``(E,), (N, D) -> (N, D)``."""
        return _Sums.apply(weights, values, self)

    def totals(self, weights: Tensor) -> Tensor:
        """Return ``out_i = sum_{e: dst(e) = i} w_e``: ``(E,) -> (N,)``."""
        return self.sums(weights, weights.new_ones(self.edges.num_nodes, 1)).squeeze(1)

    def at_destination(self, values: Tensor) -> Tensor:
        """Return ``values_dst(e)`` for each edge: ``(N,) -> (E,)``."""
        return _AtDestination.apply(values, self)

    def by_destination(self, weights: Tensor, values: Tensor) -> Tensor:
        """Compute :meth:`sums` without a gradient."""
        return self.arriving.product(weights, values)

    def by_source(self, weights: Tensor, values: Tensor) -> Tensor:
        """Return ``out_j = sum_{e: src(e) = j} w_e v_dst(e)`` without a gradient: ``(E,), (N, D) -> (N, D)``."""
        matrix, order = self.leaving
        return matrix.product(weights.index_select(0, order), values)

    def between(self, at_source: Tensor, at_destination: Tensor) -> Tensor:
        """Return ``a_src(e) . b_dst(e)`` for each edge without a gradient: ``(N, F), (N, F) -> (E,)``."""
        return self._pairwise(lambda source, destination: (source * destination).sum(1), at_source, at_destination)

    def _pairwise(self, of: Callable[[Tensor, Tensor], Tensor], at_source: Tensor, at_destination: Tensor) -> Tensor:
        """Return a function of the rows at both ends of each edge, some edges at a time: ``(N, F), (N, F) -> (E,)``."""
        values = at_source.new_empty(self.edges.source.numel())
        entries = _ENTRIES_ON_CPU if at_source.device.type == "cpu" else _ENTRIES
        size = max(entries // max(at_source.size(1), 1), 1)
        for begin in range(0, values.numel(), size):
            part = slice(begin, begin + size)
            source = at_source.index_select(0, self.edges.source[part])
            values[part] = of(source, at_destination.index_select(0, self.edges.destination[part]))
        return values


class _Dots(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, products: EdgeProducts) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.products = products
        return products.between(rows, rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """With ``G_ij`` the gradient of the edge from j to i: ``(G + G^T) rows``."""
        (rows,) = ctx.saved_tensors
        return ctx.products.by_destination(grad, rows) + ctx.products.by_source(grad, rows), None


class _Distances(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, at_source: Tensor, at_destination: Tensor, products: EdgeProducts) -> Tensor:
        distances = products._pairwise(lambda a, b: (a - b).norm(dim=1), at_source, at_destination)
        ctx.save_for_backward(at_source, at_destination, distances)
        ctx.products = products
        return distances

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        """With ``c`` the gradient over the distance: ``sum c (a - b)`` for each source, ``sum c (b - a)`` otherwise."""
        at_source, at_destination, distances = ctx.saved_tensors
        products, near = ctx.products, distances <= _NEAR
        share = torch.where(near, 0.0, grad / torch.where(near, 1.0, distances))
        ones = share.new_ones(products.edges.num_nodes, 1)
        leaving, arriving = products.by_source(share, ones), products.by_destination(share, ones)  # (N, 1) each
        to_source = leaving * at_source - products.by_source(share, at_destination)
        return to_source, arriving * at_destination - products.by_destination(share, at_source), None


class _Sums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, values: Tensor, products: EdgeProducts) -> Tensor:
        ctx.save_for_backward(weights, values)
        ctx.products = products
        return products.by_destination(weights, values)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        weights, values = ctx.saved_tensors
        grad = grad.contiguous()
        to_weights = ctx.products.between(values, grad) if ctx.needs_input_grad[0] else None
        return to_weights, ctx.products.by_source(weights, grad) if ctx.needs_input_grad[1] else None, None


class _AtDestination(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, products: EdgeProducts) -> Tensor:
        ctx.products = products
        return values.index_select(0, products.edges.destination)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.products.totals(grad.contiguous()), None
