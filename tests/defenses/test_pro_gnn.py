"""Pro-GNN: equal to DeepRobust's own class, and what it predicts on graphs that changed after training."""

from __future__ import annotations

import copy

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from fgai_bench.data import Split, generate_csbm, load_dataset
from fgai_bench.defenses import DEFENSES, Training
from fgai_bench.defenses.deeprobust_gcn import dense_adjacency, quiet
from fgai_bench.defenses.pro_gnn import ProGNNModel, ProGNNOptions, shrink_singular_values
from fgai_bench.models import build_model
from fgai_bench.seeds import generator, isolated_rng

with quiet():
    from deeprobust.graph.defense import ProGNN as DeepRobustProGNN
    from deeprobust.graph.defense.pgd import prox_operators

SPLIT = Split(*torch.randperm(100, generator=generator(0, "split")).split([30, 20, 50]))


def graph() -> Data:
    drawn = generate_csbm(edges=300, degree=6, classes=3, features=12, signal=1.0)
    drawn.edge_index = to_undirected(drawn.edge_index)
    return drawn


def test_shrinking_singular_values_is_deeprobusts_proximal_operator() -> None:
    matrix = torch.randn(40, 40, generator=torch.Generator().manual_seed(0))
    theirs, norm = prox_operators.prox_nuclear(matrix, 3.0), prox_operators.nuclear_norm
    assert torch.allclose(shrink_singular_values(matrix, 3.0), theirs, atol=1e-4)
    assert float(prox_operators.nuclear_norm) == pytest.approx(float(norm), rel=1e-5)
    assert bool((torch.linalg.svdvals(theirs) < 1e-4).any())  # something was cut off


@pytest.mark.parametrize(
    ("epochs", "last_is_best", "options"),
    [(30, False, {}), (5, True, {"symmetric": True, "symmetry": 0.1, "smoothness": 0.01, "structure_steps": 2})],
)
def test_pro_gnn_is_deeprobusts(epochs: int, last_is_best: bool, options: dict[str, float]) -> None:
    data, training = graph(), Training(epochs=epochs)
    ours = DEFENSES["pro-gnn"](**options).fit(build_model("gat", 12, 3), data, SPLIT, training=training)
    network = copy.deepcopy(ProGNNModel(12, 3, 100).network)
    theirs = DeepRobustProGNN(network, ProGNNOptions(**options).arguments(training), "cpu")
    with quiet(), isolated_rng(0, "train"):
        theirs.fit(data.x, dense_adjacency(data.edge_index, 100), data.y, SPLIT.train, SPLIT.val)
    with torch.no_grad():
        assert torch.allclose(theirs.best_graph, theirs.estimator.normalize(), atol=1e-3) == last_is_best
        expected = network.eval()(data.x, theirs.best_graph)
        assert torch.allclose(ours(data).logits.log_softmax(1), expected, atol=1e-3)


def pro_gnn() -> ProGNNModel:
    """A model that learned to halve the edge 0 - 1 and to add half an edge 2 - 3."""
    model = ProGNNModel(12, 3, 100).eval()
    model.correction[0, 1] = model.correction[1, 0] = -0.5
    model.correction[2, 3] = model.correction[3, 2] = 0.5
    return model


def test_pro_gnn_takes_what_a_test_graph_changes_as_given() -> None:
    x = torch.eye(101)[:, :12] + 0.1
    pairs = torch.tensor([[0, 1], [4, 100]])
    edge_index = torch.cat([pairs.t(), pairs.t().flip(0)], dim=1)
    with torch.no_grad():
        model = pro_gnn()
        expected = torch.eye(101)
        for i, j, weight in ((0, 1, 0.5), (2, 3, 0.5), (4, 100, 1.0)):
            expected[i, j] = expected[j, i] = weight
        scale = expected.sum(1).rsqrt()
        adjacency = scale.unsqueeze(1) * expected * scale
        theirs = model.network(x, adjacency)
        assert torch.allclose(model(Data(x=x, edge_index=edge_index)).logits.log_softmax(1), theirs, atol=1e-5)


def test_pro_gnn_follows_an_edge_that_is_deleted() -> None:
    """Half of the edge 0 - 1 was left; without that edge nothing is, rather than minus a half."""
    x = torch.eye(100)[:, :12] + 0.1
    adjacency = torch.eye(100)
    adjacency[2, 3] = adjacency[3, 2] = 0.5
    scale = adjacency.sum(1).rsqrt()
    with torch.no_grad():
        model = pro_gnn()
        out = model(Data(x=x, edge_index=torch.empty(2, 0, dtype=torch.long)))
        theirs = model.network(x, scale.unsqueeze(1) * adjacency * scale)
    assert torch.allclose(out.logits.log_softmax(1), theirs, atol=1e-5)


def test_pro_gnn_cannot_predict_on_fewer_nodes_than_it_learned() -> None:
    with pytest.raises(ValueError, match="learned a graph of 100 nodes and cannot predict on 5"):
        pro_gnn()(Data(x=torch.zeros(5, 12), edge_index=torch.tensor([[0], [1]])))


def test_fresh_weights_keep_the_learned_graph() -> None:
    model = pro_gnn()
    fresh = model.rebuilt(seed=3)
    assert torch.equal(fresh.correction, model.correction)
    assert not torch.equal(fresh.network.gc1.weight, model.network.gc1.weight)


@pytest.mark.slow
def test_cora_end_to_end() -> None:
    """One epoch has to do: each decomposes matrices of 2708 x 2708."""
    data = load_dataset("cora")
    model = DEFENSES["pro-gnn"]().fit(build_model("gat", 1433, 7), data, training=Training(epochs=1))
    with torch.no_grad():
        assert bool(model(data).logits.isfinite().all())
