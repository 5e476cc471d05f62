"""Define what every certificate is: a proof that bounds how many nodes any attack of a threat model can change.

To write a certificate, subclass :class:`Certificate` and return from :meth:`Certificate.bound` a function from a threat
model to a :class:`Bound`. The base class turns it into a :class:`Floor`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks.budget import ThreatModel
from fgai_bench.attacks.objectives import margins
from fgai_bench.certificates.catalogue import CERTIFICATES
from fgai_bench.certificates.ranking import Pairs, lost_pairs
from fgai_bench.data.dataset import score_of
from fgai_bench.metrics import NotApplicable, certified_explanations, certified_f1, certified_roc_auc
from fgai_bench.metrics.prediction import area_under_curve, won_pairs
from fgai_bench.models.base import AttentionModel, Output, frozen_eval

ROUNDING = 1e-4  # a prediction whose logit leads by less, relative to the largest, may turn by rounding alone


class Bound(NamedTuple):
    """Upper bounds that hold for every attack inside one threat model: how many of the targets it can change.

    A graph that ROC-AUC ranks needs ``changed``; it is None where the proof does not say.
    """

    lost: int  # of those that are classified correctly, how many can be misclassified
    moved: int  # how many can have another explanation (the attention into them)
    changed: int | None = None  # how many can have another output at all


@dataclass(frozen=True)
class Question:
    """One trained network on one graph, as a proof sees it."""

    model: AttentionModel  # trained, in evaluation mode
    data: Data  # the clean graph
    targets: Tensor  # (T,) the nodes that are scored and that an attacker may attach to
    correct: Tensor  # (T,) boolean, which of them are classified correctly, by more than rounding
    output: Output  # of the network, on the clean graph


@dataclass(frozen=True)
class Floor:
    """What provably remains under every attack inside a threat model.

    Attributes:
        kind: name of the certificate.
        targets: how many nodes are scored.
        correct: how many of them are classified correctly without an attack.
        lost: how many of those an attack can turn, at most; near-ties are counted as lost.
        moved: how many targets can have another explanation, at most.
        threat: the threat model.
        pairs: of positive and negative targets, where ROC-AUC ranks the graph; else None.
    """

    kind: str
    targets: int
    correct: int
    lost: int
    moved: int
    threat: ThreatModel
    pairs: Pairs | None = None

    @property
    def score(self) -> float:
        """Return what stays of the score under every attack: of micro F1, or of ROC-AUC where that ranks the graph."""
        if self.pairs is not None:
            return certified_roc_auc(*self.pairs)
        return certified_f1(self.targets, self.correct, self.lost, self.moved)

    @property
    def explanation(self) -> float:
        """Return the share of the targets whose attention stays as it was under every attack.

        It is also a lower bound of their mean top-k overlap, since no overlap is negative.
        """
        return certified_explanations(self.targets, self.correct, self.lost, self.moved)

    @property
    def clean(self) -> float:
        """Return the score without an attack."""
        return self.correct / self.targets if self.pairs is None else self.pairs.won / self.pairs.number


class Certificate:
    """The base class of certificates.

    A certificate checks the conditions of its proof on the given network and graph, and raises
    :class:`fgai_bench.metrics.NotApplicable` with the reason where one of them does not hold.

    ``summary``, ``paper`` and ``version`` are what ``fgai-bench ls`` shows; ``version`` changes when floors change.
    """

    summary: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    version: ClassVar[str] = "1"
    tags: ClassVar[tuple[str, ...]] = ()
    entry_methods: ClassVar[tuple[str, ...]] = ("bound",)  # of which an entry implements one

    def bound(self, question: Question) -> Callable[[ThreatModel], Bound]:
        """Return the bounds as a function of the threat model, or raise ``NotApplicable``.

        Both must be 0 for an attacker without a budget and must not fall when a budget grows.
        """
        raise TypeError(f"{type(self).__name__} must implement bound(question)")

    def __call__(self, model: AttentionModel, data: Data, targets: Tensor, *, threat: ThreatModel) -> Floor:
        """Return the floor of one threat model."""
        return self.floors(model, data, targets, [threat])[0]

    def floors(self, model: AttentionModel, data: Data, targets: Tensor, threats: Iterable[ThreatModel]) -> list[Floor]:
        """Return the floors of several threat models, on the same network, graph and targets ``(T,)``."""
        by_pairs = score_of(data) == "roc_auc"
        name = CERTIFICATES.name_of(type(self))
        with frozen_eval(model), torch.no_grad():
            output = model(data)
            y, logits = data.y[targets], output.logits[targets]
            right = logits.argmax(1) == y
            certain = right & (margins(logits, y.clamp(min=0)) > ROUNDING * logits.abs().amax(1).clamp(min=1e-30))
            proven = self.bound(Question(model, data, targets, certain, output))
            correct = int(right.sum())
            unsure = correct - int(certain.sum())
            floors = []
            for threat in threats:
                lost, moved, changed = proven(threat)
                doubtful = unsure if any(threat.limits().values()) else 0
                pairs = _pairs(logits, y, changed) if by_pairs else None
                floors.append(Floor(name, targets.numel(), correct, lost + doubtful, moved, threat, pairs))
        return floors


def best_floor(
    model: AttentionModel, data: Data, targets: Tensor, threat: ThreatModel, names: Iterable[str] | None = None
) -> Floor:
    """Return the highest floor that one of the certificates proves, of those with ``names`` if there are any.

    Raise ``NotApplicable`` with their reasons if none applies.
    """
    floors, reasons = [], []
    for name in CERTIFICATES if names is None else names:
        try:
            floors.append(CERTIFICATES[name]()(model, data, targets, threat=threat))
        except NotApplicable as reason:
            reasons.append(f"{name}: {reason}")
    if not floors:
        raise NotApplicable("; ".join(reasons))
    return max(floors, key=lambda floor: (floor.score, floor.explanation))


def _pairs(logits: Tensor, y: Tensor, changed: int | None) -> Pairs:
    """Return the pairs of the targets, and how many are lost if so many targets change: ``(T, C), (T,)``."""
    if changed is None:
        raise NotApplicable("it counts right predictions, and this graph is ranked by ROC-AUC")
    positive = y == 1
    number = int(positive.sum()) * int((~positive).sum())
    if not number:
        raise NotApplicable("the targets have one class only, so there is no ROC-AUC")
    lead = (logits[:, 1] - logits[:, 0]).double()
    won = float(area_under_curve(lead[positive], lead[~positive])) * number
    if not changed:
        return Pairs(number, won, 0.0)
    certain = won_pairs(lead, positive, ROUNDING * logits.abs().amax(1).double())
    return Pairs(number, won, won - int(certain[0].sum()) + lost_pairs(*certain, changed))
