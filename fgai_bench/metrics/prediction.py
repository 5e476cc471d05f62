"""Prediction: how many nodes or links a model gets right, and which predictions an attack left as they were."""

from __future__ import annotations

import torch
from torch import Tensor

from fgai_bench.metrics.inputs import finite, finite_pair


def micro_f1(predicted: Tensor, y: Tensor) -> float:
    r"""Micro-averaged F1; with one class per node it is the share of correct predictions.

    .. math:: F_1 = \frac{2 TP}{2 TP + FP + FN}, \qquad FP = FN = N - TP

    Shapes: ``(N,), (N,)`` predicted and true classes.

    >>> micro_f1(torch.tensor([0, 1, 2, 2]), torch.tensor([0, 1, 1, 2]))
    0.75
    """
    classes, truth = finite_pair(predicted, y, "classes")
    if classes.dim() != 1:
        raise ValueError(f"micro_f1 needs one predicted class per node, got shape {tuple(predicted.shape)}")
    return int((classes == truth).sum()) / classes.numel()


def roc_auc(scores: Tensor, labels: Tensor) -> float:
    r"""Area under the ROC curve: how often a positive scores above a negative, a tie counting half.

    .. math:: \frac{1}{P N} \sum_{p} \sum_{n} \mathbb{1}[s_p > s_n] + \tfrac{1}{2} \mathbb{1}[s_p = s_n]

    Shapes: ``(M,), (M,)`` scores and labels 0 or 1.

    >>> roc_auc(torch.tensor([0.9, 0.5, 0.5, 0.1]), torch.tensor([1, 1, 0, 0]))  # 3 wins and a tie of 4 pairs
    0.875
    """
    score, truth = finite_pair(scores.flatten(), labels.flatten(), "scores and labels")
    positive = truth == 1
    if not bool((positive | (truth == 0)).all()):
        raise ValueError("roc_auc needs labels that are 0 or 1")
    if bool(positive.all()) or not bool(positive.any()):
        raise ValueError("roc_auc needs positives and negatives, got labels of one class only")
    return float(area_under_curve(score[positive], score[~positive]))


def area_under_curve(positive: Tensor, negative: Tensor) -> Tensor:
    """The area under the ROC curve of :func:`roc_auc`, on the device, for training loops: ``(P,), (N,) -> ()``.

    >>> area_under_curve(torch.tensor([0.9, 0.5]), torch.tensor([0.5, 0.1])).item()
    0.875
    """
    negative = negative.sort().values
    below = torch.searchsorted(negative, positive) + torch.searchsorted(negative, positive, right=True)
    return below.sum().double() / (2 * positive.numel() * negative.numel())


def unchanged(y: Tensor, y_tilde: Tensor) -> Tensor:
    """Which nodes keep their predicted class, to measure stability where the prediction did not change.

    Shapes: ``(N, C), (N, C) -> (N,)`` boolean, from logits or probabilities; or ``(N,), (N,)`` classes.

    >>> unchanged(torch.tensor([[0.9, 0.1], [0.6, 0.4]]), torch.tensor([[0.7, 0.3], [0.2, 0.8]])).tolist()
    [True, False]
    """
    if y.shape != y_tilde.shape:
        raise ValueError(
            f"outputs must have the same shape before and after, got {tuple(y.shape)} and {tuple(y_tilde.shape)}"
        )
    before, after = finite(y, "outputs"), finite(y_tilde, "outputs")
    return before.argmax(1) == after.argmax(1) if y.dim() == 2 else before == after
