"""Certificates that break one property each: a bound that is sound but loose, with one defect."""

from __future__ import annotations

import torch

from fgai_bench.certificates import Bound, Certificate


class Honest(Certificate):
    """Whoever may change anything may change everything."""

    def bound(self, question):
        targets = question.targets.numel()
        return lambda threat: Bound(targets, targets) if threat.nodes else Bound(0, 0)


class LosesWithoutABudget(Honest):
    def bound(self, question):
        return lambda threat: Bound(1, 1)


class RisesWithTheBudget(Honest):
    def bound(self, question):
        targets = question.targets.numel()
        return lambda threat: Bound(max(targets - threat.nodes, 0) if threat.nodes else 0, 0)


class BelievesInEveryNetwork(Honest):
    """What is attached to is lost, and nothing beyond: true of one hop, and of no GAT with two."""

    def bound(self, question):
        return lambda threat: Bound(0, 0)


class Drawing(Honest):
    def bound(self, question):
        torch.rand(1)
        return super().bound(question)


VIOLATORS = [
    ("check_no_budget_no_loss", LosesWithoutABudget),
    ("check_monotone_in_the_budget", RisesWithTheBudget),
    ("check_no_attack_goes_below", BelievesInEveryNetwork),
    ("check_no_side_effects", Drawing),
]
