"""Check metrics: their values agree with their tags, range and direction, and they are pure functions."""

import pickle
from dataclasses import dataclass
from typing import Any

import torch

from fgai_bench.metrics.base import inputs_of
from fgai_bench.metrics.f_slope import RATES
from fgai_bench.models.attention import Attention
from fgai_bench.models.base import Output
from fgai_bench.testing.checks import CheckFailed, CheckSkipped, EntrySubject, require, tagged
from fgai_bench.testing.fixture import tiny_model

EDGES = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3], [1, 2, 3, 0, 2, 3, 0, 1]])
LABELS = torch.tensor([1, 0, 1, 0, 0, 1])
SEEDS = range(5)


@dataclass(frozen=True)
class MetricSubject(EntrySubject):
    """A metric to be checked, on random arguments of the form that its inputs describe."""

    @property
    def inputs(self) -> str:
        """Return the form of its arguments: the part of its inputs before a hyphen."""
        return inputs_of(self.tags).partition("-")[0]

    def argument(self, seed: int) -> Any:
        return DRAWS[self.inputs](torch.Generator().manual_seed(seed))

    def value(self, a: Any, b: Any) -> Any:
        """Return the metric of one or two arguments, as it takes them."""
        metric = self.entry.load()
        if self.inputs in ALONE:
            return metric(a, 0.5) if "needs-share" in self.tags else metric(a)
        if self.inputs in ("floor", "pairs"):
            return metric(*a)
        if self.inputs == "curve":
            return metric(RATES, a)
        if self.inputs == "scores":
            return metric(a, LABELS)
        third = [3] if "needs-k" in self.tags else [0.5] if "needs-share" in self.tags else []
        return metric(a, b, *third)


def _attention(draw: torch.Generator) -> Attention:
    """Return an attention on four nodes with two in-edges each; weights sum to one per destination."""
    rows = torch.rand(4, 2, generator=draw, dtype=torch.double).softmax(1)  # (destinations, in-edges)
    weight = torch.empty(8, dtype=torch.double)
    weight[EDGES[1].argsort(stable=True)] = rows.flatten()
    return Attention(EDGES, weight)


def _output(draw: torch.Generator) -> Output:
    return Output(3 * torch.randn(4, 3, generator=draw), _attention(draw))


DRAWS: dict[str, Any] = {
    "probabilities": lambda draw: torch.randn(5, 3, generator=draw).softmax(1),
    "logits": lambda draw: 3 * torch.randn(5, 3, generator=draw),
    "weights": lambda draw: torch.rand(9, generator=draw),
    "attentions": _attention,
    "attention": _attention,
    "output": _output,
    "outputs": _output,
    "curve": lambda draw: torch.rand(len(RATES), generator=draw).tolist(),
    "labels": lambda draw: torch.randint(3, (7,), generator=draw),
    "scores": lambda draw: torch.rand(len(LABELS), generator=draw),
    **dict.fromkeys(("kept", "validation", "fidelities"), lambda draw: float(torch.rand(1, generator=draw))),
    "explanations": lambda draw: [(_attention(draw), _attention(draw)) for _ in range(2)],
    "effects": lambda draw: [(torch.rand(6, generator=draw), torch.randn(6, generator=draw) / 9) for _ in range(2)],
    "truths": lambda draw: [(torch.rand(6, generator=draw), torch.arange(6) < 2 + node) for node in range(2)],
    "falls": lambda draw: 2 * torch.rand(5, generator=draw) - 1,
    "shares": lambda draw: torch.rand(5, generator=draw),
    "reached": lambda draw: torch.rand(9, generator=draw) < 0.5,
    "nodes": lambda draw: torch.randperm(9, generator=draw)[:4],
    "floor": lambda draw: tuple(torch.randint(1, 9, (4,), generator=draw).sort(descending=True).values.tolist()),
    "pairs": lambda draw: tuple(torch.randint(1, 9, (3,), generator=draw).sort(descending=True).values.tolist()),
    "model": lambda draw: tiny_model(),
    "cost": lambda draw: {"train_seconds": float(torch.rand(1, generator=draw)), "train_peak_mib": 100.0},
}
ALONE = (
    *("attention", "output", "reached", "kept", "validation", "explanations", "effects", "truths", "nodes", "model"),
    *("cost", "shares"),
)
"""Inputs that are one argument."""

subject = MetricSubject


def check_value_is_in_range(subject: MetricSubject) -> None:
    """The value is a Python float inside the declared range, and the arguments stay unchanged."""
    low, high = subject.entry.range or (-float("inf"), float("inf"))
    for seed in SEEDS:
        a, b = subject.argument(seed), subject.argument(seed + 100)
        before = pickle.dumps((a, b))
        value = subject.value(a, b)
        require(type(value) is float, f"it returns {type(value).__name__}")
        require(low <= value <= high, f"{value:.6g} is not between {low:g} and {high:g}")
        require(pickle.dumps((a, b)) == before, "an argument has changed")


def check_value_of_equal_arguments(subject: MetricSubject) -> None:
    """A similarity is 1 between equal arguments; a distance is 0, and above 0 between different ones."""
    if not {"distance", "similarity"} & subject.tags:
        raise CheckSkipped("only with the tag 'distance' or 'similarity'")
    thing, other = subject.argument(0), subject.argument(1)
    value, wanted = subject.value(thing, thing), float("similarity" in subject.tags)
    require(value == wanted, f"between a thing and itself it is {value:.6g}, not {wanted:g}")
    if "distance" in subject.tags:
        require(subject.value(thing, other) > 0, "the distance to another thing is not positive")


@tagged(needs=("symmetric",))
def check_symmetry(subject: MetricSubject) -> None:
    """The order of the two arguments does not matter."""
    for seed in SEEDS:
        a, b = subject.argument(seed), subject.argument(seed + 100)
        there, back = subject.value(a, b), subject.value(b, a)
        require(abs(there - back) <= 1e-12 + 1e-9 * abs(there), f"{there:.9g} one way, {back:.9g} the other")


def check_nan_raises(subject: MetricSubject) -> None:
    """NaN in an argument is a ``ValueError`` of one sentence, never a number."""
    thing = subject.argument(0)
    try:
        value = subject.value(_with_nan(thing), thing)
    except ValueError as error:
        require(bool(str(error)) and "\n" not in str(error), f"the sentence is {str(error)!r}")
        return
    raise CheckFailed(f"with NaN in an argument it returns {value}")


def _with_nan(argument: Any) -> Any:
    """Return the argument with one number replaced by NaN; skip the check if it has only integers."""
    if isinstance(argument, Attention):
        return Attention(argument.edge_index, _with_nan(argument.weight))
    if isinstance(argument, Output):
        return Output(_with_nan(argument.logits), argument.attention)
    if isinstance(argument, torch.nn.Module):
        raise CheckSkipped("a NaN has no place in what it takes")
    if isinstance(argument, int):
        raise CheckSkipped("a NaN has no place among whole numbers")
    if isinstance(argument, float):
        return float("nan")
    if isinstance(argument, dict):
        return {key: float("nan") for key in argument}
    if isinstance(argument, list | tuple):
        return type(argument)((_with_nan(argument[0]), *argument[1:]))
    broken = argument.clone().float()
    broken.view(-1)[0] = float("nan")
    return broken
