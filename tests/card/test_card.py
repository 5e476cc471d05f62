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
from fgai_bench.attacks import ThreatModel
from fgai_bench.card.attention_check import EdgeEffect, effects_into
from fgai_bench.card.evaluation import AttackOutcome, Stability
from fgai_bench.certificates import Floor
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
    control, found = (outcome.reached.mean() for outcome in card.measured.outcomes.values())
    assert f"test nodes that are reached: random-injection {control:.1%}, injection {found:.1%}" in printed


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


def test_the_picture_shows_all_attacks(card):
    (ax,) = card.figure().axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["clean", "random-injection", "injection"]


def with_outcome(card, name="injection", **changes):
    outcome = replace(card.measured.outcomes["injection"], **changes)
    return replace(card, measured=replace(card.measured, outcomes={name: replace(outcome, name=name)}))


def of_200_nodes(card, share, reach=1.0, name="worst", **changes):
    """Return the card of 200 test nodes, all right before; an attack leaves the first and reaches the last of them."""
    measured = replace(card.measured, **{"right": np.ones(200), "guess": 0.4, "floor": "nothing", **changes})
    large = replace(card, measured=measured, facts={**card.facts, "test nodes": 200})
    left, reached = np.arange(200) < share * 200, np.arange(200) >= (1 - reach) * 200
    return with_outcome(large, name, right=left[None, :].astype(float), reached=reached[None, :])


def test_the_verdict_on_predictions_follows_what_is_left(card):
    for verdict, share in {"stand": 0.99, "weaken": 0.7, "fall": 0.1}.items():
        assert of_200_nodes(card, share).prediction == verdict
    assert of_200_nodes(card, 0.7, guess=1.0).prediction == "no better than a guess"


def test_predictions_stand_only_where_the_attacker_could_have_done_harm(card):
    little = of_200_nodes(card, 0.99, reach=0.15)
    assert little.prediction == "untested"
    assert "Predictions were not tested hard enough: 1.000 are right, 0.990" in str(little)
    assert "It reaches 15.0% of the test nodes; 6.7% of these lose a right prediction. Why it is no test" in (
        str(little)
    )
    assert of_200_nodes(card, 0.99, reach=0.2).prediction == "stand"
    short = of_200_nodes(card, 0.99, name="injection")
    assert (short.prediction, short.too_weak) == ("untested", ["no long search ran, such as worst"])
    assert of_200_nodes(card, 0.7, reach=0.35, name="injection").prediction == "weaken"


def test_predictions_that_no_attack_can_change_stand_by_proof(card):
    floor = Floor("reach", 200, 200, 0, 0, ThreatModel(nodes=1, edges_per_node=1))
    assert of_200_nodes(card, 1.0, reach=0.0, floor=floor).prediction == "stand"
    idle = replace(card, chosen=replace(card.chosen, threat=ThreatModel(nodes=0)))
    assert of_200_nodes(idle, 1.0, reach=0.0, floor=floor).prediction == "untested"


def test_a_range_that_is_too_narrow_is_no_test(data, network):
    with_large = data.clone()
    with_large.x = 10 * data.x
    card = fb.evaluate(network, with_large, attacks=("injection",), threat=fb.ThreatModel(nodes=1, edges_per_node=2))
    assert any("looks stronger than it is" in reason for reason in card.too_weak)


def test_the_control_is_a_row_and_counts_in_the_worst_case(data, network):
    card = fb.evaluate(network, data, attacks=("injection",))
    assert list(card.measured.outcomes) == ["random-injection", "injection"]
    assert card.row("f1", "random-injection").seeds == 3
    harmful = replace(card.measured.outcomes["random-injection"], right=np.zeros((1, 12)))
    worse = replace(card, measured=replace(card.measured, outcomes={**card.measured.outcomes, harmful.name: harmful}))
    assert worse.worst.name == "random-injection"
    assert worse.lowest_score == 0.0


def test_a_control_that_beats_the_search_leaves_the_predictions_untested(card):
    searched = of_200_nodes(card, 0.99)
    random = replace(searched.worst, name="random-injection", right=(np.arange(200) < 196)[None, :].astype(float))
    outcomes = {random.name: random, "worst": replace(searched.worst, right=np.ones((1, 200)))}
    beaten = replace(searched, measured=replace(searched.measured, outcomes=outcomes))
    assert searched.prediction == "stand"
    assert (beaten.prediction, beaten.too_weak) == ("untested", [beaten.control_beats])
    assert "random features at random places do more harm than worst" in beaten.control_beats


def test_attacks_outside_the_scenario_do_not_count_in_the_verdict(data, network):
    """One new edge reaches a few nodes; injected nodes, which were never allowed, would have reached all."""
    threat = fb.ThreatModel(scenario="edges", edges=1)
    card = fb.evaluate(network, data, attacks=("prbcd",), threat=threat)
    assert list(card.measured.outcomes) == ["random-edges", "prbcd"]
    assert "Attacker: 1 new edge between existing nodes (as given)" in str(card)
    assert f"Proven: at least {card.measured.floor.score:.3f} under new edges, 1 at most; found" in str(card)
    mixed = fb.evaluate(network, data, attacks=("prbcd", "injection"), threat=threat)
    assert list(mixed.counted) == ["random-edges", "prbcd"]
    assert mixed.worst.name in mixed.counted
    assert "injection is outside the attacker's scenario and does not count in the verdict" in mixed.all_notes
    assert mixed.reach == card.reach
    assert mixed.alarms == card.alarms
    assert list(fb.evaluate(network, data, attacks=("feature-pgd",)).measured.outcomes) == ["feature-pgd"]


def test_a_loss_below_zero_is_none(card):
    helped = of_200_nodes(card, 1.0, right=(np.arange(200) < 190).astype(float))
    assert helped.lost_among_reached == 0.0


def test_reached_nodes_and_what_is_lost_among_them_stand_in_the_headline(card):
    outcome = card.worst
    lost = (card.measured.right - outcome.right)[outcome.reached]
    reached = f"It reaches {outcome.reached.mean():.1%} of the test nodes; "
    expected = f"{reached}{lost.mean():.1%} of these lose a right prediction."
    assert expected in str(card).split("\n")[3]


def test_the_verdict_on_attention_asks_for_truth_before_stability(card):
    good = EdgeEffect(np.linspace(0.4, 0.6, 30), np.zeros(30), np.full(30, 0.1))
    calm = Stability((np.ones(9),), (np.full(9, 0.01),), (np.full(9, 0.02),))
    loud = replace(calm, divergence=(np.full(9, 0.5),))

    def verdict(effect, stability):
        changed = with_outcome(card, stability=stability)
        return replace(changed, measured=replace(changed.measured, effect=effect, entropy=0.7)).explanation

    assert verdict(good, calm) == "stands"
    assert verdict(good, loud) == "unstable"
    assert verdict(EdgeEffect(good.random, good.random, good.degree), calm) == "unproven"
    assert verdict("too few edges", calm) == "unproven"


def test_words_about_attention_match_the_numbers(card):
    def alarm(divergence, null):
        stability = Stability((np.ones(9),), (divergence,), (np.full(9, null),))
        changed = with_outcome(card, stability=stability)
        return next((text for text in changed.alarms if "a uniform one" in text), None)

    assert alarm(np.full(9, 0.462), 0.01) == (
        "under injection the attention changes more than a uniform one (0.462 against 0.010)"
    )
    assert "about as much as a uniform one" in alarm(np.linspace(0.0, 0.04, 9), 0.02)
    assert alarm(np.full(9, 0.01), 0.02) is None


def test_alarms_ring(card):
    control: AttackOutcome = replace(
        card.measured.outcomes["random-injection"], right=np.zeros((1, card.measured.right.size))
    )
    outcomes = {"random-injection": control, "injection": card.measured.outcomes["injection"]}
    weak = replace(card, measured=replace(card.measured, outcomes=outcomes, entropy=0.999, noise=0.5))
    assert any("random features at random places do more harm than injection" in alarm for alarm in weak.alarms)
    assert any("nearly uniform (0.999 of the largest entropy)" in alarm for alarm in weak.alarms)
    assert any("two passes over the clean graph differ by up to 0.5: a random part" in alarm for alarm in weak.alarms)
    assert "injection: zero gradient" in with_outcome(card, flags=("zero gradient",)).alarms
    assert any("only 12 test nodes" in alarm for alarm in card.alarms)
    assert not any("two passes" in alarm for alarm in card.alarms)


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
