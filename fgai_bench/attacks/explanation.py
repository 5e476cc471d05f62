"""An attack on the explanation: change the attention, keep the predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from fgai_bench.attacks.ascent import Ascent, BestAscent, ascend_long, gradient_of
from fgai_bench.attacks.base import Attack, Candidate, Trace, Victim
from fgai_bench.attacks.budget import ThreatModel
from fgai_bench.attacks.domain import FeatureDomain
from fgai_bench.attacks.injection import InjectionScene, starting_points
from fgai_bench.attacks.objectives import Reference, margins, objective_named
from fgai_bench.attacks.placement import Placement, attached_edges, cover, random
from fgai_bench.fast.ordered_sums import sum_at
from fgai_bench.metrics.inputs import attention_of
from fgai_bench.models.base import Output

SHORT, LONG = 4, 10  # steps of the first two stages, per step of the threat model
PRICE, DEARER, CHEAPER = 10.0, 1.1, 0.9  # of a lost margin at first, and its factors while too few are kept, or enough


def crowding(out: Output) -> Tensor:
    r"""Return how many edges of each node little keeps in the top half: ``(N,)``.

    It is :math:`\sum_e \tau / w_e` over its edges in the top half, with :math:`\tau` the smallest weight there.
    """
    attention = attention_of(out, "an attack on the attention needs a model that has one").of_graph()
    border = attention.weight.topk(max(attention.weight.numel() // 2, 1), sorted=False).values.min()
    near = torch.where(attention.weight >= border, border / attention.weight.clamp(min=1e-30), 0.0)
    return sum_at(attention.edge_index[1], near, out.logits.size(0))


def crowded(victim: Victim, clean: Output, threat: ThreatModel, seed: int | None) -> Tensor:
    r"""Attach to targets with many edges that little keeps in the top half: ``(nodes, per_node)``.

    An injected node that takes some of such a target's attention drives all of them out. The targets of an injected
    node share a predicted class where they can, so that one message keeps the predictions of all of them.
    """
    targets = victim.targets
    score = crowding(clean)[targets]
    best = score.argsort(descending=True, stable=True)
    classes = clean.logits[targets].argmax(1) if victim.readout is None else torch.zeros_like(targets)
    per_node = min(threat.edges_per_node, targets.numel())
    alike = [best[classes[best] == label] for label in classes.unique()]
    groups = [group for members in alike for group in members.split(max(per_node, 1))]
    groups.sort(key=lambda group: -float(score[group].sum()))
    order = torch.cat(groups)  # every target once, the best groups first
    place = torch.arange(threat.nodes * per_node, device=order.device) % max(order.numel(), 1)
    return targets[order[place]].view(threat.nodes, per_node)


PLACEMENTS: tuple[Placement, ...] = (random, cover, partial(cover, strength=0.5), crowded)


@dataclass(frozen=True)
class Stage:
    """The state of a search: a placement, its features, and their score."""

    ascent: _ConstrainedAscent  # on the placement
    start: Tensor  # (nodes, F) where its search began
    point: Tensor  # (nodes, F) where it stands
    score: float = -1.0  # the change of attention, or less than any change where too few predictions are kept
    price: float = PRICE  # of a lost margin, where the search ended
    flags: tuple[str, ...] = ()  # reasons for distrust

    def climb(self, steps: int) -> Stage:
        """Continue for so many steps, at a price for lost margins, and return the stage at the best point."""
        price = self.point.new_full((), self.price)
        ascent, domain = self.ascent, self.ascent.domain
        capturable = ascent.scene.victim.model.capturable(new_edges=False)
        objective = partial(ascent.priced, price)
        top = ascend_long(objective, self.point, domain.low, domain.high, ascent.step, steps, capturable=capturable)
        flags = self.flags if bool(top.finite) else ("non-finite gradient",)
        return Stage(ascent, self.start, top.point, -float(top.score), float(price), flags)


class ExplanationAttack(Attack):
    """Injection that maximises the change of attention while the targets' predictions stay what they were.

    Placements (at random, two covers, and one at targets with many edges near the border of the top half) are tried
    with a short ascent each, and the best one goes on with a long one. Both raise ``ln change - price * mean relu(slack
    - margin_i)``, with ``margin_i`` how far target i is from another prediction; the price rises while too few
    predictions are kept and falls slowly while enough are. What counts is the largest change that keeps enough.

    The last stage walks along the border of what keeps the predictions: each step goes up the change of attention, for
    every injected node along the part of its gradient that does not lower the targets' margins. Steps from a sixteenth
    of that direction to one that is saturated almost everywhere are tried without gradients, and the one with the
    largest change is taken among those that keep enough predictions: of the share that may be lost in all, step t of T
    leaves ``t / T``, so that the first steps do not use it up. Where too few are kept, the step goes back down the
    margins instead.

    The threat model's steps are those of the last stage; a short ascent takes 4 times as many, the long one 10 times.

    Args:
        loss: the change of attention, ``attention-overlap``, ``attention-jsd`` or ``attention-topk``.
        keep: share of the target predictions that must stay.
    """

    summary = "injected nodes that change the attention while the predictions stay"
    paper = "https://arxiv.org/abs/1710.10547"
    version = "2"
    tags = ("injection", "gradient", "attention")

    placements: ClassVar[Sequence[Placement]] = PLACEMENTS
    slack = 1.0  # logit margin below which a target is pushed back
    scales = tuple(2.0**power for power in range(-4, 7))  # of the tried steps; no feature moves by more than one step

    def __init__(self, loss: str = "attention-overlap", keep: float = 0.99) -> None:
        if not 0 <= keep <= 1:
            raise ValueError(f"keep is a share of the predictions, between 0 and 1, not {keep}")
        if not loss.startswith("attention"):
            raise ValueError(f"an attack on the explanation needs an attention loss, not {loss!r}")
        self.loss, self.keep = loss, keep
        self.change = objective_named(loss)

    def raised(self, logits: Tensor, out: Output, reference: Reference, price: Tensor | float) -> tuple[Tensor, Tensor]:
        """Return the logarithm of the attention's change less the price of lost margins, and the change: ``(), ()``."""
        change = self.change(logits, out, reference)
        return change.clamp(min=1e-12).log() - price * self.lost(logits, reference), change

    def lost(self, logits: Tensor, reference: Reference) -> Tensor:
        """Return how far the targets' margins are below the slack, on average: ``()``."""
        return F.relu(self.slack - margins(logits, reference.prediction)).mean()

    def search(self, victim: Victim, threat: ThreatModel, seed: int | None) -> Candidate:
        if not victim.targets.numel():
            return Candidate(victim.data)
        steps = threat.steps if threat.nodes else 0
        ascents = self.ascents(victim, threat, seed)[: None if threat.nodes else 1]
        starts = starting_points(victim.data, threat, seed, ascents[0].domain)
        tried = [Stage(ascent, starts[0], starts[0]).climb(SHORT * steps) for ascent in ascents]
        best = max(tried, key=lambda stage: stage.score)
        others = [Stage(best.ascent, start, start) for start in starts[1:]]
        longer = [stage.climb(LONG * steps) for stage in (best, *others)]
        best = max((best, *longer), key=lambda stage: stage.score)
        last = BestAscent.over(best.ascent.run, [best.point], gradients=2)
        kept = float(best.ascent.look(last.best.point)[1])
        calls = last.gradient_calls + steps * (SHORT * len(tried) + LONG * len(longer))
        curve = (float(best.ascent.look(best.start)[0]), *last.curve) if steps else last.curve
        flags = tuple(dict.fromkeys((*best.flags, *last.flags)))
        flags = flags if kept >= self.keep else (*flags, "too few predictions kept")
        point = best.ascent.domain.straight_through(last.best.point)
        return Candidate(best.ascent.scene.graph(point), Trace(calls, curve, flags), kept, injected=point)

    def ascents(self, victim: Victim, threat: ThreatModel, seed: int | None) -> list[_ConstrainedAscent]:
        embedded, clean = victim.evaluated()
        domain = FeatureDomain.of(threat, victim.data)
        edges = [attached_edges(clean.logits.size(0), place(victim, clean, threat, seed)) for place in self.placements]
        scenes = [InjectionScene.with_edges(victim, embedded, clean, new, threat.nodes, domain) for new in edges]
        return [_ConstrainedAscent(self, scene, threat) for scene in scenes]


class _ConstrainedAscent:
    """Ascent of the change of attention along the border of what keeps the predictions."""

    def __init__(self, attack: ExplanationAttack, scene: InjectionScene, threat: ThreatModel) -> None:
        self.attack, self.scene, self.threat = attack, scene, threat
        self.domain, self.step = scene.domain, threat.step * scene.domain.unit

    def priced(self, price: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return the change less the price of lost margins, and the score, lower meaning stronger: ``(), ()``."""
        out = self.scene.output(features)
        logits, reference = self.scene.victim.read(out), self.scene.reference
        value, change = self.attack.raised(logits, out, reference, price.clone())
        with torch.no_grad():
            kept = kept_share(logits, reference)
            price.mul_(torch.where(kept >= self.attack.keep, CHEAPER, DEARER))
            return value, -_score(change, kept, self.attack.keep)

    def run(self, start: Tensor) -> Ascent:
        """Climb from a point; return the best point that keeps enough predictions, and the change at every step."""
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
        usable = (torch.tensor(seen, dtype=torch.bool) for seen in (finite, moving))
        return Ascent(best, best_score, torch.stack(curve), *usable)

    def look(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return the change of attention and the share of kept predictions with these features: ``(), ()``."""
        with torch.no_grad():
            out = self.scene.output(features)
            logits = self.scene.victim.read(out)
            change = self.attack.change(logits, out, self.scene.reference)
            return change, kept_share(logits, self.scene.reference)

    def _direction(self, x: Tensor) -> Tensor:
        """Return the gradient of the change, per injected node without the part that would break predictions."""
        x = x.detach().requires_grad_(True)
        out = self.scene.output(x)
        logits, reference = self.scene.victim.read(out), self.scene.reference
        harm = gradient_of(self.attack.lost(logits, reference), x, retain=True)
        gain = gradient_of(self.attack.change(logits, out, reference), x)
        overlap = (gain * harm).sum(1, keepdim=True) / harm.square().sum(1, keepdim=True).clamp(min=1e-30)
        tangent = gain - overlap.clamp(min=0) * harm  # (nodes, F)
        if kept_share(logits, reference) < self.attack.keep:
            tangent = -harm
        return tangent / tangent.abs().amax(1, keepdim=True).clamp(min=1e-30)

    def _line_search(self, x: Tensor, direction: Tensor, keep: float) -> tuple[Tensor, Tensor, Tensor]:
        """Return the best of the tried steps, with its score and its change."""
        found = []
        for scale in self.attack.scales:
            moved = self.domain.clamp(x + self.step * (scale * direction).clamp(-1, 1))
            change, kept = self.look(moved)
            found.append((moved, _score(change, kept, keep), change))
        return max(found, key=lambda candidate: candidate[1])


def kept_share(logits: Tensor, reference: Reference) -> Tensor:
    """Return the share of the targets whose prediction is the clean one: ``()``."""
    return (logits.argmax(1) == reference.prediction).double().mean()


def _score(change: Tensor, kept: Tensor, keep: float) -> Tensor:
    """Return the change if enough predictions are kept; else a negative number, lower the fewer are kept."""
    return torch.where(kept >= keep, change.double(), kept - 1.0)
