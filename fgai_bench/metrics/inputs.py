"""What every metric asks of its inputs before it computes: finite, of one shape, and not empty."""

from __future__ import annotations

import torch
from torch import Tensor

from fgai_bench.metrics.errors import NotApplicable


def finite(values: Tensor, what: str) -> Tensor:
    """``values`` in float64 without history, or a ``ValueError`` if one is NaN or infinite.

    >>> finite(torch.tensor([0.5, 0.25]), "weights").tolist()
    [0.5, 0.25]
    """
    exact = values.detach().double()
    if not bool(torch.isfinite(exact).all()):
        raise ValueError(f"{what} must be finite, got NaN or infinity")
    return exact


def finite_pair(a: Tensor, b: Tensor, what: str) -> tuple[Tensor, Tensor]:
    """Both tensors in float64, of one shape and not empty; what is compared is ``what`` in the messages."""
    if a.shape != b.shape:
        raise ValueError(f"{what} must have the same shape before and after, got {tuple(a.shape)} and {tuple(b.shape)}")
    if not a.numel():
        raise NotApplicable(f"there are no {what} to compare")
    return finite(a, what), finite(b, what)


def non_negative(values: Tensor, what: str) -> Tensor:
    """``values`` as they are, or a ``ValueError`` if one is below zero."""
    if bool((values < 0).any()):
        raise ValueError(f"{what} must not be negative, got {float(values.min()):.3g}")
    return values
