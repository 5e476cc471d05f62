"""The worst case over edge attacks is never weaker than a member, and is judged by labels."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from fgai_bench.attacks import ATTACKS, Candidate, ThreatModel, Victim
from fgai_bench.attacks.base import Trace
from fgai_bench.attacks.edges import LabelledPRBCD, with_edges
from fgai_bench.attacks.search import PortfolioSearch, strongest
from fgai_bench.models import build_model
from fgai_bench.testing.fixture import tiny_graph, trained_model
from tests.attacks.test_budget import recount

DATA, MODEL = tiny_graph(), trained_model()
THREAT = ThreatModel(scenario="edges", edges=6)


def right(attacked) -> float:
    with torch.no_grad():
        predicted = MODEL(attacked.data).logits[DATA.test_index].argmax(1)
    return (predicted == DATA.y[DATA.test_index]).float().mean().item()


@cache
def worst_of(seed: int):
    return ATTACKS["worst-edges"]()(MODEL, DATA, DATA.test_index, threat=THREAT, seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_it_leaves_no_more_than_any_member_leaves(seed):
    worst = worst_of(seed)
    others = ("random-edges", "prbcd")
    left = [right(ATTACKS[name]()(MODEL, DATA, DATA.test_index, threat=THREAT, seed=seed)) for name in others]
    assert right(worst) <= min(left)
    assert worst.curve[-1] == pytest.approx(1 - right(worst))
    assert list(worst.curve) == sorted(worst.curve)
    assert recount(DATA, worst.data)["edges"] == worst.ledger.edges <= 6
    assert torch.equal(worst.data.edge_index[:, : DATA.num_edges], DATA.edge_index)


@pytest.mark.slow
def test_the_steps_of_the_threat_model_do_not_change_it():
    many = THREAT.model_copy(update={"steps": 50})
    found = ATTACKS["worst-edges"]()(MODEL, DATA, DATA.test_index, threat=many, seed=0)
    assert THREAT.steps != 50
    assert torch.equal(found.data.edge_index, worst_of(0).data.edge_index)


def test_the_strongest_is_judged_by_labels_and_gathers_doubts_and_gradients():
    """Of nothing changed and many edges chosen to do harm, labels say which does."""
    victim, many = Victim(MODEL, DATA, DATA.test_index), THREAT.model_copy(update={"edges": 40})
    harmful = ATTACKS["prbcd"]()(MODEL, DATA, DATA.test_index, threat=many).data
    harmless = with_edges(DATA, DATA.edge_index[:, :0])
    candidates = [
        Candidate(harmless, Trace(3, (), ("first",))),
        Candidate(harmful, Trace(4, (), ("second",))),
        Candidate(harmless, Trace(5, (), ("first",))),
    ]
    result = strongest(PortfolioSearch(victim, THREAT, 0), candidates)
    assert result.data is harmful
    assert result.trace.gradient_calls == 3 + 4 + 5
    assert result.trace.flags == ("first", "second")
    assert result.trace.curve[1] == result.trace.curve[2] > result.trace.curve[0]


def test_members_move_away_from_labels_not_from_predictions():
    clean = MODEL(DATA)
    other = tiny_graph()
    other.y = (DATA.y + 1) % 3
    reference = LabelledPRBCD().reference(Victim(MODEL, other, DATA.test_index), clean)
    assert torch.equal(reference.prediction, other.y[DATA.test_index])


def test_a_transformer_carries_the_flag_of_its_members():
    model = build_model("gt", 8, 3, hidden=16).eval()
    result = ATTACKS["worst-edges"]()(model, DATA, DATA.test_index, threat=THREAT.model_copy(update={"edges": 1}))
    assert result.flags == ("gradients with the encodings of a graph that holds every candidate edge",)
