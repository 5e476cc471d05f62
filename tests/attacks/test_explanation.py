"""The attack on the explanation moves attention and keeps predictions, as it reports."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fgai_bench.attacks import ATTACKS, ThreatModel
from fgai_bench.losses import jsd
from fgai_bench.models import align
from fgai_bench.testing.fixture import tiny_graph, trained_model

DATA, MODEL = tiny_graph(), trained_model()
THREAT = ThreatModel(nodes=3, edges_per_node=6, steps=6, step=0.3)


def outputs(found):
    with torch.no_grad():
        return MODEL(DATA), MODEL(found.data)


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 1000), keep=st.sampled_from([0.5, 0.9, 1.0]))
def test_predictions_are_kept_as_reported(seed, keep):
    found = ATTACKS["explanation"](keep=keep)(MODEL, DATA, DATA.test_index, threat=THREAT, seed=seed)
    clean, attacked = (out.logits[DATA.test_index].argmax(1) for out in outputs(found))
    assert found.kept == pytest.approx((clean == attacked).float().mean().item())
    assert (found.kept >= keep) != ("too few predictions kept" in found.flags)


def test_it_moves_the_attention_more_than_its_start_and_the_curve_says_how_much():
    attack = ATTACKS["explanation"]()
    found = attack(MODEL, DATA, DATA.test_index, threat=THREAT)
    start = attack(MODEL, DATA, DATA.test_index, threat=THREAT.model_copy(update={"steps": 0}))
    moved, before = (jsd(*align(*(out.attention for out in outputs(result)))).item() for result in (found, start))
    assert moved > before
    assert start.curve == (pytest.approx(before, rel=1e-4),)
    assert max(found.curve) == pytest.approx(moved, rel=1e-4)
    assert found.kept == 1.0


def test_where_it_cannot_keep_enough_it_says_so():
    """A step as large as the range, from a start that already breaks predictions."""
    fierce = ThreatModel(nodes=12, edges_per_node=12, steps=1, step=30.0, feature_low=-30.0, feature_high=30.0)
    found = ATTACKS["explanation"](keep=1.0, halvings=0, doublings=0)(MODEL, DATA, DATA.test_index, threat=fierce)
    assert found.kept < 1.0
    assert found.flags == ("too few predictions kept",)


def test_options_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="keep is a share of the predictions, between 0 and 1, not 99"):
        ATTACKS["explanation"](keep=99)
    with pytest.raises(ValueError, match="needs an attention loss, not 'nll'"):
        ATTACKS["explanation"](loss="nll")
