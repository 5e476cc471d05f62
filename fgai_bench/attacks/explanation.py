"""An attack on the explanation: change the attention, keep the predictions."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from fgai_bench.attacks.base import Attack, Victim
from fgai_bench.attacks.injection import Injection, starting_points
from fgai_bench.attacks.objectives import Reference, margins, objective_named
from fgai_bench.attacks.pgd import Ascent, Search, gradient_of
from fgai_bench.attacks.result import Candidate, Trace
from fgai_bench.attacks.threat import ThreatModel


class ExplanationAttack(Attack):
    """Injection that maximises the change of attention while the targets' predictions stay what they were.

    Each step goes up the change of attention, for every injected node along the part of its gradient that does not
    lower the targets' margins (``mean relu(slack - margin_i)``, with ``margin_i`` how far target i is from another
    prediction). Steps from a sixteenth of that direction to one that is saturated almost everywhere are tried without
    gradients, and the one with the largest change is taken among those that keep enough predictions: of the share that
    may be lost in all, step t of T leaves ``t / T``, so that the first steps do not use it up. Where too few are kept,
    the step goes back down the margins instead.

    Args:
        loss: the change of attention, ``attention-jsd`` or ``attention-topk``.
        keep: share of the target predictions that must stay.
        slack: logit margin below which a target is pushed back.
        halvings: how many times the direction is halved, at most.
        doublings: how many times it is doubled, at most; no feature moves by more than one step.
    """

    summary = "injected nodes that change the attention while the predictions stay"
    paper = "https://arxiv.org/abs/1710.10547"
    tags = ("injection", "gradient", "attention")

    def __init__(
        self,
        loss: str = "attention-jsd",
        keep: float = 0.99,
        slack: float = 4.0,
        halvings: int = 4,
        doublings: int = 6,
    ) -> None:
        if not 0 <= keep <= 1:
            raise ValueError(f"keep is a share of the predictions, between 0 and 1, not {keep}")
        if not loss.startswith("attention"):
            raise ValueError(f"an attack on the explanation needs an attention loss, not {loss!r}")
        self.loss, self.keep, self.slack = loss, keep, slack
        self.scales = [2.0**power for power in range(-halvings, doublings + 1)]
        self.change = objective_named(loss)

    def search(self, victim: Victim, threat: ThreatModel, seed: int | None) -> Candidate:
        scene = Injection.prepare(victim, threat, seed)
        ascent = _ConstrainedAscent(self, scene, threat)
        search = Search.over(ascent.run, starting_points(victim.data, threat, seed), gradients=2)
        point = search.best.point
        kept = ascent.look(point)[1]
        flags = search.flags if kept >= self.keep else (*search.flags, "too few predictions kept")
        return Candidate(scene.graph(point), Trace(search.gradient_calls, search.curve, flags), kept, injected=point)


class _ConstrainedAscent:
    """Ascent of the change of attention along the border of what keeps the predictions."""

    def __init__(self, attack: ExplanationAttack, scene: Injection, threat: ThreatModel) -> None:
        self.attack, self.scene, self.threat = attack, scene, threat

    def run(self, start: Tensor) -> Ascent:
        """From one starting point: the best point that keeps enough predictions, and the change at every step."""
        x = start
        change, kept = self.look(x)
        best, best_score, curve = x, _score(change, kept, self.attack.keep), [change]
        finite: list[bool] = []
        moving: list[bool] = []
        steps = self.threat.steps if self.threat.nodes else 0
        for taken in range(1, steps + 1):
            direction = self._direction(x)
            finite.append(bool(torch.isfinite(direction).all()) and all(finite))
            moving.append(bool(direction.any()))
            if finite[-1]:
                x, score, change = self._line_search(x, direction, 1 - (1 - self.attack.keep) * taken / steps)
                if score > best_score:
                    best, best_score = x, score
            curve.append(change)
        found = (torch.tensor(best_score), torch.tensor(curve))
        return Ascent(best, *found, torch.tensor(finite, dtype=torch.bool), torch.tensor(moving, dtype=torch.bool))

    def look(self, features: Tensor) -> tuple[float, float]:
        """The change of attention and the share of kept predictions with these features."""
        with torch.no_grad():
            out = self.scene.output(features)
            logits = self.scene.victim.read(out)
            return self.attack.change(logits, out, self.scene.reference).item(), _kept(logits, self.scene.reference)

    def _direction(self, x: Tensor) -> Tensor:
        """Up the change of attention, per injected node without the part that would break predictions."""
        x = x.detach().requires_grad_(True)
        out = self.scene.output(x)
        logits, reference = self.scene.victim.read(out), self.scene.reference
        broken = F.relu(self.attack.slack - margins(logits, reference.prediction)).mean()
        harm = gradient_of(broken, x, retain=True)
        gain = gradient_of(self.attack.change(logits, out, reference), x)
        overlap = (gain * harm).sum(1, keepdim=True) / harm.square().sum(1, keepdim=True).clamp(min=1e-30)
        tangent = gain - overlap.clamp(min=0) * harm  # (nodes, F)
        if _kept(logits, reference) < self.attack.keep:
            tangent = -harm
        return tangent / tangent.abs().amax(1, keepdim=True).clamp(min=1e-30)

    def _line_search(self, x: Tensor, direction: Tensor, keep: float) -> tuple[Tensor, float, float]:
        """The best of the tried steps, with its score and its change."""
        found = []
        for scale in self.attack.scales:
            moved = x + self.threat.step * (scale * direction).clamp(-1, 1)
            moved = moved.clamp(self.threat.feature_low, self.threat.feature_high)
            change, kept = self.look(moved)
            found.append((moved, _score(change, kept, keep), change))
        return max(found, key=lambda candidate: candidate[1])


def _kept(logits: Tensor, reference: Reference) -> float:
    """The share of the targets whose prediction is the clean one."""
    return (logits.argmax(1) == reference.prediction).float().mean().item()


def _score(change: float, kept: float, keep: float) -> float:
    """The change where enough predictions are kept; elsewhere less than any change, by how many are not."""
    return change if kept >= keep else kept - 1.0
