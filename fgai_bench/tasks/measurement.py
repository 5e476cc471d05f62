"""Measure a step: it offers inputs by name, and every metric whose input is offered gives one value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.data.extend import reached_nodes
from fgai_bench.metrics import METRICS, NotApplicable, unchanged, uniform_attention
from fgai_bench.metrics.base import INPUTS, inputs_of
from fgai_bench.metrics.inputs import attention_of
from fgai_bench.models import Attention, align
from fgai_bench.models.base import AttentionModel, Output

Curve = tuple[tuple[float, ...], tuple[float, ...]]
Arguments = tuple[Any, ...]
TOP_SHARE = 0.5  # of a node's edges, for metrics that look at the top of them


@dataclass
class Measured:
    """Values by metric, the metrics that do not apply with the reason, and curves as (x, y)."""

    metrics: dict[str, float] = field(default_factory=dict)
    not_applicable: dict[str, str] = field(default_factory=dict)
    curves: dict[str, Curve] = field(default_factory=dict)


class Offers:
    """The inputs that a step offers to metrics, by name; each is computed when first asked for.

    >>> offers = Offers({"labels": lambda: (3, 4)})
    >>> "labels" in offers, offers["labels"]
    (True, (3, 4))
    """

    def __init__(self, inputs: Mapping[str, Callable[[], Arguments]] | None = None) -> None:
        self._inputs = {name: cache(arguments) for name, arguments in (inputs or {}).items()}
        self.curves: dict[str, Curve] = {}

    def add(self, **inputs: Callable[[], Arguments]) -> Offers:
        """Offer more inputs; an underscore in a name stands for a hyphen."""
        self._inputs |= {name.replace("_", "-"): cache(arguments) for name, arguments in inputs.items()}
        return self

    def __contains__(self, name: object) -> bool:
        return name in self._inputs

    def __getitem__(self, name: str) -> Arguments:
        return self._inputs[name]()


def measured(offers: Offers, names: Iterable[str] | None = None) -> Measured:
    """Compute the metrics whose inputs are offered, the built-in ones if none are named; say why one does not apply."""
    result = Measured(curves=offers.curves)
    for name in [name for name in METRICS if METRICS.entry(name).ours] if names is None else names:
        if inputs_of(METRICS.entry(name).tags) in offers:
            try:
                result.metrics[name] = value_of(name, offers)
            except NotApplicable as reason:
                result.not_applicable[name] = str(reason)
    return result


def value_of(name: str, offers: Offers) -> float:
    """Return the value of one metric from the inputs on offer, or raise :class:`NotApplicable`."""
    entry = METRICS.entry(name)
    inputs = inputs_of(entry.tags)
    if inputs not in offers:
        raise NotApplicable(f"this task offers no {inputs}: {INPUTS[inputs][0]}")
    arguments = offers[inputs]
    if "needs-k" in entry.tags:
        arguments = (*arguments, max(arguments[0].numel() // 2, 1))
    elif "needs-share" in entry.tags:
        arguments = (*arguments, TOP_SHARE)
    return float(METRICS[entry.name](*arguments))


def clean_offers(out: Output, again: Output, logits: Callable[[Output], Tensor]) -> Offers:
    """Offer an output on the clean graph, and a second evaluation of it; ``logits`` reads the (M, C) that count."""
    return Offers().add(
        output=lambda: (out,),
        attention=lambda: (attention_of(out),),
        probabilities_repeated=lambda: (logits(out).softmax(1), logits(again).softmax(1)),
        weights_repeated=lambda: align(attention_of(out), attention_of(again)),
    )


def pair_offers(clean: Output, other: Output, logits: Callable[[Output], Tensor]) -> Offers:
    """Offer two outputs on the same nodes; ``logits`` reads the (M, C) of the same things from both."""
    y, y_tilde = logits(clean), logits(other)
    same = unchanged(y, y_tilde)  # (M,)

    def attentions() -> tuple[Attention, Attention]:
        return attention_of(clean), attention_of(other)

    def rows_unchanged() -> Arguments:
        if not bool(same.any()):
            raise NotApplicable("every prediction changed")
        return y.softmax(1)[same], y_tilde.softmax(1)[same]

    return Offers().add(
        output=lambda: (other,),
        outputs=lambda: (clean, other),
        logits=lambda: (y, y_tilde),
        probabilities=lambda: (y.softmax(1), y_tilde.softmax(1)),
        probabilities_unchanged=rows_unchanged,
        attention=lambda: (attention_of(other),),
        attentions=attentions,
        weights=lambda: align(*attentions(), common=True),
        weights_or_zero=lambda: align(*attentions()),
        weights_by_position=lambda: tuple(attention.weight for attention in attentions()),
    )


def uniform_offers(clean: Data, other: Data) -> dict[str, Callable[[], Arguments]]:
    """Return what a uniform attention offers on two graphs: the null of stability, which no model is needed for."""

    def attentions() -> tuple[Attention, Attention]:
        before, after = (uniform_attention(graph.edge_index, graph.x.shape[0]) for graph in (clean, other))
        return before, after

    return {
        "attentions-uniform": attentions,
        "weights-uniform": lambda: align(*attentions(), common=True),
        "weights-or-zero-uniform": lambda: align(*attentions()),
    }


def reached_by_attack(model: AttentionModel, data: Data, attacked: Data, clean: Output, perturbed: Output) -> Tensor:
    """Return which original nodes an attack can reach through a model: ``(N,)`` boolean.

    A model that counts its hops may still look at the whole graph, by a normalisation over all nodes, say. So where
    an output changes beyond the hops, every node counts as reached.
    """
    reached = reached_nodes(data, attacked, model.hops_behind(clean))
    nodes = data.x.shape[0]
    before, after = clean.logits[:nodes][~reached], perturbed.logits[:nodes][~reached]
    if not model.local and not torch.allclose(before, after, rtol=1e-4, atol=1e-5):
        return torch.ones_like(reached)
    return reached


def not_empty(mask: Tensor) -> Tensor:
    """Return the mask itself, or raise :class:`NotApplicable` where it holds nothing."""
    if not bool(mask.any()):
        raise NotApplicable("the attack reaches none of these nodes")
    return mask
