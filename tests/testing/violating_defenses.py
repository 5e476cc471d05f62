"""Defenses that break one property each: vanilla training with one defect."""

from __future__ import annotations

import copy
import itertools

import torch

from fgai_bench.data import Split
from fgai_bench.defenses.fgai_attention import FGAIAttention
from fgai_bench.defenses.vanilla import Vanilla
from fgai_bench.testing.fixture import CLASSES, FEATURES
from tests.testing.violating_models import VIOLATORS as MODELS

_count = itertools.count()


class ReadsTestLabels(Vanilla):
    def fit(self, model, data, split, *args, **kwargs):
        data = data.clone()
        data.y = data.y.clamp(min=0)
        peeking = Split(torch.cat([split.train, split.test]), split.val, split.test)
        return super().fit(model, data, peeking, *args, **kwargs)


class Untrained(Vanilla):
    def fit(self, model, *args, **kwargs):
        untrained = copy.deepcopy(model).eval()
        untrained.history = []
        return untrained


class TeacherToTraining(FGAIAttention):
    def fit(self, *args, teacher, **kwargs):
        return super().fit(*args, teacher=teacher.train(), **kwargs)


class TrainsTheGiven(Vanilla):
    def prepared(self, model, seed):
        return model


class Relabels(Vanilla):
    def fit(self, model, data, *args, **kwargs):
        fitted = super().fit(model, data, *args, **kwargs)
        data.y.fill_(0)
        return fitted


class Unseeded(Vanilla):
    def fit(self, model, data, split, seed=0, **kwargs):
        return super().fit(model, data, split, next(_count), **kwargs)


class Drawing(Vanilla):
    def fit(self, *args, **kwargs):
        torch.rand(1)
        return super().fit(*args, **kwargs)


class GloballySeeded(Vanilla):
    """Reads the global seed without touching it."""

    def fit(self, model, data, split, seed=0, **kwargs):
        return super().fit(model, data, split, torch.initial_seed() % 2**31, **kwargs)


class WithoutHistory(Vanilla):
    def fit(self, *args, **kwargs):
        fitted = super().fit(*args, **kwargs)
        fitted.history = []
        return fitted


class StillTraining(Vanilla):
    def fit(self, *args, **kwargs):
        return super().fit(*args, **kwargs).train()


class Silent(Vanilla):
    def fit(self, *args, progress=None, **kwargs):
        return super().fit(*args, **kwargs)


class OwnSupervision(Vanilla):
    def fit(self, *args, supervision=None, **kwargs):
        return super().fit(*args, **kwargs)


def returning(model: type) -> type:
    """A defense whose result is ``model``, untrained."""

    class Returning(Vanilla):
        def fit(self, *args, **kwargs):
            return model(FEATURES, CLASSES, seed=0).eval()

    return Returning


VIOLATORS = [
    ("check_test_labels_are_never_read", ReadsTestLabels, ()),
    ("check_training_labels_are_read", Untrained, ()),
    ("check_no_side_effects", TeacherToTraining, ("needs-teacher",)),
    ("check_no_side_effects", TrainsTheGiven, ()),
    ("check_no_side_effects", Relabels, ()),
    ("check_no_side_effects", Drawing, ()),
    ("check_same_seed_same_result", Unseeded, ()),
    ("check_same_seed_same_result", GloballySeeded, ()),
    ("check_every_epoch_is_told", WithoutHistory, ()),
    ("check_every_epoch_is_told", Silent, ()),
    ("check_result_is_ready", StillTraining, ()),
    ("check_supervision_is_used", OwnSupervision, ("link",)),
    *((name.replace("check_", "check_fitted_"), returning(model), ()) for name, model in MODELS),
]
