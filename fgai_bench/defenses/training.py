"""How a defense trains: the optimisation loop, its settings, and what a task supervises."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.data.splits import Split
from fgai_bench.defenses.settings import Training
from fgai_bench.metrics.prediction import micro_f1
from fgai_bench.models.base import AttentionModel, Output, undisturbed
from fgai_bench.seeds import isolated_rng

T = TypeVar("T")
Progress = Callable[[int, int], None]
InnerAttack = Callable[[AttentionModel, Data, int], Any]


class Supervision(Protocol):
    """What a task tells a defense: never anything about test labels."""

    def outputs(self, out: Output) -> Tensor:
        """``(M, C)`` the logits whose stability matters; an attacked graph's output gives the same M rows."""

    def loss(self, out: Output) -> Tensor:
        """The training loss, on training labels."""

    def score(self, out: Output) -> float:
        """The validation score, higher is better."""


class NodeSupervision:
    """Node classification: cross-entropy on the training nodes, micro F1 on the validation nodes."""

    def __init__(self, data: Data, split: Split) -> None:
        self.num_nodes = data.x.shape[0]
        self.train, self.val = split.train, split.val
        self.y_train, self.y_val = data.y[split.train], data.y[split.val]

    def outputs(self, out: Output) -> Tensor:
        return out.logits[: self.num_nodes]

    def loss(self, out: Output) -> Tensor:
        return F.cross_entropy(out.logits[self.train], self.y_train)

    def score(self, out: Output) -> float:
        return micro_f1(out.logits[self.val].argmax(1), self.y_val)


def optimise(
    model: AttentionModel,
    terms: Callable[[int], Mapping[str, Tensor]],
    training: Training,
    seed: int,
    score: Callable[[], float] | None = None,
    progress: Progress | None = None,
) -> AttentionModel:
    """Minimise the sum of ``terms(epoch)`` over the parameters of ``model``, in place, and return it.

    The value of each term is kept per epoch in ``model.history``. With ``score``, the parameters of the best epoch are
    put back at the end; without it, those of the last epoch stay. Dropout draws from a generator of its own, derived
    from ``seed``: the caller's random state is untouched.
    """
    optimiser = torch.optim.Adam(model.parameters(), lr=training.lr, weight_decay=training.weight_decay)
    history: list[Mapping[str, Tensor | float]] = []
    best_score, best_state = float("-inf"), None
    with isolated_rng(seed, "train"):
        for epoch in range(training.epochs):
            model.train()
            values = terms(epoch)
            total = torch.stack(list(values.values())).sum()
            optimiser.zero_grad(set_to_none=True)
            total.backward()
            optimiser.step()
            history.append({name: value.detach() for name, value in values.items()})
            if score is not None:
                model.eval()
                with torch.no_grad():
                    reached = score()
                if reached > best_score:
                    best_score, best_state = reached, copy.deepcopy(model.state_dict())
            if progress is not None:
                progress(epoch + 1, training.epochs)
    if best_state is not None:
        model.load_state_dict(best_state)
    return finished(model, [{name: float(value) for name, value in row.items()} for row in history])


def finished(model: AttentionModel, history: list[dict[str, float]]) -> AttentionModel:
    """The trained model in evaluation mode, without stale gradients, with its losses per epoch in ``history``."""
    model.zero_grad(set_to_none=True)
    model.eval()
    model.history = history
    return model


def outputs_once(model: AttentionModel, data: Data) -> Output:
    """The output of a model in evaluation mode, without gradients; the model is left as it was."""
    with undisturbed(model), torch.no_grad():
        return model(data)


def required(given: T | None, defense: str, what: str, meaning: str) -> T:
    """``given``, or one sentence that says what the defense needs."""
    if given is None:
        raise ValueError(f"defense {defense!r} needs {what}=..., {meaning}")
    return given
