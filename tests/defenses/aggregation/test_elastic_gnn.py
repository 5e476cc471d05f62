"""Elastic GNN: two nodes by hand, the objective that steps approach, and the form with one row per undirected edge."""

from __future__ import annotations

from math import sqrt

import pytest
import torch

from fgai_bench.defenses.aggregation.elastic_gnn import ElasticModel
from fgai_bench.defenses.plain_gcn import ScaledGraph
from fgai_bench.testing.fixture import tiny_graph

PAIR = torch.tensor([[0, 1], [1, 0]])


def smoothed(logits, edge_index, **options):
    model = ElasticModel(2, logits.size(1), **options)
    return model.smoothed(logits, ScaledGraph.of(edge_index, len(logits)), None).logits


def test_one_step_on_a_pair_by_hand():
    """lambda2 = 1: gamma = 1/2, beta = 1, Y = (0.5, 1.5); along the edge 1 / sqrt 2, shortened to 0.2."""
    out = smoothed(torch.tensor([[0.0], [2.0]]), PAIR, steps=1, lambda1=0.2, lambda2=1.0)
    moved = 0.5 / sqrt(2) * 0.2
    assert out.view(-1).tolist() == pytest.approx([0.5 + moved, 1.5 - moved])


def test_a_long_difference_pulls_no_more_than_a_short_one():
    """Without lambda2 both ends move by lambda1 / sqrt 2, however far apart they are."""
    for distance in (10.0, 1000.0):
        out = smoothed(torch.tensor([[0.0], [distance]]), PAIR, steps=1, lambda1=1.0, lambda2=0.0)
        assert out.view(-1).tolist() == pytest.approx([1 / sqrt(2), distance - 1 / sqrt(2)])


def dense_form(x, edge_index, lambda1, lambda2, steps):
    """The paper's formulas with matrices: an incidence matrix with one row per undirected edge."""
    nodes = len(x)
    one_way = edge_index[:, edge_index[0] < edge_index[1]]
    incidence = torch.zeros(one_way.size(1), nodes)
    rows = torch.arange(one_way.size(1))
    incidence[rows, one_way[0]], incidence[rows, one_way[1]] = -1.0, 1.0
    adjacency = torch.eye(nodes).index_put((edge_index[1], edge_index[0]), torch.ones(edge_index.size(1)))
    root = adjacency.sum(1).rsqrt()
    adjacency, incidence = root[:, None] * adjacency * root, incidence * root
    gamma = 1 / (1 + lambda2)
    f, z = x, torch.zeros(len(incidence), x.size(1))
    for _ in range(steps):
        y = gamma * x + (1 - gamma) * adjacency @ f
        z = z + incidence @ (y - gamma * incidence.t() @ z) / (2 * gamma)
        z = torch.nn.functional.normalize(z) * z.norm(dim=1, keepdim=True).clamp(max=lambda1)
        f = y - gamma * incidence.t() @ z
    change = incidence @ f
    quadratic = (f * (f - adjacency @ f)).sum()
    return f, float(lambda1 * change.norm(dim=1).sum() + lambda2 / 2 * quadratic + 0.5 * (f - x).square().sum())


def test_it_is_the_papers_form_with_one_row_per_undirected_edge():
    data = tiny_graph()
    x = torch.randn(36, 3, generator=torch.Generator().manual_seed(0))
    expected, after = dense_form(x, data.edge_index, 0.5, 2.0, 10)
    assert torch.allclose(smoothed(x, data.edge_index, lambda1=0.5, lambda2=2.0), expected, atol=1e-5)
    assert dense_form(x, data.edge_index, 0.5, 2.0, 200)[1] <= after < dense_form(x, data.edge_index, 0.5, 2.0, 1)[1]


def test_an_edge_without_weight_is_no_edge():
    data, model = tiny_graph(), ElasticModel(8, 3, seed=0).eval()
    h = model.embed(data.x).detach()
    longer = torch.cat([data.edge_index, torch.tensor([[0], [30]])], dim=1)
    weight = torch.cat([torch.ones(data.num_edges), torch.zeros(1)]).requires_grad_()
    logits = model.propagate(h, longer, edge_weight=weight).logits
    assert torch.allclose(logits, model.propagate(h, data.edge_index).logits, atol=1e-5)
    (gradient,) = torch.autograd.grad(logits.square().sum(), weight)
    assert bool(gradient.isfinite().all())
    assert float(gradient[-1].abs()) > 0
