"""Interface of metrics: the class :class:`Metric`, the inputs that steps offer, and the check of a new metric.

A metric is a pure function that says what it takes, and returns one float. A step of a run offers inputs by name; every
metric whose input is offered is computed, and recorded under its own name.
A metric is a function with the attributes of :class:`Metric`, which ``@METRICS.register`` sets, or an instance of a
subclass of it.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from fgai_bench.registry import Direction, Scale

Where = Literal["clean", "attack", "effect", "explain", "train"]
NULLS = ("random", "uniform", "degree", "untrained")
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
    "scores": ("scores and labels, 0 or 1, of the test links", ("clean", "attack")),
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
    "effects": ("per node the scores of its edges and their true effects, on the attacked graph", ("explain",)),
    "effects-clean": ("the same on the clean graph", ("explain",)),
    "effects-alone": ("as effects, where nothing but the size of the effects is known", ("effect",)),
    "effects-alone-clean": ("the same on the clean graph", ("effect",)),
    "probabilities-without-top": ("two (N, C) outputs: of the attacked graph, and without the top edges", ("explain",)),
    "probabilities-without-top-clean": ("the same on the clean graph", ("explain",)),
    "probabilities-only-top": ("two (N, C) outputs: of the attacked graph, and of its top edges alone", ("explain",)),
    "probabilities-only-top-clean": ("the same on the clean graph", ("explain",)),
    "fidelities": ("fidelity+ and fidelity- on the attacked graph", ("explain",)),
    "fidelities-clean": ("the same on the clean graph", ("explain",)),
    **{
        f"curve-{end}-explained{clean}": (
            f"rates, and accuracy after each node's {end} edges go, {words}",
            ("explain",),
        )
        for end in ("highest", "lowest")
        for clean, words in (("", "attacked graph"), ("-clean", "clean graph"))
    },
    "truths": ("per node the scores of its edges and which of them truly matter, on the attacked graph", ("explain",)),
    "truths-clean": ("the same on the clean graph", ("explain",)),
    "truths-wrong": ("as truths, of the nodes whose prediction is wrong or was changed", ("explain",)),
    "model": ("the trained model", ("train", "clean", "attack")),
    "validation": ("the validation score of the training", ("train",)),
    "cost": ("seconds and memory by name, of the training and of the attack", ("clean", "attack")),
}
"""Input to what it is, and the steps that offer it; the part before a hyphen says what its arguments look like."""


class Metric:
    """A metric as a class; a plain function with the same attributes serves as well.

    Attributes:
        inputs: a name of ``INPUTS``, what it is called with.
        summary, paper, version: what ``fgai-bench ls`` shows; ``version`` changes when values change.
        direction: which way is better.
        range: the closed interval of possible values.
        scale: where errors are symmetric: as it is, of its logarithm, of its logit.
        tags: ``needs-k`` and ``needs-share``, a further argument, half of the edges; ``distance``, 0 between a thing
            and itself; ``similarity``, 1; ``symmetric``, the order of the two does not matter; ``null``, it is what a
            uniform attention scores in the metric of the same name without ``_uniform``.
    """

    inputs: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    version: ClassVar[str] = "1"
    tags: ClassVar[tuple[str, ...]] = ()
    direction: ClassVar[Direction] = "none"
    range: ClassVar[tuple[float, float] | None] = None
    scale: ClassVar[Scale] = "identity"

    def __call__(self, *arguments: Any) -> float:
        """Return the value for the arguments that ``inputs`` names."""
        raise TypeError(f"{type(self).__name__} must implement __call__")


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
    metric: Any = obj() if isinstance(obj, type) and issubclass(obj, Metric) else obj
    if not callable(metric) or isinstance(metric, type):
        raise TypeError(f"it is {obj!r:.60}, neither a function nor a subclass of fgai_bench.metrics.Metric")
    tags = tuple(getattr(metric, "tags", ()))
    inputs = getattr(metric, "inputs", "") or inputs_of(frozenset(tags))
    inputs = {"curve": "curve-highest"}.get(inputs, inputs)  # the first release had one name for both curves
    if inputs not in INPUTS:
        problem = f"the inputs {inputs!r} are unknown" if inputs else "it does not say what it takes"
        raise TypeError(f"{problem}; declare inputs= one of {', '.join(INPUTS)}")
    metric.tags = *(tag for tag in tags if not tag.startswith("inputs:")), f"inputs:{inputs}"
    return metric
