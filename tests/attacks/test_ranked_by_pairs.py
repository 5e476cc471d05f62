"""Attacks where ROC-AUC ranks: what a target has at stake, the loss of ranks, and searches that know of both."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks import ThreatModel, Victim
from fgai_bench.attacks.features import smallest_margins
from fgai_bench.attacks.local_search import LocalSearch
from fgai_bench.attacks.objectives import Reference, objective_named
from fgai_bench.attacks.placement import cover, stakes
from fgai_bench.attacks.search import PLACEMENTS, PortfolioMember, PortfolioSearch, near_the_middle
from fgai_bench.metrics import roc_auc
from fgai_bench.models import Output, build_model
from fgai_bench.models.base import frozen_eval

Y = torch.tensor([1, 1, 0, 0, 0, 0])
LEADS = torch.tensor([-1.0, -3.5, -2.0, -3.0, -4.0, -5.0])  # of class 1: everything is predicted to be of class 0
THREAT = ThreatModel(nodes=1, edges_per_node=2, features="range")


def victim(score: str) -> Victim:
    """Six nodes without edges, all of them targets."""
    data = Data(x=torch.randn(6, 3), edge_index=torch.empty(2, 0, dtype=torch.long), y=Y, score=score)
    return Victim(build_model("gat", 3, 2, seed=0), data, torch.arange(6))


def logits(leads: Tensor = LEADS) -> Tensor:
    return torch.stack([torch.zeros_like(leads), leads], dim=1)


def test_stakes_are_the_pairs_that_a_target_wins_and_their_mean_is_the_score() -> None:
    # The positives are above 4 and 2 negatives, the negatives below 1, 1, 2 and 2 positives; 8 pairs, 6 targets.
    ranked = stakes(victim("roc_auc"), logits(), Y)
    assert ranked.tolist() == pytest.approx([6 / 16 * won for won in (4, 2, 1, 1, 2, 2)])
    assert float(ranked.mean()) == pytest.approx(roc_auc(LEADS, Y))
    assert stakes(victim("f1"), logits(), Y).tolist() == [0, 0, 1, 1, 1, 1]


def test_edges_go_to_the_rarer_class_although_it_is_predicted_nowhere() -> None:
    clean = Output(logits(), None)
    assert cover(victim("roc_auc"), clean, THREAT, 0)[0, 0] == 0
    assert not torch.isin(cover(victim("f1"), clean, THREAT, 0), torch.tensor([0, 1])).any()


def test_the_loss_of_ranks_counts_pairs_in_the_wrong_order() -> None:
    two = logits(torch.tensor([1.0, -1.0]))
    reference = Reference(two, torch.tensor([1, 0]), None)
    loss = objective_named("soft-auc")
    out = Output(two, None)
    assert float(loss(two, out, reference)) == pytest.approx(float(torch.tensor(-2 / 0.2).sigmoid()))
    assert float(loss(two - 9, out, reference)) == pytest.approx(float(loss(two, out, reference)))  # no border
    assert float(loss(-two, out, reference)) == pytest.approx(1, abs=1e-3)


def searched(score: str) -> PortfolioSearch:
    made = victim(score)
    ring = torch.stack([torch.arange(6), torch.arange(6).roll(1)])
    data = made.data.clone()
    data.edge_index = torch.cat([ring, ring.flip(0)], dim=1)
    return PortfolioSearch(replace(made, data=data), ThreatModel(nodes=2, edges_per_node=2), 0)


def test_a_search_looks_at_ranks_where_they_are_the_score() -> None:
    search = searched("roc_auc")
    with frozen_eval(search.victim.model):
        attached = PLACEMENTS["random"](search.victim, search.clean, search.threat, 0)
        member = search.tried(PortfolioMember(attached, "soft-auc", 0.1, near_the_middle(search, 0)))
        local = LocalSearch(search, [member], member, seed=0)
        outlook = local.looked()
        with torch.no_grad():
            now = search.victim.read(search.scene(attached).output(member.features))
        at_stake = stakes(search.victim, now, search.truth).numpy()
        assert at_stake[outlook.border].tolist() == sorted(at_stake[at_stake > 0], reverse=True)
        losses = {local.moved("climb").loss for _ in range(20)}
    assert losses == {"margin", "soft-error", "soft-auc"}
    assert search.loss_named("logit-ratio") == "soft-auc"
    assert searched("f1").loss_named("logit-ratio") == "logit-ratio"


def test_margins_are_taken_from_the_other_class() -> None:
    search = searched("roc_auc")
    search.clean = Output(logits(), None)
    # Halfway stand -3.5 (the lower of two) and -4: a positive is right above -4, a negative below -3.5.
    assert search.margins(logits()).tolist() == pytest.approx([3.0, 0.5, -1.5, -0.5, 0.5, 1.5])
    search.threat = search.threat.model_copy(update={"nodes": 2})
    assert set(smallest_margins(search).tolist()) == {1, 4}
    assert np.isclose(float(search.score(logits())), roc_auc(LEADS, Y))
