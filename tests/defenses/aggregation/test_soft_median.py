"""Soft Median: medians and weights worked out by hand, edge weights, and an outlier that the mean would follow."""

from __future__ import annotations

from math import exp, sqrt

import pytest
import torch
from torch_geometric.data import Data

from fgai_bench.defenses.aggregation.soft_median import SoftMedianModel, neighbour_median
from fgai_bench.defenses.edge_products import EdgeProducts
from fgai_bench.models.sorted_edges import sorted_edges
from fgai_bench.testing.fixture import tiny_graph

STAR = torch.tensor([[1, 2, 3, 0], [0, 0, 0, 1]])  # 1, 2, 3 -> 0 and 0 -> 1
ROWS = torch.tensor([[0.0, 0.0], [1.0, 2.0], [2.0, 1.0], [90.0, -90.0]])


def test_the_median_of_a_star_by_hand():
    """Node 0 sees 0, 1, 2, 90 and -90, 0, 1, 2: the lower of the two middle values is 1 and 0."""
    median = neighbour_median(ROWS, sorted_edges(STAR, 4))
    assert median.tolist() == [[1.0, 0.0], [0.0, 0.0], [2.0, 1.0], [90.0, -90.0]]


def test_weights_of_a_star_by_hand():
    """The median of node 0 is (1, 0), so the distances are 1 (itself), 2, sqrt 2 and that of the outlier."""
    model = SoftMedianModel(2, 2, temperature=0.5)
    out, weights = model.averaged(ROWS, (EdgeProducts(sorted_edges(STAR, 4)), None))
    distances = [2.0, sqrt(2), sqrt(89**2 + 90**2), 1.0]  # of 1, 2, 3 and the loop
    raw = [exp(-distance / (0.5 * sqrt(2))) for distance in distances]
    expected = [value / sum(raw) for value in raw]
    assert weights[:4, 0].tolist() == pytest.approx(expected, rel=1e-5)
    assert out[0].tolist() == pytest.approx([expected[0] + 2 * expected[1], 2 * expected[0] + expected[1]], abs=1e-5)


def test_weighted_median_by_hand():
    """With weights 0.25, 0.5 and 0.25 beside the loop's 1, half of 2 is reached at the loop's own value."""
    presence = torch.tensor([0.25, 0.5, 0.25, 1.0, 1.0, 1.0, 1.0, 1.0])  # 1, 2, 3 and 0 -> 0; then 0, 1 -> 1; loops
    edges = sorted_edges(STAR, 4)
    assert edges.source.tolist()[:4] == [1, 2, 3, 0]
    assert neighbour_median(ROWS, edges, presence)[0].tolist() == [0.0, 0.0]
    assert torch.equal(neighbour_median(ROWS, edges, torch.ones(8)), neighbour_median(ROWS, edges))


def test_the_gradient_of_the_median_goes_to_the_chosen_rows():
    rows = ROWS.clone().requires_grad_()
    neighbour_median(rows, sorted_edges(STAR, 4))[0].sum().backward()
    assert rows.grad.tolist() == [[0.0, 1.0], [1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]


def test_an_edge_without_weight_is_no_edge():
    data, model = tiny_graph(), SoftMedianModel(8, 3, seed=1).eval()
    extra = torch.tensor([[0, 5, 9], [20, 30, 1]])
    longer = torch.cat([data.edge_index, extra], dim=1)
    weight = torch.cat([torch.ones(data.num_edges), torch.zeros(3)])
    h = model.embed(data.x)
    assert torch.allclose(model.propagate(h, longer, edge_weight=weight).logits, model(data).logits, atol=1e-5)


def test_a_high_temperature_is_the_mean_and_a_low_one_ignores_an_outlier():
    structure = EdgeProducts(sorted_edges(STAR, 4)), None
    mean, _ = SoftMedianModel(2, 2, temperature=1e6).averaged(ROWS, structure)
    assert mean[0].tolist() == pytest.approx([93 / 4, -87 / 4], rel=1e-3)
    cold, weights = SoftMedianModel(2, 2, temperature=0.2).averaged(ROWS, structure)
    assert float(cold[0].norm()) < 3
    assert float(weights[2]) == pytest.approx(0, abs=1e-20)


def test_every_layer_tells_its_weights_and_gradients_are_those_of_finite_differences():
    data = tiny_graph()
    model = SoftMedianModel(8, 3, seed=0).eval()
    out, layers = model.with_layers(model.embed(data.x), data.edge_index)
    assert len(layers) == 2
    assert torch.equal(layers[-1].averaged().weight, out.attention.weight)
    model = model.double()
    x = data.x.double().requires_grad_()
    part = Data(x=x, edge_index=data.edge_index)
    assert torch.autograd.gradcheck(lambda x: model(Data(x=x, edge_index=part.edge_index)).logits[:3], x, atol=1e-4)
