"""What a metric is: the inputs that steps offer, the decorator ``@metric``, and the check of a new metric.

A metric is a pure function that says what it takes, and returns one float. A step of a run offers inputs by name; every
metric whose input is offered is computed, and recorded under its own name. Ours declare what they are by ``@metric``
above the function; a metric of your own uses ``@METRICS.register`` with the same words.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from fgai_bench.registry import Direction, Scale

F = TypeVar("F")
FGAI = "https://arxiv.org/abs/2410.06950"
GRAPHFRAMEX = "https://arxiv.org/abs/2206.09677"
ROBUST_FIDELITY = "https://arxiv.org/abs/2310.01820"
LIN = "https://doi.org/10.1109/18.61115"
SHARE = (0.0, 1.0)
CORRELATION = (-1.0, 1.0)
ANY_SIZE = (0.0, math.inf)
LN_2, HALF_LN_2 = (0.0, math.log(2)), (0.0, math.log(2) / 2)
# At the rates 0, .1, ..., .5 a curve of shares has a slope of at most (.25 + .15 + .05) / .175 = 18/7 either way.
SLOPE = (-18 / 7, 18 / 7)

HIGHER_SHARE: dict[str, Any] = {"direction": "higher", "range": SHARE, "scale": "logit"}
LOWER_SHARE: dict[str, Any] = {"direction": "lower", "range": SHARE, "scale": "logit"}
LOWER_DIVERGENCE: dict[str, Any] = {"direction": "lower", "range": LN_2, "scale": "log", "paper": LIN}
LOWER_OF_ANY_SIZE: dict[str, Any] = {"direction": "lower", "range": ANY_SIZE, "scale": "log", "paper": FGAI}

Where = Literal["clean", "attack", "certify", "effect", "explain", "train"]
NULLS = ("random", "uniform", "degree", "untrained")
SCOPES = {
    "covered": "of the edges that an explanation covers",
    "covered_clean": "of the edges that an explanation covers, on the clean graph",
    "covered_few_clean": "of all edges that eight nodes see, on the clean graph: nulls of explainers that search",
    "into": "of the edges into the node",
    "into_clean": "of the edges into the node, on the clean graph",
}
SCOPED_INPUTS = {
    **{
        f"effects{sign}{of}": f"per node scores and {words} effects on the {what}"
        for sign, words in (("", "sizes of"), ("-signed", "signed"))
        for of, what in (("", "predicted probability"), ("-logit", "predicted class's logit"), ("-loss", "loss"))
    },
    "truths": "per node scores, and which edges truly matter",
    "truths-wrong": "the same of nodes that are predicted wrongly or otherwise than before the attack",
    "truths-turned": "per node scores, and whose deletion turns the prediction",
    "probabilities-without-top": "two (N, C) outputs, whole and without the top",
    "probabilities-only-top": "two (N, C) outputs, whole and with the top alone",
    "fidelities": "fidelity+ and fidelity-",
    "falls": "(N,) falls of the predicted probability without a part of the top, and without a part of the rest",
    "shares": "(N,) the share in the computation graph",
}
INPUTS: dict[str, tuple[str, tuple[Where, ...]]] = {
    "output": ("the model's output on the graph, or on the attacked graph", ("clean", "attack")),
    "outputs": ("the outputs on the clean and on the attacked graph", ("attack",)),
    "probabilities": ("two (N, C) outputs as rows of probabilities, clean and attacked", ("attack",)),
    "probabilities-unchanged": ("the same, of the rows whose prediction did not change", ("attack",)),
    "probabilities-repeated": ("the same, of two evaluations of the clean graph", ("clean",)),
    "logits": ("two (N, C) raw outputs, clean and attacked", ("attack",)),
    "weights": ("two (E,) attentions over the edges of the clean graph that are in both graphs", ("attack",)),
    "weights-or-zero": ("the same over all edges of the clean graph, 0 where the other graph has none", ("attack",)),
    "weights-by-position": ("the two attentions as they come, however long", ("attack",)),
    "weights-unchanged": ("as weights, into the nodes whose prediction did not change", ("attack",)),
    "weights-uniform": ("as weights, of an attention that is uniform on both graphs", ("attack",)),
    "weights-or-zero-uniform": ("as weights-or-zero, of an attention that is uniform on both graphs", ("attack",)),
    "weights-repeated": ("as weights, of two evaluations of the clean graph", ("clean",)),
    "attention": ("the attention on the graph, or on the attacked graph", ("clean", "attack")),
    "attentions": ("the attentions on the clean and on the attacked graph", ("attack",)),
    "attentions-uniform": ("the uniform attentions on the clean and on the attacked graph", ("attack",)),
    "attentions-explained": ("the same, into the nodes that were explained", ("explain",)),
    "labels": ("predicted and true classes of the test nodes", ("clean", "attack")),
    "scores": ("scores and labels, 0 or 1, of the test links, or of nodes of two classes", ("clean", "attack")),
    "curve-highest": ("rates, and accuracy after deleting that share of the highest attention", ("clean", "attack")),
    "curve-lowest": ("rates, and accuracy after deleting that share of the lowest attention", ("clean", "attack")),
    **{
        f"curve-{end}-{null}": (f"as curve-{end}, edges ranked by the null {null!r}", ("clean",))
        for end in ("highest", "lowest")
        for null in NULLS
    },
    "probabilities-reached": ("as probabilities, of the rows that the attack can reach", ("attack",)),
    "weights-reached": ("as weights, into the nodes that the attack can reach", ("attack",)),
    "weights-or-zero-reached": ("as weights-or-zero, into the nodes that the attack can reach", ("attack",)),
    "labels-reached": ("as labels, of the test nodes that the attack can reach", ("attack",)),
    "reached": ("(N,) boolean, which nodes have something that changed within the model's layers", ("attack",)),
    "kept": ("the share of predictions that an attack on the explanation kept, as it says itself", ("attack",)),
    "explanations": ("pairs of explanations of the same node, clean and attacked", ("explain",)),
    "explanations-repeated": ("the same, of two runs of the explainer on the clean graph", ("explain",)),
    "explanations-unchanged": ("as explanations, of reached nodes whose prediction did not change", ("explain",)),
    "nodes": ("the nodes that were explained", ("effect", "explain")),
    "nodes-unchanged": ("further ones, of those that the attack reaches without changing them", ("explain",)),
    "nodes-wrong": ("those of them whose prediction is wrong, or was changed by the attack", ("explain",)),
    "effects-alone": ("as effects, where nothing but the size of the effects is known", ("effect",)),
    "effects-alone-clean": ("the same on the clean graph", ("effect",)),
    **{
        f"{inputs}-{scope.replace('_', '-')}": (f"{words}, {edges}", ("explain",))
        for inputs, words in SCOPED_INPUTS.items()
        for scope, edges in SCOPES.items()
    },
    "floor": ("targets, correct ones, and proven upper bounds of those lost and of explanations moved", ("certify",)),
    "pairs": ("pairs of a positive and a negative target, those in order, and a bound of those lost", ("certify",)),
    "model": ("the trained model", ("train", "clean", "attack")),
    "validation": ("the validation score of the training", ("train",)),
    "cost": ("seconds and memory by name, of the training and of the attack", ("clean", "attack")),
}
"""Input to what it is, and the steps that offer it; the part before a hyphen says what its arguments look like."""


class NotApplicable(ValueError):
    """Raised where a metric has no value; it says why in one sentence, which a table shows in place of a value."""


@dataclass(frozen=True)
class metric:  # noqa: N801, a decorator
    """Declare the metric that a function computes. The catalogue reads this from the source, without importing torch.

    Tags: ``needs-k`` and ``needs-share``, a further argument, half of the edges; ``distance``, 0 between a thing and
    itself; ``similarity``, 1; ``symmetric``, the order of the two does not matter.
    """

    name: str  # in METRICS
    inputs: str  # a name of INPUTS, what the function is called with
    summary: str  # what `fgai-bench ls` shows
    tags: tuple[str, ...] = ()
    direction: Direction = "none"  # which way is better
    range: tuple[float, float] | None = None  # the closed interval of possible values
    scale: Scale = "identity"  # where errors are symmetric: as it is, of its logarithm, of its logit
    paper: str = ""  # link to the work it comes from
    also: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # of other inputs: name to (inputs, summary)
    uniform: str = ""  # inputs of the null `NAME_uniform`, what a uniform attention scores; empty for none
    scoped: bool = False  # whether it and those of `also` are measured for each of SCOPES: `NAME_covered`, ...

    def __call__(self, function: F) -> F:
        return function

    def entries(self) -> dict[str, dict[str, Any]]:
        """Return the metadata of each declared metric by its name."""
        shared = {"direction": self.direction, "range": self.range, "scale": self.scale, "paper": self.paper}
        names = {self.name: (self.inputs, self.summary), **self.also}
        if self.scoped:
            names = {
                f"{name}_{scope}": (f"{inputs}-{scope.replace('_', '-')}", f"{summary}, {edges}")
                for name, (inputs, summary) in names.items()
                for scope, edges in SCOPES.items()
            }
        entries = {
            name: {"summary": summary, "tags": (f"inputs:{inputs}", *self.tags), **shared}
            for name, (inputs, summary) in names.items()
        }
        if self.uniform:
            summary, tags = f"{self.name} of a uniform attention: the null", (f"inputs:{self.uniform}", "null")
            entries[f"{self.name}_uniform"] = {"summary": summary, "tags": (*tags, *self.tags), **shared}
        return entries


def repeated_and_unchanged(name: str, summary: str) -> dict[str, tuple[str, str]]:
    """Return two more metrics of explanations: with no attack, and where the prediction did not change."""
    return {
        f"{name}_unchanged": (
            "explanations-unchanged",
            f"{summary} before and after, where the prediction did not change",
        ),
        f"{name}_floor": ("explanations-repeated", f"{summary}, asked twice: the noise floor"),
    }


def inputs_of(tags: frozenset[str]) -> str:
    """Return what a metric takes, from its tag ``inputs:...``; empty where it does not say.

    >>> inputs_of(frozenset({"inputs:weights", "distance"}))
    'weights'
    """
    return next((tag.partition(":")[2] for tag in sorted(tags) if tag.startswith("inputs:")), "")


def offered_in(tags: frozenset[str], where: Where) -> bool:
    """Tell whether a step of this kind offers what a metric with these tags takes."""
    return where in INPUTS.get(inputs_of(tags), ("", ()))[1]


def admitted(obj: Any, name: str) -> Any:
    """Return a metric with its inputs among its tags, or raise a ``TypeError`` that says what is missing."""
    if not callable(obj) or isinstance(obj, type):
        raise TypeError(f"it is {obj!r:.60} and not a function")
    tags = tuple(getattr(obj, "tags", ()))
    inputs = getattr(obj, "inputs", "") or inputs_of(frozenset(tags))
    if inputs not in INPUTS:
        problem = f"the inputs {inputs!r} are unknown" if inputs else "it does not say what it takes"
        raise TypeError(f"{problem}; declare inputs= one of {', '.join(INPUTS)}")
    obj.tags = *(tag for tag in tags if not tag.startswith("inputs:")), f"inputs:{inputs}"
    return obj
