"""Ranks: Spearman's correlation, and how many edges of an explanation are compared."""

from __future__ import annotations

import torch
from torch import Tensor

SHOWN = 10  # edges of an explanation that a person looks at


def shown(edges: int) -> int:
    """Return how many edges of an explanation are compared: half of them, at least one, at most ten.

    >>> shown(1), shown(8), shown(300)
    (1, 4, 10)
    """
    return max(1, min(SHOWN, edges // 2))


def ranks(values: Tensor) -> Tensor:
    """Return ranks from 1, equal values sharing the mean of theirs: ``(M,) -> (M,)``.

    >>> ranks(torch.tensor([0.3, 0.1, 0.3])).tolist()
    [2.5, 1.0, 2.5]
    """
    _, inverse, counts = torch.unique(values, return_inverse=True, return_counts=True)
    last = counts.cumsum(0).double()
    return (last - (counts - 1) / 2)[inverse]


def spearman(a: Tensor, b: Tensor) -> float:
    """Return Spearman's rank correlation of two ``(M,)``; 0 where one of them is constant, which ranks nothing.

    >>> spearman(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([10.0, 30.0, 20.0]))
    0.5
    """
    left, right = (ranks(values) - (values.numel() + 1) / 2 for values in (a, b))
    scale = float((left * left).sum() * (right * right).sum()) ** 0.5
    return min(1.0, max(-1.0, float((left * right).sum()) / scale)) if scale else 0.0
