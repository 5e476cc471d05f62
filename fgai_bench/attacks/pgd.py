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
    low: Tensor | float,
    high: Tensor | float,
    step: float,
    steps: int,
    score: Callable[[], float] | None = None,
) -> Ascent:
    """``x <- clip(x + step * sign(grad f(x)), low, high)``, ``steps`` times; the best iterate is returned.

    ``score`` says how good the point is that ``objective`` was just called with, where that is not the objective itself.

    >>> found = ascend(lambda x: -(x - 0.25).square().sum(), torch.zeros(1), -1.0, 1.0, step=0.1, steps=3)
    >>> round(found.point.item(), 2), len(found.curve), found.gradient_calls
    (0.2, 4, 3)
    """
    x, best, best_score = start, start, float("-inf")
    curve: list[float] = []
    flags: list[str] = []
    zero_gradients = 0
    for taken in range(steps + 1):
        x = x.detach().requires_grad_(taken < steps)
        value = objective(x)
        curve.append(value.item())
        reached = curve[-1] if score is None else score()
        if reached > best_score:
            best, best_score = x.detach(), reached
        if taken == steps:
            break
        (gradient,) = torch.autograd.grad(value, x)
        if not bool(torch.isfinite(gradient).all()):
            flags.append("non-finite gradient")
            break
        zero_gradients += not bool(gradient.any())
        with torch.no_grad():
            x = torch.clamp(x + step * gradient.sign(), low, high)  # type: ignore[call-overload]
    if steps and zero_gradients == len(curve) - 1:
        flags.append("zero gradient")
    return Ascent(best, best_score, tuple(curve), min(len(curve), steps), tuple(flags))
