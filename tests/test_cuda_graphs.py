"""A training that CUDA records and replays is the training that it would be without."""

from __future__ import annotations

import pytest
import torch

from fgai_bench import cuda_graphs
from fgai_bench.attacks import ATTACKS
from fgai_bench.attacks.injection import InjectionAttack
from fgai_bench.defenses import DEFENSES, Training
from fgai_bench.models import build_model
from fgai_bench.tasks.link_prediction import LinkProblem
from fgai_bench.tasks.node_classification import NodeProblem

INNER = {"nodes": 3, "edges_per_node": 5, "steps": 2}


def test_nothing_is_recorded_on_a_cpu():
    assert not cuda_graphs.recording()
    with cuda_graphs.own_stream(torch.device("cpu")):
        assert cuda_graphs.Replayed(lambda: 3)() == 3


def history(problem, model_name: str, defense_name: str) -> torch.Tensor:
    """``(epochs, terms)`` the loss, term by term: one epoch before the recording, four of it."""
    model = build_model(model_name, problem.data.x.shape[1], problem.num_outputs).cuda()
    defense = DEFENSES[defense_name]()
    done = defense.fit(
        model,
        problem.training_data,
        problem.split,
        supervision=problem.supervision,
        teacher=model,
        inner=problem.inner({**getattr(defense, "inner_options", {}), **INNER}),
        training=Training(epochs=5),
    )
    return torch.tensor([list(row.values()) for row in done.history])


@pytest.mark.gpu
@pytest.mark.parametrize("task", [NodeProblem, LinkProblem])
@pytest.mark.parametrize("model", ["gat", "gatv2", "gt"])
@pytest.mark.parametrize("defense", ["vanilla", "ln", "row-norm", "at", "fgai", "fgai-attention"])
def test_a_recorded_training_is_the_same_training(task, model, defense, monkeypatch):
    problem = task.prepare("cora", seed=0, device="cuda")
    recorded = history(problem, model, defense)
    assert len(recorded.unique(dim=0)) == 5  # the epochs differ: nothing was replayed in vain
    monkeypatch.setattr(cuda_graphs.Replayed, "__call__", lambda self: self._work())
    assert torch.equal(recorded, history(problem, model, defense))


@pytest.mark.gpu
def test_a_training_on_a_graph_that_carries_integers_can_be_recorded(monkeypatch):
    problem = NodeProblem.prepare("cora", seed=0, device="cuda")
    problem.training_data.year = torch.arange(problem.data.x.shape[0], device="cuda") % 7
    recorded = history(problem, "gat", "fgai")
    monkeypatch.setattr(cuda_graphs.Replayed, "__call__", lambda self: self._work())
    assert torch.equal(recorded, history(problem, "gat", "fgai"))


@pytest.mark.gpu
@pytest.mark.parametrize("model", ["gat", "gatv2", "gt"])
def test_a_recorded_ascent_is_the_same_ascent(model, monkeypatch):
    problem = NodeProblem.prepare("cora", seed=0, device="cuda")
    attacked = build_model(model, problem.data.x.shape[1], problem.num_outputs).cuda()
    recorded = InjectionAttack()(attacked, problem.data, problem.targets)
    monkeypatch.setattr(cuda_graphs.Replayed, "__call__", lambda self: self._work())
    plain = InjectionAttack()(attacked, problem.data, problem.targets)
    assert len(set(recorded.curve)) == 11
    assert recorded.curve == plain.curve
    assert torch.equal(recorded.data.x.values(), plain.data.x.values())


@pytest.mark.gpu
@pytest.mark.parametrize("task", [NodeProblem, LinkProblem])
@pytest.mark.parametrize("attack", ["validation", "worst"])
def test_a_recorded_search_is_the_same_search(task, attack, monkeypatch):
    problem = task.prepare("cora", seed=0, device="cuda")
    attacked = build_model("gat", problem.data.x.shape[1], problem.num_outputs).cuda()
    searched = lambda: ATTACKS[attack]()(attacked, problem.data, problem.targets, readout=problem.readout)  # noqa: E731
    recorded = searched()
    monkeypatch.setattr(cuda_graphs.Replayed, "__call__", lambda self: self._work())
    plain = searched()
    assert recorded.curve == plain.curve
    assert torch.equal(recorded.data.edge_index, plain.data.edge_index)
    assert torch.equal(recorded.data.x.values(), plain.data.x.values())
