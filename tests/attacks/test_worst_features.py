"""The worst case over feature attacks is never weaker than a member, and chooses nodes as it says."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from fgai_bench.attacks import ATTACKS, ThreatModel, Victim, features
from fgai_bench.attacks.features import CHOICES, smallest_margins, steepest
from fgai_bench.attacks.objectives import Reference, margins, soft_error
from fgai_bench.attacks.search import PortfolioSearch
from fgai_bench.models.base import Output
from fgai_bench.testing.fixture import tiny_graph, trained_model

DATA, MODEL = tiny_graph(), trained_model()
THREAT = ThreatModel(scenario="features", nodes=4, epsilon=0.6)
TEST = DATA.test_index


def right(attacked) -> float:
    with torch.no_grad():
        return (MODEL(attacked.data).logits[TEST].argmax(1) == DATA.y[TEST]).float().mean().item()


@cache
def worst_of(seed: int):
    return ATTACKS["worst-features"]()(MODEL, DATA, TEST, threat=THREAT, seed=seed)


def test_the_published_attack_inside_is_the_published_attack(monkeypatch):
    for stage in ("FIRST", "LAST"):
        monkeypatch.setattr(features, stage, 1)
    alone = ThreatModel(scenario="features", nodes=4, epsilon=5.0, feature_low=-50.0, feature_high=50.0)
    wide = alone.model_copy(update={"step": 0.001})
    worst, published = (
        ATTACKS[name]()(MODEL, DATA, TEST, threat=threat, seed=0)
        for name, threat in (("worst-features", wide), ("feature-pgd", alone))
    )
    assert worst.curve[0] == pytest.approx(1 - right(published))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_it_leaves_less_than_ten_steps_at_random_nodes(seed):
    worst, published = worst_of(seed), ATTACKS["feature-pgd"]()(MODEL, DATA, TEST, threat=THREAT, seed=seed)
    assert right(worst) < right(published)
    assert worst.curve[-1] == pytest.approx(1 - right(worst))
    assert worst.ledger.changed_nodes <= 4
    assert worst.ledger.feature_change <= 0.6 + 1e-6


@pytest.mark.slow
def test_the_steps_of_the_threat_model_do_not_change_it():
    many = THREAT.model_copy(update={"steps": 50, "step": 0.5})
    found = ATTACKS["worst-features"]()(MODEL, DATA, TEST, threat=many, seed=0)
    assert (THREAT.steps, THREAT.step) != (50, 0.5)
    assert torch.equal(found.data.x, worst_of(0).data.x)


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize(("nodes", "chosen"), [(5, 5), (40, 12)])
def test_a_choice_holds_distinct_targets(name, nodes, chosen):
    search = PortfolioSearch(Victim(MODEL, DATA, TEST), THREAT.model_copy(update={"nodes": nodes}), 0)
    nodes = CHOICES[name](search)
    assert nodes.unique().numel() == nodes.numel() == chosen
    assert torch.isin(nodes, TEST).all()


def test_the_smallest_margins_come_first_and_errors_last():
    search = PortfolioSearch(Victim(MODEL, DATA, TEST), THREAT.model_copy(update={"nodes": 12}), 0)
    search.truth = search.truth.clone()
    search.truth[3] = (search.truth[3] + 1) % 3  # a target that is wrong already
    order = smallest_margins(search)
    with torch.no_grad():
        margin = margins(MODEL(DATA).logits[order[:-1]], DATA.y[order[:-1]])
    assert order[-1] == TEST[3]
    assert (margin.diff() >= 0).all()


def test_the_steepest_choice_is_where_features_matter_most_for_the_weakest_target():
    """Held against the gradient of that target's margin over all features at once."""
    search = PortfolioSearch(Victim(MODEL, DATA, TEST), THREAT.model_copy(update={"nodes": 3}), 0)
    x = DATA.x.clone().requires_grad_()
    margin = margins(MODEL.propagate(MODEL.embed(x), DATA.edge_index).logits[TEST], DATA.y[TEST])
    slope = torch.autograd.grad(margin.min(), x)[0].abs().sum(1)
    assert set(steepest(search).tolist()) == set(TEST[slope[TEST].topk(3).indices].tolist())


def test_soft_errors_count_who_has_fallen():
    """Margins of 2, 2, -2 and -2 lie twenty scales from the border: half of the targets have fallen."""
    clean = Output(torch.tensor([[2.0, 0.0]] * 4), None)
    attacked = torch.tensor([[2.0, 0.0], [2.0, 0.0], [0.0, 2.0], [0.0, 2.0]])
    reference = Reference.of(clean, lambda out: out.logits)
    assert soft_error(attacked, clean, reference).item() == pytest.approx(0.5)
