"""The losses that gradient attacks maximise: functions of the attacked output and the clean one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from fgai_bench.losses import jsd, topk_surrogate, tvd
from fgai_bench.metrics.base import NotApplicable
from fgai_bench.metrics.topk import topk_mask
from fgai_bench.models.base import Output

SOFTNESS = 0.2  # of the border in the smooth overlap, as a difference of logarithms, and of the smooth order of pairs
Readout = Callable[[Output], Tensor]


@dataclass(frozen=True)
class Reference:
    """The clean output that an attack moves away from."""

    logits: Tensor  # (M, C) of the targets
    prediction: Tensor  # (M,) the clean prediction
    weight: Tensor | None  # (E,) attention on the graph's edges

    @cached_property
    def probabilities(self) -> Tensor:
        """Return ``(M, C)`` the clean output distributions of the targets."""
        return self.logits.softmax(1)

    @cached_property
    def classes(self) -> tuple[Tensor, Tensor]:
        """Return ``(P,), (N,)`` which targets should be of class 1, and which of class 0."""
        positive, negative = ((self.prediction == label).nonzero().flatten() for label in (1, 0))
        return positive, negative

    @classmethod
    def of(cls, out: Output, readout: Readout) -> Reference:
        logits = readout(out).detach()
        weight = None if out.attention is None else out.attention.of_graph().weight.detach()
        return cls(logits, logits.argmax(1), weight)


def nll(logits: Tensor, out: Output, reference: Reference) -> Tensor:
    """``-mean log p(clean prediction)``."""
    return F.cross_entropy(logits, reference.prediction)


def nll_raw(logits: Tensor, out: Output, reference: Reference) -> Tensor:
    """``-mean z(clean prediction)`` on raw outputs, as in the released code of the published attack.

    Without the normalisation of a softmax it has no largest value and no gradient that fades where a model is sure.
    """
    return F.nll_loss(logits, reference.prediction)


def margin(logits: Tensor, out: Output, reference: Reference) -> Tensor:
    """``mean tanh(max_{c != y} z_c - z_y)``: every target counts, none more than fully (Geisler et al. 2021)."""
    return torch.tanh(-margins(logits, reference.prediction)).mean()


def output_tvd(logits: Tensor, out: Output, reference: Reference) -> Tensor:
    """Total variation between clean and attacked output distributions, averaged over the targets."""
    return tvd(logits.softmax(1), reference.probabilities) / logits.size(0)


def masked_nll(logits: Tensor, out: Output, reference: Reference) -> Tensor:
    """``-mean log p(y)`` over the targets that are still right: the others need no more work (Geisler et al. 2021)."""
    right = (logits.argmax(1) == reference.prediction).to(logits.dtype)
    losses = F.cross_entropy(logits, reference.prediction, reduction="none")
    return (losses * right).sum() / right.sum().clamp(min=1)


def scaled_margin(logits: Tensor, out: Output, reference: Reference) -> Tensor:
    """:func:`margin` in units of the mean clean margin, so that a model that is very sure still has a gradient."""
    scale = margins(reference.logits, reference.prediction).abs().mean().clamp(min=1e-12)
    return torch.tanh(-margins(logits, reference.prediction) / scale).mean()


def soft_error(logits: Tensor, out: Output, reference: Reference) -> Tensor:
    """Return the share of errors, counted smoothly within a twentieth of the mean clean margin of the border.

    Of all losses it cares most about the targets that are about to fall: for budgets that can make only a few.
    """
    scale = 0.05 * margins(reference.logits, reference.prediction).abs().mean().clamp(min=1e-12)
    return torch.sigmoid(-margins(logits, reference.prediction) / scale).mean()


def soft_auc(logits: Tensor, out: Output, reference: Reference) -> Tensor:
    r"""Return the share of pairs of a positive and a negative target that are in the wrong order, counted smoothly.

    .. math:: \frac{1}{P N} \sum_{p} \sum_{n} \sigma\left(\frac{s_n - s_p}{0.2 \bar s}\right)

    with s the lead of class 1 and :math:`\bar s` the mean clean distance of two targets' leads from their mean.
    Pairs that are nearly in the wrong order count most, whichever side of a prediction's border they are on.
    """
    lead, clean = (rows[:, 1] - rows[:, 0] for rows in (logits, reference.logits))
    scale = SOFTNESS * (clean - clean.mean()).abs().mean().clamp(min=1e-12)
    positive, negative = reference.classes
    return torch.sigmoid((lead[negative] - lead[positive].unsqueeze(1)) / scale).mean()


def logit_ratio(logits: Tensor, out: Output, reference: Reference) -> Tensor:
    """``mean (max_{c != y} z_c - z_y) / (z_(1) - z_(3))``: the margin, whatever the scale of the logits (Croce 2020).

    With two classes the divisor is the gap between them, and the loss only counts which predictions have changed.
    """
    top = logits.topk(min(3, logits.size(1)), dim=1).values
    gap = (top[:, 0] - top[:, -1]).clamp(min=1e-12)
    return (-margins(logits, reference.prediction) / gap).mean()


def attention_topk(logits: Tensor, out: Output, reference: Reference) -> Tensor:
    """``L_k`` between clean and attacked attention with k half the edges."""
    w, w_tilde = _weights(out, reference)
    return topk_surrogate(w, w_tilde, max(w.numel() // 2, 1))


def attention_jsd(logits: Tensor, out: Output, reference: Reference) -> Tensor:
    """Jensen-Shannon divergence between clean and attacked attention, averaged over the edges."""
    return jsd(*_weights(out, reference))


def attention_overlap(logits: Tensor, out: Output, reference: Reference) -> Tensor:
    r"""Return how much of the clean top half has left it, each edge counted smoothly: 0 to 1.

    .. math:: \frac{1}{k} \sum_{e \in T_k(w)} \sigma\left(\frac{\ln \tau - \ln \tilde w_e}{0.2}\right)

    with k half the edges and :math:`\tau` the k-th largest attacked weight, a constant of the gradient. A weight counts
    by its ratio to the border, so that many edges of small attention matter as much as a few of large attention.
    """
    w, w_tilde = _weights(out, reference)
    k = max(w.numel() // 2, 1)
    border = w_tilde.detach().topk(k, sorted=False).values.min()
    tiny = torch.finfo(w.dtype).tiny
    below = torch.sigmoid((border.clamp(min=tiny).log() - w_tilde.clamp(min=tiny).log()) / SOFTNESS)
    return (below * topk_mask(w, k)).sum() / k


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
        raise NotApplicable("an attack on the attention needs a model that has one")
    # An attack keeps the original edges first and in their order, so the first E weights are keyed by the same edges.
    return reference.weight, out.attention.weight[: reference.weight.numel()]


OBJECTIVES: dict[str, Callable[[Tensor, Output, Reference], Tensor]] = {
    "nll": nll,
    "nll-raw": nll_raw,
    "margin": margin,
    "tvd": output_tvd,
    "scaled-margin": scaled_margin,
    "masked-nll": masked_nll,
    "soft-error": soft_error,
    "soft-auc": soft_auc,
    "logit-ratio": logit_ratio,
    "attention-topk": attention_topk,
    "attention-jsd": attention_jsd,
    "attention-overlap": attention_overlap,
}


def objective_named(name: str) -> Callable[[Tensor, Output, Reference], Tensor]:
    """Return the attack loss ``name``, or raise a ``ValueError`` that lists them."""
    if name not in OBJECTIVES:
        raise ValueError(f"unknown attack loss {name!r}; possible are {', '.join(OBJECTIVES)}")
    return OBJECTIVES[name]
