"""The in-domain threat by hand: what real rows look like, the nearest such row, degrees, and homophily."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from fgai_bench.attacks import ATTACKS, BudgetExceeded, ThreatModel, check_budget
from fgai_bench.attacks.domain import FeatureDomain, homophily, percentile
from fgai_bench.testing.fixture import tiny_graph, trained_model

IN_DOMAIN = ThreatModel(features="in-domain", nodes=2, edges_per_node=3)
PATH = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])  # 0 - 1 - 2 - 3: the degrees are 1, 2, 2, 1
WORDS = torch.tensor(
    [[1.0, 0, 1, 0, 0], [0, 1, 1, 0, 0], [0, 0, 1, 0, 0], [1, 1, 1, 0, 0]]
)  # one column is always 1, two 0
COUNTS = torch.tensor([[0.0, 2.0, 0.5], [3.0, 0.0, 0.5], [0.0, -1.0, 1.5], [0.0, 0.0, 0.5]])  # 2, 2, 2 and 1 non-zeros
DENSE = torch.tensor([[0.1, -2.0], [0.3, 5.0], [0.2, 1.0], [0.2, 1.0]])
MIXED = torch.tensor([[0.0, 2.0], [1.0, 0.5], [1.0, 1.0], [0.0, 1.0]])  # one binary column, and one that is not


def graph(x: torch.Tensor, sparse: bool = False) -> Data:
    return Data(x=x.to_sparse_csr() if sparse else x, edge_index=PATH, y=torch.tensor([0, 1, 0, 1]))


def domain_of(x: torch.Tensor, sparse: bool = False) -> FeatureDomain:
    return FeatureDomain.of(IN_DOMAIN, graph(x, sparse))


def attacked(x: torch.Tensor, *rows: list[float], to: tuple[int, ...] = (0,)) -> Data:
    """Return the path with injected rows, each attached to the nodes ``to``."""
    pairs = torch.tensor([(4 + new, old) for new in range(len(rows)) for old in to]).view(-1, 2).t()
    edges = torch.cat([PATH, pairs, pairs.flip(0)], dim=1)
    return Data(x=torch.cat([x, torch.tensor(rows)]), edge_index=edges, y=torch.tensor([0, 1, 0, 1] + [-1] * len(rows)))


def test_a_percentile_is_one_of_the_values():
    counts = torch.tensor([5, 1, 2, 3, 4])
    assert [percentile(counts, share) for share in (0, 20, 21, 80, 95, 100)] == [1, 1, 2, 4, 5, 5]


@pytest.mark.parametrize("sparse", [False, True])
def test_real_rows_say_what_is_in_the_domain(sparse):
    words, counts, dense = domain_of(WORDS, sparse), domain_of(COUNTS, sparse), domain_of(DENSE)
    assert (words.binary.tolist(), words.most_nonzero) == ([True, True, False, False, False], 3)
    assert (words.low.tolist(), words.high.tolist()) == ([0, 0, 1, 0, 0], [1, 1, 1, 0, 0])
    assert (counts.binary, counts.most_nonzero) == (None, 2)
    assert (counts.low.tolist(), counts.high.tolist()) == ([0, -1, 0.5], [3, 2, 1.5])
    assert counts.unit.tolist() == [3, 2, 1]  # a search starts at 0, or at 0.5 in the last column
    assert (dense.binary, dense.most_nonzero) == (None, None)
    assert torch.equal(dense.width, DENSE.amax(0) - DENSE.amin(0))


def test_the_range_is_one_box():
    box = FeatureDomain.of(ThreatModel(feature_low=-0.5, feature_high=2.0), graph(WORDS))
    assert (box.low, box.high, box.width, box.unit, box.most_nonzero) == (-0.5, 2.0, 2.5, 1.0, None)
    assert box.project(torch.tensor([[-1.0, 0.3, 3.0, 0, 0]])).tolist() == [[-0.5, pytest.approx(0.3), 2.0, 0, 0]]


@pytest.mark.parametrize(
    ("x", "row", "nearest"),
    [
        (WORDS, [0.6, 0.4, 0.0, 0.9, 0.0], [1, 0, 1, 0, 0]),  # columns that are the same in every row stay as they are
        (WORDS, [0.9, 0.8, 0.0, 0.0, 0.0], [1, 1, 1, 0, 0]),
        (WORDS, [0.5, 0.5, 0.5, 0.5, 0.5], [0, 0, 1, 0, 0]),
        (COUNTS, [2.0, 1.5, 0.0], [2, 0, 0.5]),  # the last column is never 0, which leaves one entry for the others
        (COUNTS, [0.5, -4.0, 9.0], [0, -1, 1.5]),  # without -1 it costs 16 - 9 more, without 0.5 only 0.25
        (COUNTS, [2.5, -4.0, 0.5], [0, -1, 0.5]),  # the entry that stays is the smaller one: 16 - 9 is more than 2.5^2
        (COUNTS, [1.0, 1.0, 1.0], [1, 0, 1]),  # of equals the first
        (DENSE, [0.0, 9.0], [0.1, 5.0]),
        (MIXED, [0.37, 0.7], [0.0, 0.7]),
    ],
)
def test_the_nearest_row_by_hand(x, row, nearest):
    projected = domain_of(x).project(torch.tensor([row]))
    assert torch.allclose(projected, torch.tensor([nearest], dtype=torch.float))
    assert domain_of(x).violation(projected) is None


def brute_force(domain: FeatureDomain, row: torch.Tensor) -> float:
    """Return the squared distance to the nearest row of the domain, over all sets of entries that are not 0."""
    distances, full = [], domain.clamp(row)
    if domain.binary is not None:
        full = torch.where(domain.binary, domain.high, full)
    for size in range((domain.most_nonzero or row.numel()) + 1):
        for chosen in combinations(range(row.numel()), size):
            best = torch.zeros_like(row)
            best[list(chosen)] = full[list(chosen)]
            if bool(((best >= domain.low) & (best <= domain.high)).all()):
                distances.append(float((best - row).square().sum()))
    return min(distances)


entries = st.floats(-8, 8, width=32)


@settings(max_examples=60, deadline=None)
@given(
    x=st.sampled_from([WORDS, COUNTS, DENSE, MIXED]),
    values=st.lists(entries, min_size=5, max_size=5),
)
def test_a_projection_is_in_the_domain_nearest_and_final(x, values):
    domain, row = domain_of(x), torch.tensor(values[: x.size(1)])
    projected = domain.project(row.unsqueeze(0))
    assert domain.violation(projected) is None
    assert torch.equal(domain.project(projected), projected)
    assert float((projected - row).square().sum()) == pytest.approx(brute_force(domain, row), abs=1e-4)


@pytest.mark.parametrize("x", [WORDS, COUNTS, DENSE, MIXED])
def test_real_rows_and_random_rows_are_in_the_domain(x):
    domain = domain_of(x)
    drawn = domain.draw((50, x.size(1)), 0, "test", x.device)
    assert torch.equal(domain.project(x), x)
    assert domain.violation(drawn) is None
    assert len(drawn.unique(dim=0)) > 1
    assert torch.equal(drawn, domain.draw((50, x.size(1)), 0, "test", x.device))


def test_a_gradient_goes_straight_through_the_projection():
    features = torch.tensor([[0.7, 0.2, 0.0, 0.0, 0.0]], requires_grad=True)
    rows = domain_of(WORDS).straight_through(features)
    (rows * torch.arange(5.0)).sum().backward()
    assert rows.tolist() == [[1, 0, 1, 0, 0]]
    assert features.grad.tolist() == [[0, 1, 2, 3, 4]]


def test_an_attack_in_the_domain():
    assert (
        check_budget(graph(WORDS), attacked(WORDS, [1, 0, 1, 0, 0], [1, 1, 1, 0, 0], to=(0, 3)), IN_DOMAIN).edges == 4
    )


@pytest.mark.parametrize(
    ("x", "row", "to", "sentence"),
    [
        (WORDS, [0.3, 0, 1, 0, 0], (0,), "feature is 0.3, but real features are 0 or 1"),
        (WORDS, [1, 0, 1, 1, 0], (0,), r"outside \[0, 0\], the range of real rows in its column"),
        (COUNTS, [3.0, 2.0, 0.5], (0,), "has 3 non-zero features; 95 % of real rows have at most 2"),
        (MIXED, [0.37, 0.7], (0,), "feature is 0.37, but real features are 0 or 1 in its column"),
        (COUNTS, [3.5, 0.0, 0.5], (0,), r"outside \[0, 3\]"),
        (DENSE, [0.2, -1.0], (0, 1, 2), "has 3 edges, but its threat model allows 2"),
    ],
)
def test_what_no_real_node_has_is_refused(x, row, to, sentence):
    with pytest.raises(BudgetExceeded, match=sentence):
        check_budget(graph(x), attacked(x, row, to=to), IN_DOMAIN)


def test_homophily_by_hand():
    # Node 1 is (1, 0); its neighbours 0 (degree 1) and 2 (degree 2) add up to (4, 0) + (0, 3 sqrt 2) / sqrt 2 = (4, 3).
    # Node 2 is (0, y); its neighbours 1 (degree 2) and 3 (degree 1) add up to (1, 0) / sqrt 2 + (1, 1).
    x = torch.tensor([[4.0, 0.0], [1.0, 0.0], [0.0, 3 * 2**0.5], [1.0, 1.0]])
    expected = torch.tensor([1.0, 0.8, 1 / ((1 + 2**-0.5) ** 2 + 1) ** 0.5, 2**-0.5])
    for features in (x, x.to_sparse_csr()):
        assert torch.allclose(homophily(features, PATH, torch.arange(4)), expected)


def test_an_injected_node_is_as_similar_to_its_neighbours_as_real_ones():
    x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    bound = IN_DOMAIN.model_copy(update={"homophily_percentile": 50.0})
    least = percentile(homophily(x, PATH, torch.arange(4)), 50)
    assert 0.6 < least < 1
    check_budget(graph(x), attacked(x, [1.0, 0.0], to=(0,)), bound)
    with pytest.raises(BudgetExceeded, match=f"homophily of 0; at least {least:.3g}"):
        check_budget(graph(x), attacked(x, [0.0, 1.0], to=(0,)), bound)
    edges = attacked(x, [0.0, 1.0], to=(0,)).edge_index[:, 6:]
    domain = FeatureDomain.of(bound, graph(x)).beside(graph(x), edges, 1)
    moved = domain.project(torch.tensor([[0.0, 1.0]]))
    assert least <= float(torch.nn.functional.cosine_similarity(moved, x[:1])) < 1  # no further than it must
    assert torch.equal(domain.project(moved), moved)


@pytest.mark.parametrize("name", ["injection", "random-injection", "explanation", "validation"])
def test_an_injected_node_that_cannot_be_similar_enough_gets_no_edges(name):
    data = tiny_graph(binary=True)
    data.x = torch.eye(8)[torch.arange(data.x.size(0)) % 8]  # a row is like one of its neighbours at most
    threat = ThreatModel(features="in-domain", homophily_percentile=100.0, nodes=3, edges_per_node=4, steps=2)
    found = ATTACKS[name]()(trained_model(), data, data.test_index, threat=threat, seed=0)
    assert found.ledger.edges < 12
    similar = homophily(found.data.x, found.data.edge_index, torch.arange(data.x.size(0), found.data.x.size(0)))
    degree = torch.bincount(found.data.edge_index[1], minlength=found.data.x.size(0))[data.x.size(0) :]
    most = homophily(data.x, data.edge_index, torch.arange(data.x.size(0))).max()
    assert bool(((degree == 0) | (similar >= most - 1e-4)).all())


@pytest.mark.parametrize("name", ["injection", "random-injection", "explanation"])
@pytest.mark.parametrize("percentile_of_homophily", [None, 20.0])
def test_attacks_obey_the_domain_where_todays_rows_do_not(name, percentile_of_homophily):
    data, attack = tiny_graph(binary=True), ATTACKS[name]()
    today = ThreatModel(nodes=3, edges_per_node=2, step=0.3, steps=2)
    changes = {"features": "in-domain", "edges_per_node": 40, "homophily_percentile": percentile_of_homophily}
    threat = today.model_copy(update=changes)
    found = attack(trained_model(), data, data.test_index, threat=threat, seed=0)
    assert found.ledger.edges == 3 * 6  # 95 % of the nodes have at most 6
    assert set(found.injected.unique().tolist()) == {0, 1}
    before = attack(trained_model(), data, data.test_index, threat=today, seed=0)
    with pytest.raises(BudgetExceeded, match="real features are 0 or 1"):
        check_budget(data, before.data, threat)
