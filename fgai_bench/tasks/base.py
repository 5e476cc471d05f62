"""Base class of tasks: what defenses learn from, what attacks aim at, and what is measured on one dataset and seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks import ATTACKS, Attack, Attacked, ThreatModel
from fgai_bench.attacks.objectives import Readout
from fgai_bench.defenses.training import InnerAttack, Supervision
from fgai_bench.models.base import AttentionModel, Output, frozen_eval
from fgai_bench.registry import checked_subclass
from fgai_bench.tasks.measurement import Measured, Offers, measured


@dataclass(frozen=True)
class BoundAttack:
    """An attack with its targets and budget, as a defense calls it: ``inner(model, data, seed)``."""

    attack: Attack
    targets: Tensor
    threat: ThreatModel
    readout: Readout | None

    @property
    def capturable(self) -> bool:
        """Tell whether the attack reads nothing back from the device while it searches; it then needs no seed."""
        return self.attack.capturable

    def maximising(self, objective: Callable[..., Tensor]) -> BoundAttack:
        """Return the attack with the same targets and budget for another objective (:mod:`.attacks.objectives`)."""
        return replace(self, attack=self.attack.maximising(objective))

    def __call__(self, model: AttentionModel, data: Data, seed: int | None) -> Attacked:
        return self.attack(model, data, self.targets, threat=self.threat, seed=seed, readout=self.readout)


class Problem:
    """One task on one dataset and seed.

    Tags: ``explained``, its predictions are of nodes, and explainers can be asked about them; ``inductive``,
    :meth:`prepare` takes ``inductive=True``, and training then sees no test nodes.
    """

    summary: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    version: ClassVar[str] = "1"
    tags: ClassVar[tuple[str, ...]] = ()
    cost: ClassVar[Mapping[str, float]] = {}  # for forecasts of memory: `outputs`, where they are not the classes
    task: ClassVar[str]
    data: Data  # the graph that the model sees, labels included; attacks start from it
    training_data: Data  # the same without the test labels or the test nodes; defenses get this one
    split: Any  # training, validation and test parts
    supervision: Supervision  # what a defense may learn from
    targets: Tensor  # (T,) nodes that the attacker's nodes are attached to
    readout: Any = None  # what of an output an attack tries to change; None for the targets' own logits
    num_outputs: int  # width of the model's logits
    provenance: dict[str, Any]  # dataset, checksum, split hash and counts, for the records

    @classmethod
    def prepare(cls, dataset: str, seed: int, root: Any = None, device: str = "cpu") -> Problem:
        """Load the dataset with the split of this seed onto ``device``."""
        raise TypeError(f"{cls.__name__} must implement prepare(dataset, seed, root, device)")

    @property
    def training_split(self) -> Any:
        """Return the split in the numbers of ``training_data``, which may have fewer nodes than the graph."""
        return self.split

    def to(self, device: str) -> Problem:
        """Return the same problem on another device; this one stays where it is."""
        raise TypeError(f"{type(self).__name__} must implement to(device)")

    def without_test(self) -> Problem:
        """Return the same problem as a search for settings may see it: no test part, validation in its place.

        Its ``targets`` and ``readout`` are those of the validation part, its split has no test part, and its graph
        carries neither labels nor indices of one.
        """
        raise TypeError(f"{type(self).__name__} must implement without_test()")

    def inner(self, options: dict[str, Any]) -> InnerAttack:
        """Return the attack of a defense's inner maximisation, on this problem's training side.

        Options: ``attack`` (default ``injection``), ``loss``, ``targets`` (``all`` nodes or the ``train`` part) and the
        fields of a threat model. It is a training setting: it says nothing about the budget of the evaluation.
        """
        settings = {"step": 0.05, **options}
        name, loss = settings.pop("attack", "injection"), settings.pop("loss", None)
        climbs = loss is not None and "gradient" in ATTACKS.entry(name).tags  # a control has nothing to maximise
        attack = ATTACKS[name](loss=loss) if climbs else ATTACKS[name]()  # type: ignore[call-arg]
        if (which := settings.pop("targets", "all")) not in ("all", "train"):
            raise ValueError(f"an inner attack aims at 'all' nodes or the 'train' {self.task}s, not at {which!r}")
        targets, readout = self.training_targets(which)
        return BoundAttack(attack, targets, ThreatModel(**settings), readout)

    def training_targets(self, which: str) -> tuple[Tensor, Readout | None]:
        """Return the nodes to attach to and what to break, using training labels or none at all."""
        raise TypeError(f"{type(self).__name__} must implement training_targets(which)")

    def clean_offers(self, model: AttentionModel, nulls: bool = False) -> Offers:
        """Offer what can be measured without an attack; with ``nulls``, also of rankings that know nothing."""
        raise TypeError(f"{type(self).__name__} must implement clean_offers(model)")

    def attack_offers(self, model: AttentionModel, attacked: Data) -> Offers:
        """Offer what can be measured on an attacked graph."""
        raise TypeError(f"{type(self).__name__} must implement attack_offers(model, attacked)")

    def clean(self, model: AttentionModel, sanity: bool = False) -> Measured:
        """Measure a model without an attack; with ``sanity``, also what rankings that know nothing would give."""
        return measured(self.clean_offers(model, sanity))

    def attacked(self, model: AttentionModel, attacked: Attacked) -> Measured:
        """Measure a model under an attack."""
        offers = self.attack_offers(model, attacked.data)
        if attacked.kept is not None:
            offers.add(kept=lambda: (attacked.kept,))
        return measured(offers)

    def output(self, model: AttentionModel, data: Data) -> Output:
        """Return the model's output in evaluation mode; the model is left as it was."""
        with frozen_eval(model), torch.no_grad():
            return model(data)


def admitted(obj: Any, name: str) -> Any:
    return checked_subclass(obj, Problem)
