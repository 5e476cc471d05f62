"""The worst case is at least as strong as each member, on every trial tried."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fgai_bench.attacks import ATTACKS, ThreatModel
from fgai_bench.attacks.injection import Ensemble
from fgai_bench.models import Output
from fgai_bench.testing.fixture import tiny_graph, trained_model

DATA, MODEL = tiny_graph(), trained_model()


def accuracy(found) -> float:
    with torch.no_grad():
        predicted = MODEL(found.data).logits[DATA.test_index].argmax(1)
    return (predicted == DATA.y[DATA.test_index]).float().mean().item()


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 1000), step=st.sampled_from([0.1, 1.0]), restarts=st.integers(1, 2))
def test_it_is_at_least_as_strong_as_each_member(seed, step, restarts):
    threat = ThreatModel(nodes=4, edges_per_node=8, steps=3, step=step, restarts=restarts, feature_high=3.0)
    ensemble = Ensemble()
    worst = ensemble(MODEL, DATA, DATA.test_index, threat=threat, seed=seed)
    members = [m(MODEL, DATA, DATA.test_index, threat=threat, seed=seed) for m in ensemble.members(MODEL(DATA))]
    assert len(members) == len(ensemble.losses) + 1
    assert accuracy(worst) == min(accuracy(member) for member in members)
    assert worst.ledger.gradient_calls == sum(member.ledger.gradient_calls for member in members)


def test_a_task_can_judge_by_its_own_measure():
    """Judged by the logit of one node, the worst is the member that lowers that logit most."""
    threat = ThreatModel(nodes=4, edges_per_node=8, steps=2)
    node = DATA.test_index[0]

    def judge(out: Output) -> float:
        return out.logits[node, 0].item()

    ensemble = ATTACKS["ensemble"](losses=["nll", "tvd"], judge=judge)
    worst = ensemble(MODEL, DATA, DATA.test_index, threat=threat)
    with torch.no_grad():
        values = [
            judge(MODEL(m(MODEL, DATA, DATA.test_index, threat=threat).data)) for m in ensemble.members(MODEL(DATA))
        ]
        assert judge(MODEL(worst.data)) == pytest.approx(min(values))


def test_members_on_attention_are_left_out_for_a_model_without():
    members = Ensemble().members(Output(torch.zeros(1, 2), None))
    assert all(not getattr(member, "loss", "").startswith("attention") for member in members)
    assert len(Ensemble(control=False).members(MODEL(DATA))) == len(Ensemble().losses)


def test_an_unknown_loss_is_refused():
    with pytest.raises(ValueError, match="unknown attack loss 'nlll'"):
        Ensemble(losses=["nlll"])
