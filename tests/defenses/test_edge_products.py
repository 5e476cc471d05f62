"""Products over the edges: similarities of their ends, and sums at their destinations."""

from __future__ import annotations

import pytest
import torch

from fgai_bench.defenses import edge_products
from fgai_bench.defenses.edge_products import EdgeProducts
from fgai_bench.models.sorted_edges import sorted_edges


@pytest.mark.parametrize("entries", [1, 7, 2**25])
def test_dots_and_their_gradient_do_not_depend_on_the_parts(entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_products, "_ENTRIES_ON_CPU", entries)
    edges = sorted_edges(torch.tensor([[0, 1, 2, 3, 1], [1, 0, 3, 2, 2]]), 4)
    rows = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    expected = (rows[edges.source] * rows[edges.destination]).sum(1)
    assert torch.allclose(EdgeProducts(edges).dots(rows), expected)
    assert torch.autograd.gradcheck(EdgeProducts(edges).dots, rows)


def test_sums_over_edges_and_their_gradients_by_hand() -> None:
    """Edges 0 -> 1, 2 -> 1 and 1 -> 0, and a loop at every node."""
    edges = sorted_edges(torch.tensor([[0, 2, 1], [1, 1, 0]]), 3)
    products = EdgeProducts(edges)
    assert list(zip(edges.source.tolist(), edges.destination.tolist(), strict=True)) == [
        *((1, 0), (0, 0)),
        *((0, 1), (2, 1), (1, 1), (2, 2)),
    ]
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], dtype=torch.float64, requires_grad=True)
    values = torch.tensor([[1.0, 0.0], [10.0, 1.0], [100.0, 2.0]], dtype=torch.float64, requires_grad=True)
    assert products.sums(weights, values).tolist() == [[12.0, 1.0], [453.0, 13.0], [600.0, 12.0]]
    assert products.totals(weights).tolist() == [3.0, 12.0, 6.0]
    assert products.at_destination(values[:, 1]).tolist() == [0.0, 0.0, 1.0, 1.0, 1.0, 2.0]
    assert torch.autograd.gradcheck(products.sums, (weights, values))
    assert torch.autograd.gradcheck(products.totals, weights)
    assert torch.autograd.gradcheck(products.at_destination, values.detach()[:, 1].clone().requires_grad_())
