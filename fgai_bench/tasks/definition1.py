r"""Audit Definition 1: on which share of the nodes is a defended attention faithful, and for which constants?

For a node i of the graph, with ``w`` and ``y`` the vanilla attention and output distribution, ``w~`` and ``y~`` the
defended ones:

========  ==================================================================  ==========================================
beta_1    :math:`V_{k_1}(\tilde w_i, w_i)`                                    similarity of the explanation
beta_2    :math:`\min_\rho V_{k_2}(\tilde w_i, \tilde w_i^{\rho})`            its stability, over :math:`|\rho| \le R`
alpha_1   :math:`D(\tilde y_i, y_i)`                                          closeness of the prediction
alpha_2   :math:`\max_\delta D(\tilde y_i, \tilde y_i^{\delta})`              its stability, over :math:`|\delta| \le R`
========  ==================================================================  ==========================================

D is the total variation distance of two output distributions. The perturbation is added to the scores of the last layer
before the softmax, each entry by at most R: the perturbed attention is a distribution again, which ``w~ + rho`` is not.
An added self-loop has a score, too, but is no edge that a top-k could choose.

The score of an edge acts on its destination only, so the edges of different nodes are separate coordinates, and one
search that climbs the sum over the nodes climbs for each node by itself; each node keeps the worst that it has met.
The results are one-sided bounds: a stronger search may find a larger alpha_2 or a smaller beta_2. For a last
layer of one head beta_2 is exact, since lowering the scores of the top-k and raising all others is the worst there is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from pydantic import Field, field_validator
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.losses import topk_surrogate
from fgai_bench.metrics.base import NotApplicable
from fgai_bench.metrics.inputs import attention_of
from fgai_bench.metrics.topk import group_topk_mask
from fgai_bench.models.base import AttentionModel, Output, frozen_eval
from fgai_bench.options import Options

QUANTILES = (0, 5, 25, 50, 75, 95, 100)  # percent of the nodes
ALPHAS, BETAS = (0.05, 0.1, 0.2, 0.5), (0.5, 0.75, 0.9, 1.0)


class AuditOptions(Options):
    """The constants of Definition 1 that an audit uses, and the effort of its search."""

    radii: tuple[float, ...] = (0.1, 0.25, 0.5, 1.0, 2.0)  # R, in units of a score before the softmax, ascending
    k1: float = Field(0.5, gt=0, le=1)  # share of each node's in-edges in a top-k, rounded down, at least one edge
    k2: float = Field(0.5, gt=0, le=1)  # likewise
    steps: int = Field(20, ge=1, le=1_000_000)  # of each ascent

    @field_validator("radii")
    @classmethod
    def _ascend(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if not value or min(value) <= 0 or list(value) != sorted(set(value)):
            raise ValueError(f"radii are positive and ascending, at least one, not {list(value)}")
        return value


@dataclass(frozen=True)
class Audit:
    """The result of an audit, for the D nodes that have an in-edge."""

    radii: tuple[float, ...]  # the R that were tried
    nodes: Tensor  # (D,)
    beta_1: Tensor  # (D,)
    alpha_1: Tensor  # (D,)
    beta_2: Tensor  # (R, D) the worst found within each radius
    alpha_2: Tensor  # (R, D) likewise

    def holds(self, alpha: float, beta: float) -> tuple[float, ...]:
        """Return the share of the nodes on which all four conditions hold, for each radius.

        ``beta_1 >= beta``, ``beta_2 >= beta``, ``alpha_1 <= alpha`` and ``alpha_2 <= alpha``: one alpha and one beta
        that serve both conditions, which is stricter than the smaller alpha and the larger beta of the two.
        """
        of_vanilla = (self.beta_1 >= beta) & (self.alpha_1 <= alpha)  # (D,)
        held = of_vanilla & (self.beta_2 >= beta) & (self.alpha_2 <= alpha)  # (R, D)
        return tuple(held.double().mean(1).tolist())

    def metrics(self) -> dict[str, float]:
        """Return mean and quantiles over the nodes of beta_1 and alpha_1, which do not depend on R."""
        return {
            f"{name}_{statistic}": value
            for name in ("beta_1", "alpha_1")
            for statistic, value in summary(getattr(self, name)).items()
        }

    def curves(self) -> dict[str, tuple[tuple[float, ...], tuple[float, ...]]]:
        """Return over R mean and quantiles of beta_2 and alpha_2, and the share of nodes where the Definition holds."""
        curves: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {}
        for name in ("beta_2", "alpha_2"):
            rows = [summary(row) for row in getattr(self, name)]
            curves |= {f"{name}_{key}": (self.radii, tuple(row[key] for row in rows)) for key in rows[0]}
        shares = {f"holds_alpha{a:g}_beta{b:g}": self.holds(a, b) for a in ALPHAS for b in BETAS}
        return curves | {name: (self.radii, share) for name, share in shares.items()}


def summary(values: Tensor) -> dict[str, float]:
    """Return mean and quantiles: ``(D,)`` to ``mean``, ``q0`` (the smallest), ..., ``q100``.

    >>> summary(torch.tensor([0.0, 1.0]))["mean"], summary(torch.tensor([0.0, 1.0]))["q100"]
    (0.5, 1.0)
    """
    exact = values.double()
    # Order statistics, not interpolated: a quantile is the value of a node.
    place = torch.tensor(QUANTILES, device=values.device).mul(exact.numel() - 1).div(100).round().long()
    ordered = exact.sort().values[place].tolist()
    return {"mean": exact.mean().item(), **{f"q{q}": v for q, v in zip(QUANTILES, ordered, strict=True)}}


def audit(vanilla: AttentionModel, defended: AttentionModel, data: Data, options: AuditOptions | None = None) -> Audit:
    """Audit one pair of models on one graph, without randomness; a model given twice is audited against itself."""
    options = options or AuditOptions()
    with frozen_eval(vanilla), frozen_eval(defended):
        scene = _Scene(defended, data, options)
        with torch.no_grad():
            reference = scene.out if vanilla is defended else vanilla(data)
        beta_1 = scene.overlap(_graph_weights(reference), scene.weights, options.k1)
        alpha_1 = distances(scene.y, reference.logits.softmax(1))
        beta_2, alpha_2 = scene.over_radii()
    at = torch.bincount(scene.groups, minlength=alpha_1.numel()).nonzero().flatten()
    return Audit(options.radii, at, beta_1[at], alpha_1[at], beta_2[:, at], alpha_2[:, at])


def distances(y: Tensor, y_tilde: Tensor) -> Tensor:
    """Return the total variation distance per node, in [0, 1]: ``(N, C), (N, C) -> (N,)``.

    >>> distances(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.25, 0.75]]))
    tensor([0.7500])
    """
    return 0.5 * (y - y_tilde).abs().sum(1)


@dataclass(frozen=True)
class _Worst:
    """The worst value that each node has met ``(N,)``, and the shifts of its in-edges that gave it ``(E + added,)``."""

    value: Tensor
    shift: Tensor

    def updated(self, value: Tensor, shift: Tensor, destination: Tensor) -> _Worst:
        """Return the worst of this and of another value of each node, with the shift that gave it."""
        worse = value > self.value
        return _Worst(torch.where(worse, value, self.value), torch.where(worse[destination], shift, self.shift))


class _Scene:
    """A model on a graph, embedded once, whose last scores are shifted many times."""

    def __init__(self, model: AttentionModel, data: Data, options: AuditOptions) -> None:
        self.model, self.data, self.options = model, data, options
        with torch.no_grad():
            self.embedded = model.embed(data.x)
            self.out = model.propagate(self.embedded, data.edge_index)
        self.y, self.weights = self.out.logits.softmax(1), _graph_weights(self.out)
        self.destination = attention_of(self.out).edge_index[1]
        self.groups = self.destination[: self.weights.numel()]

    def over_radii(self) -> tuple[Tensor, Tensor]:
        """Return beta_2 and alpha_2 for every radius: ``(R, N), (R, N)``; larger radii keep results of smaller ones.

        An output distribution can be moved to either side of its predicted class, and an ascent of the distance alone
        stays on the side it starts from; so both sides are climbed first, and the distance from the better one.
        """
        nothing = _Worst(torch.zeros_like(self.y[:, 0]), torch.zeros_like(self.destination, dtype=self.y.dtype))
        forgotten = moved = nothing
        results: list[tuple[Tensor, Tensor]] = []
        for radius in self.options.radii:
            forgotten = self._climb(self._corner(radius), radius, forgotten, self._forget_topk)
            for way in (-1, 1):
                moved = self._climb(nothing.shift, radius, moved, partial(self._move_prediction, way))
            moved = self._climb(moved.shift, radius, moved, self._move_output)
            results.append((1 - forgotten.value, moved.value))
        return torch.stack([beta for beta, _ in results]), torch.stack([alpha for _, alpha in results])

    def overlap(self, w: Tensor, w_tilde: Tensor, share: float) -> Tensor:
        """Return V_k of each node: ``(E,), (E,) -> (N,)``; 1 for a node without an in-edge."""
        top, top_tilde = (group_topk_mask(weight, self.groups, share) for weight in (w, w_tilde))
        chosen = (self.groups[mask] for mask in (top & top_tilde, top))
        kept, counts = (torch.bincount(nodes, minlength=self.y.size(0)) for nodes in chosen)
        return torch.where(counts > 0, kept / counts.clamp(min=1), 1.0)

    def _corner(self, radius: float) -> Tensor:
        """Return the shift that lowers the top-k and raises all others by the whole radius: ``(E + added,)``."""
        top = group_topk_mask(self.weights, self.groups, self.options.k2)
        shift = torch.full_like(self.destination, radius, dtype=self.y.dtype)
        shift[: top.numel()][top] = -radius
        return shift

    def _forget_topk(self, out: Output) -> tuple[Tensor, Tensor]:
        """Return the share of the top-k that each node loses ``(N,)``, and the surrogate to ascend."""
        weights = _graph_weights(out)
        lost = 1 - self.overlap(self.weights, weights.detach(), self.options.k2)
        return lost, topk_surrogate(self.weights, weights, self.options.k2, self.groups)

    def _move_output(self, out: Output) -> tuple[Tensor, Tensor]:
        """Return how far the output of each node moves ``(N,)``, and the sum over the nodes, to ascend."""
        moved = distances(self.y, out.logits.softmax(1))
        return moved.detach(), moved.sum()

    def _move_prediction(self, way: int, out: Output) -> tuple[Tensor, Tensor]:
        """Return how far the output of each node moves ``(N,)``, and the likelihood of the predictions, to ascend.

        With the ``way`` -1 it is the likelihood with its sign changed, to move the output away from the predictions.
        """
        likelihood = out.logits.log_softmax(1).gather(1, self.y.argmax(1, keepdim=True)).sum()
        return self._move_output(out)[0], way * likelihood

    def _climb(
        self, start: Tensor, radius: float, worst: _Worst, look: Callable[[Output], tuple[Tensor, Tensor]]
    ) -> _Worst:
        """Return the worst values met by a sign ascent in the box ``|shift| <= radius``, for each node separately."""
        steps, shift = self.options.steps, start
        shifted = self.model.shifting(self.out, self.embedded, self.data.edge_index)
        for _ in range(steps):
            shift = shift.detach().requires_grad_(True)
            values, objective = look(shifted(shift))
            worst = worst.updated(values, shift.detach(), self.destination)
            (gradient,) = torch.autograd.grad(objective, shift)
            shift = (shift.detach() + 2.5 * radius / steps * gradient.sign()).clamp(-radius, radius)
        with torch.no_grad():
            values, _ = look(shifted(shift))
        return worst.updated(values, shift, self.destination)


def _graph_weights(out: Output) -> Tensor:
    """Return the attention on the graph's own edges, in their order: ``(E,)``."""
    weights = attention_of(out, "the model has no attention that Definition 1 could be about").of_graph().weight
    if not weights.numel():
        raise NotApplicable("the graph has no edges that attention could choose between")
    return weights
