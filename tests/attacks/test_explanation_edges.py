"""The attack on explanations by edges moves attention more than random edges do, and keeps predictions."""

from __future__ import annotations

import pytest
import torch

import fgai_bench as fb
from fgai_bench.attacks import ATTACKS, ThreatModel
from fgai_bench.metrics import NotApplicable, topk_overlap
from fgai_bench.models import align
from fgai_bench.testing.fixture import tiny_graph, trained_model

THREAT = ThreatModel(scenario="edges", edges=40, steps=20)


def overlap_and_kept(model, data, attacked) -> tuple[float, float]:
    with torch.no_grad():
        clean, out = model(data), model(attacked)
    same = clean.logits.argmax(1)[data.test_index] == out.logits.argmax(1)[data.test_index]
    overlap = topk_overlap(*align(clean.attention, out.attention), data.edge_index.size(1) // 2)
    return overlap, same.double().mean().item()


def test_forty_edges_move_more_attention_than_forty_random_ones_and_keep_the_predictions():
    """On Cora it moves about three times as many edges out of the top half, and far fewer predictions."""
    data = fb.load_dataset("cora", seed=0)
    model = fb.fit("vanilla", fb.build_model("gat", data, seed=0), data, seed=0, epochs=40)
    found, random = (
        ATTACKS[name]()(model, data, data.test_index, threat=THREAT, seed=0)
        for name in ("explanation-edges", "random-edges")
    )
    (overlap, kept), (by_chance, _) = (overlap_and_kept(model, data, attacked.data) for attacked in (found, random))
    assert 1 - overlap > 2 * (1 - by_chance)
    assert found.kept == pytest.approx(kept)
    assert kept >= 0.99
    assert found.curve == tuple(sorted(found.curve))


def test_where_every_prediction_must_stay_none_changes():
    data, model = tiny_graph(), trained_model()
    for seed in range(3):
        found = ATTACKS["explanation-edges"](keep=1.0)(model, data, data.test_index, threat=THREAT, seed=seed)
        assert overlap_and_kept(model, data, found.data)[1] == found.kept == 1.0


def test_fewer_edges_than_steps_take_no_gradient_where_none_is_due():
    """Of two edges in twenty steps the first is due in the sixth."""
    data, few = tiny_graph(), THREAT.model_copy(update={"edges": 2})
    found = ATTACKS["explanation-edges"]()(trained_model(), data, data.test_index, threat=few)
    assert 2 <= found.ledger.gradient_calls <= 15


@pytest.mark.parametrize("edges", [2, 40])
def test_lost_margins_become_dearer_only_where_too_few_predictions_are_kept(edges):
    class Priced(ATTACKS["explanation-edges"]):
        def priced(self, victim, reference, price, out):
            prices.append(price)
            return super().priced(victim, reference, price, out)

    data, threat = tiny_graph(), THREAT.model_copy(update={"edges": edges})
    prices: list[float] = []
    Priced(keep=0.0)(trained_model(), data, data.test_index, threat=threat)
    assert prices == sorted(prices, reverse=True)
    assert prices[-1] < prices[0]


def test_a_network_without_attention_is_not_applicable():
    data = tiny_graph()
    model = fb.fit("gcn", fb.build_model("gat", data), data, epochs=2)
    with pytest.raises(NotApplicable, match="needs a model that has one"):
        ATTACKS["explanation-edges"]()(model, data, data.test_index, threat=THREAT)
