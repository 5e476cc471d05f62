"""A problem: one task on one dataset and seed, and the measurements that all tasks share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks import ATTACKS, Attacked, ThreatModel
from fgai_bench.attacks.objectives import Readout
from fgai_bench.defenses.training import InnerAttack, Supervision
from fgai_bench.metrics import (
    NotApplicable,
    attention_entropy,
    attention_entropy_normalised,
    edges_into,
    g_jsd,
    g_jsd_published,
    g_tvd,
    g_tvd_raw,
    node_jsd,
    node_topk_overlap,
    topk_overlap,
    unchanged,
)
from fgai_bench.models import Attention, align
from fgai_bench.models.base import AttentionModel, Output, undisturbed

Curve = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass
class Measured:
    """Values by metric, the metrics that do not apply with the reason, and curves as (x, y)."""

    metrics: dict[str, float] = field(default_factory=dict)
    not_applicable: dict[str, str] = field(default_factory=dict)
    curves: dict[str, Curve] = field(default_factory=dict)

    def add(self, name: str, value: Callable[[], float]) -> None:
        """Compute one metric; where it does not apply, note why."""
        try:
            self.metrics[name] = value()
        except NotApplicable as reason:
            self.not_applicable[name] = str(reason)


@dataclass(frozen=True)
class Inner:
    """An attack with its targets and budget, as a defense calls it: ``inner(model, data, seed)``."""

    attack: Callable[..., Attacked]
    targets: Tensor
    threat: ThreatModel
    readout: Readout | None

    @property
    def recordable(self) -> bool:
        """Whether the attack reads nothing back from the device while it searches; it then needs no seed."""
        return getattr(self.attack, "recordable", False)

    def __call__(self, model: AttentionModel, data: Data, seed: int | None) -> Attacked:
        return self.attack(model, data, self.targets, threat=self.threat, seed=seed, readout=self.readout)


class Problem:
    """One task on one dataset and seed.

    Attributes:
        data: the graph that the model sees, labels included; attacks start from it.
        training_data: the same graph with the test labels taken out; defenses get this one.
        split: training, validation and test parts.
        supervision: what a defense may learn from.
        targets: ``(T,)`` nodes that the attacker's nodes are attached to.
        readout: what of an output an attack tries to change; None for the targets' own logits.
        num_outputs: width of the model's logits.
        provenance: dataset, checksum, split hash and counts, for the records.
    """

    task: ClassVar[str]
    data: Data
    training_data: Data
    split: Any
    supervision: Supervision
    targets: Tensor
    readout: Readout | None = None
    num_outputs: int
    provenance: dict[str, Any]

    def inner(self, options: dict[str, Any]) -> InnerAttack:
        """The attack of a defense's inner maximisation, on this problem's training side.

        Options: ``attack`` (default ``injection``), ``loss``, ``targets`` (``all`` nodes or the ``train`` part) and the
        fields of a threat model. It is a training setting: it says nothing about the budget of the evaluation.
        """
        settings = {"step": 0.05, **options}
        name, loss = settings.pop("attack", "injection"), settings.pop("loss", None)
        climbs = loss is not None and "gradient" in ATTACKS.entry(name).tags  # a control has nothing to maximise
        made = ATTACKS[name](loss=loss) if climbs else ATTACKS[name]()
        targets, readout = self.training_targets(settings.pop("targets", "all"))
        return Inner(made, targets, ThreatModel(**settings), readout)

    def training_targets(self, which: str) -> tuple[Tensor, Readout | None]:
        """Nodes to attach to and what to break, using training labels or none at all."""
        raise TypeError(f"{type(self).__name__} must implement training_targets(which)")

    def clean(self, model: AttentionModel, sanity: bool = False) -> Measured:
        """What is measured without an attack; with ``sanity``, also what rankings that know nothing would give."""
        raise TypeError(f"{type(self).__name__} must implement clean(model)")

    def attacked(self, model: AttentionModel, attacked: Attacked) -> Measured:
        """What is measured under an attack."""
        raise TypeError(f"{type(self).__name__} must implement attacked(model, attacked)")

    def output(self, model: AttentionModel, data: Data) -> Output:
        """The model's output in evaluation mode, the model left as it was."""
        with undisturbed(model), torch.no_grad():
            return model(data)


def attention_of(out: Output) -> Attention:
    """The attention of an output, or :class:`NotApplicable` for a model that has none."""
    if out.attention is None:
        raise NotApplicable("the model has no attention")
    return out.attention


def measure_attention(found: Measured, clean: Output) -> None:
    """What attention looks like without an attack: a uniform attention is stable and explains nothing."""
    found.add("attention_entropy", lambda: attention_entropy(attention_of(clean)))
    found.add("attention_entropy_normalised", lambda: attention_entropy_normalised(attention_of(clean)))


def measure_noise_floor(found: Measured, logits: Tensor, again: Tensor, clean: Output, repeated: Output) -> None:
    """The stability metrics between two evaluations of the same graph."""
    found.add("g_tvd_floor", lambda: g_tvd(logits.softmax(1), again.softmax(1)))
    found.add("g_jsd_floor", lambda: g_jsd(*align(attention_of(clean), attention_of(repeated))))


def measure_stability(found: Measured, logits: Tensor, perturbed: Tensor, clean: Output, attacked: Output) -> None:
    """The stability metrics between two outputs; ``logits`` and ``perturbed`` are ``(M, C)`` of the same things."""
    y, y_tilde = logits.softmax(1), perturbed.softmax(1)
    same = unchanged(logits, perturbed)  # (M,)
    found.add("prediction_kept", lambda: same.float().mean().item())
    found.add("g_tvd", lambda: g_tvd(y, y_tilde))
    found.add("g_tvd_raw", lambda: g_tvd_raw(logits, perturbed))
    found.add("g_tvd_unchanged", lambda: g_tvd(*_nonempty(y[same], y_tilde[same])))
    pair = partial(_attentions, clean, attacked)
    found.add("g_jsd", lambda: g_jsd(*align(*pair(), common=True)))
    found.add("g_jsd_published", lambda: g_jsd_published(*(a.weight for a in pair())))
    found.add("node_jsd", lambda: node_jsd(*pair()))
    found.add("topk_overlap", lambda: _half_overlap(*align(*pair())))
    found.add("node_topk_overlap", lambda: node_topk_overlap(*pair(), 0.5))


def measure_stability_of_unchanged(found: Measured, same: Tensor, clean: Output, attacked: Output) -> None:
    """g-JSD over the in-edges of the nodes whose prediction did not change: ``same`` is ``(N,)``."""
    found.add(
        "g_jsd_unchanged",
        lambda: g_jsd(*align(edges_into(attention_of(clean), same), attention_of(attacked), common=True)),
    )


def _attentions(clean: Output, attacked: Output) -> tuple[Attention, Attention]:
    return attention_of(clean), attention_of(attacked)


def _half_overlap(w: Tensor, w_tilde: Tensor) -> float:
    return topk_overlap(w, w_tilde, max(w.numel() // 2, 1))


def _nonempty(y: Tensor, y_tilde: Tensor) -> tuple[Tensor, Tensor]:
    if not y.shape[0]:
        raise NotApplicable("every prediction changed")
    return y, y_tilde
