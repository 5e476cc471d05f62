"""A training that CUDA records and replays is the training that it would be without."""

from __future__ import annotations

import pytest
import torch

from fgai_bench import replay
from fgai_bench.defenses import DEFENSES, Training
from fgai_bench.models import build_model
from fgai_bench.tasks.link_prediction import LinkProblem
from fgai_bench.tasks.node_classification import NodeProblem

INNER = {"nodes": 3, "edges_per_node": 5, "steps": 2}


def test_nothing_is_recorded_on_a_cpu():
    assert not replay.recording()
    with replay.own_stream(torch.device("cpu")):
        assert replay.Replayed(lambda: 3)() == 3


def fitted(problem, model_name: str, defense_name: str) -> dict[str, torch.Tensor]:
    model = build_model(model_name, problem.data.x.shape[1], problem.num_outputs).cuda()
    defense = DEFENSES[defense_name]()
    done = defense.fit(
        model,
        problem.training_data,
        problem.split,
        supervision=problem.supervision,
        teacher=model,
        inner=problem.inner({**getattr(defense, "inner_options", {}), **INNER}),
        training=Training(epochs=12),
    )
    assert len({tuple(row.values()) for row in done.history}) > 8  # the epochs differ: nothing was replayed in vain
    return done.state_dict()


@pytest.mark.gpu
@pytest.mark.parametrize("task", [NodeProblem, LinkProblem])
@pytest.mark.parametrize("model", ["gat", "gatv2", "gt"])
@pytest.mark.parametrize("defense", ["vanilla", "ln", "row-norm", "at", "fgai", "fgai-attention"])
def test_a_recorded_training_is_the_same_training(task, model, defense, monkeypatch):
    problem = task.prepare("cora", seed=0, device="cuda")
    recorded = fitted(problem, model, defense)
    monkeypatch.setattr(replay.Replayed, "__init__", _never_recorded)
    plain = fitted(problem, model, defense)
    for name, value in plain.items():
        torch.testing.assert_close(recorded[name], value, rtol=1e-3, atol=1e-4)


def _never_recorded(self, work, warm_up=0):
    self._work, self._left = work, 10**9
