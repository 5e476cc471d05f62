"""Attention is keyed by its edges: alignment of interleaved, permuted, missing, parallel and added edges."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from fgai_bench.models import Attention, align
from fgai_bench.models.attention import edge_keys

CLEAN = Attention(torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.tensor([0.1, 0.2, 0.3]))


def over(edges: list[tuple[int, int]], weights: list[float], added: int = 0) -> Attention:
    edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
    return Attention(edge_index, torch.tensor(weights, dtype=torch.double), added)


def lists(pair: tuple[torch.Tensor, torch.Tensor]) -> list[list[float]]:
    return [side.tolist() for side in pair]


def test_interleaved_injected_edges_are_left_out() -> None:
    clean = over([(0, 1), (1, 2), (2, 0)], [0.1, 0.2, 0.3])
    attacked = over([(9, 1), (0, 1), (9, 2), (1, 2), (2, 9), (2, 0)], [0.9, 0.4, 0.8, 0.5, 0.7, 0.6])
    assert lists(align(clean, attacked)) == [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]


def test_direction_of_an_edge_matters() -> None:
    assert lists(align(over([(0, 1)], [0.5]), over([(1, 0)], [0.7]))) == [[0.5], [0.0]]


def test_permuted_edges_come_back_in_the_clean_order() -> None:
    clean, attacked = over([(2, 0), (0, 1), (1, 2)], [0.3, 0.1, 0.2]), over([(0, 1), (1, 2), (2, 0)], [0.4, 0.5, 0.6])
    assert lists(align(clean, attacked)) == [[0.3, 0.1, 0.2], [0.6, 0.4, 0.5]]


def test_missing_edges_get_zero_or_are_left_out() -> None:
    clean, attacked = over([(0, 1), (1, 2), (2, 0)], [0.1, 0.2, 0.3]), over([(2, 0), (0, 1)], [0.6, 0.4])
    assert lists(align(clean, attacked)) == [[0.1, 0.2, 0.3], [0.4, 0.0, 0.6]]
    assert lists(align(clean, attacked, common=True)) == [[0.1, 0.3], [0.4, 0.6]]


def test_parallel_edges_are_one_edge_with_their_sum() -> None:
    clean = over([(1, 0), (0, 1), (1, 0)], [0.25, 1.0, 0.5])
    attacked = over([(0, 1), (1, 0), (0, 1)], [0.125, 0.375, 0.25])
    assert lists(align(clean, attacked)) == [[0.75, 1.0], [0.375, 0.375]]


def test_added_loops_are_no_edges_but_a_graphs_own_loop_is() -> None:
    clean = over([(0, 1), (1, 1), (0, 0), (1, 1)], [0.1, 0.2, 0.9, 0.8], added=2)
    attacked = over([(1, 1), (0, 1), (0, 0), (1, 1), (2, 2)], [0.3, 0.4, 0.7, 0.6, 1.0], added=3)
    assert lists(align(clean, attacked)) == [[0.1, 0.2], [0.4, 0.3]]


def test_empty_sides() -> None:
    empty, clean = over([], []), over([(0, 1)], [0.5])
    assert lists(align(empty, clean)) == [[], []]
    assert lists(align(clean, empty)) == [[0.5], [0.0]]
    assert lists(align(clean, empty, common=True)) == [[], []]
    assert lists(align(empty, empty)) == [[], []]


def test_gradients_flow_to_both_through_every_case() -> None:
    w = torch.tensor([0.25, 1.0, 0.5], requires_grad=True)
    w_tilde = torch.tensor([0.1, 0.2, 0.3], requires_grad=True)
    clean = Attention(torch.tensor([[1, 0, 1], [0, 1, 0]]), w)  # 1->0 twice, 0->1
    attacked = Attention(torch.tensor([[5, 1, 0], [0, 0, 2]]), w_tilde)  # only 1->0 in common
    a, b = align(clean, attacked)
    (3 * a[0] + 5 * b[0] + 7 * b[1]).backward()
    assert w.grad is not None
    assert w_tilde.grad is not None
    assert w.grad.tolist() == [3.0, 0.0, 3.0]
    assert w_tilde.grad.tolist() == [0.0, 5.0, 0.0]


@given(seed=st.integers(0, 2**31))
@settings(max_examples=50, deadline=None)
def test_align_equals_a_dictionary(seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    sides = [Attention(torch.randint(5, (2, n), generator=g), torch.rand(n, generator=g).double()) for n in (9, 12)]
    clean, other = [{}, {}]
    for side, table in zip(sides, (clean, other), strict=True):
        for edge, weight in zip(side.edge_index.T.tolist(), side.weight.tolist(), strict=True):
            table[tuple(edge)] = table.get(tuple(edge), 0.0) + weight
    w, w_tilde = align(*sides)
    assert w.tolist() == pytest.approx(list(clean.values()))
    assert w_tilde.tolist() == pytest.approx([other.get(edge, 0.0) for edge in clean])


def test_keys_tell_every_pair_of_nodes_apart() -> None:
    pairs = torch.cartesian_prod(torch.arange(4), torch.arange(4)).T
    assert edge_keys(pairs, 4).unique().numel() == 16


@pytest.mark.parametrize(
    ("edges", "weights"),
    [(torch.zeros(2, 3), torch.zeros(2)), (torch.zeros(3), torch.zeros(3)), (torch.zeros(2, 4), torch.zeros(4, 1))],
)
def test_shapes_must_fit(edges: torch.Tensor, weights: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"edge_index \(2, E\) and weight \(E,\)"):
        Attention(edges.long(), weights)


@pytest.mark.parametrize("added", [-1, 4])
def test_more_loops_than_entries_are_refused(added: int) -> None:
    with pytest.raises(ValueError, match="added self-loops"):
        Attention(CLEAN.edge_index, CLEAN.weight, added)


def test_detach_keeps_edges_and_loops() -> None:
    att = Attention(CLEAN.edge_index, CLEAN.weight.clone().requires_grad_(), added=1)
    assert not att.detach().weight.requires_grad
    assert (att.detach().added, att.detach().edge_index is att.edge_index) == (1, True)


class Operations(TorchDispatchMode):
    """Counts the operations of torch that run inside of it."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += 1
        return function(*args, **(kwargs or {}))


def test_no_step_is_taken_edge_by_edge() -> None:
    """A permuted attention is aligned in as many operations for ten thousand edges as for ten."""
    counts = set()
    for edges in (10, 10_000):
        g = torch.Generator().manual_seed(0)
        edge_index, order = (
            torch.stack([torch.arange(edges), torch.arange(edges) + 1]),
            torch.randperm(edges, generator=g),
        )
        clean = Attention(edge_index, torch.rand(edges, generator=g))
        with Operations() as operations:
            w, w_tilde = align(clean, Attention(edge_index[:, order], clean.weight[order]))
        assert torch.equal(w, w_tilde)
        counts.add(operations.count)
    assert len(counts) == 1
