"""Projected gradient ascent with sign steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Ascent:
    """The best point found, its value, the objective per step, gradients taken, and reasons for distrust."""

    point: Tensor
    value: float
    curve: tuple[float, ...]
    gradient_calls: int
    flags: tuple[str, ...]


def ascend(
    objective: Callable[[Tensor], Tensor],
    start: Tensor,
    low: Tensor,
    high: Tensor,
    step: float,
    steps: int,
) -> Ascent:
    """``x <- clip(x + step * sign(grad f(x)), low, high)``, ``steps`` times; the best iterate is returned.

    >>> one = torch.ones(1)
    >>> found = ascend(lambda x: -(x - 0.25).square().sum(), 0 * one, -one, one, step=0.1, steps=3)
    >>> round(found.point.item(), 2), len(found.curve), found.gradient_calls
    (0.2, 4, 3)
    """
    x, best, best_value = start, start, float("-inf")
    curve: list[float] = []
    flags: list[str] = []
    zero_gradients = 0
    for taken in range(steps + 1):
        x = x.detach().requires_grad_(taken < steps)
        with torch.enable_grad():
            value = objective(x)
        curve.append(value.item())
        if curve[-1] > best_value:
            best, best_value = x.detach(), curve[-1]
        if taken == steps:
            break
        gradient = gradient_of(value, x)
        if not bool(torch.isfinite(gradient).all()):
            flags.append("non-finite gradient")
            break
        zero_gradients += not bool(gradient.any())
        with torch.no_grad():
            x = (x + step * gradient.sign()).clamp(low, high)
    if steps and zero_gradients == steps:
        flags.append("zero gradient")
    return Ascent(best, best_value, tuple(curve), min(len(curve), steps), tuple(flags))


def gradient_of(value: Tensor, x: Tensor, retain: bool = False) -> Tensor:
    """``d value / d x``, which is zero where the value does not depend on x: ``(), (...) -> (...)``.

    ``retain`` keeps the graph for another gradient of the same output.
    """
    if not value.requires_grad:
        return torch.zeros_like(x)
    return torch.autograd.grad(value, x, materialize_grads=True, retain_graph=retain)[0]
