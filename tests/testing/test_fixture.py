"""The tiny graph is what the checks rely on."""

from __future__ import annotations

import networkx
import numpy as np
import torch
from torch_geometric.utils import is_undirected, to_dense_adj

from fgai_bench.data import Split
from fgai_bench.testing.fixture import CLASSES, FEATURES, NODES, tiny_graph, tiny_problem, trained_model


def spectrum():
    """Eigenvalues and eigenvectors of the normalised Laplacian."""
    adjacency = to_dense_adj(tiny_graph().edge_index)[0].double().numpy()
    degree = adjacency.sum(1)
    return np.linalg.eigh(np.eye(NODES) - adjacency / np.sqrt(np.outer(degree, degree)))


def test_it_is_connected_undirected_and_has_no_loops():
    edges = tiny_graph().edge_index
    assert is_undirected(edges)
    assert networkx.is_connected(networkx.Graph(edges.t().tolist()))
    assert bool((edges[0] != edges[1]).all())
    assert edges.unique(dim=1).size(1) == edges.size(1)


def test_its_encodings_are_unique():
    """Eigenvalues apart, and the largest entry of each vector clearly so: nothing is left to the solver."""
    values, vectors = spectrum()
    assert np.diff(values).min() > 1e-3
    largest = np.sort(np.abs(vectors[:, 1:9]), axis=0)
    assert (largest[-1] / largest[-2]).min() > 1.005


def test_split_and_classes():
    data = tiny_graph()
    assert (data.x.shape, data.y.bincount().tolist()) == ((NODES, FEATURES), [12] * CLASSES)
    Split.of(data).checked("tiny", NODES)
    assert data.y[data.train_index].unique().numel() == CLASSES


def test_it_can_be_learned():
    problem = tiny_problem()
    assert problem.clean(trained_model()).metrics["f1"] >= 0.9


def test_variants():
    data, isolated, sparse = tiny_graph(), tiny_graph(isolated=True), tiny_graph(sparse=True)
    assert isolated.x.size(0) == NODES + 1
    assert torch.equal(isolated.edge_index, data.edge_index)
    assert sparse.x.layout == torch.sparse_csr
    assert torch.equal(sparse.x.to_dense(), data.x)
    assert torch.equal(tiny_graph().x, data.x)


def test_a_trained_model_is_the_callers_own():
    model = trained_model()
    with torch.no_grad():
        next(model.parameters()).zero_()
    assert bool(next(trained_model().parameters()).any())
