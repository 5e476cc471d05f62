"""Local search over edges and features together: change a part of an attack, climb a little, keep what leaves less.

It goes on until it stops finding: until the last fifth of all gradients, those of its sources among them, and then one
round of longer climbs have each lowered the score by less than .001. How soon and how late it may end is the caller's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fgai_bench.attacks.ascent import gradient_of
from fgai_bench.attacks.objectives import objective_named
from fgai_bench.attacks.placement import stakes
from fgai_bench.attacks.search import (
    PortfolioMember,
    PortfolioSearch,
    cornered,
    imitating,
    near_the_middle,
    strongest_members,
)
from fgai_bench.seeds import derive

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Move = Callable[[Ints, Tensor, float], Tensor]  # changes attachments in place, returns features; by a share

SIDE_BY_SIDE = 8  # candidates of a round
CLIMB, LONG = 25, 3  # gradients of a candidate; before the search ends, so many times as many
SHARES = (0.0025, 0.01, 0.02, 0.05, 0.1)  # of the edges, or of the injected nodes, that a move changes
STEPS = (0.01, 0.025, 0.05, 0.1)  # first steps of a climb, as shares of the feature range
DISCRETE_STEPS = (0.05, 0.1, 0.2, 0.4)  # likewise where a feature is present or absent
LOSSES = ("margin", "soft-error", "masked-nll", "logit-ratio")
CHOICE = 4  # fresh targets are drawn from so many times as many of the best
PULLED = 64  # targets that are known for each injected node to pull the most
NOISE = 0.3  # of the values by which edges are ranked
BLACK_BOX = "a black-box member is stronger"  # a flag: the gradient may mislead
TAIL, LEAST_GAIN = 0.2, 0.001  # the search ends if this share of its gradients has lowered the score by less


@dataclass(frozen=True)
class Outlook:
    """What the best attack so far looks like from within: where its edges help, and which targets still stand."""

    border: Ints  # targets with something at stake, nearest to the border first; by ROC-AUC, the most at stake first
    hubs: Ints  # targets with the most at stake around
    help: Floats | None  # (nodes, per_node) how much each edge raises the loss; None if unknown
    pull: Ints | None  # (nodes, P) targets to which a new edge would raise it most, best first; None if unknown
    slope: Tensor  # (nodes, F) the gradient of the loss by the features


@dataclass
class LocalSearch:
    """The search of the neighbourhood of an attack; every round tries some moves and keeps the best if it is no worse.

    Moves that have lowered the score are drawn more often.
    """

    search: PortfolioSearch  # the victim, and what was spent
    sources: Sequence[PortfolioMember]  # other attacks, whose injected nodes are grafted onto the best one
    best: PortfolioMember  # the strongest attack so far
    seed: int  # of all draws
    climb: int = CLIMB  # gradients of a candidate
    history: list[tuple[int, float]] = field(default_factory=list)  # gradients taken, lowest score, after every round
    outlook: Outlook = field(init=False)
    stale: bool = True  # whether the best attack has no outlook yet

    def __post_init__(self) -> None:
        victim, size = self.search.victim, self.search.embedded.size(0)
        self.draw = np.random.default_rng(derive(self.seed, "attack-local"))
        self.targets = victim.targets.cpu().numpy()
        self.classes = self.search.clean.logits.argmax(1).cpu().numpy()  # (N,)
        self.place = np.full(size, -1)
        self.place[self.targets] = np.arange(self.targets.size)
        source, destination = self.place[victim.data.edge_index.cpu().numpy()]
        inside = (source >= 0) & (destination >= 0)
        self.ends = source[inside], destination[inside]
        self.near = 1 / np.sqrt(1 + np.bincount(self.ends[1], minlength=self.targets.size))
        domain, nothing = self.search.domain, torch.zeros_like(self.best.features[0], dtype=torch.bool)
        self.binary = nothing if domain.binary is None else domain.binary  # (F,)
        bits = int(self.binary.sum())
        discrete = bits or domain.most_nonzero is not None
        self.steps = DISCRETE_STEPS if discrete else STEPS
        # How often a move is tried before anything is known, and what it does.
        self.moves: dict[str, tuple[float, Move]] = {
            "climb": (3, lambda attached, features, share: features),
            "copy": (3, self.copy),
            "border": (2, partial(self.refill, "border")),
            "hub": (2, partial(self.refill, "hubs")),
            "pull": (2, self.to_where_it_pulls),
            "regroup": (1, self.regroup),
            "graft": (1 if any(source is not self.best for source in self.sources) else 0, self.graft),
            "redraw": (1, self.redraw),
            "imitate": (0.5, self.imitate),
            "corner": (0.5, self.corner),
            "fewer": (0.5, self.detach),
            "flip": (2 if bits else 0, self.flip),
            "steepest": (1 if bits else 0, self.steepest),
        }
        self.gains = dict.fromkeys(self.moves, 0.0)

    def go_on(self, gradients: int) -> None:
        until = self.search.calls + gradients
        while self.search.calls < until:
            self.round()

    def until_it_stops(self, least: int, most: int) -> None:
        """Search for ``least`` to ``most`` further gradients, until the last fifth of all has gained nearly nothing."""
        entered = self.search.calls
        while (taken := self.search.calls - entered) < most:
            if taken >= least and self.has_stopped():
                before = self.best.score
                self.round(["climb"] * SIDE_BY_SIDE, LONG)
                if before - self.best.score < LEAST_GAIN:
                    return
            self.round()

    def has_stopped(self) -> bool:
        """Tell whether the last gradients of the search have lowered the score by less than is worth mentioning."""
        since = (1 - TAIL) * self.search.calls
        before = [score for calls, score in self.history if calls <= since]
        return bool(before) and before[-1] - self.best.score < LEAST_GAIN

    def round(self, drawn: Sequence[str] = (), longer: int = 1) -> None:
        """Try some moves side by side, and keep the best of them unless it is worse than what there was.

        If no moves are given, they are drawn. Each climbs ``longer`` times as long as usual.
        """
        if self.stale:
            self.outlook, self.stale = self.looked(), False
        if not self.history:
            self.history.append((self.search.calls, self.best.score))
        drawn = drawn or self.drawn()
        steps = longer * self.climb if self.search.has_gradient else 1
        moved = [self.moved(name) for name in drawn]
        blind = len(moved) // 2 if BLACK_BOX in self.search.flags else 0  # tried as they are: their gradient misleads
        climbed = [self.search.tried(member) for member in moved[:blind]]
        climbed += self.search.climb_all(moved[blind:], steps)
        for name, member in zip(drawn, climbed, strict=True):
            self.gains[name] += max(self.best.score - member.score, 0.0)
        top = strongest_members(climbed, 1)[0]
        if top.score <= self.best.score:
            self.best, self.stale = top, True
        self.history.append((self.search.calls, self.best.score))

    def drawn(self) -> list[str]:
        """Return the moves of a round: half by how often they are usual, half by what they have earned."""
        usual, earned = np.array([often for often, _ in self.moves.values()]), np.array(list(self.gains.values()))
        chance = usual / usual.sum() + earned / max(earned.sum(), 1e-12)
        return [str(name) for name in self.draw.choice(list(self.moves), SIDE_BY_SIDE, p=chance / chance.sum())]

    def looked(self) -> Outlook:
        """Return the outlook of the best attack."""
        search, best = self.search, self.best
        features = best.features.detach().requires_grad_()
        scene = search.scene(best.attached)
        with torch.enable_grad():
            out = scene.output(features)
            logits = search.victim.read(out)
            slope = gradient_of(objective_named(best.loss)(logits, out, scene.reference), features)
        search.calls += 1
        stake = order = np.ones(self.targets.size)  # of links nothing is known of a single target
        if logits.size(0) == stake.size:
            stake = stakes(search.victim, logits, search.truth).double().cpu().numpy()
            order = -stake if search.by_rank else search.margins(logits).detach().double().cpu().numpy()
        return self.seen(stake, order, search.edge_gradient(best), slope)

    def seen(self, stake: Floats, order: Floats, edge_gradient: Tensor | None, slope: Tensor) -> Outlook:
        """Return the outlook of what targets have at stake and whose turn is first ``(T,)``, and of gradients.

        Gradients are by edges ``(nodes, T)`` and by features.
        """
        standing = np.flatnonzero(stake > 0)
        border = standing[order[standing].argsort(kind="stable")]
        source, destination = self.ends
        around = stake + np.bincount(source, weights=(stake * self.near)[destination], minlength=stake.size)
        hubs = (-around).argsort(kind="stable")
        if edge_gradient is None or not bool(edge_gradient.isfinite().all()):
            return Outlook(border, hubs, None, None, slope)
        place = torch.from_numpy(self.place).to(edge_gradient.device)[self.best.attached.clamp(min=0)].clamp(min=0)
        help = edge_gradient.gather(1, place).double().cpu().numpy()
        pull = edge_gradient.topk(min(PULLED, stake.size), dim=1).indices.cpu().numpy()
        return Outlook(border, hubs, help, pull, slope)

    def moved(self, name: str) -> PortfolioMember:
        """Return the best attack after a move, with a loss and a step for its climb."""
        attached, features = self.best.attached.cpu().numpy().copy(), self.best.features.clone()
        features = self.moves[name][1](attached, features, float(self.draw.choice(SHARES)))
        loss, step = self.search.loss_named(str(self.draw.choice(LOSSES))), float(self.draw.choice(self.steps))
        where = torch.from_numpy(attached).to(self.best.attached.device)
        return replace(self.best, attached=where, features=features, loss=loss, step=step)

    def refill(self, where: str, attached: Ints, features: Tensor, share: float) -> Tensor:
        """Move edges to where the outlook says: to targets at the ``border``, or ``hubs``."""
        self._fill(attached, self._dropped(attached, share), getattr(self.outlook, where))
        return features

    def to_where_it_pulls(self, attached: Ints, features: Tensor, share: float) -> Tensor:
        """Move edges to where the gradient of relaxed edges points."""
        if self.outlook.pull is None:
            return self.refill("border", attached, features, share)
        for node, slot in self._dropped(attached, share):
            taken = np.isin(self.outlook.pull[node], self.place[attached[attached >= 0]])
            best = self.outlook.pull[node][~taken][:CHOICE]
            if best.size:
                attached[node, slot] = self.targets[int(self.draw.choice(best))]
        return features

    def regroup(self, attached: Ints, features: Tensor, share: float) -> Tensor:
        """Exchange targets between injected nodes."""
        nodes, per_node = attached.shape
        for _ in range(max(1, round(share * attached.size / 2)) if nodes > 1 else 0):
            (one, other), (i, j) = self.draw.choice(nodes, 2, replace=False), self.draw.integers(per_node, size=2)
            first, second = attached[one, i], attached[other, j]
            if first not in attached[other] and second not in attached[one]:
                attached[one, i], attached[other, j] = second, first
        return features

    def detach(self, attached: Ints, features: Tensor, share: float) -> Tensor:
        """Take edges away: an injected node may have fewer than it could."""
        self._dropped(attached, share)
        return features

    def graft(self, attached: Ints, features: Tensor, share: float) -> Tensor:
        """Take injected nodes over from another source, with their edges."""
        other = self.sources[int(self.draw.integers(len(self.sources)))]
        nodes = self._nodes(share)
        attached[nodes] = other.attached.cpu().numpy()[nodes]
        features[nodes] = other.features[nodes]
        return features

    def copy(self, attached: Ints, features: Tensor, share: float) -> Tensor:
        """Copy the features of one injected node onto one other, a few, half or all of them."""
        number = len(features)
        others = self.draw.choice(number, int(self.draw.choice((1, max(1, number // 5), (number + 1) // 2, number))))
        features[others] = features[int(self.draw.integers(number))].clone()
        return features

    def imitate(self, attached: Ints, features: Tensor, share: float) -> Tensor:
        """Make injected nodes look like their targets."""
        nodes = self._nodes(share)
        features[nodes] = imitating(self.search, torch.from_numpy(attached).to(features.device))[nodes]
        return features

    def redraw(self, attached: Ints, features: Tensor, share: float) -> Tensor:
        """Begin again with some injected nodes."""
        nodes = self._nodes(share)
        features[nodes] = near_the_middle(self.search, 1000 + int(self.draw.integers(2**20)))[nodes]
        return features

    def corner(self, attached: Ints, features: Tensor, share: float) -> Tensor:
        """Move every feature to the nearer end of its range."""
        return cornered(self.search, features)

    def flip(self, attached: Ints, features: Tensor, share: float) -> Tensor:
        """Flip the binary features of each injected node that promise the most by their gradient."""
        bits = self.search.domain.project(features)
        promise = (self.outlook.slope * (1 - 2 * bits)).masked_fill(~self.binary, -torch.inf)
        chosen = promise.topk(max(1, round(share * int(self.binary.sum()))), dim=1).indices
        return features.scatter(1, chosen, 1 - bits.gather(1, chosen))

    def steepest(self, attached: Ints, features: Tensor, share: float) -> Tensor:
        """Give injected nodes the binary features that raise the loss the most, by its gradient."""
        nodes, slope = self._nodes(share), self.outlook.slope
        largest = slope.amax(1, keepdim=True).clamp(min=torch.finfo(slope.dtype).tiny)
        bits = torch.where(slope > 0, 0.5 + 0.5 * slope / largest, 0.0)
        features[nodes] = torch.where(self.binary, bits, features)[nodes]
        return features

    def _nodes(self, share: float) -> Ints:
        """Return some of the injected nodes: one, or several times the share."""
        number = len(self.best.features)
        return self.draw.choice(number, min(number, max(1, round(5 * share * number))), replace=False)

    def _dropped(self, attached: Ints, share: float) -> Ints:
        """Take edges away, half of the time those that help least, and return all free slots: ``(S, 2)``."""
        there = np.argwhere(attached >= 0)
        number = min(len(there), max(1, round(share * attached.size)))
        if self.outlook.help is not None and self.draw.random() < 0.5 and number:
            help = self.outlook.help[tuple(there.T)]
            noise = NOISE * np.abs(help).mean() * self.draw.gumbel(size=help.size)
            gone = there[(help + noise).argsort(kind="stable")[:number]]
        else:
            gone = there[self.draw.choice(len(there), number, replace=False)]
        attached[tuple(gone.T)] = -1
        return np.argwhere(attached < 0)

    def _fill(self, attached: Ints, slots: Ints, wanted: Ints) -> None:
        """Fill free slots ``(S, 2)`` with targets drawn from the first that are wanted, each by a node of its class."""
        taken = np.zeros(self.targets.size, dtype=bool)
        taken[self.place[attached[attached >= 0]]] = True
        best = wanted[~taken[wanted]] if not taken.all() else wanted
        best = best[: CHOICE * len(slots)]
        fresh = self.targets[self.draw.choice(best, min(len(slots), best.size), replace=False)]
        fresh = fresh[self.classes[fresh].argsort(kind="stable")]
        usual = np.array([np.bincount(self.classes[row[row >= 0]], minlength=1).argmax() for row in attached])
        order = usual[slots[:, 0]].argsort(kind="stable")[: fresh.size]
        for (node, slot), target in zip(slots[order], fresh, strict=True):
            if target not in attached[node]:
                attached[node, slot] = target
