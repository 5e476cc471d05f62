from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.io import read_npz
from torch_geometric.nn import GCNConv
from torch_geometric.utils import contains_self_loops, is_undirected

from fgai_bench.data import DATASETS, DataError, Split, load_dataset, random_split


def test_cora_needs_no_root_and_can_be_sparse(isolated: Path) -> None:
    data = load_dataset("cora", sparse=True)
    assert data.x.layout == torch.sparse_csr
    assert data.x.values().numel() == 49_216
    assert torch.equal(data.x.values().unique(), torch.tensor([1.0]))
    assert (data.x.dtype, data.edge_index.dtype, data.y.dtype) == (torch.float32, torch.int64, torch.int64)
    assert data.edge_index.shape == (2, 2 * 5_278)
    assert (data.name, data.num_classes, data.num_nodes, data.num_features) == ("cora", 7, 2_708, 1_433)
    assert list(isolated.iterdir()) == []


def test_features_are_dense_unless_they_are_large_or_asked_for_as_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    dense, sparse = load_dataset("cora"), load_dataset("cora", sparse=True)
    assert dense.x.layout == torch.strided
    assert torch.equal(dense.x, sparse.x.to_dense())
    assert (dense.checksum, dense.split_hash) == (sparse.checksum, sparse.split_hash)
    monkeypatch.setattr("fgai_bench.data.load.DENSE_UP_TO", 1_000)
    assert load_dataset("cora").x.layout == torch.sparse_csr
    assert load_dataset("cora", sparse=False).x.layout == torch.strided


def test_masks_stand_beside_indices() -> None:
    data = load_dataset("cora", seed=3)
    for part in ("train", "val", "test"):
        assert torch.equal(data[f"{part}_mask"].nonzero().view(-1), data[f"{part}_index"])
    assert bool((data.train_mask ^ data.val_mask ^ data.test_mask).all())


def test_the_training_loop_of_pygs_introduction_runs_on_it() -> None:
    data = load_dataset("cora")

    class GCN(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = GCNConv(data.num_node_features, 16)
            self.conv2 = GCNConv(16, data.num_classes)

        def forward(self, data: Data) -> torch.Tensor:
            x = F.relu(self.conv1(data.x, data.edge_index))
            x = self.conv2(F.dropout(x, training=self.training), data.edge_index)
            return F.log_softmax(x, dim=1)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model, graph = GCN().to("cpu"), data.to("cpu")
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
        for _ in range(30):
            optimizer.zero_grad()
            F.nll_loss(model(graph)[graph.train_mask], graph.y[graph.train_mask]).backward()
            optimizer.step()
    pred = model.eval()(graph).argmax(dim=1)
    assert int((pred[graph.test_mask] == graph.y[graph.test_mask]).sum()) / int(graph.test_mask.sum()) > 0.6


def test_loading_twice_gives_the_same_graph_and_another_seed_only_another_split() -> None:
    first, again, other = load_dataset("cora"), load_dataset("cora"), load_dataset("cora", seed=1)
    assert first.checksum == again.checksum == other.checksum
    assert first.split_hash == again.split_hash == Split.of(first).hash
    assert first.split_hash != other.split_hash
    assert torch.equal(first.test_index, random_split(2_708, seed=0).test)


def test_the_embedded_cora_is_what_pyg_reads() -> None:
    dataset, ours = DATASETS["cora"], load_dataset("cora")
    theirs = read_npz(str(dataset.path(dataset.files[0], Path())))
    assert torch.equal(ours.x.to_dense(), theirs.x)
    assert torch.equal(ours.edge_index, theirs.edge_index)
    assert torch.equal(ours.y, theirs.y)


def test_dense_features_and_edges_are_those_of_pygs_reader(data_root: Path) -> None:
    ours = load_dataset("amazon-photo", root=data_root)
    theirs = read_npz(str(data_root / "Photo/raw/amazon_electronics_photo.npz"))
    assert torch.equal(ours.x, theirs.x)
    assert torch.equal(ours.edge_index, theirs.edge_index)
    assert torch.equal(ours.y, theirs.y)


@pytest.mark.parametrize("name", ["amazon-photo", "coauthor-cs", "coauthor-physics", "cora", "citeseer", "pubmed"])
def test_graphs_are_undirected_simple_and_as_sparse_as_they_should_be(name: str, data_root: Path) -> None:
    data = load_dataset(name, root=data_root, sparse=True)
    keys = data.edge_index[0] * data.num_nodes + data.edge_index[1]
    assert is_undirected(data.edge_index)
    assert not contains_self_loops(data.edge_index)
    assert keys.unique().numel() == keys.numel()
    assert data.x.is_sparse_csr == (name not in ("amazon-photo", "pubmed"))
    Split.of(data).checked(name, data.num_nodes)


def test_the_root_comes_from_the_environment(data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FGAI_BENCH_DATA", str(data_root))
    assert load_dataset("citeseer").num_nodes == 3_327


def test_a_users_dataset_is_a_function_of_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DATASETS, "_entries", dict(DATASETS._entries))

    @DATASETS.register("triangle", summary="three nodes, one loop, one repeated edge")
    def triangle(root: Path) -> Data:
        edges = torch.tensor([[0, 1, 2, 0, 1], [1, 2, 0, 1, 1]])
        return Data(x=torch.eye(3), edge_index=edges, y=torch.tensor([0, 1, 1]))

    data = load_dataset("triangle")
    assert data.edge_index.tolist() == [[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]]
    assert len(data.test_index) == 3
    assert data.num_classes == 2


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"edge_index": torch.tensor([[0], [9]])},
            r"^the dataset 'bad' .* an edge names the node 9, but data.x has 3 rows$",
        ),
        (
            {"edge_index": torch.tensor([[-1], [0]])},
            r"^the dataset 'bad' .* an edge names the node -1, but data.x has 3 rows$",
        ),
        (
            {"x": torch.full((3, 2), np.nan)},
            r"^the dataset 'bad' cannot be used: data.x has entries that are NaN or infinite$",
        ),
        (
            {"x": torch.full((3, 2), np.inf)},
            r"^the dataset 'bad' cannot be used: data.x has entries that are NaN or infinite$",
        ),
        (
            {"y": torch.tensor([0, 1])},
            r"^the dataset 'bad' .* one class for each of the 3 nodes, not the shape \(2,\)$",
        ),
        (
            {"y": torch.tensor([0, -1, 1])},
            r"^the dataset 'bad' has nodes without a label; suites need a class for every node$",
        ),
        ({"x": None}, r"^the dataset 'bad' cannot be used: the graph has no features; set data.x"),
        (
            {"train_index": torch.tensor([0]), "val_index": torch.tensor([0]), "test_index": torch.tensor([1])},
            r"^bad must have each of its 3 nodes in exactly one part of the split$",
        ),
    ],
)
def test_a_bad_graph_is_refused_in_one_sentence(
    change: dict[str, torch.Tensor], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = {"x": torch.eye(3), "edge_index": torch.tensor([[0], [1]]), "y": torch.tensor([0, 1, 1])}
    monkeypatch.setattr(DATASETS, "_entries", dict(DATASETS._entries))
    DATASETS.register("bad")(lambda root: Data(**{**good, **change}))
    with pytest.raises(DataError, match=sentence):
        load_dataset("bad")
