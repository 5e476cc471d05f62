"""Define the defense FGAI: attention that stays close to the teacher's and stable under perturbation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator
from torch import Tensor

from fgai_bench.defenses.base import Defense, Fit, Objective, perturbed_output
from fgai_bench.defenses.training import outputs_once
from fgai_bench.losses import in_topk, topk_surrogate, topk_variation, tvd
from fgai_bench.metrics import NotApplicable
from fgai_bench.models.base import Output
from fgai_bench.options import Choice, LogRange, Options, Space


class FGAIOptions(Options):
    """Weights and variants of FGAI's four terms; the defaults are the published setting.

    Attributes:
        closeness: weight of ``D(y~, y)``.
        similarity: weight of ``L_k1(w, w~)``.
        prediction: weight of the worst ``D(y~, y~ perturbed)``.
        explanation: weight of the worst ``L_k2(w~, w~ perturbed)``.
        k: share of the edges in the top-k of both surrogates; above 1, their number (in the scope ``graph``).
        scope: one top-k over the ``graph``, or one per destination ``node``.
        output: D on the ``raw`` outputs or on ``probability`` rows.
        anchor: whether the perturbed output is compared with the ``teacher``'s or with the model's own (``self``).
        dropout: whether the student trains with dropout.
        unit: what a weight multiplies. ``graph`` is the published form: D summed over the nodes, ``L_k`` averaged over
            the k edges, so that one weight means something else on every graph. ``node`` averages both over the nodes:
            D lies in [0, 1] on probability rows, and ``L_k`` is the change of a node's attention on its edges in the
            top-k, in [0, 1] as well, whatever the size and the degrees of the graph.
    """

    closeness: float = Field(1.0, ge=0)
    similarity: float = Field(1e5, ge=0)
    prediction: float = Field(1.0, ge=0)
    explanation: float = Field(1e5, ge=0)
    k: float = Field(0.5, gt=0)
    scope: Literal["graph", "node"] = "graph"
    output: Literal["raw", "probability"] = "raw"
    anchor: Literal["teacher", "self"] = "teacher"
    dropout: bool = True
    unit: Literal["graph", "node"] = "graph"

    @model_validator(mode="after")
    def _k_is_a_share_or_a_number(self) -> FGAIOptions:
        if self.k > 1 and (self.scope == "node" or self.k % 1):
            raise ValueError("k: a share of the edges, or in the scope of the graph their whole number")
        return self


class FGAIInjectionOptions(FGAIOptions):
    """FGAI's options and those of its inner attacks.

    Attributes:
        explanation_attack: ``own`` perturbs the explanation term by an attack of its own, with the same budget, that
            maximises ``L_k2(w~, w~ perturbed)``; ``shared`` takes the perturbation of the prediction term.
        aim: the nodes that the inner attacks attach to and break: ``all``, or the ``train`` nodes.
    """

    explanation_attack: Literal["shared", "own"] = "own"
    aim: Literal["all", "train"] = "all"


# Weights in units of a node; the weight of the prediction stays 1, since a common factor does not change Adam's steps.
FGAI_SPACE: Space = {
    "training.lr": LogRange(1e-3, 1e-2),
    "training.weight_decay": LogRange(1e-6, 1e-3),
    "training.epochs": Choice(100, 200, 400),
    "defense.unit": Choice("node"),
    "defense.output": Choice("probability", "raw"),
    "defense.closeness": LogRange(0.3, 10.0),
    "defense.similarity": LogRange(0.01, 10.0),
    "defense.explanation": LogRange(0.01, 10.0),
    "defense.anchor": Choice("teacher", "self"),
    "defense.dropout": Choice(False, True),
}


class FGAI(Defense):
    """Faithful Graph Attention-based Interpretation, perturbed by injected nodes (the published setting).

    From the teacher's weights, minimises over the parameters of ``w~``

    ``closeness * D(y~, y) + similarity * L_k(w, w~) + prediction * D(y~ or y, y~') + explanation * L_k(w~, w~')``

    where ``'`` is the graph attacked afresh each epoch, D is the total variation summed over the nodes, and ``L_k`` the
    top-k surrogate over the edges of the clean graph. Two inner attacks of one budget make the two perturbed graphs:
    the first maximises the change of output, the second ``L_k``. A term with weight 0 is not computed.
    """

    summary = "FGAI, the published setting: inner maximisation over injected nodes"
    paper = "https://arxiv.org/abs/2410.06950"
    tags = ("node", "link", "needs-teacher", "needs-inner")
    cost: ClassVar[dict[str, float]] = {"copies": 2.4, "attacked_edges": 1.0}
    starts_from = "teacher"
    search_space: ClassVar[Space | None] = {
        **FGAI_SPACE,
        "inner.nodes": Choice(20, 40),
        "inner.edges_per_node": Choice(20, 40),
        "inner.step": Choice(0.05, 0.1, 0.2),
        "inner.steps": Choice(3, 10),
    }

    def __init__(self, **options: object) -> None:
        self.options = FGAIInjectionOptions(**options)
        self.inner_options: dict[str, Any] = {"loss": "tvd", "targets": self.options.aim}

    def objective(self, fit: Fit) -> Objective:
        faithful = Faithfulness(self.options, fit)
        attacks, capturable = [], fit.student.capturable(new_edges=False)
        shared, terms_on = self.options.explanation_attack == "shared", faithful.perturbed_terms
        for names in [[*terms_on]] if shared and terms_on else [[name] for name in terms_on]:
            own = names == ["explanation"] and not shared
            attack, capturable = fit.attack(faithful.attention_change if own else None)
            attacks.append((names, attack))

        def terms(epoch: int) -> dict[str, Tensor]:
            fit.student.train(self.options.dropout)
            h = fit.student.embed(fit.data.x)
            own = faithful.seen(fit.student.propagate(h, fit.data.edge_index))
            losses = faithful.towards_teacher(own)
            for names, attack in attacks:
                perturbed = faithful.seen(perturbed_output(fit.student, h, attack(epoch)))
                losses |= {name: terms_on[name](own, perturbed) for name in names}
            return losses

        return Objective(terms, keep="last", capturable=capturable and faithful.capturable)


@dataclass(frozen=True)
class Seen:
    """The part of an output that FGAI's terms depend on.

    Attributes:
        outputs: ``(M, C)`` the task's rows, raw or as probabilities.
        weights: ``(E,)`` the attention on the edges of the clean graph.
        k, groups: which of them are its top-k, as in :func:`fgai_bench.losses.in_topk`.
    """

    outputs: Tensor
    weights: Tensor
    k: float
    groups: Tensor | None

    @cached_property
    def top(self) -> Tensor:
        """Return ``(E,)`` boolean, the top-k of the weights, selected once for all terms."""
        return in_topk(self.weights, self.k, self.groups)


class Faithfulness:
    """FGAI's four terms for one graph and one teacher, whose output is computed once.

    Each method returns the weighted terms by name; those of weight 0 are left out.
    """

    def __init__(self, options: FGAIOptions, fit: Fit) -> None:
        out = outputs_once(fit.required("teacher"), fit.data)
        if out.attention is None:
            raise NotApplicable("FGAI needs a model with attention, and this teacher has none")
        attention = out.attention.of_graph()
        self.options, self.task = options, fit.task
        self.groups = attention.edge_index[1] if options.scope == "node" else None
        self.nodes, self.edges = fit.data.x.shape[0], attention.weight.numel()
        number = options.k if options.k > 1 else options.k * self.edges
        self.k = options.k if options.scope == "node" else min(max(1, round(number)), self.edges)
        self.teacher = self.seen(out)
        self.clean: tuple[Any, Seen] | None = None  # the reference of the attack that is under way, and what is seen

    @property
    def capturable(self) -> bool:
        """Tell whether the terms read nothing back from the device; the top-k per node does, to count its groups."""
        return self.options.scope == "graph"

    def seen(self, out: Output) -> Seen:
        """Return the part of an output that the terms depend on."""
        assert out.attention is not None
        logits = self.task.outputs(out)
        # A perturbed graph keeps the original edges first and in their order, so equal positions are equal edges.
        weights = out.attention.weight[: self.edges]
        outputs = logits if self.options.output == "raw" else logits.softmax(1)
        return Seen(outputs, weights, self.k, self.groups)

    def towards_teacher(self, own: Seen) -> dict[str, Tensor]:
        """Return ``closeness * D(y~, y)`` and ``similarity * L_k(w, w~)``."""
        losses = {}
        if self.options.closeness:
            losses["closeness"] = self.options.closeness * self.variation(own.outputs, self.teacher.outputs)
        if self.options.similarity:
            losses["similarity"] = self.options.similarity * self.surrogate(self.teacher, own)
        return losses

    def attention_change(self, logits: Tensor, out: Output, reference: Any) -> Tensor:
        """Return ``L_k(w, w')`` of an attacked output against the clean reference: what the second attack maximises."""
        assert out.attention is not None
        if self.clean is None or self.clean[0] is not reference:  # one top-k for all steps of an attack
            self.clean = reference, Seen(reference.logits, reference.weight, self.k, self.groups)
        attacked = Seen(logits, out.attention.weight[: self.edges], self.k, self.groups)
        return self.surrogate(self.clean[1], attacked)

    @property
    def perturbed_terms(self) -> dict[str, Callable[[Seen, Seen], Tensor]]:
        """Return the terms of a perturbation that count, by name, as functions of the own and the perturbed output.

        They are ``prediction * D(anchor, y~')`` and ``explanation * L_k(w~, w~')``.
        """
        terms = {"prediction": self._prediction, "explanation": self._explanation}
        return {name: term for name, term in terms.items() if getattr(self.options, name)}

    def _prediction(self, own: Seen, perturbed: Seen) -> Tensor:
        anchor = self.teacher if self.options.anchor == "teacher" else own
        return self.options.prediction * self.variation(anchor.outputs, perturbed.outputs)

    def _explanation(self, own: Seen, perturbed: Seen) -> Tensor:
        return self.options.explanation * self.surrogate(own, perturbed)

    def variation(self, y: Tensor, y_tilde: Tensor) -> Tensor:
        """Return D in the unit of the options: summed over the rows, or averaged."""
        return tvd(y, y_tilde) / (max(y.shape[0], 1) if self.options.unit == "node" else 1)

    def surrogate(self, one: Seen, other: Seen) -> Tensor:
        """Return ``L_k`` in the scope and the unit of the options."""
        w, w_tilde, tops = one.weights, other.weights, (one.top, other.top)
        if self.options.unit == "node":
            return topk_variation(w, w_tilde, self.k, self.nodes, self.groups, tops)
        return topk_surrogate(w, w_tilde, self.k, self.groups, tops)
