"""Check certificates: equal to clean without a budget, monotone, and below every registered attack."""

import copy
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property

import torch
from torch_geometric.data import Data

from fgai_bench.attacks import ATTACKS, ThreatModel
from fgai_bench.attacks.catalogue import scenario_of
from fgai_bench.certificates import Floor
from fgai_bench.defenses import DEFENSES, Training
from fgai_bench.metrics import NotApplicable
from fgai_bench.models import AttentionModel
from fgai_bench.models.base import frozen_eval
from fgai_bench.testing.checks import CheckSkipped, EntrySubject, require
from fgai_bench.testing.fixture import tiny_model, tiny_problem, trained_model
from fgai_bench.testing.traces import disturbed, no_trace_on

BUDGETS = [ThreatModel(nodes=nodes, edges_per_node=2) for nodes in range(5)]
TRIED = [name for name in ATTACKS if "fixed-search" not in ATTACKS.entry(name).tags]  # a long search takes minutes


@dataclass(frozen=True)
class CertificateSubject(EntrySubject):
    """A certificate to be checked on the tiny graph, on every network of ours to which it applies."""

    def floors(self, model: AttentionModel, threats: list[ThreatModel]) -> list[Floor]:
        problem = tiny_problem()
        return self.entry.load()().floors(model, problem.data, problem.targets, threats)

    @cached_property
    def known(self) -> dict[str, list[Floor]]:
        """Return the floors of growing budgets by the name of the network, where there is a proof."""
        floors = {}
        for name, model in _networks().items():
            with suppress(NotApplicable):
                floors[name] = self.floors(model, BUDGETS)
        if not floors:
            raise CheckSkipped("it applies to none of the networks that are tried")
        return floors


subject = CertificateSubject


def check_no_budget_no_loss(subject: CertificateSubject) -> None:
    """An attacker who may do nothing takes nothing: the floor is the clean score, and all explanations stay."""
    for name, floors in subject.known.items():
        clean = _score(_networks()[name], tiny_problem().data)
        require(floors[0].score == clean, f"{name}: the floor without a budget is {floors[0].score}, not clean")
        require(floors[0].explanation == 1, f"{name}: without a budget only {floors[0].explanation} of them stay")


def check_monotone_in_the_budget(subject: CertificateSubject) -> None:
    """A larger budget never has a higher floor."""
    for name, floors in subject.known.items():
        scores = [floor.score for floor in floors]
        stays = [floor.explanation for floor in floors]
        require(scores == sorted(scores, reverse=True), f"{name}: the floors of growing budgets are {scores}")
        require(stays == sorted(stays, reverse=True), f"{name}: the shares of explanations that stay are {stays}")


def check_no_attack_goes_below(subject: CertificateSubject) -> None:
    """No attack that takes moments leaves less than the floor of its threat model."""
    problem, networks = tiny_problem(), _networks()
    for name in subject.known:
        for attack in TRIED:
            threat = ThreatModel(scenario=scenario_of(attack), nodes=2, edges_per_node=2, edges=2, steps=5, step=0.5)
            if "attention" in ATTACKS.entry(attack).tags and networks[name](problem.data).attention is None:
                continue
            try:
                (floor,) = subject.floors(networks[name], [threat])
            except NotApplicable:
                continue
            attacked = ATTACKS[attack]()(networks[name], problem.data, problem.targets, threat=threat, seed=0)
            left = _score(networks[name], attacked.data)
            require(left >= floor.score, f"{attack} leaves {left:.3f} of {name}, below the floor {floor.score:.3f}")


def check_no_side_effects(subject: CertificateSubject) -> None:
    """The network, its modes and gradients, the graph and the global random state stay as they were."""
    model, data = disturbed(copy.deepcopy(_networks()[next(iter(subject.known))])), tiny_problem().data
    with no_trace_on(model, data):
        subject.floors(model, BUDGETS[:2])


@cache
def _networks() -> dict[str, AttentionModel]:
    """Return trained networks of no, one and two layers, and one that votes, by name."""
    problem, training = tiny_problem(), Training(epochs=30, lr=0.05)
    plans = {"mlp": ("mlp", "vanilla"), "one-hop": ("gat-one-hop", "vanilla"), "votes": ("gat", "votes")}
    trained = {
        name: DEFENSES[defense]().fit(tiny_model(model), problem.training_data, problem.split, training=training)
        for name, (model, defense) in plans.items()
    }
    return {"gat": trained_model(), **trained}


def _score(model: AttentionModel, data: Data) -> float:
    problem = tiny_problem()
    with frozen_eval(model), torch.no_grad():
        predicted = model(data).logits[problem.targets].argmax(1)
    return int((predicted == problem.data.y[problem.targets]).sum()) / problem.targets.numel()
