"""What the portfolio attacks share: members, their search on one victim, where edges go, and where features start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks.ascent import Direction, Summit, ascend_long
from fgai_bench.attacks.base import Victim
from fgai_bench.attacks.budget import ThreatModel
from fgai_bench.attacks.injection import InjectionScene, with_injected
from fgai_bench.attacks.objectives import Reference, margins, objective_named
from fgai_bench.attacks.pgd import gradient_of
from fgai_bench.attacks.placement import Placement, attached_edges, cover, defective, random
from fgai_bench.attacks.result import NO_SEARCH, Candidate, Trace
from fgai_bench.metrics.prediction import area_under_curve
from fgai_bench.models.base import Output
from fgai_bench.seeds import uniform

SMALL, LARGE, HUGE = 0.025, 0.1, 0.25  # first steps, as shares of the feature range
LARGEST_COPIES = 2**31  # bytes of the embedded nodes of all copies
RELAXED = 1e-2  # weight of an edge while its gradient is taken
PUBLISHED = {"step": 0.1, "steps": 10, "restarts": 1}  # the search of the published attacks
PLACEMENTS: dict[str, Placement] = {
    "cover": cover,
    "wide-cover": partial(cover, strength=2.0),
    "mid-cover": partial(cover, strength=0.5),
    "near-cover": partial(cover, strength=0.15),
    "random": random,
    "defective": defective,
}


@dataclass(frozen=True)
class PortfolioMember:
    """A member of a portfolio: where edges go, which loss is raised, and the features so far.

    Attributes:
        name: for the record.
        attached: ``(nodes, each)`` the targets of every injected node.
        loss: a name of ``OBJECTIVES``.
        direction: of its steps.
        step: its first step, as a share of the feature range.
        features: ``(nodes, F)`` where it stands.
        score: what it leaves of the victim; lower means stronger.
    """

    name: str
    attached: Tensor
    loss: str
    direction: Direction
    step: float
    features: Tensor
    score: float = float("inf")


@dataclass
class PortfolioSearch:
    """The search of a portfolio on one victim: what is computed once, and what was spent.

    Attributes:
        victim, threat, seed: of the attack.
        embedded, clean: the victim's, unattacked.
        truth: ``(M,)`` what predictions should be.
        links: of a link readout, which targets are links and which are none (found once: a recording cannot search).
        last: the attachments that were looked at last, and their scene.
        copies: of the graph, by their number, on which several members climb at once.
        calls: gradients of the victim's model that were taken.
        has_gradient: whether one of them was not zero.
        flags: reasons for distrust, as keys.
        curve: how much harm the best member did, after every ascent.
    """

    victim: Victim
    threat: ThreatModel
    seed: int | None
    embedded: Tensor = field(init=False)
    clean: Output = field(init=False)
    truth: Tensor = field(init=False)
    links: tuple[Tensor, Tensor] | None = field(init=False, default=None)
    last: tuple[Tensor, InjectionScene] | None = field(init=False, default=None)
    copies: dict[int, Copies | None] = field(init=False, default_factory=dict)
    calls: int = 0
    has_gradient: bool = False
    flags: dict[str, None] = field(default_factory=dict)
    curve: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        with torch.no_grad():
            self.embedded = self.victim.model.embed(self.victim.data.x)
            self.clean = self.victim.model.propagate(self.embedded, self.victim.data.edge_index)
        self.truth = self.victim.truth(self.clean)
        if hasattr(self.victim.readout, "labels"):
            self.links = ((self.truth == 1).nonzero().flatten(), (self.truth == 0).nonzero().flatten())

    def scene(self, attached: Tensor) -> InjectionScene:
        """Return the attacked graph with these attachments, ready for any features; the last one is kept."""
        if self.last is None or self.last[0] is not attached:
            self.last = None  # two of them may be too large
            edges = attached_edges(self.embedded.size(0), attached)
            scene = InjectionScene.with_edges(self.victim, self.embedded, self.clean, edges, self.threat.nodes)
            self.last = attached, replace(scene, reference=replace(scene.reference, prediction=self.truth))
        return self.last[1]

    def score(self, logits: Tensor) -> Tensor:
        """Return what is left of the victim: ``()`` the share of right predictions, or the ROC-AUC of links."""
        if self.links is not None:
            link = logits[:, 1] - logits[:, 0]
            return area_under_curve(*(link.index_select(0, which) for which in self.links)).to(logits.dtype)
        return (logits.argmax(1) == self.truth).to(logits.dtype).mean()

    def climb_all(self, members: Sequence[PortfolioMember], steps: int) -> list[PortfolioMember]:
        """Continue members for so many steps each; on a GPU side by side, where copies of the graph do not interact."""
        number = len(members)
        if number not in self.copies:
            self.copies[number] = Copies.of(self.victim, self.embedded, self.clean, number)
        copies = self.copies[number]
        if copies is None:
            return [self.climb(member, steps) for member in members]
        scene, losses = copies.scene([m.attached for m in members], self.threat.nodes), [objective_named(m.loss) for m in members]
        reference = replace(Reference.of(self.clean, self.victim.read), prediction=self.truth)

        def objective(features: Tensor) -> tuple[Tensor, Tensor]:
            out = scene.output(features)
            logits = copies.victim.read(out).unflatten(0, (number, -1))  # (B, T, C)
            values = [loss(part, out, reference) for loss, part in zip(losses, logits, strict=True)]
            return torch.stack(values).sum(), (logits.detach().argmax(2) == self.truth).to(logits.dtype).mean(1)

        low, high, nodes = self.threat.feature_low, self.threat.feature_high, self.threat.nodes
        features = torch.cat([member.features for member in members])
        step = torch.tensor([[m.step * (high - low)] for m in members for _ in range(nodes)], device=features.device)
        recordable = self.victim.model.recordable(new_edges=False)
        top = ascend_long(objective, features, low, high, step, steps, "row", recordable, number)
        self.count(top, steps * number)
        return [
            self.noted(replace(member, features=point, score=score))
            for member, point, score in zip(members, top.point.chunk(number), top.score.tolist(), strict=True)
        ]

    def climb(self, member: PortfolioMember, steps: int) -> PortfolioMember:
        """Continue a member for so many steps; return it with its features of the lowest score."""
        scene, loss = self.scene(member.attached), objective_named(member.loss)

        def objective(features: Tensor) -> tuple[Tensor, Tensor]:
            out = scene.output(features)
            logits = self.victim.read(out)
            return loss(logits, out, scene.reference), self.score(logits.detach())

        recordable = self.victim.model.recordable(new_edges=False)
        low, high = self.threat.feature_low, self.threat.feature_high
        step = member.step * (high - low)
        top = ascend_long(objective, member.features, low, high, step, steps, member.direction, recordable)
        self.count(top, steps)
        return self.noted(replace(member, features=top.point, score=float(top.score)))

    def count(self, top: Summit, steps: int) -> None:
        """Count the gradients of an ascent, and note whether they were usable."""
        self.calls += steps
        self.has_gradient |= bool(top.moving)
        if not bool(top.finite):
            self.flags["non-finite gradient"] = None

    @property
    def doubts(self) -> tuple[str, ...]:
        """Return the reasons to distrust the search."""
        return (*self.flags, *(("zero gradient",) if self.calls and not self.has_gradient else ()))

    def candidate(self, member: PortfolioMember, trace: Trace = NO_SEARCH) -> Candidate:
        """Return the attacked graph of a member."""
        edges = attached_edges(self.victim.data.x.shape[0], member.attached)
        return Candidate(with_injected(self.victim.data, member.features, edges), trace, injected=member.features)

    def tried(self, member: PortfolioMember) -> PortfolioMember:
        """Score a member with its present features, without a gradient."""
        with torch.no_grad():
            logits = self.victim.read(self.scene(member.attached).output(member.features))
        return self.noted(replace(member, score=float(self.score(logits))))

    def noted(self, member: PortfolioMember) -> PortfolioMember:
        """Add to the curve how much harm the best member does so far."""
        self.curve.append(max([1.0 - member.score, *self.curve[-1:]]))
        return member

    def standing(self, member: PortfolioMember) -> Tensor:
        """Return by how much each target still stands under a member: ``(T,)``, 0 where it has fallen."""
        with torch.no_grad():
            logits = self.victim.read(self.scene(member.attached).output(member.features))
        if logits.shape[0] != self.victim.targets.numel():
            return torch.ones(self.victim.targets.numel(), device=logits.device)
        return (margins(logits, self.truth) > 0).double()

    def edge_gradient(self, member: PortfolioMember) -> Tensor | None:
        """Return how much an edge to each target would raise the loss: ``(nodes, T)``, or None without edge weights.

        All edges between injected nodes and targets are added with a small weight, whose gradient says what more of
        each would do.
        """
        data, targets, nodes = self.victim.data, self.victim.targets, self.threat.nodes
        scene, loss = self.scene(member.attached), objective_named(member.loss)
        new = data.x.shape[0] + torch.arange(nodes, device=targets.device).repeat_interleave(targets.numel())
        edge_index = torch.cat([scene.edge_index, torch.stack([new, targets.repeat(nodes)])], dim=1)
        extra = torch.full((new.numel(),), RELAXED, device=targets.device, requires_grad=True)
        there = torch.ones(scene.edge_index.size(1), device=targets.device)
        embedded = torch.cat([self.embedded, self.victim.model.embed(member.features).detach()])
        try:
            out = self.victim.model.propagate(embedded, edge_index, edge_weight=torch.cat([there, extra]))
        except (ValueError, TypeError):
            return None
        value = loss(self.victim.read(out), out, scene.reference)
        self.calls += 1
        return gradient_of(value, extra).view(nodes, targets.numel()).detach()


@dataclass(frozen=True)
class Copies:
    """Copies of a graph side by side in one, so that one pass serves several searches.

    Attributes:
        number: how many.
        victim: the model and all copies.
        embedded, clean: the victim's, unattacked.
    """

    number: int
    victim: Victim
    embedded: Tensor
    clean: Output

    @classmethod
    def of(cls, victim: Victim, embedded: Tensor, clean: Output, number: int) -> Copies | None:
        """Copy a graph; None where that gains nothing, or where the model's output on a copy is another."""
        alone = victim.readout is not None or victim.model.injection_radius is None
        if alone or number == 1 or not embedded.is_cuda or number * embedded.nbytes > LARGEST_COPIES:
            return None
        offsets = embedded.size(0) * torch.arange(number, device=embedded.device)
        edges = (victim.data.edge_index.unsqueeze(1) + offsets.view(1, -1, 1)).flatten(1)
        many = replace(
            victim, data=Data(edge_index=edges), targets=(victim.targets + offsets.unsqueeze(1)).flatten(), surrogate=None
        )
        with torch.no_grad():
            rows = embedded.repeat(number, *[1] * (embedded.dim() - 1))
            out = victim.model.propagate(rows, edges)
        same = torch.allclose(out.logits.unflatten(0, (number, -1)), clean.logits.expand(number, -1, -1), atol=1e-4)
        return cls(number, many, rows, out) if same else None

    def scene(self, attached: Sequence[Tensor], nodes: int) -> InjectionScene:
        """Return all copies attacked, each with its own attachments."""
        size = self.embedded.size(0) // self.number
        shifted = [torch.where(each < 0, -1, each + place * size) for place, each in enumerate(attached)]
        edges = attached_edges(self.embedded.size(0), torch.cat(shifted))
        return InjectionScene.with_edges(self.victim, self.embedded, self.clean, edges, self.number * nodes)


def near_zero(search: PortfolioSearch, index: int) -> Tensor:
    """Start near the middle of the range, from where every corner is equally far: ``(nodes, F)``."""
    return _drawn(search, f"near-{index}", 0.05)


def at_corners(search: PortfolioSearch, index: int) -> Tensor:
    """Start at random corners of the range: ``(nodes, F)``."""
    spread = _drawn(search, f"corner-{index}", 1.0)
    middle = (search.threat.feature_low + search.threat.feature_high) / 2
    return torch.where(spread < middle, search.threat.feature_low, search.threat.feature_high)


def _drawn(search: PortfolioSearch, purpose: str, share: float) -> Tensor:
    """Return uniform features in a part of the range around its middle: ``(nodes, F)``."""
    threat, data = search.threat, search.victim.data
    shape = (threat.nodes, data.x.shape[1])
    spread = uniform(shape, search.seed, f"attack-worst-{purpose}", data.edge_index.device)
    middle, width = (threat.feature_low + threat.feature_high) / 2, threat.feature_high - threat.feature_low
    return middle + share * width * (spread - 0.5)


def strongest_members(members: Sequence[PortfolioMember], number: int) -> list[PortfolioMember]:
    """Return the members with the lowest scores, the first of equals first."""
    return sorted(members, key=lambda member: member.score)[:number]


def strongest(search: PortfolioSearch, candidates: Sequence[Candidate]) -> Candidate:
    """Return the candidate with the lowest score, the first of equals.

    Its curve is the harm of the best so far, from candidate to candidate; its flags are those of all candidates.
    """
    with torch.no_grad():
        logits = [search.victim.read(search.victim.model(candidate.data)) for candidate in candidates]
        left = [float(search.score(rows)) for rows in logits]
    curve = tuple(1.0 - min(left[: place + 1]) for place in range(len(left)))
    calls = sum(candidate.trace.gradient_calls for candidate in candidates)
    flags = tuple(dict.fromkeys(flag for candidate in candidates for flag in candidate.trace.flags))
    return replace(candidates[left.index(min(left))], trace=Trace(calls, curve, flags))
