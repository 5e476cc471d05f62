"""Metrics of floors: what provably remains under every attack of a threat model."""

from fgai_bench.metrics.base import HIGHER_SHARE, metric


@metric(
    "certified_f1",
    inputs="floor",
    summary="proven floor of f1: no attack inside the threat model leaves less",
    **HIGHER_SHARE,
)
def certified_f1(targets: int, correct: int, lost: int, moved: int) -> float:
    r"""Return the share of the targets that stay correct under every attack.

    .. math:: \frac{\max(\text{correct} - \text{lost}, 0)}{\text{targets}}

    >>> certified_f1(targets=10, correct=9, lost=4, moved=6)
    0.5
    """
    return max(correct - lost, 0) / targets


@metric(
    "certified_roc_auc",
    inputs="pairs",
    summary="proven floor of roc_auc of nodes: no attack inside the threat model leaves less",
    **HIGHER_SHARE,
)
def certified_roc_auc(number: int, won: float, lost: float) -> float:
    r"""Return the share of pairs of a positive and a negative target that stay in order under every attack.

    .. math:: \frac{\max(\text{won} - \text{lost}, 0)}{\text{number}}

    >>> certified_roc_auc(number=8, won=6.5, lost=2.5)
    0.5
    """
    return max(won - lost, 0) / number


@metric(
    "certified_explanations",
    inputs="floor",
    summary="share of the test nodes whose attention provably stays as it was",
    **HIGHER_SHARE,
)
def certified_explanations(targets: int, correct: int, lost: int, moved: int) -> float:
    r"""Return the share of the targets whose explanation stays under every attack.

    .. math:: 1 - \frac{\min(\text{moved}, \text{targets})}{\text{targets}}

    >>> certified_explanations(targets=10, correct=9, lost=4, moved=6)
    0.4
    """
    return 1 - min(moved, targets) / targets
