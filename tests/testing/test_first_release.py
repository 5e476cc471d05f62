"""Entries that were written for the first release go on working, with the form of their time."""

from __future__ import annotations

import sys
import warnings

import pytest

import fgai_bench as fb
from fgai_bench.cli import main

OLD_ATTACK = """
import torch

import fgai_bench as fb
from fgai_bench.attacks.injection import injected_edges, with_injected
from fgai_bench.attacks.threat import settle


@fb.ATTACKS.register("loud", summary="every injected feature at a random end of its range", tags=("injection",))
class Loud:
    def __call__(self, model, data, targets, *, threat, seed=0, readout=None):
        draw = torch.rand(threat.nodes, data.x.shape[1], generator=torch.Generator().manual_seed(seed))
        features = torch.where(draw < 0.5, threat.feature_low, threat.feature_high)
        edges = injected_edges(data.x.shape[0], targets, threat, seed)
        return settle(data, with_injected(data, features, edges), threat)
"""
OLD_DEFENSE = """
import copy

import fgai_bench as fb
from fgai_bench.defenses.training import NodeSupervision, Training, optimise


@fb.DEFENSES.register("calm", summary="small logits", tags=("node", "link"))
class Calm:
    def __init__(self, weight: float = 0.01) -> None:
        self.weight = weight

    def fit(
        self, model, data, split, seed=0, *, supervision=None, teacher=None, inner=None, training=None, progress=None
    ):
        student = copy.deepcopy(model)  # the given model stays as it is
        task = supervision or NodeSupervision(data, split)

        def terms(epoch):
            out = student(data)
            return {"prediction": task.loss(out), "calm": self.weight * out.logits.square().mean()}

        return optimise(
            student, terms, training or Training(), seed, score=lambda: task.score(student(data)), progress=progress
        )
"""


@pytest.mark.parametrize(("source", "name"), [(OLD_ATTACK, "loud"), (OLD_DEFENSE, "calm")])
def test_what_the_page_of_the_first_release_said_goes_on_working(source, name, tmp_path, capsys, monkeypatch):
    (tmp_path / "old_plugin.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    for registry in (fb.ATTACKS, fb.DEFENSES):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    monkeypatch.delitem(sys.modules, "old_plugin", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        assert main(["check", name, "--plugin", "old_plugin"]) == 0
    assert "passed" in capsys.readouterr().out
