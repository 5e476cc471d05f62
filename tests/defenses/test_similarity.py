"""Similarity of the ends of every edge."""

from __future__ import annotations

import pytest
import torch

from fgai_bench.defenses import similarity
from fgai_bench.defenses.similarity import dense, edge_dots
from fgai_bench.models.edges import sorted_edges


@pytest.mark.parametrize("entries", [1, 7, 2**25])
def test_dots_and_their_gradient_do_not_depend_on_the_parts(entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "_ENTRIES_ON_CPU", entries)
    edges = sorted_edges(torch.tensor([[0, 1, 2, 3, 1], [1, 0, 3, 2, 2]]), 4)
    rows = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    expected = (rows[edges.source] * rows[edges.destination]).sum(1)
    assert torch.allclose(edge_dots(rows, edges), expected)
    assert torch.autograd.gradcheck(lambda r: edge_dots(r, edges), rows)


def test_dense_keeps_the_values_of_either_layout() -> None:
    x = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    assert dense(x) is x
    assert torch.equal(dense(x.to_sparse_csr()), x)
