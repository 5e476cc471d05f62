"""A graph that grew out of a solved one is solved in known steps, to what it would be if it were solved anew."""

from __future__ import annotations

from pathlib import Path

import networkx
import pytest
import torch
from torch import Tensor

from fgai_bench.data import load_dataset
from fgai_bench.data.laplacian import extended_graph as laplacian_grown
from fgai_bench.data.laplacian.block_iteration import block_eigenvectors, connected_components
from fgai_bench.data.laplacian.encodings import grown_encoding, laplacian_encoding, signed
from fgai_bench.data.laplacian.extended_graph import Solved, UnconvergedError
from fgai_bench.data.readers.csbm import generate_csbm
from fgai_bench.fast import cuda_graphs


def injected(nodes: int, count: int, degree: int, seed: int = 0) -> Tensor:
    """Edges in both directions from ``count`` new nodes to ``degree`` random old ones each."""
    draw = torch.Generator().manual_seed(seed)
    old = torch.randint(nodes, (count * degree,), generator=draw)
    new = nodes + torch.arange(count).repeat_interleave(degree)
    return torch.cat([torch.stack([new, old]), torch.stack([old, new])], dim=1)


def random_graph(nodes: int = 300) -> Tensor:
    return torch.tensor(list(networkx.barabasi_albert_graph(nodes, 2, seed=1).edges)).T


@pytest.mark.parametrize("count", [20, 40])
@pytest.mark.parametrize("name", ["cora", "citeseer"])
def test_equals_a_graph_solved_anew(name: str, count: int, data_root: Path) -> None:
    clean = load_dataset(name, root=data_root)
    solved, new = Solved.of(clean.edge_index, clean.num_nodes, 8), injected(clean.num_nodes, count, count)
    anew = laplacian_encoding(torch.cat([clean.edge_index, new], dim=1), clean.num_nodes + count, 8)
    torch.testing.assert_close(grown_encoding(solved, new, clean.num_nodes + count), anew, atol=5e-6, rtol=0)


def test_joined_components_and_new_ones_are_seen() -> None:
    """New nodes join two components, make one of their own, stand alone, and repeat each other's edges."""
    left, right = random_graph(200), random_graph(150) + 200
    joined = [(350, 3), (350, 220), (350, 3), (351, 352), (352, 353), (351, 351), (354, 354)]
    new, before = torch.tensor(joined).T, torch.cat([left, right], dim=1)
    solved = Solved.of(before, 350, 8)
    found = solved.grown(new, 356)
    anew = block_eigenvectors(torch.cat([before, new], dim=1), 356, 8)
    torch.testing.assert_close(signed(found), signed(anew), atol=1e-6, rtol=0)
    assert not found[354:].any()  # no neighbours


@pytest.mark.parametrize("accepted", [0.0, float("nan")])  # a residual of NaN is no more accepted than a large one
def test_a_graph_that_does_not_converge_in_the_known_steps_is_solved_anew(
    accepted: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    edge_index = random_graph()
    solved, new = Solved.of(edge_index, 300, 8), injected(300, 30, 9)
    monkeypatch.setattr(laplacian_grown, "ACCEPTED_RESIDUAL", accepted)
    anew = block_eigenvectors(torch.cat([edge_index, new], dim=1), 330, 8)
    torch.testing.assert_close(signed(solved.grown(new, 330)), signed(anew), atol=1e-6, rtol=0)


@pytest.mark.parametrize("classes", [2, 4])
def test_where_communities_part_the_spectrum_a_grown_graph_is_solved_all_the_same(classes: int) -> None:
    """The vectors that tell communities apart outgrow the others, more than known steps allow for."""
    before = generate_csbm(edges=60_000, degree=60, classes=classes, homophily=1.0).edge_index
    new = injected(2_000, 20, 20)
    found = Solved.of(before, 2_000, 8).grown(new, 2_020)
    anew = block_eigenvectors(torch.cat([before, new], dim=1), 2_020, 8)
    torch.testing.assert_close(signed(found), signed(anew), atol=1e-5, rtol=0)


def hung(before: Tensor, nodes: int, where: str) -> tuple[Tensor, int]:
    """Edges of new nodes: all to the largest component, or each to three components that they join."""
    component = Solved.of(before, nodes, 8).component
    size = component.bincount(minlength=nodes)[component]
    largest = (size == size.max()).nonzero()[:, 0]
    if where == "largest":
        drawn = injected(len(largest), 40, 40)
        old = drawn.min(0).values
        new = drawn.max(0).values - len(largest) + nodes
        return torch.stack([new, largest[old]]), nodes + 40
    draw = torch.Generator().manual_seed(0)
    small = (size < size.max()).nonzero()[:, 0]
    old = small[torch.randint(len(small), (300,), generator=draw)]
    return torch.stack([nodes + torch.arange(100).repeat_interleave(3), old]), nodes + 100


@pytest.mark.parametrize("where", ["largest", "small"])
@pytest.mark.parametrize("name", ["cora", "citeseer"])
def test_wherever_new_nodes_hang_the_known_number_of_steps_leads_there(
    name: str, where: str, data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forty nodes of forty edges move the spectrum of the largest component; a hundred join small ones."""
    clean = load_dataset(name, root=data_root)
    new, size = hung(clean.edge_index, clean.num_nodes, where)
    solved = Solved.of(clean.edge_index, clean.num_nodes, 8)
    anew = block_eigenvectors(torch.cat([clean.edge_index, new], dim=1), size, 8)
    monkeypatch.setattr(laplacian_grown, "iterate", None)  # nothing is solved anew from now on
    found = solved.grown(new, size)
    # the same space, whatever basis eigenvalues that coincide may have
    torch.testing.assert_close(anew @ (anew.T @ found), found, atol=1e-5, rtol=0)


@pytest.mark.parametrize("nodes", [0, 7, 300])
def test_components_joined_by_new_edges_are_those_of_the_grown_graph(nodes: int) -> None:
    """Three hundred pairs, joined at random by new nodes, or by edges among the old where there is no new node."""
    pairs = torch.arange(600).view(300, 2).T
    solved = Solved.of(pairs, 600, 8)
    for seed in range(20):
        draw = torch.Generator().manual_seed(seed)
        new = torch.randint(600, (2, 3 * max(nodes, 40)), generator=draw)
        if nodes:
            new[0] = 600 + torch.randint(nodes, (new.size(1),), generator=draw)
        every = torch.cat([pairs, new], dim=1)
        rows, columns = torch.cat([every, every.flip(0)], dim=1)
        assert torch.equal(solved._components(new, 600 + nodes), connected_components(rows, columns, 600 + nodes))


def test_a_small_graph_is_solved_anew() -> None:
    edge_index = torch.tensor([[0, 1, 2], [1, 2, 3]])
    solved = Solved.of(edge_index, 4, 8)
    found = solved.grown(torch.tensor([[4], [0]]), 5)
    assert found.shape == (5, 4)
    anew = block_eigenvectors(torch.cat([edge_index, torch.tensor([[4], [0]])], dim=1), 5, 8)
    torch.testing.assert_close(signed(found), signed(anew))


def test_what_a_capture_left_unseen_is_raised() -> None:
    solved = Solved.of(random_graph(), 300, 8)
    solved.check()
    solved.largest.fill_(2e-3)
    with pytest.raises(UnconvergedError, match=r"^the Laplacian of a graph that grew in a capture is off by 2\.0e-03$"):
        solved.check()
    solved.check()  # once
    solved.largest.fill_(float("nan"))
    with pytest.raises(UnconvergedError, match="off by nan"):
        solved.check()


@pytest.mark.gpu
def test_recorded_and_not_give_the_same_bits() -> None:
    edge_index = random_graph(2_000).cuda()
    solved, new = Solved.of(edge_index, 2_000, 8), injected(2_000, 20, 20).cuda()
    plain = grown_encoding(solved, new, 2_020)
    with cuda_graphs.own_stream(torch.device("cuda")):
        replayed = cuda_graphs.Replayed(lambda: grown_encoding(solved, new, 2_020))
        rounds = [replayed().clone() for _ in range(3)]
    assert all(torch.equal(encoding, plain) for encoding in rounds)
    torch.testing.assert_close(
        plain.cpu(), laplacian_encoding(torch.cat([edge_index, new], 1).cpu(), 2_020, 8), atol=5e-6, rtol=0
    )
