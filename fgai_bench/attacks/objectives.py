"""What a gradient attack maximises: functions of the attacked output, held against the clean one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fgai_bench.losses import jsd, topk_surrogate, tvd
from fgai_bench.metrics.topk import topk_mask
from fgai_bench.models.base import Output

Readout = Callable[[Output], Tensor]


@dataclass(frozen=True)
class Reference:
    """The clean output that an attack moves away from.

    Attributes:
        logits: ``(M, C)`` of the targets.
        prediction: ``(M,)`` the clean prediction.
        weight: ``(E,)`` attention on the graph's edges, or None.
    """

    logits: Tensor
    prediction: Tensor
    weight: Tensor | None

    @classmethod
    def of(cls, out: Output, readout: Readout) -> Reference:
        logits = readout(out).detach()
        weight = None if out.attention is None else out.attention.of_graph().weight.detach()
        return cls(logits, logits.argmax(1), weight)


def nll(logits: Tensor, out: Output, reference: Reference) -> Tensor:
    """``-mean log p(clean prediction)``: the published attack."""
    return F.cross_entropy(logits, reference.prediction)


def margin(logits: Tensor, out: Output, reference: Reference) -> Tensor:
    """``mean tanh(max_{c != y} z_c - z_y)``: every target counts, none more than fully (Geisler et al. 2021)."""
    return torch.tanh(-margins(logits, reference.prediction)).mean()


def output_tvd(logits: Tensor, out: Output, reference: Reference) -> Tensor:
    """Total variation between clean and attacked output distributions, averaged over the targets."""
    return tvd(logits.softmax(1), reference.logits.softmax(1)) / logits.size(0)


def attention_topk(logits: Tensor, out: Output, reference: Reference) -> Tensor:
    """``L_k`` between clean and attacked attention with k half the edges."""
    w, w_tilde = _weights(out, reference)
    return topk_surrogate(w, w_tilde, max(w.numel() // 2, 1))


def attention_jsd(logits: Tensor, out: Output, reference: Reference) -> Tensor:
    """Jensen-Shannon divergence between clean and attacked attention, averaged over the edges."""
    return jsd(*_weights(out, reference))


def attention_overlap(logits: Tensor, out: Output, reference: Reference, temperature: float = 0.1) -> Tensor:
    """A smooth share of the clean top-k edges (k half the edges) that have left the attacked top-k.

    ``mean_{e in T_k(w)} sigmoid((ln t - ln w~_e) / temperature)`` with the threshold ``t`` the k-th largest of ``w~``.
    The logarithm makes it a matter of relative weight: edges close to the threshold are moved first.
    """
    w, w_tilde = _weights(out, reference)
    k = max(w.numel() // 2, 1)
    scores = w_tilde.clamp(min=1e-30).log()
    threshold = scores.detach().kthvalue(w.numel() - k + 1).values
    return torch.sigmoid((threshold - scores[topk_mask(w, k)]) / temperature).mean()


def margins(logits: Tensor, labels: Tensor) -> Tensor:
    """``z_y - max_{c != y} z_c`` per row, positive where the prediction is ``labels``: ``(M, C), (M,) -> (M,)``.

    >>> margins(torch.tensor([[3.0, 1.0, 0.0]]), torch.tensor([1])).tolist()
    [-2.0]
    """
    own = logits.gather(1, labels.unsqueeze(1)).squeeze(1)
    others = logits.scatter(1, labels.unsqueeze(1), -torch.inf)
    return own - others.amax(1)


def _weights(out: Output, reference: Reference) -> tuple[Tensor, Tensor]:
    if out.attention is None or reference.weight is None:
        raise ValueError("an attack on the attention needs a model that has one")
    # An attack keeps the original edges first and in their order, so the first E weights are keyed by the same edges.
    return reference.weight, out.attention.weight[: reference.weight.numel()]


OBJECTIVES: dict[str, Callable[[Tensor, Output, Reference], Tensor]] = {
    "nll": nll,
    "margin": margin,
    "tvd": output_tvd,
    "attention-topk": attention_topk,
    "attention-jsd": attention_jsd,
    "attention-overlap": attention_overlap,
}


def objective_named(name: str) -> Callable[[Tensor, Output, Reference], Tensor]:
    """The attack loss ``name``, or a sentence that lists them."""
    if name not in OBJECTIVES:
        raise ValueError(f"unknown attack loss {name!r}; possible are {', '.join(OBJECTIVES)}")
    return OBJECTIVES[name]
