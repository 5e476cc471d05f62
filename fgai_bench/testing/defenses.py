"""Check defenses: they read no test labels, change none of their inputs, and return a model that keeps its contract."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from fgai_bench.defenses import NodeSupervision, Training
from fgai_bench.models import AttentionModel
from fgai_bench.testing.checks import Check, CheckSkipped, EntrySubject, checks_in, require, tagged
from fgai_bench.testing.fixture import CLASSES, EPOCHS, tiny_graph, tiny_model, tiny_problem, trained_model
from fgai_bench.testing.models import ModelSubject
from fgai_bench.testing.traces import disturbed, no_trace_on, same

INNER = {"nodes": 3, "edges_per_node": 5, "steps": 2}


@dataclass(frozen=True)
class DefenseSubject(EntrySubject):
    """A defense to be checked; it gets a teacher or an inner attack only if its tags say that it needs one."""

    def fit(self, **changes: Any) -> AttentionModel:
        """Train for a few epochs on the tiny graph with hidden test labels; ``changes`` replace arguments."""
        problem, inner = tiny_problem(), {**getattr(self.entry.load(), "inner_options", {}), **INNER}
        arguments: dict[str, Any] = {
            "model": tiny_model(),
            "data": problem.training_data,
            "split": problem.split,
            "seed": 0,
            "teacher": trained_model() if "needs-teacher" in self.tags else None,
            "inner": problem.inner(inner) if "needs-inner" in self.tags else None,
            "training": Training(epochs=EPOCHS),
        }
        return self.entry.load()().fit(**{**arguments, **changes})

    @cached_property
    def fitted(self) -> AttentionModel:
        """Return the result of one fit, shared by the checks that only read it."""
        return self.fit()

    @cached_property
    def result(self) -> ModelSubject:
        """Return the fitted model as a subject of the model checks."""
        declared = (self.tags & {"transductive", "numbered"}) | {"fitted", "differentiable"}
        return ModelSubject(self.fitted.rebuilt, frozenset(declared), fitted=self.fitted)


subject = DefenseSubject


def check_test_labels_are_never_read(subject: DefenseSubject) -> None:
    """Scrambling the labels of the test nodes changes nothing, whether the task hides them or not."""
    scrambled = tiny_graph()
    test = scrambled.test_index
    scrambled.y[test] = (scrambled.y[test] + 1) % CLASSES
    require_same_model(subject.fit(data=scrambled), subject.fitted, "test labels change the result")


@tagged(unless=("needs-teacher",))
def check_training_labels_are_read(subject: DefenseSubject) -> None:
    """Scrambling the labels of the training nodes changes the result."""
    scrambled = tiny_graph()
    train = scrambled.train_index
    scrambled.y[train] = (scrambled.y[train] + 1) % CLASSES
    fitted = subject.fit(data=scrambled), subject.fitted
    with torch.no_grad():
        other, usual = (model(scrambled).logits for model in fitted)
    require(not torch.equal(other, usual), "training labels do not change the result")


def check_no_side_effects(subject: DefenseSubject) -> None:
    """The given model, graph and teacher and the global random state stay as they were; another model is returned."""
    model, data, teacher = disturbed(tiny_model()), tiny_graph(), disturbed(trained_model()).eval()
    changes = {"teacher": teacher} if "needs-teacher" in subject.tags else {}
    with no_trace_on(model, data, teacher):
        fitted = subject.fit(model=model, data=data, **changes)
    require(fitted is not model, "the very model that was handed in is returned")


def check_same_seed_same_result(subject: DefenseSubject) -> None:
    """The same seed gives the same model, whatever the global random state."""
    usual = subject.fitted
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(12345)
        require_same_model(subject.fit(), usual, "two runs, with another global random state, differ")


def check_every_epoch_is_told(subject: DefenseSubject) -> None:
    """``progress(done, total)`` is called after each epoch, and ``history`` has a row of finite losses for each."""
    told: list[tuple[int, int]] = []
    fitted = subject.fit(progress=lambda done, total: told.append((done, total)))
    require(told == [(epoch + 1, EPOCHS) for epoch in range(EPOCHS)], f"it was told {told}")
    history: Any = getattr(fitted, "history", None)
    require(isinstance(history, list) and len(history) == EPOCHS, f"history is {history!r:.80} after {EPOCHS} epochs")
    for row in history:
        finite = [isinstance(value, float) and math.isfinite(value) for value in row.values()]
        require(bool(finite) and all(finite), f"a row of the history is {row}")


def check_result_is_ready(subject: DefenseSubject) -> None:
    """The result is an :class:`AttentionModel` in evaluation mode, without gradients left over."""
    fitted = subject.fitted
    require(isinstance(fitted, AttentionModel), f"fit returned {type(fitted).__name__}")
    require(not any(part.training for part in fitted.modules()), "a part of it is in training mode")
    require(all(parameter.grad is None for parameter in fitted.parameters()), "a parameter still has its gradient")


@tagged(needs=("link",))
def check_supervision_is_used(subject: DefenseSubject) -> None:
    """A defense for several tasks learns from the supervision that it is given."""
    problem, asked = tiny_problem(), list[str]()

    class Watched(NodeSupervision):
        def __getattribute__(self, name: str) -> Any:
            asked.append(name)
            return super().__getattribute__(name)

    subject.fit(supervision=Watched(problem.training_data, problem.split))
    require(bool({"outputs", "loss"} & {*asked}), "the supervision was never asked")


def require_same_model(first: AttentionModel, second: AttentionModel, seen: str) -> None:
    """Raise if the tensors of the two models are not the same, to the last bit."""
    states = first.state_dict(), second.state_dict()
    require(states[0].keys() == states[1].keys(), seen)
    require(all(same(states[0][key], states[1][key]) for key in states[0]), seen)


def _fitted_check(check: Check) -> Check:
    def look(subject: DefenseSubject) -> None:
        result = check.run(subject.result)
        if result.status == "skipped":
            raise CheckSkipped(result.message)
        require(result.status == "passed", result.message)

    look.__doc__ = f"Of the fitted model: {check.look.__doc__}"
    return Check(check.name.replace("check_", "check_fitted_", 1), look)


FURTHER_CHECKS = [_fitted_check(check) for check in checks_in(ModelSubject) if "fitted" not in check.unless]
