"""What the portfolio attacks share: members, their search on one victim, where edges go, and where features start."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks.ascent import Summit, ascend_long, gradient_of
from fgai_bench.attacks.base import NO_SEARCH, Candidate, Trace, Victim
from fgai_bench.attacks.budget import ThreatModel
from fgai_bench.attacks.domain import FeatureDomain
from fgai_bench.attacks.injection import InjectionScene
from fgai_bench.attacks.objectives import Reference, margins, objective_named
from fgai_bench.attacks.placement import Placement, attached_edges, cover, defective, random, ranked_by_pairs
from fgai_bench.data.dataset import score_of
from fgai_bench.fast.threads import side_by_side
from fgai_bench.metrics.prediction import score_function
from fgai_bench.models.base import AttentionModel, Output
from fgai_bench.models.features import dense_rows
from fgai_bench.models.sorted_edges import append_nodes
from fgai_bench.seeds import uniform

SMALL, LARGE, HUGE = 0.025, 0.1, 0.25  # first steps, as shares of the feature range
MOST_COPIES, LARGEST_COPIES = 8, 2**27  # of a graph side by side, and bytes of their embedded nodes
RISE = 0.1  # of a loss, from which on a score that stays is suspicious
RELAXED = 1e-2  # weight of an edge while its gradient is taken
COUNTING = ("masked-nll", "logit-ratio")  # losses of the targets that stand, or of how many stand
PLACEMENTS: dict[str, Placement] = {
    "cover": cover,
    "wide-cover": partial(cover, strength=2.0),
    "mid-cover": partial(cover, strength=0.5),
    "near-cover": partial(cover, strength=0.15),
    "random": random,
    "defective": defective,
}


def published(threat: ThreatModel) -> ThreatModel:
    """Return the same budget with the search of the published attacks: ten steps, which cross the range, once."""
    return threat.model_copy(update={"step": threat.default_step, "steps": 10, "restarts": 1})


@dataclass(frozen=True)
class PortfolioMember:
    """A member of a portfolio: where edges go, which loss is raised, and the features so far."""

    attached: Tensor  # (nodes, each) the targets of every injected node
    loss: str  # a name of OBJECTIVES
    step: float  # its first step, as a share of the feature range
    features: Tensor  # (nodes, F) where it stands
    score: float = float("inf")  # what it leaves of the victim; lower means stronger
    transferred: bool = False  # whether it started from an attack on another model


class PortfolioSearch:
    """The search of a portfolio on one victim: what is computed once, and what was spent."""

    def __init__(self, victim: Victim, threat: ThreatModel, seed: int | None) -> None:
        self.victim, self.threat, self.seed = victim, threat, seed
        self.domain = FeatureDomain.of(threat, victim.data)  # the rows that injected nodes may have
        self.embedded, self.clean = victim.evaluated()  # unattacked
        self.truth = victim.truth(self.clean)  # (M,) what predictions should be
        links = "roc_auc" if hasattr(victim.readout, "labels") else "f1"
        self.measure = score_function(score_of(victim.data) if victim.readout is None else links, self.truth)
        self.by_rank = ranked_by_pairs(victim)  # whether ROC-AUC ranks the nodes
        self.last: tuple[Tensor, InjectionScene] | None = None  # the last attachments, and their scene
        self.copies: dict[int, Copies | None] = {}  # of the graph, by their number, for several members at once
        self.calls = 0  # gradients of the victim's model that were taken
        self.has_gradient = False  # whether one of them was not zero
        self.rise = 0.0  # by how much an ascent has raised its loss at most
        self.lowest = 1.0  # the lowest score that was seen
        self.flags: dict[str, None] = {}  # reasons for distrust, as keys
        self.curve: list[float] = []  # how much harm the best member did, after every ascent

    def started(self, portfolio: Sequence[tuple[str, str, float]], some: Sequence[int]) -> list[PortfolioMember]:
        """Return some members of a portfolio of (placement, loss, first step) where they start."""
        names = dict.fromkeys(portfolio[index][0] for index in some)
        places = {name: PLACEMENTS[name](self.victim, self.clean, self.threat, self.seed) for name in names}
        return [
            PortfolioMember(places[place], loss, step, near_the_middle(self, index))
            for index, (place, loss, step) in enumerate(portfolio)
            if index in some
        ]

    def margins(self, logits: Tensor) -> Tensor:
        """Return by how much each target is right; by ROC-AUC, beyond the clean median of the other class: ``(T,)``."""
        if not self.by_rank:
            return margins(logits, self.truth)
        clean, lead = (rows[:, 1] - rows[:, 0] for rows in (self.victim.read(self.clean), logits))
        positive = self.truth == 1
        return torch.where(positive, lead - clean[~positive].median(), clean[positive].median() - lead)

    def loss_named(self, loss: str) -> str:
        """Return the loss that takes the place of another: that of ranks, where the other counts wrong predictions."""
        return "soft-auc" if self.by_rank and loss in COUNTING else loss

    def scene(self, attached: Tensor) -> InjectionScene:
        """Return the attacked graph with these attachments, ready for any features; the last one is kept."""
        if self.last is None or self.last[0] is not attached:
            self.last = None  # two of them may be too large
            edges = attached_edges(self.embedded.size(0), attached)
            nodes = self.threat.nodes
            scene = InjectionScene.with_edges(self.victim, self.embedded, self.clean, edges, nodes, self.domain)
            self.last = attached, replace(scene, reference=self.labelled())
        return self.last[1]

    def labelled(self) -> Reference:
        """Return the clean output with what should be predicted in the place of what is."""
        return replace(Reference.of(self.clean, self.victim.read), prediction=self.truth)

    def score(self, logits: Tensor) -> Tensor:
        """Return what is left of the victim by the score that ranks it: ``(..., M, C) -> (...)``."""
        return self.measure(logits).to(logits.dtype)

    def scores(self, candidates: Sequence[Candidate]) -> list[float]:
        """Return what each attacked graph leaves of the victim."""
        with torch.no_grad():
            return [float(self.score(self.victim.read(self.victim.model(one.data)))) for one in candidates]

    def climb_all(self, members: Sequence[PortfolioMember], steps: int) -> list[PortfolioMember]:
        """Continue members for so many steps each: as copies of the graph on a GPU, on the cores of a CPU at once."""
        together = max(1, min(MOST_COPIES, LARGEST_COPIES // max(self.embedded.nbytes, 1)))
        groups = [members[place : place + together] for place in range(0, len(members), together)]
        return [member for group in groups for member in self._climbed_together(group, steps)]

    def _climbed_together(self, members: Sequence[PortfolioMember], steps: int) -> list[PortfolioMember]:
        number = len(members)
        if number not in self.copies:  # a homophily bound depends on each candidate's own edges; a CPU gains nothing
            free = self.domain.least_homophily <= -1 and self.embedded.is_cuda
            self.copies[number] = Copies.of(self.victim, self.embedded, self.clean, number) if free else None
        copies = self.copies[number]
        if copies is None:
            return self._climbed_apart(members, steps)
        order = sorted(range(number), key=lambda place: members[place].loss)  # those of one loss are computed at once
        members = [members[place] for place in order]
        losses = Counter(member.loss for member in members)
        scene = copies.scene(self.victim.data.edge_index, [member.attached for member in members], self.domain)
        reference = self.labelled()

        def objective(features: Tensor) -> tuple[Tensor, Tensor]:
            out = scene.output(features)
            logits = copies.victim.read(out).unflatten(0, (number, -1))  # (B, T, C)

            def raised(loss: str, some: Tensor) -> Tensor:
                return torch.vmap(lambda one: objective_named(loss)(one, out, reference))(some)

            values = map(raised, losses, logits.split([*losses.values()]))
            return torch.cat([*values]), self.score(logits.detach())

        features, domain = torch.cat([member.features for member in members]), self.domain
        share = torch.tensor([[m.step] for m in members for _ in range(self.threat.nodes)], device=features.device)
        step, capturable = share * domain.width, self.victim.model.capturable(new_edges=False)
        top = ascend_long(objective, features, domain.low, domain.high, step, steps, capturable, number)
        self.count(top, steps * number)
        ends = zip(members, top.point.chunk(number), top.score.tolist(), strict=True)
        arrived = [replace(member, features=point, score=score) for member, point, score in ends]
        return [self.noted(arrived[order.index(place)]) for place in range(number)]

    def _climbed_apart(self, members: Sequence[PortfolioMember], steps: int) -> list[PortfolioMember]:
        if self.embedded.is_cuda or not self.victim.model.capturable(new_edges=False):  # else a pass changes nothing
            return [self.climb(member, steps) for member in members]
        scenes = [self.scene(member.attached) for member in members]
        tops = side_by_side(lambda place: self._top(members[place], scenes[place], steps), range(len(members)))
        return [self._arrived(member, top, steps) for member, top in zip(members, tops, strict=True)]

    def climb(self, member: PortfolioMember, steps: int) -> PortfolioMember:
        """Continue a member for so many steps; return it with its features of the lowest score."""
        return self._arrived(member, self._top(member, self.scene(member.attached), steps), steps)

    def _top(self, member: PortfolioMember, scene: InjectionScene, steps: int) -> Summit:
        loss, domain = objective_named(member.loss), self.domain

        def objective(features: Tensor) -> tuple[Tensor, Tensor]:
            out = scene.output(features)
            logits = self.victim.read(out)
            return loss(logits, out, scene.reference), self.score(logits.detach())

        capturable = self.victim.model.capturable(new_edges=False)
        step = member.step * domain.width
        return ascend_long(objective, member.features, domain.low, domain.high, step, steps, capturable)

    def _arrived(self, member: PortfolioMember, top: Summit, steps: int) -> PortfolioMember:
        self.count(top, steps)
        return self.noted(replace(member, features=top.point, score=float(top.score)))

    def count(self, top: Summit, steps: int) -> None:
        """Count the gradients of an ascent, and note whether they were usable."""
        self.calls += steps
        self.has_gradient |= bool(top.moving)
        self.rise = max(self.rise, float(top.rise))
        if not bool(top.finite):
            self.flags["non-finite gradient"] = None

    @property
    def doubts(self) -> tuple[str, ...]:
        """Return the reasons to distrust the search: the checks of AutoAttack (https://arxiv.org/abs/2003.01690)."""
        flags = dict(self.flags)
        if self.calls and not self.has_gradient:
            flags["zero gradient"] = None
        if self.rise > RISE and self.lowest >= float(self.score(self.victim.read(self.clean))):
            flags["loss rises while the score stays"] = None
        return tuple(flags)

    def candidate(self, member: PortfolioMember, trace: Trace = NO_SEARCH) -> Candidate:
        """Return the attacked graph of a member."""
        data = self.scene(member.attached).graph(member.features)
        rows = torch.arange(self.embedded.size(0), data.x.shape[0], device=data.edge_index.device)
        return Candidate(data, trace, injected=dense_rows(data.x, rows))

    def tried(self, member: PortfolioMember) -> PortfolioMember:
        """Score a member with its present features, without a gradient."""
        with torch.no_grad():
            logits = self.victim.read(self.scene(member.attached).output(member.features))
        return self.noted(replace(member, score=float(self.score(logits))))

    def noted(self, member: PortfolioMember) -> PortfolioMember:
        """Add to the curve how much harm the best member does so far."""
        self.lowest = min(self.lowest, member.score)
        self.curve.append(max([1.0 - member.score, *self.curve[-1:]]))
        return member

    def edge_gradient(self, member: PortfolioMember) -> Tensor | None:
        """Return how much an edge to each target would raise the loss: ``(nodes, T)``, or None without edge weights.

        All edges between injected nodes and targets are added with a small weight, whose gradient says what more of
        each would do.
        """
        targets, nodes = self.victim.targets, self.threat.nodes
        scene, loss, model = self.scene(member.attached), objective_named(member.loss), self.victim.model
        new = self.embedded.size(0) + torch.arange(nodes, device=targets.device).repeat_interleave(targets.numel())
        features = scene.domain.straight_through(member.features)
        embedded = torch.cat([self.embedded, model.embed(features).detach()])
        more = torch.stack([new, targets.repeat(nodes)])

        def value(out: Output) -> Tensor:
            return loss(self.victim.read(out), out, scene.reference)

        gradient = relaxed_gradient(model, embedded, scene.edge_index, more, value)
        self.calls += gradient is not None
        return None if gradient is None else gradient.view(nodes, targets.numel())


@dataclass(frozen=True)
class Copies:
    """Copies of a graph side by side in one, so that one pass serves several searches."""

    number: int
    victim: Victim  # the model and all copies
    embedded: Tensor
    clean: Output

    @classmethod
    def of(cls, victim: Victim, embedded: Tensor, clean: Output, number: int) -> Copies | None:
        """Copy a graph; None where that gains nothing, or where the model's output on a copy is another."""
        if victim.readout is not None or number == 1:
            return None
        size, alone = embedded.size(0), victim.data.edge_index
        offsets = size * torch.arange(number, device=embedded.device)
        edges = (alone.unsqueeze(1) + offsets.view(1, -1, 1)).flatten(1)
        if not victim.model.joined(edges, [alone] * number, size, 0):
            return None
        targets = (victim.targets + offsets.unsqueeze(1)).flatten()
        with torch.no_grad():
            rows = embedded.repeat(number, *[1] * (embedded.dim() - 1))
            out = victim.model.propagate(rows, edges)
        same = torch.allclose(out.logits.unflatten(0, (number, -1)), clean.logits.expand(number, -1, -1), 1e-3, 1e-4)
        whole = replace(victim, data=Data(edge_index=edges), targets=targets, surrogate=None)
        return cls(number, whole, rows, out) if same else None

    def scene(self, alone: Tensor, attached: Sequence[Tensor], domain: FeatureDomain) -> InjectionScene:
        """Return all copies attacked, each with its own attachments; ``alone`` are the edges of one graph."""
        size, nodes = self.embedded.size(0) // self.number, attached[0].size(0)
        shifted = [torch.where(each < 0, -1, each + place * size) for place, each in enumerate(attached)]
        edges, new = attached_edges(self.embedded.size(0), torch.cat(shifted)), self.number * nodes
        edge_index = append_nodes(self.victim.data.edge_index, self.embedded.size(0), edges, new)
        graphs = [append_nodes(alone, size, attached_edges(size, each), nodes) for each in attached]
        with torch.no_grad():
            self.victim.model.joined(edge_index, graphs, size, nodes)
            affected = self.victim.model.surroundings(self.embedded, self.clean, edge_index, new)
        reference = Reference.of(self.clean, self.victim.read)
        return InjectionScene(self.victim, edge_index, self.embedded, affected, reference, domain)


def relaxed_gradient(
    model: AttentionModel, embedded: Tensor, edge_index: Tensor, more: Tensor, value: Callable[[Output], Tensor]
) -> Tensor | None:
    """Return how a value of the output would rise with the weight of ``more`` edges ``(2, P)``, added with a small one.

    The result is ``(P,)``, or None without edge weights: ``propagate`` takes none, or raises a ``ValueError``.
    """
    known = inspect.signature(model.propagate).parameters.values()
    if not any(argument.name == "edge_weight" or argument.kind is argument.VAR_KEYWORD for argument in known):
        return None
    edges = torch.cat([edge_index, more], dim=1)
    weight = torch.full((more.size(1),), RELAXED, device=more.device, requires_grad=True)
    model.joined(edges, [edge_index], embedded.size(0), 0)  # positional encodings stay as they are
    with torch.enable_grad():
        try:
            out = model.propagate(embedded, edges, edge_weight=F.pad(weight, (edge_index.size(1), 0), value=1.0))
        except ValueError:
            return None
        return gradient_of(value(out), weight).detach()


def near_the_middle(search: PortfolioSearch, index: int) -> Tensor:
    """Start near the middle of the range, from where every corner is equally far: ``(nodes, F)``."""
    return _drawn(search, f"near-{index}", 0.05)


def at_corners(search: PortfolioSearch) -> Tensor:
    """Start at random corners of the range: ``(nodes, F)``."""
    return cornered(search, _drawn(search, "corner-0", 1.0))


def cornered(search: PortfolioSearch, features: Tensor) -> Tensor:
    """Return features with every entry at the nearer end of its range."""
    low, high = (torch.as_tensor(bound).to(features) for bound in (search.domain.low, search.domain.high))
    return torch.where(features < (low + high) / 2, low, high)


def imitating(search: PortfolioSearch, attached: Tensor) -> Tensor:
    """Start as the mean row of the attached targets, for networks that prune unlike neighbours: ``(nodes, F)``."""
    data, (nodes, per_node) = search.victim.data, attached.shape
    rows = dense_rows(data.x, attached.clamp(min=0).flatten()).view(nodes, per_node, -1)
    mean = (rows * (attached >= 0).unsqueeze(2)).mean(1)
    largest = mean.abs().amax(1, keepdim=True).clamp(min=torch.finfo(mean.dtype).tiny)
    return search.domain.clamp(mean / largest * torch.as_tensor(search.domain.high).to(mean))


def _drawn(search: PortfolioSearch, purpose: str, share: float) -> Tensor:
    """Return uniform features in a part of the range around its middle: ``(nodes, F)``."""
    domain, data = search.domain, search.victim.data
    shape = (search.threat.nodes, data.x.shape[1])
    spread = uniform(shape, search.seed, f"attack-worst-{purpose}", data.edge_index.device)
    return (domain.low + domain.high) / 2 + share * domain.width * (spread - 0.5)


def strongest_members(members: Sequence[PortfolioMember], number: int) -> list[PortfolioMember]:
    """Return the members with the lowest scores, the first of equals first."""
    return sorted(members, key=lambda member: member.score)[:number]


def strongest(search: PortfolioSearch, candidates: Sequence[Candidate]) -> Candidate:
    """Return the candidate with the lowest score, the first of equals.

    Its curve is the harm of the best so far, from candidate to candidate; its flags are those of all candidates.
    """
    left = search.scores(candidates)
    curve = tuple(1.0 - min(left[: place + 1]) for place in range(len(left)))
    calls = sum(candidate.trace.gradient_calls for candidate in candidates)
    flags = tuple(dict.fromkeys(flag for candidate in candidates for flag in candidate.trace.flags))
    return replace(candidates[left.index(min(left))], trace=Trace(calls, curve, flags))
