"""Metrics of explanations of single nodes before and after an attack: overlap of top edges, divergence of weights."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import torch

from fgai_bench.metrics.errors import NotApplicable
from fgai_bench.metrics.inputs import finite_pair
from fgai_bench.metrics.stability import node_jsd, topk_overlap
from fgai_bench.models.attention import Attention, align, edge_keys

SHOWN = 10  # edges of an explanation that a person looks at

Pairs = Sequence[tuple[Attention, Attention]]


def explanation_overlap(pairs: Pairs) -> float:
    """Return the mean of :func:`top_overlap` over pairs of explanations, one pair for each node."""
    return fmean(top_overlap(*pair) for pair in pairs)


def explanation_jsd(pairs: Pairs) -> float:
    """Return the mean of :func:`divergence` over pairs of explanations, one pair for each node."""
    return fmean(divergence(*pair) for pair in pairs)


def top_overlap(mask: Attention, mask_tilde: Attention) -> float:
    """Return V_k of two explanations of one node over the edges that the clean one can see; k half of them, at most 10.

    >>> edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    >>> top_overlap(Attention(edges, torch.tensor([0.9, 0.2, 0.0])), Attention(edges, torch.tensor([0.1, 0.8, 0.9])))
    0.0
    """
    w, w_tilde = finite_pair(*align(mask, mask_tilde), "scores")
    seen = w > 0
    if not bool(seen.any()):
        raise NotApplicable("the explanation of a node names no edge")
    return topk_overlap(w[seen], w_tilde[seen], max(1, min(SHOWN, int(seen.sum()) // 2)))


def divergence(mask: Attention, mask_tilde: Attention) -> float:
    """Return the Jensen-Shannon divergence of two explanations as distributions over all their edges; in [0, ln 2].

    >>> edges = torch.tensor([[0, 1], [1, 2]])
    >>> divergence(Attention(edges, torch.tensor([0.5, 0.5])), Attention(edges, torch.tensor([0.1, 0.1])))
    0.0
    """
    size = 1 + max(int(part.edge_index.max()) for part in (mask, mask_tilde))
    # As if all edges led into one node: then its distribution over in-edges is that of the explanation.
    parts = [edge_keys(part.edge_index, size) for part in (mask, mask_tilde)]
    stars = [torch.stack([keys, torch.zeros_like(keys)]) for keys in parts]
    return node_jsd(Attention(stars[0], mask.weight), Attention(stars[1], mask_tilde.weight))
