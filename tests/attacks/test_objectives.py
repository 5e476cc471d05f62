"""What gradient attacks maximise, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from fgai_bench.attacks.objectives import OBJECTIVES, Reference, margins, objective_named
from fgai_bench.models import Attention, Output

EDGES = torch.tensor([[0, 1], [1, 0]])
CLEAN = torch.tensor([[2.0, 0.0], [0.0, 1.0]])


def output(logits=CLEAN, weight=(0.5, 0.5)) -> Output:
    return Output(logits, Attention(EDGES, torch.tensor(weight)))


def value(name: str, attacked: Output) -> float:
    reference = Reference.of(output(), lambda out: out.logits)
    return objective_named(name)(attacked.logits, attacked, reference).item()


def test_nll():
    expected = (math.log(1 + math.exp(-2)) + math.log(1 + math.exp(-1))) / 2
    assert value("nll", output()) == pytest.approx(expected)


def test_margin():
    assert margins(CLEAN, torch.tensor([0, 0])).tolist() == [2.0, -1.0]
    assert value("margin", output()) == pytest.approx((math.tanh(-2) + math.tanh(-1)) / 2)


def test_tvd_is_zero_without_change_and_one_between_opposites():
    assert value("tvd", output()) == 0.0
    certain = Reference.of(output(torch.tensor([[50.0, -50.0]])), lambda out: out.logits)
    opposite = output(torch.tensor([[-50.0, 50.0]]))
    assert OBJECTIVES["tvd"](opposite.logits, opposite, certain).item() == pytest.approx(1.0)


def test_attention_losses():
    moved = output(weight=(0.75, 0.25))
    assert value("attention-topk", output()) == value("attention-jsd", output()) == 0.0
    assert value("attention-topk", moved) == pytest.approx(0.25)  # edge 0 leads in both: 2 * .25 / (2 * 1)
    mean = 0.5 * (0.5 + 0.75), 0.5 * (0.5 + 0.25)
    jensen = sum(p * math.log(p / m) for p, m in ((0.5, mean[0]), (0.75, mean[0]), (0.5, mean[1]), (0.25, mean[1])))
    assert value("attention-jsd", moved) == pytest.approx(jensen / 4, rel=1e-5)


@pytest.mark.parametrize("name", ["attention-topk", "attention-jsd"])
def test_attention_losses_need_an_attention(name):
    with pytest.raises(ValueError, match="an attack on the attention needs a model that has one"):
        value(name, Output(CLEAN, None))


def test_an_unknown_loss_lists_what_is_possible():
    with pytest.raises(ValueError, match="unknown attack loss 'nlll'; possible are nll, "):
        objective_named("nlll")
