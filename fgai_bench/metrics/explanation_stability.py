"""Metrics of explanations of single nodes before and after an attack: overlap of top edges, correlation of ranks."""

from collections.abc import Sequence
from statistics import fmean

from fgai_bench.metrics.base import CORRELATION, FGAI, HIGHER_SHARE, NotApplicable, metric, repeated_and_unchanged
from fgai_bench.metrics.inputs import finite_pair
from fgai_bench.metrics.ranks import shown, spearman
from fgai_bench.metrics.stability import topk_overlap
from fgai_bench.models.attention import Attention, align

Pairs = Sequence[tuple[Attention, Attention]]


@metric(
    "explainer_topk_overlap",
    inputs="explanations",
    summary="mean overlap of the top edges of an explanation before and after an attack",
    **HIGHER_SHARE,
    paper=FGAI,
    also=repeated_and_unchanged("explainer_topk_overlap", "mean overlap of the top edges of an explanation"),
)
def explanation_overlap(pairs: Pairs) -> float:
    """Return the mean of :func:`top_overlap` over pairs of explanations, one for each node whose both name an edge."""
    named = [pair for pair in pairs if all(bool((mask.weight != 0).any()) for mask in pair)]
    if not named:
        raise NotApplicable("the explanation of a node names no edge")
    return fmean(top_overlap(*pair) for pair in named)


@metric(
    "explainer_rank_correlation",
    inputs="explanations",
    summary="mean rank correlation of an explanation before and after an attack",
    direction="higher",
    range=CORRELATION,
    also=repeated_and_unchanged("explainer_rank_correlation", "mean rank correlation of an explanation"),
)
def explanation_rank_correlation(pairs: Pairs) -> float:
    """Return the mean of Spearman's correlation of two explanations over the edges of the clean one.

    A node with one edge, or whose two explanations are both constant, ranks nothing before or after: it counts 1.

    >>> import torch
    >>> edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    >>> before, after = (Attention(edges, torch.tensor(w)) for w in ([0.9, 0.2, 0.1], [0.1, 0.2, 0.9]))
    >>> explanation_rank_correlation([(before, after)])
    -1.0
    """
    return fmean(_rank_correlation(*pair) for pair in pairs)


def _rank_correlation(mask: Attention, mask_tilde: Attention) -> float:
    w, w_tilde = finite_pair(*align(mask, mask_tilde), "scores")
    constant = [bool((weight == weight[0]).all()) for weight in (w, w_tilde)]
    return 1.0 if all(constant) else spearman(w, w_tilde)


def top_overlap(mask: Attention, mask_tilde: Attention) -> float:
    """Return V_k of two explanations of one node over the edges that the clean one can see; k half of them, at most 10.

    >>> import torch
    >>> edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    >>> top_overlap(Attention(edges, torch.tensor([0.9, 0.2, 0.0])), Attention(edges, torch.tensor([0.1, 0.8, 0.9])))
    0.0
    """
    w, w_tilde = finite_pair(*align(mask, mask_tilde), "scores")
    seen = w > 0
    if not bool(seen.any()):
        raise NotApplicable("the explanation of a node names no edge")
    return topk_overlap(w[seen], w_tilde[seen], shown(int(seen.sum())))
