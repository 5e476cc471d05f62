"""Projected gradient ascent with sign steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from fgai_bench.fast.cuda_graphs import Replayed, own_stream, recording

WORTH_RECORDING = 3
"""Steps from which on a recording pays: the first is taken without, and recording takes about as long as one."""


class Ascent(NamedTuple):
    """The result of one ascent, still on its device.

    Attributes:
        point: the best iterate.
        value: ``()`` the objective there.
        values: ``(steps + 1,)`` the objective at the start and after each step.
        finite, moving: ``(steps,)`` whether each gradient was finite, and whether it was not all zero.
    """

    point: Tensor
    value: Tensor
    values: Tensor
    finite: Tensor
    moving: Tensor

    @property
    def followed(self) -> int:
        """Steps taken before the first gradient that was not finite."""
        return int(self.finite.long().cumprod(0).sum())


@dataclass(frozen=True)
class BestAscent:
    """The best of several ascents. Its point stays on the device; reading its properties waits for the device.

    Attributes:
        best: the ascent with the largest value.
        restarts: all of them.
        gradients: how many gradients a step takes.
    """

    best: Ascent
    restarts: tuple[Ascent, ...]
    gradients: int = 1

    @classmethod
    def over(cls, climb: Callable[[Tensor], Ascent], starts: Sequence[Tensor], gradients: int = 1) -> BestAscent:
        """Climb from every start."""
        found = tuple(climb(start) for start in starts)
        if len(found) == 1:
            return cls(found[0], found, gradients)
        place = torch.stack([ascent.value for ascent in found]).argmax()
        return cls(Ascent(*(torch.stack(parts)[place] for parts in zip(*found, strict=True))), found, gradients)

    @property
    def gradient_calls(self) -> int:
        """Gradients taken by all restarts, each up to and with the first that was not finite."""
        return self.gradients * sum(min(ascent.followed + 1, ascent.finite.numel()) for ascent in self.restarts)

    @property
    def curve(self) -> tuple[float, ...]:
        """The objective of the best restart per step, for as long as there was a gradient to follow."""
        return tuple(self.best.values[: self.best.followed + 1].tolist())

    @property
    def flags(self) -> tuple[str, ...]:
        """Reasons to distrust the best restart."""
        if self.best.followed < self.best.finite.numel():
            return ("non-finite gradient",)
        return ("zero gradient",) if self.best.moving.numel() and not bool(self.best.moving.any()) else ()


def ascend(
    objective: Callable[[Tensor], Tensor],
    start: Tensor,
    low: Tensor | float,
    high: Tensor | float,
    step: Tensor | float,
    steps: int,
    recordable: bool = False,
) -> Ascent:
    """``x <- clip(x + step * sign(grad f(x)), low, high)``, ``steps`` times; the best iterate is returned.

    Nothing is read back from the device on the way. After a gradient that is not finite, x stays where it is.
    ``recordable`` says that the objective reads nothing back either: on CUDA a step is then recorded and replayed.

    >>> one = torch.ones(1)
    >>> found = ascend(lambda x: -(x - 0.25).square().sum(), 0 * one, -one, one, step=0.1, steps=3)
    >>> round(found.point.item(), 2), found.values.numel(), found.followed
    (0.2, 4, 3)
    """
    x, best, best_value = start.clone(), start.clone(), start.new_full((), -torch.inf)
    going = torch.ones((), dtype=torch.bool, device=start.device)

    def look(at: Tensor) -> Tensor:
        with torch.enable_grad():
            value = objective(at)
        with torch.no_grad():
            higher = value > best_value
            torch.where(higher, at, best, out=best)
            torch.where(higher, value, best_value, out=best_value)
        return value

    def climb() -> tuple[Tensor, Tensor, Tensor]:
        at = x.detach().requires_grad_()
        value = look(at)
        gradient = gradient_of(value, at)
        finite = torch.isfinite(gradient).all()
        with torch.no_grad():
            going.logical_and_(finite)
            moved = x + step * torch.where(going, gradient.sign(), 0)
            torch.clamp(moved, low, high, out=x)  # type: ignore[arg-type]
        return value.detach(), finite, (gradient != 0).any()

    if recordable and start.is_cuda and steps > WORTH_RECORDING and not recording():
        with own_stream(start.device):
            replayed = Replayed(climb)
            taken = [tuple(part.clone() for part in replayed()) for _ in range(steps)]
    else:
        taken = [climb() for _ in range(steps)]
    values, finite, moving = zip(*taken, strict=True) if taken else ((), (), ())
    last = look(x.detach()).detach()
    return Ascent(best, best_value, torch.stack([*values, last]), _stacked(finite, start), _stacked(moving, start))


def _stacked(seen: Sequence[Tensor], start: Tensor) -> Tensor:
    return torch.stack(list(seen)) if seen else torch.ones(0, dtype=torch.bool, device=start.device)


def gradient_of(value: Tensor, x: Tensor, retain: bool = False) -> Tensor:
    """``d value / d x``, which is zero where the value does not depend on x: ``(), (...) -> (...)``.

    ``retain`` keeps the graph for another gradient of the same output.
    """
    if not value.requires_grad:
        return torch.zeros_like(x)
    return torch.autograd.grad(value, x, materialize_grads=True, retain_graph=retain)[0]
