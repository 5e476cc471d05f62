"""GNN-SVD: the truncated SVD of a graph, equal to DeepRobust's GCNSVD, sparse equal to dense, and Cora."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from fgai_bench.attacks import ATTACKS, ThreatModel
from fgai_bench.data import Split, generate_csbm, load_dataset
from fgai_bench.defenses import DEFENSES, Training
from fgai_bench.defenses.deeprobust_gcn import dense_adjacency, quiet
from fgai_bench.defenses.gnn_svd import GNNSVDModel, LowRank, block_svd, low_rank, truncated_svd
from fgai_bench.metrics import micro_f1
from fgai_bench.models import build_model
from fgai_bench.seeds import generator

SPLIT = Split(*torch.randperm(100, generator=generator(0, "split")).split([30, 20, 50]))


def graph() -> Data:
    drawn = generate_csbm(edges=300, degree=6, classes=3, features=12, signal=1.0)
    drawn.edge_index = to_undirected(drawn.edge_index)
    return drawn


def attacked(data: Data) -> Data:
    """The graph with three injected nodes."""
    threat = ThreatModel(nodes=3, edges_per_node=8)
    return ATTACKS["random-injection"]()(build_model("gat", 12, 3), data, SPLIT.test, threat=threat).data  # type: ignore[no-any-return]


@pytest.mark.parametrize("rank", [15, 60])
def test_the_low_rank_graph_is_the_truncated_svd(rank: int) -> None:
    """Rank 60 of 100 nodes is left to LAPACK, the other to the iterations."""
    adjacency = dense_adjacency(graph().edge_index, 100).double().numpy()
    left, values, right = np.linalg.svd(adjacency)
    expected = (left[:, :rank] * values[:rank]) @ right[:rank]
    found = truncated_svd(graph().edge_index, 100, rank)
    assert np.allclose(found.dense().numpy(), expected, atol=1e-5)
    assert torch.allclose(found.product(graph().x), torch.tensor(expected, dtype=torch.float32) @ graph().x, atol=1e-4)


def matrix(edge_index: torch.Tensor, nodes: int, weight: torch.Tensor | None = None) -> np.ndarray:
    """The adjacency, destinations in the rows; parallel edges add up."""
    out = np.zeros((nodes, nodes))
    np.add.at(out, tuple(edge_index.flip(0).numpy()), 1 if weight is None else weight.numpy())
    return out


def directed(nodes: int, edges: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random edges in one direction, some of them twice, and their weights."""
    draw = torch.Generator().manual_seed(0)
    edge_index = torch.randint(0, nodes, (2, edges), generator=draw)
    edge_index[:, : edges // 10] = edge_index[:, -(edges // 10) :]
    return edge_index, torch.rand(edges, generator=draw)


@pytest.mark.parametrize("rank", [1, 15, 70])
def test_a_directed_weighted_graph_has_its_truncated_svd(rank: int) -> None:
    """By scipy, and by the iteration that a GPU uses."""
    (source, destination), weight = directed(300, 2000)
    left, values, right = np.linalg.svd(matrix(torch.stack([source, destination]), 300, weight))
    found = truncated_svd(torch.stack([source, destination]), 300, rank, weight)
    blocks = LowRank(*block_svd(destination, source, weight.double(), 300, rank))
    for u, core, vt in ((found.left, found.core.diag(), found.right), (blocks.left, blocks.core, blocks.right)):
        assert np.allclose(((u * core) @ vt).numpy(), (left[:, :rank] * values[:rank]) @ right[:rank], atol=1e-5)
        assert np.allclose(core.numpy(), values[:rank], atol=1e-5)
        assert torch.allclose(u.t() @ u, torch.eye(rank, dtype=u.dtype), atol=1e-5)


def stars(*leaves: int) -> torch.Tensor:
    """Stars with these numbers of leaves; each has the singular value ``sqrt(leaves)`` twice."""
    first = np.cumsum([0, *(count + 1 for count in leaves)])
    pairs = [(start, start + 1 + leaf) for start, count in zip(first, leaves, strict=False) for leaf in range(count)]
    return to_undirected(torch.tensor(pairs).t())


def binary_tree(nodes: int) -> torch.Tensor:
    child = torch.arange(1, nodes)
    return to_undirected(torch.stack([(child - 1) // 2, child]))


@pytest.mark.parametrize(
    ("edge_index", "nodes", "rank"),
    [
        pytest.param(stars(*[5] * 20), 120, 15, id="one value 40 times"),
        pytest.param(stars(*[9] * 10, *[8] * 10, *[7] * 10, *[1] * 150), 570, 80, id="values 20 and 300 times"),
        pytest.param(binary_tree(1023), 1023, 100, id="a value is hidden from a narrow block"),
    ],
)
def test_singular_values_that_occur_many_times_are_all_found(edge_index: torch.Tensor, nodes: int, rank: int) -> None:
    """Their vectors are not unique, but the error of the best low-rank matrix is."""
    adjacency = matrix(edge_index, nodes)
    values = np.linalg.svd(adjacency, compute_uv=False)
    found = truncated_svd(edge_index, nodes, rank)
    assert np.allclose(found.core.diagonal().numpy(), values[:rank], atol=1e-5)
    error = np.linalg.norm(adjacency - found.dense().numpy())
    assert error == pytest.approx(np.sqrt((values[rank:] ** 2).sum()), rel=1e-6)


def test_a_rank_above_that_of_the_graph_gives_the_graph() -> None:
    edge_index = torch.tensor([[0, 1, 2, 0, 5, 5], [1, 2, 3, 3, 0, 0]])
    low = truncated_svd(edge_index, 100, 15)
    assert np.allclose(low.dense().numpy(), matrix(edge_index, 100), atol=1e-6)
    assert int(low.core.diagonal().count_nonzero()) == np.linalg.matrix_rank(matrix(edge_index, 100)) == 4
    assert int((low.left.norm(dim=0) > 0.5).sum()) == 4


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_the_same_graph_gives_the_same_bits(device: str) -> None:
    for edge_index, nodes in ((directed(3000, 20_000)[0], 3000), (stars(*[9] * 10, *[1] * 150), 400)):
        first, second = (truncated_svd(edge_index.to(device, copy=True), nodes, 15) for _ in range(2))
        for name in ("left", "core", "right"):
            assert torch.equal(getattr(first, name), getattr(second, name))


@pytest.mark.parametrize("nodes", [40, 3000])
@pytest.mark.gpu
def test_a_gpu_gives_the_same_low_rank_graph(nodes: int) -> None:
    edge_index, weight = directed(nodes, 7 * nodes)
    expected, found = (truncated_svd(edge_index.to(d), nodes, 15, weight.to(d)).dense().cpu() for d in ("cpu", "cuda"))
    assert torch.allclose(found, expected, atol=1e-5)


def test_a_graph_without_edges_has_rank_zero() -> None:
    nothing = torch.empty(2, 0, dtype=torch.long)
    for size in (10, 100):
        assert not truncated_svd(nothing, size, 15).dense().any()


def test_a_graph_is_decomposed_once_and_a_changed_one_again() -> None:
    edge_index = graph().edge_index
    first = low_rank(edge_index, 100, 15)
    assert low_rank(edge_index, 100, 15) is first
    assert low_rank(edge_index, 100, 5) is not first
    assert low_rank(edge_index.clone(), 100, 15) is not first


@pytest.mark.parametrize("dense", [True, False])
def test_the_prediction_is_that_of_gcnsvd(dense: bool) -> None:
    data = attacked(graph())
    model = GNNSVDModel(12, 3, dense=dense).eval()
    source, destination = data.edge_index.numpy()
    adjacency = scipy.sparse.csr_matrix((np.ones(source.size), (destination, source)), shape=(103, 103))
    model.network.k = 15
    with quiet(), torch.no_grad():
        theirs = model.network.predict(data.x.numpy(), adjacency)
        ours = model(data).logits.log_softmax(1)
    assert torch.allclose(ours, theirs, atol=1e-5)


def test_the_factors_equal_the_dense_graph() -> None:
    data = attacked(graph())
    sparse, dense = (GNNSVDModel(12, 3, dense=form).eval() for form in (False, True))
    weight = torch.rand(data.num_edges, generator=torch.Generator().manual_seed(0))
    for given in (None, weight):
        outs = [m.propagate(m.embed(data.x), data.edge_index, edge_weight=given).logits for m in (sparse, dense)]
        assert torch.allclose(*outs, atol=1e-5)


def test_the_gradient_of_the_singular_values_is_exact() -> None:
    """With the vectors held fixed, ``d s_i / d A = u_i v_i^T`` is the whole gradient of the singular values."""
    edge_index, weight = graph().edge_index, torch.full((600,), 0.9).requires_grad_()
    (ours,) = torch.autograd.grad(low_rank(edge_index, 100, 5, weight).core.diagonal().sum(), weight)
    adjacency = dense_adjacency(edge_index, 100, weight)
    (exact,) = torch.autograd.grad(torch.linalg.svdvals(adjacency)[:5].sum(), weight)
    assert torch.allclose(ours, exact, atol=1e-4)


def test_a_negative_row_sum_gives_no_nan() -> None:
    data = graph()
    model = GNNSVDModel(12, 3, rank=1).eval()
    low = low_rank(data.edge_index, 100, 1)
    low.core.neg_()  # row sums of -A_1 + I, which are below zero for well connected nodes
    assert bool((low.product(torch.ones(100, 1)) < -1).any())
    assert bool(model(data).logits.isfinite().all())


def test_the_rank_must_be_positive() -> None:
    with pytest.raises(ValueError, match="rank\n  Input should be greater than or equal to 1"):
        DEFENSES["gnn-svd"](rank=0)


def test_cora_end_to_end() -> None:
    data = load_dataset("cora")
    split = Split.of(data)
    training = Training(epochs=30)
    model = DEFENSES["gnn-svd"]().fit(build_model("gat", data.x.shape[1], 7), data, split, training=training)
    found = ATTACKS["injection"]()(model, data, split.test, threat=ThreatModel(steps=3))
    with torch.no_grad():
        clean, after = (micro_f1(model(g).logits[split.test].argmax(1), data.y[split.test]) for g in (data, found.data))
    assert found.flags == ()
    assert found.curve[-1] > found.curve[0]
    assert clean > 0.5
    assert after < clean
