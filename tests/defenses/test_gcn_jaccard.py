"""GCN-Jaccard: the dropped edges and the whole prediction are DeepRobust's, on Cora itself."""

from __future__ import annotations

import pytest
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks import ATTACKS, ThreatModel
from fgai_bench.data import Split, load_dataset
from fgai_bench.defenses import DEFENSES, Training
from fgai_bench.defenses.deeprobust_gcn import quiet
from fgai_bench.defenses.gcn_jaccard import GCNJaccardModel, Similarity
from fgai_bench.models import build_model
from fgai_bench.models.sorted_edges import sorted_edges


def matrix(data: Data) -> scipy.sparse.csr_matrix:
    source, destination = data.edge_index.numpy()
    size = data.x.shape[0]
    return scipy.sparse.csr_matrix((torch.ones(source.size).numpy(), (destination, source)), shape=(size, size))


def kept_pairs(model: GCNJaccardModel, data: Data) -> set[tuple[int, int]]:
    """The edges of the graph that the model keeps."""
    edges = sorted_edges(data.edge_index, data.x.shape[0])
    stays = model.similarities(model.profile(data.x), edges) >= model.config["threshold"]
    stays &= edges.source != edges.destination
    return set(zip(edges.source[stays].tolist(), edges.destination[stays].tolist(), strict=True))


def attacked_cora() -> Data:
    data = load_dataset("cora")
    model = build_model("gat", data.x.shape[1], 7)
    threat = ThreatModel(nodes=5, edges_per_node=20)
    return ATTACKS["random-injection"]()(model, data, data.test_index, threat=threat).data  # type: ignore[no-any-return]


@pytest.mark.parametrize(("similarity", "threshold"), [("jaccard", 0.01), ("jaccard", 0.05), ("cosine", 0.12)])
def test_edges_and_prediction_are_deeprobusts_on_an_attacked_cora(similarity: Similarity, threshold: float) -> None:
    data = attacked_cora()
    model = GCNJaccardModel(data.x.shape[1], 7, similarity=similarity, threshold=threshold).eval()
    network, features, adjacency = model.network, data.x.to_dense().numpy(), matrix(data)
    network.binary_feature, network.threshold = similarity == "jaccard", threshold
    with quiet(), torch.no_grad():
        theirs = network.drop_dissimilar_edges(features, adjacency).tocoo()
        predicted = network.predict(features, adjacency)
    stays = theirs.data != 0
    assert kept_pairs(model, data) == set(zip(theirs.col[stays].tolist(), theirs.row[stays].tolist(), strict=True))
    assert 0 < stays.sum() < data.num_edges
    with torch.no_grad():
        assert torch.allclose(model(data).logits.log_softmax(1), predicted, atol=1e-5)


def similarities(x: Tensor) -> list[float]:
    """Of the edge 0 -> 1, by Jaccard."""
    model = GCNJaccardModel(x.shape[1], 2)
    edges = sorted_edges(torch.tensor([[0], [1]]), 2)
    values = model.similarities(model.profile(x), edges)
    return values[edges.source != edges.destination].tolist()  # type: ignore[no-any-return]


def test_jaccard_by_hand() -> None:
    assert similarities(torch.tensor([[1.0, 1.0, 0.0, 0.0], [0.0, -2.0, 3.0, 0.0]])) == pytest.approx([1 / 3])
    assert similarities(torch.zeros(2, 4)) == [0.0]  # two nodes without features share nothing


def chosen(x: Tensor, **options: str) -> str:
    """The similarity of a network that is fitted to these features."""
    data = Data(x=x, edge_index=torch.tensor([[0, 1], [1, 0]]), y=torch.tensor([0, 1] * 3))
    defense, split = DEFENSES["gcn-jaccard"](**options), Split(*torch.arange(6).split(2))
    fitted = defense.fit(build_model("gat", 6, 2), data, split, training=Training(epochs=0))
    return str(fitted.config["similarity"])


def test_the_similarity_follows_the_training_features() -> None:
    binary = torch.eye(6)
    assert chosen(binary) == chosen(binary.to_sparse_csr()) == "jaccard"
    assert chosen(2 * binary) == "cosine"
    assert chosen(2 * binary, similarity="jaccard") == "jaccard"
    with pytest.raises(ValueError, match="Input should be 'jaccard' or 'cosine'"):
        chosen(binary, similarity="euclid")
