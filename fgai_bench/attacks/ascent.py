"""Long gradient ascents: normalised steps that shrink along half a cosine; the point of the lowest score is kept."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from fgai_bench.attacks.pgd import WORTH_RECORDING, gradient_of
from fgai_bench.fast.cuda_graphs import Replayed, own_stream, recording

Direction = Literal["row", "sign"]
LAST_SHARE = 0.02  # of the first step that is left for the last one


class Summit(NamedTuple):
    """The result of a long ascent, still on its device.

    Attributes:
        point: ``(B * nodes, F)`` of each candidate the iterate with its lowest score.
        score: ``(B,)`` these scores: what is left of the victim, lower means stronger.
        finite, moving: ``()`` whether every gradient was finite, and whether one of them was not zero.
        rise: ``()`` by how much the objective was higher at the end than at the start.
    """

    point: Tensor
    score: Tensor
    finite: Tensor
    moving: Tensor
    rise: Tensor


def ascend_long(
    objective: Callable[[Tensor], tuple[Tensor, Tensor]],
    start: Tensor,
    low: float | Tensor,
    high: float | Tensor,
    step: float | Tensor,
    steps: int,
    direction: Direction = "row",
    recordable: bool = False,
    candidates: int = 1,
) -> Summit:
    """Raise an objective inside a box and return the iterate with the lowest score.

    Several candidates can be raised side by side: their rows stand one below the other, and each has its own score.

    ``x <- clip(x + step_t * d)``, where the direction d is the gradient, each row scaled to a root mean square of one
    (``row``), or its sign, and ``step_t`` falls from ``step`` to nearly nothing along half a cosine: the first steps
    cross the box, the last ones settle. Nothing is read back from the device on the way.

    Args:
        objective: features to ``()`` the value that is raised and ``()`` or ``(B,)`` the scores that count.
        start: ``(B * nodes, F)`` where the search begins.
        low, high: the box.
        step: root mean square of the first step, for all rows or ``(B * nodes, 1)`` for each.
        steps: gradients to take.
        direction: ``row`` or ``sign``.
        recordable: the objective reads nothing back either: on CUDA a step is then recorded and replayed.
        candidates: B, how many searches the rows belong to, equally many rows to each.

    >>> def objective(x): return -(x - 0.3).square().sum(), (x - 0.3).abs().sum()
    >>> round(ascend_long(objective, torch.zeros(1, 1), -1.0, 1.0, step=0.2, steps=40).point.item(), 1)
    0.3
    """
    climb = _Climb(objective, start, low, high, step, steps, direction, candidates)
    if recordable and start.is_cuda and steps > WORTH_RECORDING and not recording():
        with own_stream(start.device):
            once = Replayed(climb.step_up)
            for _ in range(steps):
                once()
    else:
        for _ in range(steps):
            climb.step_up()
    with torch.no_grad():
        rise = climb.look(climb.x) - climb.first
    return Summit(climb.worst, climb.score, climb.finite, climb.moving, rise)


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
        direction: Direction,
        candidates: int,
    ) -> None:
        self.objective, self.low, self.high, self.direction = objective, low, high, direction
        self.step, self.steps = step, max(steps, 1)
        self.x, self.worst = start.detach().clone(), start.detach().clone()
        self.score = start.new_full((candidates,), torch.inf)
        self.taken, self.first = start.new_zeros(()), start.new_zeros(())
        self.finite = torch.ones((), dtype=torch.bool, device=start.device)
        self.moving = torch.zeros((), dtype=torch.bool, device=start.device)

    def look(self, at: Tensor) -> Tensor:
        """Evaluate a point, and keep it if it leaves the lowest score."""
        with torch.enable_grad():
            value, score = self.objective(at)
        with torch.no_grad():
            score = score.to(self.score.dtype).view(-1)
            lower = score < self.score
            rows = lower.repeat_interleave(at.size(0) // score.numel(), output_size=at.size(0)).unsqueeze(1)
            torch.where(rows, at, self.worst, out=self.worst)
            torch.where(lower, score, self.score, out=self.score)
        return value

    def step_up(self) -> None:
        """Take one step up the gradient; after a gradient that is not finite, stay."""
        at = self.x.detach().requires_grad_()
        value = self.look(at)
        gradient = gradient_of(value, at)
        with torch.no_grad():
            torch.where(self.taken == 0, value.to(self.first.dtype), self.first, out=self.first)
            self.finite.logical_and_(torch.isfinite(gradient).all())
            self.moving.logical_or_((gradient != 0).any())
            size = self.step * (0.5 * (1 + torch.cos(self.taken * (math.pi / self.steps))) + LAST_SHARE)
            moved = self.x + size * self._directed(gradient.nan_to_num(0))
            inside = moved.clamp(self.low, self.high)  # type: ignore[arg-type]
            self.x.copy_(torch.where(self.finite, inside, self.x))
            self.taken.add_(1)

    def _directed(self, gradient: Tensor) -> Tensor:
        if self.direction == "sign":
            return gradient.sign()
        size = gradient.square().mean(1, keepdim=True).sqrt()
        return gradient / size.clamp(min=1e-30)
