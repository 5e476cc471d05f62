"""The loop that every defense trains in: history, the best epoch, errors in one sentence, no side effects."""

from __future__ import annotations

import copy

import pytest
import torch
from pydantic import ValidationError

from fgai_bench.data.laplacian.extended_graph import UnconvergedError
from fgai_bench.defenses import DEFENSES, NodeSupervision, Training
from fgai_bench.defenses.base import Defense, Fit, Objective
from fgai_bench.defenses.training import optimise, outputs_once
from fgai_bench.models import Output
from fgai_bench.testing.fixture import CLASSES, tiny_graph, tiny_model, tiny_problem, trained_model
from fgai_bench.testing.traces import disturbed, no_trace_on

PROBLEM = tiny_problem()


def test_the_defaults_are_the_papers():
    assert Training().model_dump() == {"epochs": 200, "lr": 0.01, "weight_decay": 5e-4, "keep": None}


@pytest.mark.parametrize("changes", [{"epochs": -1}, {"lr": 0}, {"weight_decay": -1}, {"momentum": 0.9}])
def test_what_makes_no_sense_is_refused(changes):
    with pytest.raises(ValidationError):
        Training(**changes)


def test_supervision_by_hand():
    """Two training nodes, of which one is right with certainty; the validation node is wrong."""
    data = tiny_graph()
    split = PROBLEM.split.__class__(torch.tensor([0, 12]), torch.tensor([24]), torch.tensor([1]))
    task = NodeSupervision(data, split)
    logits = torch.zeros(38, CLASSES)  # two nodes more than the graph: injected ones
    logits[0, 0] = 100.0
    out = Output(logits, None)
    assert task.loss(out).item() == pytest.approx(torch.tensor(3.0).log().item() / 2)
    assert task.score(out) == 0.0
    assert task.outputs(out).shape == (36, CLASSES)


class Falling(NodeSupervision):
    """A task whose validation score falls from epoch to epoch."""

    def score(self, out):
        self.looks = getattr(self, "looks", 0) + 1
        return -self.looks


@pytest.mark.parametrize(("name", "own"), [("vanilla", "best"), ("at", "best"), ("fgai", "last")])
def test_the_kept_epoch_is_the_defenses_own_or_the_trainings(name, own):
    def trained(epochs, keep):
        inner = PROBLEM.inner({"nodes": 2, "edges_per_node": 4, "steps": 1})
        given = {
            "teacher": trained_model(),
            "inner": inner,
            "supervision": Falling(PROBLEM.training_data, PROBLEM.split),
        }
        training = Training(epochs=epochs, keep=keep)
        fitted = DEFENSES[name]().fit(tiny_model(), PROBLEM.training_data, PROBLEM.split, training=training, **given)
        return torch.cat([parameter.flatten() for parameter in fitted.parameters()])

    first, third = trained(1, "last"), trained(3, "last")
    assert torch.equal(trained(3, "best"), first)
    assert not torch.equal(third, first)
    assert torch.equal(trained(3, None), third if own == "last" else first)


def test_history_holds_every_term_of_every_epoch():
    model = tiny_model()

    def terms(epoch):
        weight = next(model.parameters())
        return {"first": (weight + 1).square().sum(), "second": torch.tensor(float(epoch))}

    optimise(model, terms, Training(epochs=3), seed=0)
    assert [set(row) for row in model.history] == [{"first", "second"}] * 3
    assert [row["second"] for row in model.history] == [0.0, 1.0, 2.0]
    assert model.history[2]["first"] < model.history[0]["first"]


class Unsolvable(Defense):
    """A defense whose second epoch, if it may be recorded, leaves a graph unsolved."""

    def objective(self, fit: Fit) -> Objective:
        def terms(epoch):
            weight = next(fit.student.parameters())
            with torch.no_grad():
                weight.add_(1)
            if fit.capturable and epoch == 1:
                raise UnconvergedError("the Laplacian of a graph is off by nan")
            return {"weight": weight.square().sum()}

        return Objective(terms, keep="last", capturable=True)


def test_epochs_whose_recording_did_not_converge_are_done_again_from_the_start():
    model = tiny_model()
    first = copy.deepcopy(next(model.parameters()))
    told = []
    trained = Unsolvable().fit(
        model, tiny_graph(), PROBLEM.split, training=Training(epochs=3), progress=lambda done, of: told.append(done)
    )
    assert told == [1, 1, 2, 3]
    assert len(trained.history) == 3
    assert trained.history[0]["weight"] == pytest.approx((first + 1).square().sum().item(), rel=1e-6)
    assert torch.equal(next(model.parameters()), first)


@pytest.mark.parametrize(("scores", "best"), [([0.1, 0.9, 0.5], 1), ([0.7, 0.7, 0.7], 0), ([0.1, 0.2, 0.3], 2)])
def test_the_first_best_epoch_on_validation_is_kept(scores, best):
    model, states, given = tiny_model(), [], iter(scores)

    def score():
        states.append(copy.deepcopy(model.state_dict()))
        return next(given)

    optimise(model, lambda epoch: {"loss": sum(p.sum() for p in model.parameters())}, Training(epochs=3), 0, score)
    assert all(torch.equal(value, states[best][name]) for name, value in model.state_dict().items())


def test_without_a_score_the_last_epoch_stays():
    model = tiny_model()
    before = next(model.parameters()).clone()
    optimise(model, lambda epoch: {"loss": next(model.parameters()).sum()}, Training(epochs=2, weight_decay=0), 0)
    assert torch.allclose(before - next(model.parameters()), torch.tensor(0.02), atol=1e-5)  # two Adam steps of 0.01


@pytest.mark.parametrize("name", ["vanilla", "ln", "row-norm"])
def test_it_learns_the_tiny_graph(name):
    untrained, trained = (
        DEFENSES[name]().fit(
            tiny_model(), PROBLEM.training_data, PROBLEM.split, training=Training(epochs=epochs, lr=0.05)
        )
        for epochs in (0, 60)
    )
    assert PROBLEM.clean(trained).metrics["f1"] > 0.7
    before, after = (PROBLEM.supervision.loss(PROBLEM.output(model, PROBLEM.data)) for model in (untrained, trained))
    assert after < before  # without dropout: the losses of two epochs differ by their noise, too


@pytest.mark.parametrize(("name", "changed"), [("ln", {"layer_norm": True}), ("row-norm", {"input_norm": "row"})])
@pytest.mark.parametrize("model", ["gat", "gatv2", "gt"])
def test_normalisations_change_the_configuration_and_nothing_else(name, changed, model):
    given = tiny_model(model, seed=3)
    fitted = DEFENSES[name]().fit(given, PROBLEM.training_data, PROBLEM.split, training=Training(epochs=0))
    assert fitted.config == {**given.config, **changed}


def test_an_output_without_a_trace():
    model = disturbed(trained_model())
    with no_trace_on(model):
        out = outputs_once(model, tiny_graph())
    assert not out.logits.requires_grad
    assert torch.equal(out.logits, outputs_once(trained_model(), tiny_graph()).logits)
