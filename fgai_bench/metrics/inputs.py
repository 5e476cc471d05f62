"""Checks of a metric's inputs: values that are finite, of one shape, not empty, not negative; an attention at all."""

import torch
from torch import Tensor

from fgai_bench.metrics.base import NotApplicable
from fgai_bench.models.attention import Attention
from fgai_bench.models.base import Output


def attention_of(out: Output, sentence: str = "the model has no attention") -> Attention:
    """Return the attention of an output, or raise :class:`NotApplicable` with a sentence for a model that has none."""
    if out.attention is None:
        raise NotApplicable(sentence)
    return out.attention


def finite(values: Tensor, name: str) -> Tensor:
    """Return ``values`` in float64 without history, or raise a ``ValueError`` if one is NaN or infinite.

    >>> finite(torch.tensor([0.5, 0.25]), "weights").tolist()
    [0.5, 0.25]
    """
    exact = values.detach().double()
    if not bool(torch.isfinite(exact).all()):
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    return exact


def finite_pair(a: Tensor, b: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """Return both tensors in float64, or raise if they differ in shape or are empty; ``name`` is for the message."""
    if a.shape != b.shape:
        raise ValueError(f"{name} must have the same shape before and after, got {tuple(a.shape)} and {tuple(b.shape)}")
    if not a.numel():
        raise NotApplicable(f"there are no {name} to compare")
    return finite(a, name), finite(b, name)


def non_negative(values: Tensor, name: str) -> Tensor:
    """Return ``values`` as they are, or raise a ``ValueError`` if one is below zero."""
    if bool((values < 0).any()):
        raise ValueError(f"{name} must not be negative, got {float(values.min()):.3g}")
    return values
