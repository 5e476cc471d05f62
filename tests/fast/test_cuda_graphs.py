"""A training that CUDA captures and replays is the training that it would be without."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fgai_bench.attacks import ATTACKS, ThreatModel, ascent
from fgai_bench.attacks.injection import InjectionAttack
from fgai_bench.defenses import DEFENSES, Training
from fgai_bench.fast import cuda_graphs
from fgai_bench.models import build_model
from fgai_bench.tasks.link_prediction import LinkProblem
from fgai_bench.tasks.node_classification import NodeProblem

INNER = {"nodes": 3, "edges_per_node": 5, "steps": 2}
# Networks in the place of the model that are captured.
THEIR_OWN = ("gcn", "gnn-svd-sparse", "gnnguard-sparse", "soft-median", "rung", "elastic-gnn")
READ_BACK = {"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "bincount", "repeat_interleave", "equal"}


class ReadBack(TorchDispatchMode):
    """Notes what would make a GPU wait: operations whose result or its shape is read on the host."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.operations = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        masks = name in ("index", "index_put") and any(at is not None and at.dtype == torch.bool for at in args[1])
        self.seen |= {name} if masks or name in READ_BACK else set()
        self.operations += 1
        return func(*args, **(kwargs or {}))


def trained(problem, name: str, epochs: int = 3):
    """A model of this name, trained for a moment: a GAT, or what replaces it."""
    model = build_model("gat", problem.data.x.shape[1], problem.num_outputs).to(problem.data.edge_index.device)
    return DEFENSES[name]().fit(model, problem.training_data, problem.split, training=Training(epochs=epochs))


def test_looking_at_a_value_is_seen():
    with ReadBack() as looked:
        values = torch.arange(3)
        values[values > 1].sum().item()
    assert looked.seen == {"index", "_local_scalar_dense"}


@pytest.mark.parametrize("attack", ["worst", "explanation"])
@pytest.mark.parametrize("name", ["vanilla", *THEIR_OWN])
def test_what_says_that_it_can_be_recorded_reads_nothing_back(name, attack, monkeypatch):
    """The second step of every ascent is looked at: the first one also computes what is computed once per graph."""
    if attack == "explanation" and "no-attention" in DEFENSES.entry(name).tags:
        pytest.skip(f"{name} has no attention")
    problem = NodeProblem.prepare("csbm-1e3", seed=0)
    model = trained(problem, name)
    assert model.capturable(new_edges=False)
    step, looks = ascent._Climb.step_up, []

    def looked_at(climb):
        if int(climb.taken) == 0:
            step(climb)
        elif len(looks) < 5 and int(climb.taken) == 1:  # two steps of each ascent are enough here
            with ReadBack() as looked:
                step(climb)
            looks.append(looked)

    monkeypatch.setattr(ascent._Climb, "step_up", looked_at)
    ATTACKS[attack]()(model, problem.data, problem.targets, threat=ThreatModel(nodes=2, edges_per_node=3), seed=0)
    assert len(looks) == 5
    assert all(looked.operations > 50 for looked in looks)
    assert not set().union(*(looked.seen for looked in looks))


def test_nothing_is_recorded_on_a_cpu():
    assert not cuda_graphs.capturing()
    with cuda_graphs.own_stream(torch.device("cpu")):
        assert cuda_graphs.Replayed(lambda: 3)() == 3


def history(problem, model_name: str, defense_name: str) -> torch.Tensor:
    """``(epochs, terms)`` the loss, term by term: one epoch before the capture, four of it."""
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
    captured = history(problem, model, defense)
    assert len(captured.unique(dim=0)) == 5  # the epochs differ: nothing was replayed in vain
    monkeypatch.setattr(cuda_graphs.Replayed, "__call__", lambda self: self._work())
    assert torch.equal(captured, history(problem, model, defense))


@pytest.mark.gpu
def test_a_training_on_a_graph_that_carries_integers_can_be_recorded(monkeypatch):
    problem = NodeProblem.prepare("cora", seed=0, device="cuda")
    problem.training_data.year = torch.arange(problem.data.x.shape[0], device="cuda") % 7
    captured = history(problem, "gat", "fgai")
    monkeypatch.setattr(cuda_graphs.Replayed, "__call__", lambda self: self._work())
    assert torch.equal(captured, history(problem, "gat", "fgai"))


@pytest.mark.gpu
@pytest.mark.parametrize("defense", THEIR_OWN)
def test_a_recorded_network_of_their_own_is_the_same(defense, monkeypatch):
    problem = NodeProblem.prepare("cora", seed=0, device="cuda")

    def results():
        model = trained(problem, defense, epochs=20)
        attacked = ATTACKS["worst"]()(model, problem.data, problem.targets)
        return [*model.state_dict().values(), attacked.data.edge_index, attacked.data.x.values()]

    captured = results()
    monkeypatch.setattr(cuda_graphs.Replayed, "__call__", lambda self: self._work())
    assert all(map(torch.equal, captured, results()))


@pytest.mark.gpu
@pytest.mark.parametrize("model", ["gat", "gatv2", "gt"])
def test_a_recorded_ascent_is_the_same_ascent(model, monkeypatch):
    problem = NodeProblem.prepare("cora", seed=0, device="cuda")
    attacked = build_model(model, problem.data.x.shape[1], problem.num_outputs).cuda()
    captured = InjectionAttack()(attacked, problem.data, problem.targets)
    monkeypatch.setattr(cuda_graphs.Replayed, "__call__", lambda self: self._work())
    plain = InjectionAttack()(attacked, problem.data, problem.targets)
    assert len(set(captured.curve)) == 11
    assert captured.curve == plain.curve
    assert torch.equal(captured.data.x.values(), plain.data.x.values())


@pytest.mark.gpu
@pytest.mark.parametrize("task", [NodeProblem, LinkProblem])
@pytest.mark.parametrize("attack", ["validation", "worst"])
def test_a_recorded_search_is_the_same_search(task, attack, monkeypatch):
    problem = task.prepare("cora", seed=0, device="cuda")
    attacked = build_model("gat", problem.data.x.shape[1], problem.num_outputs).cuda()
    searched = lambda: ATTACKS[attack]()(attacked, problem.data, problem.targets, readout=problem.readout)  # noqa: E731
    captured = searched()
    monkeypatch.setattr(cuda_graphs.Replayed, "__call__", lambda self: self._work())
    plain = searched()
    assert captured.curve == plain.curve
    assert torch.equal(captured.data.edge_index, plain.data.edge_index)
    assert torch.equal(captured.data.x.values(), plain.data.x.values())
