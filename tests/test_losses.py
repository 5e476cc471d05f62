"""Losses: values by hand, gradients, and the reference by loops that the code must never be."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fgai_bench.losses import topk_surrogate, topk_variation, tvd
from fgai_bench.metrics import g_tvd
from tests.counting import calls_of

SEEDS = st.integers(0, 2**31)


def coarse(seed: int, edges: int, levels: int = 4) -> torch.Tensor:
    """Weights with many ties."""
    g = torch.Generator().manual_seed(seed)
    return torch.randint(levels, (edges,), generator=g).double() / levels


def plain_surrogate(a: list[float], b: list[float], k: int) -> float:
    """The formula read aloud, with Python's stable sort."""
    tops = [sorted(range(len(a)), key=lambda e: -v[e])[:k] for v in (a, b)]
    return sum(abs(a[e] - b[e]) for top in tops for e in top) / (2 * k)


def test_tvd_is_n_times_g_tvd() -> None:
    y, y_tilde = torch.rand(7, 3).softmax(1), torch.rand(7, 3).softmax(1)
    assert float(tvd(y, y_tilde)) == pytest.approx(7 * g_tvd(y, y_tilde), rel=1e-5)


def test_tvd_gradient_is_half_the_sign() -> None:
    y = torch.tensor([[1.0, -2.0, 0.5]], requires_grad=True)
    tvd(y, torch.tensor([[0.0, 0.0, 0.5]])).backward()
    assert y.grad is not None
    assert y.grad.tolist() == [[0.5, -0.5, 0.0]]


def test_surrogate_over_all_edges_is_the_mean_distance() -> None:
    a, b = torch.rand(9), torch.rand(9)
    assert float(topk_surrogate(a, b, 9)) == pytest.approx(float((a - b).abs().mean()))


def test_surrogate_gradient_reaches_both_and_only_the_top() -> None:
    a = torch.tensor([0.5, 0.3, 0.2], requires_grad=True)
    b = torch.tensor([0.3, 0.6, 0.1], requires_grad=True)
    topk_surrogate(a, b, 1).backward()
    # Edge 0 is a's top (a above b), edge 1 is b's top (a below b); edge 2 is nobody's.
    assert a.grad is not None
    assert b.grad is not None
    assert a.grad.tolist() == [0.5, -0.5, 0.0]
    assert b.grad.tolist() == [-0.5, 0.5, 0.0]


def test_surrogate_passes_gradcheck_away_from_ties() -> None:
    a = torch.rand(6, dtype=torch.double, generator=torch.Generator().manual_seed(0)).requires_grad_()
    b = torch.rand(6, dtype=torch.double, generator=torch.Generator().manual_seed(1)).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, y: topk_surrogate(x, y, 3), (a, b))
    groups = torch.tensor([0, 1, 0, 1, 0, 1])
    assert torch.autograd.gradcheck(lambda x, y: topk_surrogate(x, y, 0.5, groups=groups), (a, b))


@given(seed=SEEDS, edges=st.integers(1, 12), data=st.data())
@settings(max_examples=60, deadline=None)
def test_surrogate_equals_the_plain_formula_with_ties(seed: int, edges: int, data: st.DataObject) -> None:
    a, b, k = coarse(seed, edges), coarse(seed + 1, edges), data.draw(st.integers(1, edges))
    assert float(topk_surrogate(a, b, k)) == pytest.approx(plain_surrogate(a.tolist(), b.tolist(), k))


@given(seed=SEEDS, share=st.sampled_from([0.1, 0.3, 0.5, 1.0]))
@settings(max_examples=60, deadline=None)
def test_node_scope_equals_a_loop_over_nodes(seed: int, share: float) -> None:
    a, b = coarse(seed, 15), coarse(seed + 1, 15)
    groups = torch.randint(6, (15,), generator=torch.Generator().manual_seed(seed)) * 2  # ids with gaps
    expected = []
    for group in groups.unique().tolist():
        mine = groups == group
        k = max(1, math.floor(share * int(mine.sum()) + 1e-9))
        expected.append(plain_surrogate(a[mine].tolist(), b[mine].tolist(), k))
    assert float(topk_surrogate(a, b, share, groups=groups)) == pytest.approx(sum(expected) / len(expected))


@given(seed=SEEDS)
@settings(max_examples=20, deadline=None)
def test_surrogate_is_symmetric_and_zero_between_equals(seed: int) -> None:
    a, b, groups = coarse(seed, 10), coarse(seed + 1, 10), torch.arange(10) % 3
    assert topk_surrogate(a, a, 4) == 0
    assert topk_surrogate(a, b, 4) == pytest.approx(topk_surrogate(b, a, 4))
    assert topk_surrogate(a, b, 0.5, groups=groups) == pytest.approx(topk_surrogate(b, a, 0.5, groups=groups))


def test_nan_outside_the_top_still_shows() -> None:
    poisoned = torch.tensor([0.9, 0.5, math.nan])
    assert topk_surrogate(torch.tensor([0.9, 0.5, 0.1]), poisoned, 1).isnan()


@pytest.mark.parametrize(
    ("k", "groups", "sentence"),
    [
        (0, None, "between 1 and the number of edges"),
        (4, None, "between 1 and the number of edges"),
        (0.5, None, "k is a number of edges"),
        (2, torch.tensor([0, 0, 1]), "share above 0 and at most 1"),
        (0.5, torch.tensor([0, 1]), "one group per edge"),
    ],
)
def test_impossible_requests_say_why(k: float, groups: torch.Tensor | None, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        topk_surrogate(torch.rand(3), torch.rand(3), k, groups=groups)


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match="two \\(E,\\) weights"):
        topk_surrogate(torch.rand(3), torch.rand(4), 1)
    with pytest.raises(ValueError, match="one shape"):
        tvd(torch.rand(3, 2), torch.rand(4, 2))


def test_no_loop_over_edges() -> None:
    """A hundred times the edges take the same number of calls."""

    def calls(edges: int) -> int:
        a, b, groups = torch.rand(edges), torch.rand(edges), torch.randint(edges // 10, (edges,))
        return calls_of(lambda: (topk_surrogate(a, b, edges // 2), topk_surrogate(a, b, 0.5, groups=groups)))

    calls(200)  # what is imported or compiled at the first call
    assert calls(20_000) == calls(200)


@pytest.mark.gpu
def test_values_are_the_same_on_a_gpu() -> None:
    a, b, groups = coarse(0, 1000), coarse(1, 1000), torch.arange(1000) % 7
    on_gpu = float(topk_surrogate(a.cuda(), b.cuda(), 333))
    assert on_gpu == pytest.approx(float(topk_surrogate(a, b, 333)))
    on_gpu = float(topk_surrogate(a.cuda(), b.cuda(), 0.3, groups=groups.cuda()))
    assert on_gpu == pytest.approx(float(topk_surrogate(a, b, 0.3, groups=groups)))


def test_topk_variation_depends_neither_on_size_nor_on_degree():
    """Two copies of a graph, and a graph in which every edge stands for two halves, move a node's attention as far."""
    a, b = torch.tensor([0.5, 0.5, 1.0]), torch.tensor([0.2, 0.8, 1.0])
    once = topk_variation(a, b, 3, nodes=2)
    assert once.item() == pytest.approx((0.3 + 0.3) / 2 / 2)
    assert topk_variation(a.repeat(2), b.repeat(2), 6, nodes=4) == once
    assert topk_variation(a.repeat(2) / 2, b.repeat(2) / 2, 6, nodes=2).item() == pytest.approx(once.item())
    assert topk_surrogate(a.repeat(2) / 2, b.repeat(2) / 2, 6).item() == pytest.approx(
        topk_surrogate(a, b, 3).item() / 2
    )


def test_topk_variation_is_the_surrogate_in_units_of_a_node():
    a, b = torch.rand(2, 12, generator=torch.Generator().manual_seed(0))
    assert topk_variation(a, b, 5, nodes=4).item() == pytest.approx(5 / (2 * 4) * topk_surrogate(a, b, 5).item())
    groups = torch.arange(12) // 3
    assert topk_variation(a, b, 1.0, 4, groups).item() == pytest.approx((a - b).abs().sum().item() / 2 / 4)
