"""The threat model and the one check of a budget, by hand on a path of four nodes."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from torch_geometric.data import Data

from fgai_bench.attacks import ATTACKS, Attack, BudgetExceeded, ThreatModel, check_budget
from fgai_bench.attacks.base import Candidate, Trace
from fgai_bench.attacks.budget import Ledger, scenario_among
from fgai_bench.attacks.catalogue import scenario_of
from fgai_bench.models import build_model
from fgai_bench.testing.fixture import tiny_graph, trained_model

X = torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0], [0.5, 0.5]])
EDGES = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])  # 0 - 1 - 2 - 3
Y = torch.tensor([0, 1, 0, 1])
TARGETS = torch.tensor([0, 2, 3])
INJECTION = ThreatModel(nodes=2, edges_per_node=2, feature_low=0.0, feature_high=1.0)
FEATURES = ThreatModel(scenario="features", nodes=2, epsilon=0.5)
EDGE = ThreatModel(scenario="edges", edges=1)


def clean(sparse: bool = False) -> Data:
    return Data(x=X.to_sparse_csr() if sparse else X, edge_index=EDGES, y=Y)


def with_edges(x: torch.Tensor, *pairs: tuple[int, int], sparse: bool = False, one_way: bool = False) -> Data:
    """Return the path with other features and new edges in both directions; new nodes have the label -1."""
    new = torch.tensor(pairs, dtype=torch.long).view(-1, 2).t()
    new = new if one_way else torch.cat([new, new.flip(0)], dim=1)
    y = torch.cat([Y, Y.new_full((len(x) - 4,), -1)])
    return Data(x=x.to_sparse_csr() if sparse else x, edge_index=torch.cat([EDGES, new], dim=1), y=y)


def injected(*rows: list[float]) -> torch.Tensor:
    return torch.cat([X, torch.tensor(rows)])


def changed(**entries: float) -> torch.Tensor:
    """Return features in which entry (node, column) is another: ``n2c1=0.5``."""
    x = X.clone()
    for place, value in entries.items():
        x[int(place[1]), int(place[3])] = value
    return x


TWO = injected([1.0, 0.0], [0.5, 0.5])


def test_the_defaults_are_the_papers():
    threat = ThreatModel()
    assert (threat.nodes, threat.edges_per_node, threat.step, threat.steps) == (20, 20, 0.1, 10)
    assert (threat.feature_low, threat.feature_high, threat.restarts) == (-1.0, 1.0, 1)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"nodes": -1}, "nodes"),
        ({"edges_per_node": -1}, "edges_per_node"),
        ({"step": 0}, "step"),
        ({"steps": -1}, "steps"),
        ({"restarts": 0}, "restarts"),
        ({"edges": -5}, "edges"),
        ({"epsilon": -0.1}, "epsilon"),
        ({"scenario": "poison"}, "scenario"),
        ({"targets": "train"}, "targets"),
        ({"budget": 3}, "budget"),
        ({"feature_low": 2.0}, r"feature_low 2\.0 must not exceed feature_high 1\.0"),
    ],
)
def test_what_makes_no_sense_is_refused(changes, key):
    with pytest.raises(ValidationError, match=key):
        ThreatModel(**changes)


def test_it_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        ThreatModel().nodes = 3


def test_the_scenario_is_the_one_among_the_tags():
    assert scenario_among(("gradient", "features")) == "features"
    assert scenario_among(("gradient",), default="edges") == "edges"


@pytest.mark.parametrize("sparse", [False, True])
def test_an_injection_within_its_budget(sparse):
    graph = with_edges(TWO, (4, 0), (4, 2), (5, 3), (5, 0), sparse=sparse)
    ledger = check_budget(clean(sparse), graph, INJECTION, TARGETS, gradient_calls=7)
    assert ledger == Ledger(nodes=2, edges=4, largest_feature=1.0, gradient_calls=7)


@pytest.mark.parametrize("sparse", [False, True])
def test_changed_features_within_their_budget(sparse):
    x = changed(n0c0=1.25, n2c1=-0.5)  # a stored value, and a zero that becomes stored
    ledger = check_budget(clean(sparse), with_edges(x, sparse=sparse), FEATURES, TARGETS)
    assert ledger == Ledger(changed_nodes=2, feature_change=0.5)


def test_a_new_edge_within_its_budget_may_join_any_nodes():
    assert check_budget(clean(), with_edges(X, (1, 3)), EDGE, TARGETS) == Ledger(edges=1)


@pytest.mark.parametrize(
    ("threat", "graph", "sentence"),
    [
        (INJECTION, with_edges(injected([0, 0], [0, 0], [0, 0])), "nodes = 3, but its threat model allows 2"),
        (INJECTION, with_edges(TWO, (4, 0), (4, 2), (4, 3)), "an injected node has 3 edges, .* allows 2"),
        (INJECTION, with_edges(injected([1, 0]), (4, 0), (4, 2), (4, 3)), "has 3 edges"),
        (INJECTION, with_edges(injected([-1.0, 0.0]), (4, 0)), r"outside \[0, 1\]"),
        (INJECTION, with_edges(injected([1.00001, 0.0]), (4, 0)), r"outside \[0, 1\]"),
        (INJECTION, with_edges(injected([float("nan"), 0.0]), (4, 0)), "NaN or infinite"),
        (INJECTION, with_edges(TWO, (4, 1)), "attached to node 1, which is not a target"),
        (INJECTION, with_edges(TWO, (4, 5)), "must join an injected node and a target"),
        (INJECTION, with_edges(TWO, (0, 2)), "must join an injected node and a target"),
        (INJECTION, with_edges(TWO, (4, 6)), "numbered from 0 to 5"),
        (INJECTION, with_edges(torch.cat([changed(n0c0=0.5), TWO[4:]]), (4, 0)), "changed_nodes = 1, .* allows 0"),
        (EDGE, with_edges(X, (0, 2), (0, 3)), "edges = 2, but its threat model allows 1"),
        (EDGE, with_edges(TWO), "nodes = 2, but its threat model allows 0"),
        (EDGE, with_edges(X, (0, 2), one_way=True), "once in both directions"),
        (EDGE, with_edges(X, (0, 2), (0, 2)), "once in both directions"),
        (EDGE, with_edges(X, (2, 2)), "join two different nodes"),
        (EDGE, with_edges(X, (0, 1)), "an edge of the original graph already"),
        (FEATURES, with_edges(changed(n0c0=1.51)), "feature_change = 0.51, but its threat model allows 0.5"),
        (FEATURES, with_edges(changed(n0c0=1.1, n2c0=0.1, n3c0=0.6)), "changed_nodes = 3, .* allows 2"),
        (FEATURES, with_edges(changed(n1c0=0.1)), "features of node 1 have changed, which is not a target"),
        (FEATURES, with_edges(changed(n0c0=float("nan"))), "NaN or infinite"),
        (FEATURES, with_edges(X, (0, 2)), "edges = 1, but its threat model allows 0"),
    ],
)
def test_each_violation_is_an_error_that_says_what_is_allowed(threat, graph, sentence):
    with pytest.raises(BudgetExceeded, match=sentence):
        check_budget(clean(), graph, threat, TARGETS)


@pytest.mark.parametrize(
    ("graph", "sentence"),
    [
        (Data(x=X, edge_index=EDGES.flip(1), y=Y), "keep the original nodes and edges first, in their order"),
        (Data(x=X, edge_index=EDGES[:, 1:], y=Y), "keep the original nodes and edges first, in their order"),
        (Data(x=X[1:], edge_index=EDGES, y=Y), "keep the original nodes and edges first, in their order"),
        (Data(x=X, edge_index=EDGES, y=1 - Y), "must not change the labels"),
        (Data(x=X, edge_index=EDGES, y=Y, edge_weight=torch.zeros(6)), r"must not change data\.edge_weight"),
    ],
)
def test_the_original_graph_stays_as_it_was(graph, sentence):
    original = clean()
    original.edge_weight = torch.ones(6)
    with pytest.raises(BudgetExceeded, match=sentence):
        check_budget(original, graph, INJECTION, TARGETS)


@pytest.mark.parametrize(("low", "high"), [(-0.1, 0.7), (0.1, 0.3), (-1.0, 1e-3)])
def test_a_bound_in_single_precision_is_within_the_range(low, high):
    x = torch.cat([X, torch.tensor([[low, high]])])
    check_budget(clean(), with_edges(x, (4, 0)), ThreatModel(feature_low=low, feature_high=high), TARGETS)


def test_a_change_is_rounded_as_the_features_are():
    large = Data(x=1000 * X, edge_index=EDGES, y=Y)
    x = large.x.clone()
    x[0] += 0.1  # 1000.1 has no exact form in single precision
    threat = ThreatModel(scenario="features", nodes=1, epsilon=0.1)
    assert check_budget(large, Data(x=x, edge_index=EDGES, y=Y), threat, TARGETS).changed_nodes == 1


def test_without_targets_any_node_may_be_attached_to():
    assert check_budget(clean(), with_edges(TWO, (4, 1)), INJECTION).edges == 1


def recount(before: Data, after: Data) -> dict[str, float]:
    """Count what an attack spent, edge by edge and row by row on dense features."""
    known, all_edges = ({frozenset(edge) for edge in data.edge_index.t().tolist()} for data in (before, after))
    rows = after.x.to_dense()
    added, change = rows[before.x.size(0) :].abs(), (rows[: before.x.size(0)] - before.x).abs()
    return {
        "nodes": len(added),
        "edges": len(all_edges - known),
        "largest_feature": float(added.max()) if added.numel() else 0.0,
        "changed_nodes": int((change > 0).any(1).sum()),
        "feature_change": float(change.max()),
    }


SHORT = sorted({*ATTACKS} - {*ATTACKS.names("fixed-search")})  # contracts look at the long ones
THREATS = st.builds(
    ThreatModel,
    nodes=st.integers(0, 3),
    edges_per_node=st.integers(0, 15),
    edges=st.integers(0, 20),
    epsilon=st.floats(0, 1),
    feature_low=st.floats(-2, 0),
    feature_high=st.floats(0, 2),
    step=st.floats(0.01, 3),
    steps=st.integers(0, 2),
    restarts=st.integers(1, 2),
)


@settings(max_examples=30, deadline=None)
@given(name=st.sampled_from(SHORT), threat=THREATS, seed=st.integers(0, 2**31 - 1), sparse=st.booleans())
def test_every_attack_keeps_every_budget_and_its_ledger_is_true(name, threat, seed, sparse):
    data, threat = tiny_graph(sparse=sparse), threat.model_copy(update={"scenario": scenario_of(name)})
    found = ATTACKS[name]()(trained_model(), data, data.test_index, threat=threat, seed=seed)
    check_budget(data, found.data, threat, data.test_index)
    counted = recount(tiny_graph(), found.data)
    assert counted == {what: pytest.approx(getattr(found.ledger, what), abs=1e-6) for what in counted}


class NewEdge(Attack):
    def search(self, victim, threat, seed):
        return Candidate(with_edges(X, (0, 2)), Trace(curve=(0.5,)))


def test_calling_an_attack_checks_its_budget():
    model = build_model("gat", 2, 2)
    with pytest.raises(BudgetExceeded, match="edges = 1, but its threat model allows 0"):
        NewEdge()(model, clean(), TARGETS, threat=ThreatModel(scenario="edges", edges=0))
    found = NewEdge()(model, clean(), TARGETS, threat=EDGE)
    assert (found.ledger.edges, found.curve, found.flags, found.kept) == (1, (0.5,), (), None)


def test_a_threat_model_is_read_without_torch():
    code = "import sys; from fgai_bench.attacks import ThreatModel, check_budget; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
