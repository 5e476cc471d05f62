"""The count_ledger counts what was spent on the attacked graph itself, dense and sparse."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from fgai_bench.attacks import BudgetExceeded, ThreatModel
from fgai_bench.attacks.result import Trace, count_ledger, finish_attack

X = torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])  # 0 - 1 - 2


def clean(sparse: bool = False) -> Data:
    return Data(x=X.to_sparse_csr() if sparse else X, edge_index=EDGES)


def attacked(x: torch.Tensor, *pairs: tuple[int, int], sparse: bool = False) -> Data:
    new = torch.tensor(pairs, dtype=torch.long).view(-1, 2).t()
    return Data(x=x.to_sparse_csr() if sparse else x, edge_index=torch.cat([EDGES, new], dim=1))


@pytest.mark.parametrize("sparse", [False, True])
def test_an_injected_node(sparse):
    x = torch.cat([X, torch.tensor([[-3.0, 0.5]])])
    ledger = count_ledger(clean(sparse), attacked(x, (3, 0), (0, 3), (3, 2), (2, 3), sparse=sparse), gradient_calls=7)
    assert (ledger.nodes, ledger.edges, ledger.largest_feature, ledger.gradient_calls) == (1, 2, 3.0, 7)
    assert (ledger.changed_nodes, ledger.feature_change) == (0, 0.0)


@pytest.mark.parametrize("sparse", [False, True])
def test_changed_features(sparse):
    x = X.clone()
    x[0, 0], x[2, 1] = 1.25, -0.5  # a stored value, and a zero that becomes stored
    ledger = count_ledger(clean(sparse), attacked(x, sparse=sparse))
    assert (ledger.changed_nodes, ledger.feature_change, ledger.nodes, ledger.edges) == (2, 0.5, 0, 0)


def test_an_edge_in_one_direction_counts_and_an_old_one_does_not():
    assert count_ledger(clean(), attacked(X, (0, 2))).edges == 1
    assert count_ledger(clean(), attacked(X, (0, 2), (2, 0))).edges == 1
    assert count_ledger(clean(), attacked(X, (0, 1))).edges == 0


@pytest.mark.parametrize(
    "broken",
    [
        Data(x=X, edge_index=EDGES.flip(1)),
        Data(x=X, edge_index=EDGES[:, 1:]),
        Data(x=X[1:], edge_index=EDGES),
    ],
)
def test_originals_must_come_first(broken):
    with pytest.raises(BudgetExceeded, match="must keep the original nodes and edges first, in their order"):
        count_ledger(clean(), broken)


def test_settling_holds_the_count_against_the_budget():
    with pytest.raises(BudgetExceeded, match="edges = 1, but its threat model allows 0"):
        finish_attack(clean(), attacked(X, (0, 2), (2, 0)), ThreatModel(scenario="edges", edges=0))
    found = finish_attack(
        clean(), attacked(X, (0, 2), (2, 0)), ThreatModel(scenario="edges", edges=1), Trace(curve=(0.5,))
    )
    assert (found.ledger.edges, found.curve, found.flags, found.kept) == (1, (0.5,), (), None)
