"""A card says the same in words, as a table, as a picture and as a page; its alarms ring when they should."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch_geometric.nn import GATConv

import fgai_bench as fb
from fgai_bench.card.edge_effect import EdgeEffect, effects_into
from fgai_bench.card.evaluation import AttackOutcome, Stability
from fgai_bench.explainers import edge_effects
from fgai_bench.statistics.intervals import mean_interval, share_interval
from fgai_bench.testing.fixture import CLASSES, FEATURES


@pytest.fixture(scope="module")
def card(data, network):
    return fb.evaluate(network, data, attacks=("injection",))


def test_the_table_holds_every_number_that_is_printed(card):
    frame, printed = card.frame, str(card)
    assert isinstance(frame, pd.DataFrame)
    assert {"part", "quantity", "attack", "value", "low", "high", "null", "seeds", "nodes"} == set(frame.columns)
    inside = frame.dropna(subset=["low"])
    assert (inside.low <= inside.value).all()
    assert (inside.value <= inside.high).all()
    for value in frame.value:
        assert f"{value:.3f}" in printed or f"{value:.4f}" in printed
    for alarm in card.alarms:
        assert alarm in printed
    assert card.chosen.sentence in printed
    reached = np.mean(card.measured.outcomes["injection"].stability.reached)
    assert f"injection reaches {reached:.0%} of the nodes" in printed


def test_a_card_says_what_is_proven_beside_what_was_found(card, network, data):
    floor = card.measured.floor
    assert floor.score == fb.certify(network, data, card.chosen.threat).score
    assert f"Proven: at least {floor.score:.3f} under" in str(card)
    assert f"; found: {card.lowest_score:.3f}." in str(card)
    assert floor.score <= card.lowest_score
    broken = replace(card, measured=replace(card.measured, floor=replace(floor, lost=-floor.targets)))
    assert any("below the floor" in alarm for alarm in broken.alarms)
    unproven = replace(card, measured=replace(card.measured, floor="reach: it looks at everything"))
    assert "Nothing is proven: reach: it looks at everything." in str(unproven)


def test_the_page_needs_nothing_else(card, tmp_path):
    page = card.to_html(tmp_path / "card")
    html = page.read_text()
    assert sorted(path.name for path in page.parent.iterdir()) == ["card.csv", "card.png", "index.html"]
    assert "http" not in html.replace("http-equiv", "")
    assert card.title in html
    assert pd.read_csv(page.parent / "card.csv").shape == card.frame.shape
    assert card._repr_html_().startswith("<style>")


def test_the_picture_shows_all_attacks_and_the_most_changed_nodes(card):
    figure = card.figure()
    assert len(figure.axes) == 1 + len(card.measured.changed) == 4
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["clean", "injection"]
    divergences = [node.divergence for node in card.measured.changed]
    assert divergences == sorted(divergences, reverse=True)


def test_attention_of_a_changed_node_is_the_models(card, data, network):
    node = card.measured.changed[0]
    with torch.no_grad():
        attention = fb.wrap(network).eval()(data).attention
    into = attention.edge_index[1] == node.node
    expected = dict(zip(attention.edge_index[0, into].tolist(), attention.weight[into].tolist(), strict=True))
    for other, weight in zip(node.neighbours, node.weights[0], strict=True):
        assert weight == pytest.approx(expected.get(other, 0.0), abs=1e-6)


def with_outcome(card, **changes):
    outcome = replace(card.measured.outcomes["injection"], **changes)
    return replace(card, measured=replace(card.measured, outcomes={"injection": outcome}))


def test_the_verdict_on_predictions_follows_what_is_left(card):
    right = np.ones(200, dtype=bool)
    measured = replace(card.measured, right=right, guess=0.4, control=None)
    large = replace(card, measured=measured, facts={**card.facts, "test nodes": 200})
    shares = {"stand": 0.99, "weaken": 0.7, "fall": 0.1}
    for verdict, share in shares.items():
        left = (np.arange(200) < share * 200)[None, :]
        assert with_outcome(large, right=left).prediction == verdict
    assert replace(large, measured=replace(measured, guess=1.0)).prediction == "no better than a guess"


def test_the_verdict_on_attention_asks_for_truth_before_stability(card):
    good = EdgeEffect(np.linspace(0.4, 0.6, 30), np.zeros(30), np.full(30, 0.1))
    calm = Stability((np.ones(9),), (np.full(9, 0.01),), (np.full(9, 0.02),), (0.5,))
    loud = replace(calm, divergence=(np.full(9, 0.5),))

    def verdict(effect, stability):
        changed = with_outcome(card, stability=stability)
        return replace(changed, measured=replace(changed.measured, effect=effect, entropy=0.7)).explanation

    assert verdict(good, calm) == "stands"
    assert verdict(good, loud) == "unstable"
    assert verdict(EdgeEffect(good.random, good.random, good.degree), calm) == "unproven"
    assert verdict("too few edges", calm) == "unproven"


def test_alarms_ring(card):
    control: AttackOutcome = replace(
        card.measured.outcomes["injection"], right=np.zeros((1, card.measured.right.size), bool)
    )
    weak = replace(card, measured=replace(card.measured, control=control, entropy=0.999))
    assert any("random features at random places do more harm than injection" in alarm for alarm in weak.alarms)
    assert any("nearly uniform (0.999 of the largest entropy)" in alarm for alarm in weak.alarms)
    assert "injection: zero gradient" in with_outcome(card, flags=("zero gradient",)).alarms
    assert any("only 12 test nodes" in alarm for alarm in card.alarms)


def test_a_bar_names_the_parts_on_a_terminal(monkeypatch, data, network, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    fb.evaluate(network, data, attacks=("injection",))
    assert "explanation" in capsys.readouterr().err


@pytest.mark.parametrize("share", [0.5, 0.9, 0.98])
def test_intervals_of_shares_cover(share):
    """Nodes of differing difficulty, draws of differing strength: 95 % intervals hold the truth in at least 93 %."""
    random = np.random.default_rng(0)
    centre = np.log(share / (1 - share))
    truth = np.mean(1 / (1 + np.exp(-(centre + random.normal(0, np.hypot(1.0, 0.3), 200_000)))))
    covered = []
    for _ in range(300):
        nodes, draws = random.normal(0, 1.0, 150), random.normal(0, 0.3, 3)
        chance = 1 / (1 + np.exp(-(centre + nodes[None, :] + draws[:, None])))
        _, low, high = share_interval(list(random.random(chance.shape) < chance))
        covered.append(low <= truth <= high)
    assert np.mean(covered) >= 0.93


def test_an_interval_of_one_draw_is_over_nodes_and_more_draws_widen_it():
    one = mean_interval([np.array([0.0, 1.0, 0.0, 1.0])])
    apart = mean_interval([np.array([0.0, 1.0, 0.0, 1.0]), np.array([1.0, 1.0, 1.0, 1.0])])
    assert apart[2] - apart[1] > one[2] - one[1]


class Centred(nn.Module):
    """A network whose layers look at all nodes: what it computes on a part of a graph is something else."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = GATConv(FEATURES, 8), GATConv(8, CLASSES)

    def forward(self, x, edge_index):
        h = self.first(x, edge_index)
        return self.second((h - h.mean(0)).relu(), edge_index)


def test_effects_measured_side_by_side_are_those_of_single_deletions(data, network):
    nodes = data.test_mask.nonzero().view(-1)[:4]
    for module in (network, Centred().eval()):
        model = fb.wrap(module).on_graph(data)
        found, one_by_one = effects_into(model, data, nodes), edge_effects(model, data, nodes, only_into=True)
        assert torch.equal(found.edges, one_by_one.edges)
        assert torch.allclose(found.values, one_by_one.values, atol=1e-6)
        assert model.local is False
