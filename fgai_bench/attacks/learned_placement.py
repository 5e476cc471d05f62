"""Injection that re-places its edges by trial and error: for networks that weigh their neighbours evenly.

The standard attack looks for nodes that flip many targets at once. A network such as a GCN has none: an edge flips its
own target, and those neighbours of the target that are close to the decision border. Which targets these are can only
be found by trying. This attack tries, learns which targets flipped, and places its edges again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit
from torch import Tensor

from fgai_bench.attacks.base import Attack, Candidate, Trace, Victim
from fgai_bench.attacks.budget import ThreatModel
from fgai_bench.attacks.injection import RandomInjection
from fgai_bench.attacks.search import PortfolioMember, PortfolioSearch, near_the_middle

Averaging = Literal["symmetric", "mean"]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STARTS: tuple[tuple[Averaging, float, str], ...] = (  # averaging, share of targets within reach, and what is raised
    ("symmetric", 0.5, "margin"),
    ("symmetric", 0.1, "soft-error"),
    ("mean", 0.25, "soft-error"),
)
FIRST_ROUNDS, MORE_ROUNDS = 6, 8  # rounds of every start, and further ones of the best
ROUND_STEPS, LAST_STEPS = 40, 200  # gradients of a round, and of the end
FIRST_STEP, NEXT_STEP, LAST_STEP = 0.1, 0.08, 0.05  # as shares of the feature range
SHARPNESS = 4.0  # how suddenly a target falls while the push on it grows
STRENGTH_ROUNDS = 2  # rounds after which the strength is known
NEED_OF_FALLEN, NEED_OF_STANDING = 0.7, 1.2  # need that is assumed of a tried target, as a share of its push
LEAST_ANSWER = 0.2  # smallest share of its margin that a pushed target is taken to have lost


@dataclass
class Response:
    r"""A model of which targets flip when edges are attached, learned from trials.

    An edge to target u pushes u itself and its neighbours v, the less the more neighbours share the message:

    .. math:: a_{uv} = 1 / d_u, \qquad a_{uu} = 1 / (b + 1) + 1 / d_u \text{ or } 1, \qquad
              P(v \text{ falls}) = \sigma\left(4 \ln \frac{\kappa \sum_u a_{uv}}{f_v n_v}\right)

    with :math:`d` the degrees with the loop and b the edges of an injected node. Target v needs :math:`n_v`, its margin
    times :math:`\sqrt{d_v}` (``symmetric``, the averaging of a GCN) or :math:`d_v` (``mean``). The strength
    :math:`\kappa` and a factor :math:`f_v` for every target that was tried are learned.
    """

    margin: Floats  # (T,) by how much each target is predicted rightly, unattacked
    source: Ints  # (P,) the u of all pairs, ascending
    destination: Ints  # (P,) their v
    push: Floats  # (P,) their a_uv
    need: Floats  # (T,) n_v
    strength: float  # kappa
    factor: Floats = field(init=False)  # (T,) f_v

    def __post_init__(self) -> None:
        size = np.arange(self.margin.size + 1)
        self.factor = np.ones_like(self.margin)
        self._begins = np.searchsorted(self.source, size)
        self._by_destination = np.lexsort((self.source, self.destination))
        self._enters = np.searchsorted(self.destination[self._by_destination], size)

    @classmethod
    def of(cls, victim: Victim, margin: Tensor, per_node: int, averaging: Averaging, share: float) -> Response:
        """Return a first guess: so strong that an edge to every target flips this share of them."""
        targets, size = victim.targets, victim.data.x.shape[0]
        place = torch.full((size,), -1, device=targets.device).index_copy_(
            0, targets, torch.arange(targets.numel(), device=targets.device)
        )
        source, destination = place[victim.data.edge_index].cpu().numpy()
        inside = (source >= 0) & (destination >= 0) & (source != destination)
        itself = np.arange(targets.numel())
        source, destination = (np.concatenate([ends[inside], itself]) for ends in (source, destination))
        order = np.lexsort((destination, source))
        source, destination = source[order], destination[order]
        degree = torch.bincount(victim.data.edge_index[1], minlength=size)[targets].double().cpu().numpy() + 1
        own = 1 / (per_node + 1) + 1 / degree if averaging == "symmetric" else np.ones_like(degree)
        push = np.where(source == destination, own[destination], 1 / degree[source])
        values = margin.double().cpu().numpy()
        need = values.clip(min=1e-12) * (np.sqrt(degree) if averaging == "symmetric" else degree)
        cost = np.sort((need / own)[values > 0])
        strength = float(cost[min(int(share * values.size), cost.size - 1)]) if cost.size else 1.0
        return cls(values, source, destination, push, need, strength)

    def falls(self, push: Floats, targets: Ints | slice = slice(None)) -> Floats:
        """Return how likely targets are to fall under a push; 0 for those that are wrong already."""
        with np.errstate(divide="ignore"):
            ratio = np.log(push) - np.log(self.factor[targets] * self.need[targets] / self.strength)
        return np.where(self.margin[targets] > 0, expit(SHARPNESS * ratio), 0.0)

    def placed(self, number: int) -> Ints:
        """Return so many different targets to which edges make the most targets fall, by this response (greedy)."""
        from fgai_bench.models.kernels.numba_loops import greedy_loop

        needed = np.where(self.margin > 0, self.factor * self.need / self.strength, np.inf)
        gains = self.falls(self.push, self.destination)  # (P,) of every pair, as things stand
        gain = np.bincount(self.source, weights=gains, minlength=self.margin.size)
        chosen = np.empty(number, dtype=np.int64)
        pairs = self.source, self.destination, self.push
        greedy_loop(*pairs, self._begins, self._by_destination, self._enters, needed, SHARPNESS, gains, gain, chosen)
        return chosen

    def learn(self, chosen: Ints, left: Tensor, settled: bool) -> None:
        """Learn from the margins under edges to these targets; the strength too, unless it is settled."""
        margin = left.double().cpu().numpy()
        attached = np.zeros_like(self.margin)
        attached[chosen] = 1.0
        pushed = np.bincount(self.destination, weights=self.push * attached[self.source], minlength=attached.size)
        near = (pushed > 0) & (self.margin > 0)
        fell, stood = near & (margin <= 0), near & (margin > 0)
        if not settled:
            self.strength = _strength(pushed[near] / self.need[near], int(fell.sum()), self.strength)
        known = self.strength * pushed / self.need
        self.factor[fell] = np.minimum(1.0, NEED_OF_FALLEN * known[fell])
        answer = ((self.margin - margin)[stood] / self.margin[stood]).clip(min=LEAST_ANSWER)
        self.factor[stood] = np.maximum(1.0, NEED_OF_STANDING * known[stood] / answer)


def _strength(ratio: Floats, fell: int, before: float) -> float:
    """Return the strength at which the expected number of flipped targets is the number that flipped."""
    if not 0 < fell < ratio.size:
        return before * (2.0 if fell else 0.5)
    logs = np.log(ratio)

    def excess(strength: float) -> float:
        return float(expit(SHARPNESS * (logs + strength)).sum()) - fell

    return float(np.exp(brentq(excess, -logs.max() - 20, -logs.min() + 20)))


class LearnedPlacement(Attack):
    """Rounds of placing edges by a response, raising the loss over features, and learning which targets flipped.

    Three guesses of the response are tried; the best of them goes on and ends with a longer ascent. Targets of one
    class share an injected node. It is made for even networks, and complements the standard attack; it takes about half
    as many gradients, the same for every model.
    """

    summary = "injected nodes whose edges go where they were seen to turn targets and their neighbours"
    version = "2"
    tags: ClassVar[tuple[str, ...]] = ("injection", "gradient", "prediction", "fixed-search")

    def search(self, victim: Victim, threat: ThreatModel, seed: int | None) -> Candidate:
        if not threat.nodes or not min(threat.edges_per_node, victim.targets.numel()):
            return RandomInjection().search(victim, threat, seed)
        search = PortfolioSearch(victim, threat, seed)
        member = learned_member(search, FIRST_ROUNDS, MORE_ROUNDS, LAST_STEPS)
        if member is None:
            raise ValueError(
                f"learned-placement turns one prediction of each target, and the readout gives "
                f"{victim.read(search.clean).size(0)} for {victim.targets.numel()} targets; worst takes any readout"
            )
        return search.candidate(member, Trace(search.calls, tuple(search.curve), search.doubts))


def learned_member(search: PortfolioSearch, first: int, more: int, last: int) -> PortfolioMember | None:
    """Return the best attack that learned placements give; None where a target has not one prediction.

    Each guess of the response gets ``first`` rounds, the best of them ``more``, and its end ``last`` gradients.
    """
    logits, targets = search.victim.read(search.clean), search.victim.targets
    if logits.size(0) != targets.numel():
        return None
    margin = search.margins(logits)
    per_node = min(search.threat.edges_per_node, targets.numel())
    trials = []
    for averaging, share, loss in STARTS:
        response = Response.of(search.victim, margin, per_node, averaging, share)
        nowhere = PortfolioMember(targets[:0], loss, FIRST_STEP, near_the_middle(search, 0))
        trials.append(PlacementTrial(search, response, nowhere))
    for _ in range(first):
        play(search, trials)
    best = min(trials, key=lambda trial: trial.best.score)
    for _ in range(more):
        play(search, [best])
    ended = search.climb(replace(best.best, step=LAST_STEP), last) if last else best.best
    return min(best.best, ended, key=lambda member: member.score)


def play(search: PortfolioSearch, trials: Sequence[PlacementTrial]) -> None:
    """Place, climb side by side, and learn."""
    placed = [trial.placed() for trial in trials]
    climbed = search.climb_all([member for _, member in placed], ROUND_STEPS)
    for trial, (chosen, _), member in zip(trials, placed, climbed, strict=True):
        trial.learn(chosen, member)


@dataclass
class PlacementTrial:
    """A response that is being learned, and the strongest member so far, which has no edges at first."""

    search: PortfolioSearch
    response: Response
    best: PortfolioMember
    rounds: int = 0

    def placed(self) -> tuple[Ints, PortfolioMember]:
        """Return the targets that the response chooses, and the best member with its edges there."""
        targets, threat = self.search.victim.targets, self.search.threat
        per_node = min(threat.edges_per_node, targets.numel())
        chosen = self.response.placed(min(threat.nodes * per_node, targets.numel()))
        attached = targets[self._shared_out(chosen, threat.nodes, per_node)]
        return chosen, replace(self.best, attached=attached, step=NEXT_STEP if self.rounds else FIRST_STEP)

    def learn(self, chosen: Ints, member: PortfolioMember) -> None:
        """Learn from a member with edges to these targets, and keep it if it is the strongest."""
        with torch.no_grad():
            logits = self.search.victim.read(self.search.scene(member.attached).output(member.features))
        self.response.learn(chosen, self.search.margins(logits), self.rounds >= STRENGTH_ROUNDS)
        self.best = min(self.best, member, key=lambda member: member.score)
        self.rounds += 1

    def _shared_out(self, chosen: Ints, nodes: int, per_node: int) -> Tensor:
        """Return the target of each edge, ``(nodes, per_node)``: those of one class share a node, few repeat."""
        order = torch.from_numpy(chosen).to(self.search.truth.device)
        order = order[self.search.truth[order].argsort(stable=True)]
        return order[torch.arange(nodes * per_node, device=order.device) % order.numel()].view(nodes, per_node)
