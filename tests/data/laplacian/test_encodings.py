from __future__ import annotations

from pathlib import Path

import networkx
import numpy as np
import pytest
import torch
from torch import Tensor

from fgai_bench.data import laplacian_encoding, load_dataset
from fgai_bench.data.laplacian import encodings as laplacian
from fgai_bench.data.laplacian.encodings import signed


def edges_of(graph: networkx.Graph) -> Tensor:
    return torch.tensor(list(graph.edges), dtype=torch.long).reshape(-1, 2).T


def dense_laplacian(edge_index: Tensor, nodes: int) -> np.ndarray:
    adjacency = np.zeros((nodes, nodes))
    adjacency[edge_index[0], edge_index[1]] = adjacency[edge_index[1], edge_index[0]] = 1
    np.fill_diagonal(adjacency, 0)
    scale = 1 / np.sqrt(np.maximum(adjacency.sum(1), 1))
    return np.eye(nodes) - scale[:, None] * adjacency * scale


def connected(nodes: int, seed: int = 0) -> Tensor:
    graph = networkx.barabasi_albert_graph(nodes, 2, seed=seed)
    return edges_of(graph)


@pytest.mark.parametrize("nodes", [40, 400], ids=["dense solver", "sparse solver"])
def test_columns_are_the_smallest_nontrivial_eigenvectors(nodes: int) -> None:
    edge_index = connected(nodes)
    values, vectors = np.linalg.eigh(dense_laplacian(edge_index, nodes))
    expected = signed(torch.from_numpy(vectors[:, 1:9]))
    encoding = laplacian_encoding(edge_index, nodes)
    assert encoding.dtype == torch.float32
    assert np.diff(values[1:10]).min() > 1e-4
    torch.testing.assert_close(encoding, expected.float(), atol=1e-4, rtol=0)


def test_both_solvers_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    edge_index = connected(120)
    exact = laplacian_encoding(edge_index, 120)
    laplacian._memory.clear()
    monkeypatch.setattr(laplacian, "DENSE_UP_TO", 0)
    torch.testing.assert_close(laplacian_encoding(edge_index, 120), exact, atol=1e-4, rtol=0)


def test_direction_order_loops_and_repetitions_do_not_matter() -> None:
    edge_index = connected(50)
    messy = torch.cat([edge_index.flip(0), edge_index.flip(1), torch.tensor([[3], [3]])], dim=1)
    assert torch.equal(laplacian_encoding(messy, 50), laplacian_encoding(edge_index, 50))


@pytest.mark.parametrize("nodes", [60, 300], ids=["dense solver", "sparse solver"])
def test_relabelled_nodes_keep_their_encoding(nodes: int) -> None:
    edge_index = connected(nodes)
    order = torch.randperm(nodes, generator=torch.Generator().manual_seed(1))
    moved = laplacian_encoding(order[edge_index], nodes)
    torch.testing.assert_close(moved[order], laplacian_encoding(edge_index, nodes), atol=1e-4, rtol=0)


def test_near_ties_go_to_the_smaller_index() -> None:
    vectors = torch.tensor([[-0.70710, 0.1], [0.70711, -0.9], [0.0, 0.2]], dtype=torch.double)
    assert signed(vectors).tolist() == [[0.70710, -0.1], [-0.70711, 0.9], [-0.0, -0.2]]


@pytest.mark.parametrize("limit", [0, 256], ids=["sparse solver", "dense solver"])
def test_components_and_isolated_nodes_leave_only_nontrivial_columns(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(laplacian, "DENSE_UP_TO", limit)
    parts = [networkx.barabasi_albert_graph(60, 2, seed=1), networkx.path_graph(7), networkx.path_graph(5)]
    nodes = 72 + 10
    edge_index = edges_of(networkx.disjoint_union_all(parts))
    encoding = laplacian_encoding(edge_index, nodes, k=4).double().numpy()
    matrix = dense_laplacian(edge_index, nodes)
    values = (encoding * (matrix @ encoding)).sum(0)
    reference = np.linalg.eigvalsh(matrix)
    np.testing.assert_allclose(values, reference[reference > 1e-9][:4], atol=1e-5)
    np.testing.assert_allclose(matrix @ encoding, values * encoding, atol=1e-4)
    assert not encoding[72:].any()


@pytest.mark.parametrize(
    ("edges", "nodes", "columns"),
    [
        ([], 0, 0),
        ([], 1, 0),
        ([], 5, 0),
        ([(0, 1)], 2, 1),
        ([(0, 1), (2, 3)], 5, 2),
        ([(0, 1), (1, 2), (0, 2)], 3, 2),
    ],
)
def test_tiny_graphs_are_padded_with_zeros(edges: list[tuple[int, int]], nodes: int, columns: int) -> None:
    encoding = laplacian_encoding(torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T, nodes)
    assert encoding.shape == (nodes, 8)
    assert encoding.isfinite().all()
    assert encoding.norm(dim=0).tolist() == pytest.approx([1.0] * columns + [0.0] * (8 - columns), abs=1e-6)


def test_many_isolated_nodes_around_one_edge() -> None:
    encoding = laplacian_encoding(torch.tensor([[3], [7]]), 1_000)
    assert encoding[[3, 7], 0].abs().tolist() == pytest.approx([2**-0.5] * 2)
    assert encoding.count_nonzero() == 2


def test_a_complete_graph_has_no_trivial_column() -> None:
    edge_index = edges_of(networkx.complete_graph(300))
    encoding = laplacian_encoding(edge_index, 300, k=3)
    torch.testing.assert_close(encoding.sum(0), torch.zeros(3), atol=1e-4, rtol=0)


def test_the_result_is_the_callers_own_and_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    edge_index = connected(300)
    first = laplacian_encoding(edge_index, 300)
    kept = first.clone()
    first.zero_()
    monkeypatch.setattr(laplacian, "lanczos_eigenvectors", None)
    assert torch.equal(laplacian_encoding(edge_index, 300), kept)


def test_another_graph_or_width_is_another_encoding() -> None:
    edge_index = connected(300)
    more = torch.cat([edge_index, torch.tensor([[0], [299]])], dim=1)
    base = laplacian_encoding(edge_index, 300)
    assert not torch.equal(laplacian_encoding(more, 300), base)
    assert laplacian_encoding(edge_index, 300, k=3).shape == (300, 3)
    assert laplacian_encoding(edge_index, 301).shape == (301, 8)


@pytest.mark.slow
def test_the_encoding_of_arxiv_holds_eigenvectors(data_root: Path) -> None:
    data = load_dataset("arxiv-topology", root=data_root)
    encoding = laplacian_encoding(data.edge_index, data.num_nodes)
    vectors = encoding.double()
    torch.testing.assert_close(vectors.T @ vectors, torch.eye(8, dtype=torch.double), atol=1e-5, rtol=0)
    source, target = data.edge_index
    scale = source.bincount().double().rsqrt()
    image = torch.zeros_like(vectors).index_add_(0, target, vectors[source] * (scale[source] * scale[target])[:, None])
    values = (vectors * image).sum(0)
    assert (image - values * vectors).norm(dim=0).max() < 1e-5
    assert (1 - values).tolist() == sorted((1 - values).tolist())
    assert 1 - values[0] == pytest.approx(0.00071056, abs=1e-7)
