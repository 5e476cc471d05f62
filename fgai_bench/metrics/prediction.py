"""Metrics of predictions: how many nodes or links are right, and how many predictions an attack leaves unchanged."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from fgai_bench.metrics.base import ANY_SIZE, HIGHER_SHARE, SHARE, metric
from fgai_bench.metrics.inputs import finite, finite_pair


@metric(
    "f1",
    inputs="labels",
    summary="micro-averaged F1 of the predicted classes of the test nodes",
    tags=("similarity", "symmetric"),
    **HIGHER_SHARE,
    also={"f1_reached": ("labels-reached", "f1 over the test nodes that the attack can reach")},
)
def micro_f1(predicted: Tensor, y: Tensor) -> float:
    r"""Return the micro-averaged F1 score; with one class per node it is the share of correct predictions.

    .. math:: F_1 = \frac{2 TP}{2 TP + FP + FN}, \qquad FP = FN = N - TP

    Shapes: ``(N,), (N,)`` predicted and true classes.

    >>> micro_f1(torch.tensor([0, 1, 2, 2]), torch.tensor([0, 1, 1, 2]))
    0.75
    """
    classes, truth = _one_per_node(predicted, y)
    # scikit-learn's f1_score gives the same value and takes some twenty times as long.
    return int((classes == truth).sum()) / classes.numel()


@metric(
    "macro_f1",
    inputs="labels",
    summary="F1 of each class of the test nodes, averaged over classes: small classes count as much as large ones",
    tags=("similarity", "symmetric"),
    **HIGHER_SHARE,
)
def macro_f1(predicted: Tensor, y: Tensor) -> float:
    r"""Return the mean of the F1 scores of all classes that are predicted or true somewhere.

    .. math:: \frac{1}{C} \sum_c \frac{2 TP_c}{2 TP_c + FP_c + FN_c}

    Shapes: ``(N,), (N,)`` predicted and true classes.

    >>> macro_f1(torch.tensor([0, 0, 0, 0]), torch.tensor([0, 0, 0, 1]))  # 6/7 of the class 0, nothing of the class 1
    0.42857142857142855
    """
    classes, truth = (side.long() for side in _one_per_node(predicted, y))
    size = int(torch.maximum(classes, truth).max()) + 1
    right, *both = (torch.bincount(side, minlength=size) for side in (truth[classes == truth], classes, truth))
    total = both[0] + both[1]  # (C,) 2 TP + FP + FN
    return float((2 * right.double() / total)[total > 0].mean())


def _one_per_node(predicted: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    classes, truth = finite_pair(predicted, y, "classes")
    if classes.dim() != 1:
        raise ValueError(f"an F1 score needs one predicted class per node, got shape {tuple(predicted.shape)}")
    return classes, truth


@metric(
    "roc_auc",
    inputs="scores",
    summary="area under the ROC curve of the test links' scores, or of the test nodes' where there are two classes",
    **HIGHER_SHARE,
)
def roc_auc(scores: Tensor, labels: Tensor) -> float:
    r"""Return the area under the ROC curve: the share of (positive, negative) pairs that the scores put in order.

    A pair is in order when the positive has the higher score; a pair with equal scores counts half.

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
    """Return the value of :func:`roc_auc` as a tensor, computed on the device of the scores, for training loops.

    Shapes: ``(..., P), (..., N) -> (...)`` scores of the positives and of the negatives.

    >>> area_under_curve(torch.tensor([0.9, 0.5]), torch.tensor([0.5, 0.1])).item()
    0.875
    """
    return _twice_below(positive, negative).sum(-1).double() / (2 * positive.shape[-1] * negative.shape[-1])


def _twice_below(scores: Tensor, others: Tensor) -> Tensor:
    """Return twice the number of ``others`` below each score, equal ones counted half: ``(..., P), (..., N)``."""
    others = others.sort().values
    return torch.searchsorted(others, scores) + torch.searchsorted(others, scores, right=True)


def won_pairs(scores: Tensor, positive: Tensor, slack: float | Tensor = 0.0) -> tuple[Tensor, Tensor]:
    """Return in how many pairs of a positive and a negative each is on the right side: ``(T,), (T,) -> (P,), (N,)``.

    ``slack``, one for all or ``(T,)``, is how far each score may be off: a pair counts if it is in order for certain.

    >>> below, above = won_pairs(torch.tensor([3.0, 1.0, 2.0, 0.0]), torch.tensor([True, True, False, False]))
    >>> below.tolist(), above.tolist()
    ([2, 1], [1, 2])
    """
    low, high = (scores - slack)[positive], (scores + slack)[~positive]
    below = torch.searchsorted(high.sort().values, low)
    above = low.numel() - torch.searchsorted(low.sort().values, high, right=True)
    return below, above


def roc_auc_parts(scores: Tensor, positive: Tensor) -> Tensor:
    """Return a number per node whose mean is ROC-AUC and whose standard error is DeLong's: ``(T,), (T,) -> (T,)``.

    With V the share of the other class that a node is on the right side of: ``AUC + T/P (V - AUC)`` of a positive,
    ``AUC + T/N (V - AUC)`` of a negative (DeLong et al. 1988, https://doi.org/10.2307/2531595).

    >>> roc_auc_parts(torch.tensor([0.9, 0.5, 0.5, 0.1]), torch.tensor([True, True, False, False])).tolist()
    [1.125, 0.625, 0.625, 1.125]
    """
    if not 0 < int(positive.sum()) < positive.numel():
        raise ValueError("ROC-AUC needs nodes of both classes, and those that are scored have one class only")
    area = area_under_curve(scores[positive], scores[~positive])
    parts = area.repeat(scores.numel())
    for own in (positive, ~positive):
        share = _twice_below(scores[own], scores[~own]).double() / (2 * int((~own).sum()))
        correct = share if own is positive else 1 - share
        parts[own] += scores.numel() / int(own.sum()) * (correct - area)
    return parts


def score_function(score: str, truth: Tensor) -> Callable[[Tensor], Tensor]:
    """Return the score of logits against known classes, as a function that reads nothing back from the device.

    Args:
        score: ``"f1"``, or ``"roc_auc"``, where class 1 is the positive one and only 0 and 1 count.
        truth: ``(T,)`` classes; the function maps ``(..., T, C) -> (...)``.

    >>> logits = torch.tensor([[2.0, 1.0], [1.0, 0.0], [3.0, 0.0]])  # leads of class 1: -1, -1, -3
    >>> [score_function(name, torch.tensor([1, 0, 0]))(logits).item() for name in ("f1", "roc_auc")]
    [0.6666666666666666, 0.75]
    """
    if score == "f1":
        return lambda logits: (logits.argmax(-1) == truth).double().mean(-1)  # micro F1 with one class per node
    positive, negative = ((truth == label).nonzero().flatten() for label in (1, 0))
    if not positive.numel() or not negative.numel():
        raise ValueError("ROC-AUC needs nodes or links of both classes in every part of the split")

    def area(logits: Tensor) -> Tensor:
        lead = logits[..., 1] - logits[..., 0]
        return area_under_curve(lead.index_select(-1, positive), lead.index_select(-1, negative))

    return area


def unchanged(y: Tensor, y_tilde: Tensor) -> Tensor:
    """Return a mask of the nodes that keep their predicted class; stability can then be measured on these alone.

    Shapes: ``(N, C), (N, C) -> (N,)`` boolean, from logits or probabilities; or ``(N,), (N,)`` classes.

    >>> unchanged(torch.tensor([[0.9, 0.1], [0.6, 0.4]]), torch.tensor([[0.7, 0.3], [0.2, 0.8]])).tolist()
    [True, False]
    """
    before, after = finite_pair(y, y_tilde, "outputs")
    return before.argmax(1) == after.argmax(1) if y.dim() == 2 else before == after


@metric(
    "prediction_kept",
    inputs="logits",
    summary="share of the predictions that stay",
    tags=("similarity", "symmetric"),
    **HIGHER_SHARE,
)
def prediction_kept(y: Tensor, y_tilde: Tensor) -> float:
    """Return the share of the nodes that keep their predicted class.

    Shapes: ``(N, C), (N, C)`` logits or probabilities before and after the attack.

    >>> prediction_kept(torch.tensor([[0.9, 0.1], [0.6, 0.4]]), torch.tensor([[0.7, 0.3], [0.2, 0.8]]))
    0.5
    """
    return unchanged(y, y_tilde).float().mean().item()


@metric("validation_score", inputs="validation", summary="the task's score on the validation part", **HIGHER_SHARE)
@metric(
    "kept_by_attack",
    inputs="kept",
    summary="share of the targets' predictions that the attack kept",
    range=SHARE,
    scale="logit",
)
def given_score(share: float) -> float:
    """Return a share that the step itself has computed, such as the validation score of a training."""
    if share != share:
        raise ValueError("a share must be a number, got NaN")
    return float(share)


@metric("reached_share", inputs="reached", summary="share of the nodes that the attack can reach", range=SHARE)
@metric("edge_share", inputs="shares", summary="share of the computation graph's edges", range=SHARE, scoped=True)
def share_of(mask: Tensor) -> float:
    """Return the share of the nodes that a boolean mask holds, or the mean of shares: ``(N,)``.

    >>> share_of(torch.tensor([True, False, False, True]))
    0.5
    """
    return float(finite(mask.double(), "mask").mean())


@metric(
    "explained_nodes",
    inputs="nodes",
    summary="how many nodes were explained",
    range=ANY_SIZE,
    also={
        "explained_unchanged": (
            "nodes-unchanged",
            "how many nodes were explained that the attack reaches without changing their prediction",
        ),
        "explained_wrong": (
            "nodes-wrong",
            "how many of them are predicted wrongly, or otherwise than before the attack",
        ),
    },
)
def node_count(nodes: Tensor) -> float:
    """Return the number of nodes in a tensor of node indices, shape ``(N,)``."""
    return float(finite(nodes, "nodes").numel())


@metric("parameters", inputs="model", summary="how many numbers the model has learned", range=ANY_SIZE)
def parameter_count(model: nn.Module) -> float:
    """Return the number of parameters of a model."""
    return float(sum(parameter.numel() for parameter in model.parameters()))
