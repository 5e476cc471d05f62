"""Attacks that break one property each: an attack of ours with one defect."""

from __future__ import annotations

import itertools
from dataclasses import replace

import torch
from torch_geometric.data import Data

from fgai_bench.attacks.explanation import ExplanationAttack
from fgai_bench.attacks.injection import InjectionAttack, RandomInjection

_count = itertools.count()


class Spendthrift(RandomInjection):
    """Injects one node even if it may not."""

    def __call__(self, model, data, targets, *, threat, **kwargs):
        more = threat.model_copy(update={"nodes": max(1, threat.nodes)})
        return super().__call__(model, data, targets, threat=more, **kwargs)


class OneTooMany(RandomInjection):
    def __call__(self, model, data, targets, *, threat, **kwargs):
        more = threat.model_copy(update={"nodes": threat.nodes + 1})
        return super().__call__(model, data, targets, threat=more, **kwargs)


class OutOfRange(RandomInjection):
    """Features below the range, and yet not larger in magnitude than it allows."""

    def __call__(self, model, data, targets, *, threat, **kwargs):
        mirrored = threat.model_copy(update={"feature_low": -threat.feature_high})
        return super().__call__(model, data, targets, threat=mirrored, **kwargs)


class OutOfDomain(RandomInjection):
    """Features anywhere in the range, whatever real rows are like."""

    def __call__(self, model, data, targets, *, threat, **kwargs):
        return super().__call__(model, data, targets, threat=threat.model_copy(update={"features": "range"}), **kwargs)


class AnyTarget(RandomInjection):
    """Attaches its nodes to the first nodes of the graph, whatever the targets."""

    def __call__(self, model, data, targets, **kwargs):
        return super().__call__(model, data, torch.arange(len(targets)), **kwargs)


class Reordered(RandomInjection):
    def __call__(self, *args, **kwargs):
        found = super().__call__(*args, **kwargs)
        found.data.edge_index = found.data.edge_index.flip(1)
        return found


class InPlace(RandomInjection):
    def __call__(self, model, data, targets, **kwargs):
        data.x += 1
        return super().__call__(model, data, targets, **kwargs)


class Unseeded(RandomInjection):
    def __call__(self, *args, seed=0, **kwargs):
        return super().__call__(*args, seed=next(_count), **kwargs)


class OneSeed(RandomInjection):
    def __call__(self, *args, seed=0, **kwargs):
        return super().__call__(*args, seed=0, **kwargs)


class Harmless(InjectionAttack):
    def __call__(self, model, data, targets, *, threat, **kwargs):
        none = threat.model_copy(update={"nodes": 0})
        return super().__call__(model, data, targets, threat=none, **kwargs)


class StrongAtFirst(ExplanationAttack):
    """Moves less attention the longer it searches."""

    def __call__(self, model, data, targets, *, threat, **kwargs):
        fewer = threat.model_copy(update={"nodes": 0 if threat.steps else threat.nodes})
        return super().__call__(model, data, targets, threat=fewer, **kwargs)


class Boasting(ExplanationAttack):
    def __call__(self, *args, **kwargs):
        return replace(super().__call__(*args, **kwargs), kept=0.123)


class Deaf(InjectionAttack):
    """Looks at the targets whatever it is told to look at."""

    def __call__(self, *args, readout=None, **kwargs):
        return super().__call__(*args, **kwargs)


class LeavesEvalMode(RandomInjection):
    def __call__(self, model, *args, **kwargs):
        return super().__call__(model.eval(), *args, **kwargs)


class AsItStands(RandomInjection):
    """A result that depends on the mode of the model."""

    def __call__(self, model, *args, seed=0, **kwargs):
        return super().__call__(model, *args, seed=seed + model.training, **kwargs)


class Drawing(RandomInjection):
    def __call__(self, *args, **kwargs):
        torch.rand(1)
        return super().__call__(*args, **kwargs)


class Uncounted(InjectionAttack):
    def __call__(self, *args, **kwargs):
        found = super().__call__(*args, **kwargs)
        return replace(found, ledger=replace(found.ledger, gradient_calls=1))


class Densifying(RandomInjection):
    def __call__(self, model, data, targets, **kwargs):
        dense = Data.from_dict({**data.to_dict(), "x": data.x.to_dense()})
        return super().__call__(model, dense, targets, **kwargs)


GRADIENT = ("injection", "gradient", "prediction")
EXPLANATION = ("injection", "gradient", "attention")
VIOLATORS = [
    ("check_limits_hold", Spendthrift, ("injection",)),
    ("check_limits_hold", OneTooMany, ("injection",)),
    ("check_limits_hold", OutOfRange, ("injection",)),
    ("check_in_domain", OutOfDomain, ("injection",)),
    ("check_limits_hold", AnyTarget, ("injection",)),
    ("check_limits_hold", Reordered, ("injection",)),
    ("check_no_side_effects", InPlace, ("injection",)),
    ("check_no_side_effects", LeavesEvalMode, ("injection",)),
    ("check_no_side_effects", Drawing, ("injection",)),
    ("check_seed_decides_the_result", Unseeded, ("injection",)),
    ("check_seed_decides_the_result", AsItStands, ("injection",)),
    ("check_seed_decides_the_result", OneSeed, ("injection",)),
    ("check_search_does_harm", Harmless, GRADIENT),
    ("check_search_does_harm", Harmless, (*GRADIENT, "fixed-search")),
    ("check_search_does_harm", StrongAtFirst, EXPLANATION),
    ("check_readout_is_used", Deaf, GRADIENT),
    ("check_kept_predictions_are_counted", Boasting, EXPLANATION),
    ("check_gradients_are_counted", Uncounted, GRADIENT),
    ("check_gradients_are_counted", RandomInjection, (*GRADIENT, "fixed-search")),
    ("check_sparse_features", Densifying, ("injection",)),
]
