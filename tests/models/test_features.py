"""Projection of features: sparse equals dense, normalisation equals its textbook form."""

import pytest
import torch
import torch.nn.functional as F

from fgai_bench.models.features import FeatureProjection, feature_product


@pytest.fixture
def features():
    generator = torch.Generator().manual_seed(0)
    dense = torch.rand(9, 20, generator=generator, dtype=torch.float64)
    dense[dense < 0.7] = 0
    dense[4] = 0  # a node without features
    return dense, dense.to_sparse_csr()


def test_sparse_product_and_its_gradient_equal_the_dense_ones(features):
    dense, sparse = features
    weight = torch.randn(20, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    ours, theirs = weight.clone().requires_grad_(), weight.clone().requires_grad_()
    out = feature_product(sparse, ours)
    torch.testing.assert_close(out, dense @ theirs)
    (out**2).sum().backward()
    ((dense @ theirs) ** 2).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("norm", ["none", "row", "layer"])
def test_norms_equal_their_definition_for_dense_and_sparse_features(features, norm):
    dense, sparse = features
    project = FeatureProjection(20, 6, norm=norm).double()
    if norm == "layer":
        torch.nn.init.uniform_(project.gamma)
        torch.nn.init.uniform_(project.beta)
    textbook = {
        "none": lambda x: x,
        "row": lambda x: x / x.abs().sum(1, keepdim=True).clamp(min=1e-12),
        "layer": lambda x: F.layer_norm(x, (20,), project.gamma, project.beta),
    }[norm]
    expected = textbook(dense) @ project.weight
    torch.testing.assert_close(project(dense), expected)
    torch.testing.assert_close(project(sparse), expected)


def test_dropout_keeps_the_expectation_of_sparse_features(features):
    dense, sparse = features
    with torch.random.fork_rng():
        torch.manual_seed(0)
        mean = sum(feature_product(sparse, torch.eye(20).double(), 0.5, True) for _ in range(2000)) / 2000
    torch.testing.assert_close(mean, dense, rtol=0, atol=0.1)
