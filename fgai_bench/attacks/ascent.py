"""Gradient ascents inside a box: short ones with sign steps, and long ones whose steps shrink.

Short ones keep the point of the highest objective, long ones that of the lowest score.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fgai_bench.fast.cuda_graphs import Replayed, capturing, own_stream

LAST_SHARE = 0.02  # of the first step that is left for the last one
WORTH_CAPTURING = 3  # steps above which a capture pays: the first is taken without, and it costs about one


class Ascent(NamedTuple):
    """The result of one ascent, still on its device."""

    point: Tensor  # the best iterate
    value: Tensor  # () the objective there
    values: Tensor  # (steps + 1,) the objective at the start and after each step
    finite: Tensor  # (steps,) whether each gradient was finite
    moving: Tensor  # (steps,) whether it was not all zero

    @property
    def followed(self) -> int:
        """Steps taken before the first gradient that was not finite."""
        return int(self.finite.long().cumprod(0).sum())


@dataclass(frozen=True)
class BestAscent:
    """The best of several ascents. Its point stays on the device; reading its properties waits for the device."""

    best: Ascent  # the one with the largest value
    restarts: tuple[Ascent, ...]  # all of them
    gradients: int = 1  # that a step takes

    @classmethod
    def over(cls, climb: Callable[[Tensor], Ascent], starts: Sequence[Tensor], gradients: int = 1) -> BestAscent:
        ascents = tuple(climb(start) for start in starts)
        if len(ascents) == 1:
            return cls(ascents[0], ascents, gradients)
        place = torch.stack([ascent.value for ascent in ascents]).argmax()
        return cls(Ascent(*(torch.stack(parts)[place] for parts in zip(*ascents, strict=True))), ascents, gradients)

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
    capturable: bool = False,
) -> Ascent:
    """``x <- clip(x + step * sign(grad f(x)), low, high)``, ``steps`` times; the best iterate is returned.

    Nothing is read back from the device on the way. After a gradient that is not finite, x stays where it is.
    ``capturable`` says that the objective reads nothing back either: on CUDA a step is then captured and replayed.

    >>> one = torch.ones(1)
    >>> ascent = ascend(lambda x: -(x - 0.25).square().sum(), 0 * one, -one, one, step=0.1, steps=3)
    >>> round(ascent.point.item(), 2), ascent.values.numel(), ascent.followed
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

    with _repeatable(climb, start, steps, capturable) as once:
        again = isinstance(once, Replayed)  # whether every call returns the same tensors
        taken = [tuple(part.clone() for part in once()) if again else once() for _ in range(steps)]
    values, finite, moving = zip(*taken, strict=True) if taken else ((), (), ())
    last = look(x.detach()).detach()
    return Ascent(best, best_value, torch.stack([*values, last]), _stacked(finite, start), _stacked(moving, start))


@contextmanager
def _repeatable(step: Callable[[], Any], start: Tensor, steps: int, capturable: bool) -> Iterator[Callable[[], Any]]:
    """Give what takes a step: where it can be captured and so many steps are worth it, by replaying a capture."""
    if capturable and start.is_cuda and steps > WORTH_CAPTURING and not capturing():
        with own_stream(start.device):
            yield Replayed(step)
    else:
        yield step


def _stacked(seen: Sequence[Tensor], start: Tensor) -> Tensor:
    return torch.stack(list(seen)) if seen else torch.ones(0, dtype=torch.bool, device=start.device)


def gradient_of(value: Tensor, x: Tensor, retain: bool = False) -> Tensor:
    """``d value / d x``, which is zero where the value does not depend on x: ``(), (...) -> (...)``.

    ``retain`` keeps the graph for another gradient of the same output.
    """
    if not value.requires_grad:
        return torch.zeros_like(x)
    return torch.autograd.grad(value, x, materialize_grads=True, retain_graph=retain)[0]


class Summit(NamedTuple):
    """The result of a long ascent, still on its device."""

    point: Tensor  # (B * nodes, F) of each candidate the iterate with its lowest score
    score: Tensor  # (B,) these scores: what is left of the victim, lower means stronger
    finite: Tensor  # () whether every gradient was finite
    moving: Tensor  # () whether one of them was not zero
    rise: Tensor  # () by how much a candidate's objective was higher at the end than at the start, at most


def ascend_long(
    objective: Callable[[Tensor], tuple[Tensor, Tensor]],
    start: Tensor,
    low: float | Tensor,
    high: float | Tensor,
    step: float | Tensor,
    steps: int,
    capturable: bool = False,
    candidates: int = 1,
) -> Summit:
    """Raise an objective inside a box and return the iterate with the lowest score.

    Several candidates can be raised side by side: their rows stand one below the other, and each has its own score.

    ``x <- clip(x + step_t * d)``, where d is the gradient, each row scaled to a root mean square of one. The step falls
    from ``step`` to nearly nothing along half a cosine: the first ones cross the box, the last ones settle. Nothing is
    read back from the device on the way.

    Args:
        objective: features to ``()`` or ``(B,)`` the values that are raised and the scores that count.
        start: ``(B * nodes, F)`` where the search begins.
        step: root mean square of the first step, for all rows or ``(B * nodes, 1)`` for each.
        capturable: the objective reads nothing back either: on CUDA a step is then captured and replayed.
        candidates: B, how many searches the rows belong to, equally many rows to each.

    >>> def objective(x): return -(x - 0.3).square().sum(), (x - 0.3).abs().sum()
    >>> round(ascend_long(objective, torch.zeros(1, 1), -1.0, 1.0, step=0.2, steps=40).point.item(), 1)
    0.3
    """
    climb = _Climb(objective, start, low, high, step, steps, candidates)
    with _repeatable(climb.step_up, start, steps, capturable) as once:
        for _ in range(steps):
            once()
    with torch.no_grad():
        rise = (climb.look(climb.x) - climb.first).amax()
    return Summit(climb.worst, climb.score, climb.finite.all(), climb.moving, rise)


class _Climb:
    """The state of an ascent, in tensors that every step changes in place."""

    def __init__(
        self,
        objective: Callable[[Tensor], tuple[Tensor, Tensor]],
        start: Tensor,
        low: float | Tensor,
        high: float | Tensor,
        step: float | Tensor,
        steps: int,
        candidates: int,
    ) -> None:
        self.objective, self.low, self.high = objective, low, high
        self.step, self.steps = step, max(steps, 1)
        self.x, self.worst = start.detach().clone(), start.detach().clone()
        self.score = start.new_full((candidates,), torch.inf)
        self.taken, self.first = start.new_zeros(()), start.new_zeros(candidates)
        self.finite = torch.ones(candidates, dtype=torch.bool, device=start.device)
        self.moving = torch.zeros((), dtype=torch.bool, device=start.device)

    def look(self, at: Tensor) -> Tensor:
        """Evaluate a point, and keep it if it leaves the lowest score."""
        with torch.enable_grad():
            value, score = self.objective(at)
        with torch.no_grad():
            score = score.to(self.score.dtype).view(-1)
            lower = score < self.score
            torch.where(self.rows_of(lower), at, self.worst, out=self.worst)
            torch.where(lower, score, self.score, out=self.score)
        return value.view(-1)

    def rows_of(self, chosen: Tensor) -> Tensor:
        """Return which rows belong to the chosen candidates: ``(B,) -> (B * nodes, 1)``."""
        rows = self.x.size(0)
        return chosen.repeat_interleave(rows // max(chosen.numel(), 1), output_size=rows).unsqueeze(1)

    def step_up(self) -> None:
        """Take one step up the gradient; after a gradient that is not finite, stay."""
        at = self.x.detach().requires_grad_()
        value = self.look(at)
        gradient = gradient_of(value.sum(), at)
        with torch.no_grad():
            torch.where(self.taken == 0, value.to(self.first.dtype), self.first, out=self.first)
            self.finite.logical_and_(torch.isfinite(gradient).reshape(self.finite.numel(), -1).all(1))
            self.moving.logical_or_((gradient != 0).any())
            size = self.step * (0.5 * (1 + torch.cos(self.taken * (math.pi / self.steps))) + LAST_SHARE)
            gradient = gradient.nan_to_num(0)
            length = gradient.square().mean(1, keepdim=True).sqrt().clamp(min=1e-30)
            moved = self.x + size * (gradient / length)
            inside = moved.clamp(self.low, self.high)  # type: ignore[arg-type]
            self.x.copy_(torch.where(self.rows_of(self.finite), inside, self.x))
            self.taken.add_(1)
