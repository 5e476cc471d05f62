"""Candidates side by side, moves of the local search, and the end of a search."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

import fgai_bench as fb
from fgai_bench.attacks import ATTACKS, ThreatModel, Victim
from fgai_bench.attacks.local_search import BLACK_BOX, SIDE_BY_SIDE, LocalSearch
from fgai_bench.attacks.search import PLACEMENTS, Copies, PortfolioMember, PortfolioSearch, imitating, near_the_middle
from fgai_bench.attacks.worst import Worst
from fgai_bench.fast.threads import side_by_side
from fgai_bench.models import MODELS, build_model
from fgai_bench.models.base import frozen_eval
from fgai_bench.models.gat import GAT
from fgai_bench.testing.fixture import CLASSES, FEATURES, tiny_graph, trained_model

DATA = tiny_graph()
THREAT = ThreatModel(nodes=3, edges_per_node=2)


def search_on(model, threat=THREAT, data=DATA) -> PortfolioSearch:
    return PortfolioSearch(Victim(model, data, data.test_index), threat, 0)


def members(search: PortfolioSearch, number: int) -> list[PortfolioMember]:
    draws = [PLACEMENTS["random"](search.victim, search.clean, search.threat, seed) for seed in range(number)]
    losses = ("margin", "nll", "masked-nll", "logit-ratio", "soft-error", "margin")
    return [
        PortfolioMember(attached, losses[index], 0.1, near_the_middle(search, index))
        for index, attached in enumerate(draws)
    ]


@pytest.mark.parametrize("name", ["gat", "gatv2", "gt", "gat-one-hop", "gcn"])
def test_candidates_side_by_side_climb_as_they_do_alone(name):
    if name == "gcn":
        model = fb.fit("gcn", trained_model(), DATA, epochs=2)
    else:
        model = build_model(name, FEATURES, CLASSES, seed=1)
    with frozen_eval(model):
        search = search_on(model)
        some = members(search, 6)
        some[1] = PortfolioMember(some[1].attached.clone(), "scaled-margin", 0.05, some[1].features)
        some[1].attached[0, 1] = -1
        alone = [search.climb(member, 4) for member in some]
        search.copies[6] = Copies.of(search.victim, search.embedded, search.clean, 6)
        assert search.copies[6] is not None
        together = search.climb_all(some, 4)
    for one, other in zip(alone, together, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-6)
        assert torch.allclose(one.features, other.features, atol=1e-4)


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", ["gat", "gatv2", "gt", "gat-one-hop", "gcn", "gnnguard-sparse", "votes"])
def test_candidates_on_two_cores_climb_as_they_do_on_one(name, two_threads):
    if name in MODELS:
        model = build_model(name, FEATURES, CLASSES, seed=1)
    else:
        model = fb.fit(name, trained_model(), DATA, epochs=2)
    with frozen_eval(model):
        search, alone = search_on(model), search_on(model)
        both = search.climb_all(members(search, 5), 4)
        torch.set_num_threads(1)
        one_by_one = [alone.climb(member, 4) for member in members(alone, 5)]
    assert [member.score for member in both] == [member.score for member in one_by_one]
    assert all(torch.equal(one.features, other.features) for one, other in zip(both, one_by_one, strict=True))
    assert (search.calls, search.curve) == (alone.calls, alone.curve)


def test_a_piece_that_fails_is_heard_and_the_number_of_threads_stays(two_threads):
    assert side_by_side(lambda number: (number, torch.get_num_threads()), [3, 1, 2]) == [(3, 1), (1, 1), (2, 1)]
    with pytest.raises(ZeroDivisionError):
        side_by_side(lambda number: 1 // number, [1, 0])
    with ThreadPoolExecutor(1) as later:
        assert torch.get_num_threads() == later.submit(torch.get_num_threads).result() == 2


def test_a_model_that_numbers_its_nodes_is_not_copied():
    model = fb.fit("votes", trained_model(), DATA, epochs=3, voters=3)
    with frozen_eval(model):
        search = search_on(model)
        assert Copies.of(search.victim, search.embedded, search.clean, 2) is None


def local_search(threat=THREAT, data=DATA) -> LocalSearch:
    search = search_on(trained_model(), threat, data)
    start, other = (search.tried(member) for member in members(search, 2))
    return LocalSearch(search, [start, other], start, 0)


@pytest.mark.parametrize("binary", [False, True])
def test_every_move_stays_inside_the_budget(binary):
    data = tiny_graph(binary=binary)
    threat = ThreatModel(nodes=3, edges_per_node=2, features="in-domain" if binary else "range")
    local = local_search(threat, data)
    local.outlook = local.looked()
    for name in local.moves:
        for _ in range(5):
            member = local.moved(name)
            for row in member.attached.tolist():
                there = [target for target in row if target >= 0]
                assert len(there) == len(set(there)) <= 2, name
                assert set(there) <= set(data.test_index.tolist()), name
            rows = local.search.domain.project(member.features)
            assert local.search.domain.violation(rows) is None, name
            assert member.features.shape == local.best.features.shape


def test_an_attack_that_has_taken_all_its_edges_away_gets_new_ones():
    local = local_search()
    local.best = replace(local.best, attached=torch.full_like(local.best.attached, -1))
    local.outlook = local.looked()
    for _ in range(5):  # a warning is an error
        assert (local.moved("border").attached >= 0).any()


def test_edges_move_to_the_targets_that_stand_nearest_to_the_border():
    local = local_search()
    margin = np.full(local.targets.size, 5.0)
    margin[:4], margin[4:8] = -1.0, 0.1  # the first four have fallen, the next are nearly there
    local.outlook = local.seen((margin > 0).astype(float), margin, None, torch.zeros(3, FEATURES))
    assert set(local.outlook.border[:4]) == {4, 5, 6, 7}
    attached = np.full((3, 2), -1)
    attached[0] = local.targets[8:10]
    local._fill(attached, np.array([[1, 0]]), local.outlook.border)
    assert attached[1, 0] in local.targets[4:8]


def test_edges_move_to_where_the_gradient_of_relaxed_edges_points():
    local = local_search()
    gradient = torch.zeros(3, local.targets.size)
    gradient[:, 5:9] = 1.0
    local.outlook = local.seen(*np.ones((2, local.targets.size)), gradient, torch.zeros(3, FEATURES))
    attached = np.full((3, 2), local.targets[0])
    attached[0, 0] = local.targets[1]
    local.to_where_it_pulls(attached, local.best.features, 0.01)
    assert set(attached.flatten()) & set(local.targets[5:9])


def test_a_network_without_edge_weights_has_no_gradient_of_edges_and_a_defect_is_not_taken_for_that():
    class Unweighted(GAT):
        def propagate(self, h, edge_index, score_shift=None, affected=None):
            return super().propagate(h, edge_index, score_shift, affected=affected)

    class Defective(GAT):
        def propagate(self, h, edge_index, score_shift=None, edge_weight=None, affected=None):
            if edge_weight is not None:
                raise TypeError("a defect")
            return super().propagate(h, edge_index, score_shift, affected=affected)

    def gradient(kind):
        model = kind(**trained_model().config).eval()
        return search_on(model).edge_gradient(members(search_on(model), 1)[0])

    assert gradient(GAT).shape == (THREAT.nodes, DATA.test_index.numel())
    assert gradient(Unweighted) is None
    with pytest.raises(TypeError, match="a defect"):
        gradient(Defective)


def test_a_search_goes_on_while_it_finds_and_ends_when_it_does_not():
    local = local_search()
    local.search.calls = 1000
    local.history = [(100, 0.9), (790, 0.8), (900, 0.5)]
    local.best = PortfolioMember(local.best.attached, "margin", 0.1, local.best.features, 0.5)
    assert not local.has_stopped()  # .8 at 790 of 1000 gradients, .5 now
    local.history = [(100, 0.9), (790, 0.5005), (900, 0.5)]
    assert local.has_stopped()


def test_a_small_budget_is_searched_until_the_rule_ends_it(monkeypatch):
    asked = []
    monkeypatch.setattr(LocalSearch, "has_stopped", lambda local: asked.append(local) or len(asked) > 1)
    found = ShortWorst()(trained_model(), DATA, DATA.test_index, threat=THREAT, seed=0)
    assert len(asked) == 2  # six edges
    assert len(asked[0].history) > 10
    assert found.ledger.edges <= 6


def test_a_search_whose_gradient_misleads_also_tries_moves_as_they_are():
    local = local_search()
    local.outlook, local.stale, before = local.looked(), False, local.search.calls
    local.search.has_gradient, local.search.flags[BLACK_BOX] = True, None
    local.round()
    assert local.search.calls == before + SIDE_BY_SIDE // 2 * local.climb


def test_nodes_are_grafted_from_another_attack_only():
    alone = local_search()
    assert alone.moves["graft"][0] > 0
    assert LocalSearch(alone.search, [alone.best], alone.best, 0).moves["graft"][0] == 0


def test_an_imitation_is_the_mean_row_of_its_targets_up_to_its_size():
    search = search_on(trained_model())
    attached = DATA.test_index[:6].view(3, 2)
    made = imitating(search, attached)
    mean = DATA.x[attached].mean(1)
    inside = mean / mean.abs().amax(1, keepdim=True)
    assert torch.allclose(made, inside.clamp(-1, 1), atol=1e-6)


class Random(type(trained_model())):  # type: ignore[misc]
    """A model whose forward pass draws noise."""

    def propagate(self, h, edge_index, *args, **kwargs):
        out = super().propagate(h, edge_index)
        return type(out)(out.logits + torch.randn_like(out.logits), out.attention)


class ShortWorst(Worst):
    """The standard attack with the smallest effort."""

    effort = 0.001


def test_a_random_forward_pass_is_a_flag():
    model = Random(**trained_model().config)
    for network, is_random in ((model, True), (trained_model(), False)):
        found = ShortWorst()(network, DATA, DATA.test_index, threat=THREAT, seed=0)
        assert ("randomised forward pass" in found.flags) == is_random


def test_a_loss_that_rises_while_no_prediction_changes_is_a_flag():
    search = search_on(trained_model())
    clean = float(search.score(search.victim.read(search.clean)))
    search.rise, search.lowest, search.calls, search.has_gradient = 0.5, clean, 10, True
    assert search.doubts == ("loss rises while the score stays",)
    search.lowest = clean - 0.1
    assert search.doubts == ()


@pytest.mark.slow
def test_further_search_never_leaves_more():
    model = trained_model()
    left = [
        ATTACKS[name]()(model, DATA, DATA.test_index, threat=THREAT, seed=0) for name in ("worst", "worst-continued")
    ]
    assert left[1].curve[-1] >= left[0].curve[-1]
    assert left[1].ledger.gradient_calls > 1.8 * left[0].ledger.gradient_calls
