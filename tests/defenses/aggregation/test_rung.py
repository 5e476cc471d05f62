"""RUNG: one step on two nodes by hand, the objective that steps lower, and edges that are cut."""

from __future__ import annotations

from math import sqrt

import pytest
import torch

from fgai_bench.defenses.aggregation.rung import RUNGModel
from fgai_bench.defenses.plain_gcn import ScaledGraph
from fgai_bench.testing.fixture import tiny_graph

PAIR = torch.tensor([[0, 1], [1, 0]])


def smoothed(logits, edge_index, **options):
    model = RUNGModel(2, logits.size(1), **options)
    return model.smoothed(logits, ScaledGraph.of(edge_index, len(logits)), None)


def test_one_step_on_a_pair_by_hand():
    """Degrees are 2, so y = 2 / sqrt 2; with gamma = 2 and lambda = 1 node 0 gets W/2 of its neighbour beside 1."""
    out = smoothed(torch.tensor([[0.0], [2.0]]), PAIR, steps=1, cut=2.0, smoothing=0.5)
    q = (1 / (2 * sqrt(2)) - 1 / 4) / 2
    assert out.logits.view(-1).tolist() == pytest.approx([2 * q / (q + 1), 2 / (q + 1)])
    assert out.attention.weight.tolist() == pytest.approx([q / (q + 1)] * 2 + [1 / (q + 1)] * 2)


def test_nodes_further_apart_than_the_cut_do_not_see_each_other():
    logits = torch.tensor([[0.0, 0.0], [3.0, 0.0]])  # y = 3 / sqrt 2 > 2
    out = smoothed(logits, PAIR, steps=10, cut=2.0)
    assert torch.allclose(out.logits, logits)
    assert out.attention.weight.tolist() == [0.0, 0.0, 1.0, 1.0]


def test_degrees_scale_messages_on_a_path():
    """0 - 1 - 2 with degrees 2, 3, 2: node 0 gets f_1 / sqrt 6 times W, and q_0 = W / 2."""
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    logits = torch.tensor([[0.0], [1.0], [0.0]])
    out = smoothed(logits, edge_index, steps=1, cut=2.0, smoothing=0.5).logits.view(-1)
    w = 0.5 * sqrt(3) - 0.25
    assert out.tolist() == pytest.approx([w / sqrt(6) / (w / 2 + 1), 1 / (2 * w / 3 + 1), w / sqrt(6) / (w / 2 + 1)])


def objective(f, f0, graph, cut, anchor):
    y = graph.products.distances(graph.scale * f, graph.scale * f)[~graph.loop]
    penalty = torch.where(y < cut, y - y**2 / (2 * cut), torch.tensor(cut / 2))
    return float(penalty.sum() / 2 + anchor * (f - f0).square().sum())


def test_every_step_lowers_the_objective():
    data = tiny_graph()
    graph = ScaledGraph.of(data.edge_index, 36)
    f0 = torch.randn(36, 3, generator=torch.Generator().manual_seed(0))
    values = [objective(f0, f0, graph, 3.0, 1 / 0.9 - 1)]
    for steps in (1, 2, 4, 8):
        f = RUNGModel(8, 3, steps=steps).smoothed(f0, graph, None).logits
        values.append(objective(f, f0, graph, 3.0, 1 / 0.9 - 1))
    assert values == sorted(values, reverse=True)
    assert values[-1] < 0.7 * values[0]


def test_gradients_reach_the_edges_and_an_edge_without_weight_is_no_edge():
    data, model = tiny_graph(), RUNGModel(8, 3, seed=0).eval()
    h = model.embed(data.x).detach()
    longer = torch.cat([data.edge_index, torch.tensor([[0], [30]])], dim=1)
    weight = torch.cat([torch.ones(data.num_edges), torch.zeros(1)]).requires_grad_()
    logits = model.propagate(h, longer, edge_weight=weight).logits
    assert torch.allclose(logits, model.propagate(h, data.edge_index).logits, atol=1e-5)
    (gradient,) = torch.autograd.grad(logits.square().sum(), weight)
    assert bool(gradient.isfinite().all())
    assert float(gradient[-1].abs()) > 0
