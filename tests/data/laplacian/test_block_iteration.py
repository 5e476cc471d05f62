"""The block iteration in torch, on the CPU and on CUDA, against dense and Lanczos solvers."""

from __future__ import annotations

import math
from pathlib import Path

import networkx
import pytest
import torch
from torch import Tensor

from fgai_bench.data import DataError, laplacian_encoding, load_dataset
from fgai_bench.data.laplacian import block_iteration as laplacian_block
from fgai_bench.data.laplacian.block_iteration import (
    Trivial,
    _degree,
    block_eigenvectors,
    connected_components,
    orthonormal,
)
from fgai_bench.data.laplacian.encodings import signed


def edges_of(graph: networkx.Graph) -> Tensor:
    return torch.tensor(list(graph.edges), dtype=torch.long).reshape(-1, 2).T


def both_directions(edge_index: Tensor) -> tuple[Tensor, Tensor]:
    return torch.cat([edge_index[0], edge_index[1]]), torch.cat([edge_index[1], edge_index[0]])


def attacked(edge_index: Tensor, nodes: int, seed: int = 0) -> tuple[Tensor, int]:
    """Twenty nodes more, each with twenty random neighbours."""
    draw = torch.Generator().manual_seed(seed)
    targets = torch.cat([torch.randperm(nodes, generator=draw)[:20] for _ in range(20)])
    new = nodes + torch.arange(20).repeat_interleave(20)
    return torch.cat([edge_index, torch.stack([new, targets]), torch.stack([targets, new])], 1), nodes + 20


def normalised(edge_index: Tensor, nodes: int) -> Tensor:
    adjacency = torch.zeros(nodes, nodes, dtype=torch.double)
    adjacency[both_directions(edge_index)] = 1
    scale = adjacency.sum(1).clamp(min=1).rsqrt()
    return scale[:, None] * adjacency * scale


@pytest.mark.parametrize("nodes", [30, 400])
def test_equals_a_dense_solver(nodes: int) -> None:
    edge_index = edges_of(networkx.barabasi_albert_graph(nodes, 2, seed=0))
    expected = torch.linalg.eigh(normalised(edge_index, nodes))[1].flip(1)[:, 1:9]
    torch.testing.assert_close(signed(block_eigenvectors(edge_index, nodes, 8)), signed(expected), atol=2e-7, rtol=0)


LARGER = ("pubmed", "amazon-photo", "amazon-cs", "coauthor-cs", "coauthor-physics")


@pytest.mark.parametrize("name", ["cora", "citeseer", *(pytest.param(name, marks=pytest.mark.slow) for name in LARGER)])
def test_equals_lanczos_on_attacked_graphs(name: str, data_root: Path) -> None:
    clean = load_dataset(name, root=data_root)
    edge_index, nodes = attacked(clean.edge_index, clean.num_nodes)
    encoding = signed(block_eigenvectors(edge_index, nodes, 8)).float()
    torch.testing.assert_close(encoding, laplacian_encoding(edge_index, nodes, 8), atol=2e-6, rtol=0)


def test_the_start_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    edge_index = edges_of(networkx.barabasi_albert_graph(500, 2, seed=3))
    first = signed(block_eigenvectors(edge_index, 500, 8))
    assert torch.equal(signed(block_eigenvectors(edge_index, 500, 8)), first)
    monkeypatch.setattr(laplacian_block, "GUARD_VECTORS", 12)
    torch.testing.assert_close(signed(block_eigenvectors(edge_index, 500, 8)), first, atol=1e-6, rtol=0)


def test_direction_order_loops_and_repetitions_do_not_matter() -> None:
    edge_index = edges_of(networkx.barabasi_albert_graph(50, 2, seed=0))
    messy = torch.cat([edge_index.flip(0), edge_index.flip(1), torch.tensor([[3], [3]])], dim=1)
    assert torch.equal(block_eigenvectors(messy, 50, 8), block_eigenvectors(edge_index, 50, 8))


def test_many_components_and_isolated_nodes_have_only_nontrivial_vectors() -> None:
    parts = [networkx.barabasi_albert_graph(60, 2, seed=1), *[networkx.path_graph(2 + i % 5) for i in range(200)]]
    edge_index = edges_of(networkx.disjoint_union_all(parts))
    used, nodes = int(edge_index.max()) + 1, int(edge_index.max()) + 51
    vectors = block_eigenvectors(edge_index, nodes, 8)
    matrix = normalised(edge_index, nodes)
    exact = torch.linalg.eigvalsh(matrix).flip(0)
    values = (vectors * (matrix @ vectors)).sum(0)
    torch.testing.assert_close(values, exact[exact < 1 - 1e-9][:8])
    torch.testing.assert_close(matrix @ vectors, vectors * values, atol=1e-7, rtol=0)
    assert not vectors[used:].any()


@pytest.mark.parametrize(
    ("graph", "value"),
    [
        (networkx.complete_graph(300), -1 / 299),
        (networkx.star_graph(300), 0.0),
        (networkx.disjoint_union_all([networkx.path_graph(2)] * 60), -1.0),
    ],
    ids=["complete", "star", "pairs"],
)
def test_a_cluster_wider_than_the_block(graph: networkx.Graph, value: float) -> None:
    edge_index, nodes = edges_of(graph), graph.number_of_nodes()
    vectors = block_eigenvectors(edge_index, nodes, 8)
    torch.testing.assert_close(normalised(edge_index, nodes) @ vectors, value * vectors, atol=1e-7, rtol=0)
    torch.testing.assert_close(vectors.T @ vectors, torch.eye(8, dtype=torch.double))


def test_eigenvalues_that_crowd_together() -> None:
    edge_index = edges_of(networkx.path_graph(3_000))
    vectors = block_eigenvectors(edge_index, 3_000, 8)
    angles = math.pi * torch.arange(1, 9).double() / 2_999
    expected = torch.cos(torch.arange(3_000).double()[:, None] * angles)
    expected[1:-1] *= 2**0.5
    torch.testing.assert_close(vectors.abs(), (expected / expected.norm(dim=0)).abs(), atol=1e-3, rtol=0)


@pytest.mark.parametrize(
    ("edges", "nodes", "columns"),
    [([], 0, 0), ([], 5, 0), ([(0, 1)], 2, 1), ([(0, 1), (2, 3)], 5, 2), ([(0, 1), (1, 2), (0, 2)], 3, 2)],
)
def test_tiny_graphs_have_fewer_vectors(edges: list[tuple[int, int]], nodes: int, columns: int) -> None:
    vectors = block_eigenvectors(torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T, nodes, 8)
    assert vectors.shape == (nodes, columns)
    torch.testing.assert_close(vectors.T @ vectors, torch.eye(columns, dtype=torch.double))


@pytest.mark.parametrize(
    "graph",
    [
        networkx.path_graph(1_000),
        networkx.gnp_random_graph(500, 0.002, seed=0),
        networkx.relabel_nodes(networkx.path_graph(257), {i: i * 100 % 257 for i in range(257)}),
        networkx.star_graph(40),
    ],
    ids=["path", "random", "shuffled path", "star"],
)
def test_components_are_named_by_their_smallest_node(graph: networkx.Graph) -> None:
    found = connected_components(*both_directions(edges_of(graph)), graph.number_of_nodes())
    for component in networkx.connected_components(graph):
        assert found[list(component)].unique().tolist() == [min(component)]


def test_a_nearly_dependent_block_becomesorthonormal() -> None:
    rows, columns = both_directions(edges_of(networkx.path_graph(200)))
    trivial = Trivial.of(connected_components(rows, columns, 200), torch.bincount(rows))
    block = torch.randn(200, 6, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    block = block[:, :1] + block * torch.logspace(0, -9, 6, dtype=torch.double)
    basis = orthonormal(block, trivial)
    torch.testing.assert_close(basis.T @ basis, torch.eye(6, dtype=torch.double), atol=1e-10, rtol=0)
    torch.testing.assert_close(trivial.entry.T @ basis, torch.zeros(1, 6, dtype=torch.double), atol=1e-12, rtol=0)


def test_the_degree_is_what_convergence_needs_or_the_block_can_bear() -> None:
    # cosh(a d) = 2 * 100 with a = acosh(3) = 1.76: d = 3.4
    assert _degree([1.0], [100 * laplacian_block.RESIDUAL], cut=0.0) == 4
    # cosh(a d) = 1e4 / 0.5 with a = acosh(2) = 1.32, since the eigenvalue may be 0.5: d = 8.05
    assert _degree([0.0], [0.5], cut=0.0) == 9
    assert _degree([1e-9], [1e-6], cut=0.0) == laplacian_block.MAX_DEGREE


def test_no_convergence_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laplacian_block, "MAX_ROUNDS", 1)
    with pytest.raises(DataError, match=r"^the Laplacian of this graph of 300 nodes does not converge in 1 rounds$"):
        block_eigenvectors(edges_of(networkx.path_graph(300)), 300, 8)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["cora", "citeseer", "amazon-photo"])
def test_cuda_equals_the_cpu(name: str, data_root: Path) -> None:
    clean = load_dataset(name, root=data_root)
    edge_index, nodes = attacked(clean.edge_index, clean.num_nodes)
    encoding = laplacian_encoding(edge_index.cuda(), nodes, 8)
    assert encoding.is_cuda
    torch.testing.assert_close(encoding.cpu(), laplacian_encoding(edge_index, nodes, 8), atol=2e-6, rtol=0)
    assert torch.equal(laplacian_encoding(edge_index.cuda(), nodes, 8), encoding)


@pytest.mark.gpu
@pytest.mark.parametrize(("edges", "nodes"), [([], 0), ([], 5), ([(0, 1)], 2), ([(0, 1), (2, 3)], 5)])
def test_tiny_graphs_on_cuda(edges: list[tuple[int, int]], nodes: int) -> None:
    edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
    here, there = laplacian_encoding(edge_index, nodes), laplacian_encoding(edge_index.cuda(), nodes).cpu()
    torch.testing.assert_close(there @ there.T, here @ here.T)  # any basis will do where eigenvalues coincide
