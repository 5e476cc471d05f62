"""Definition 1: exact where it can be, monotone in R, and found by the command on a run."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from fgai_bench.cli import main
from fgai_bench.defenses.fgai import FGAI
from fgai_bench.defenses.training import Training
from fgai_bench.metrics import NotApplicable
from fgai_bench.models.base import AttentionModel, Output
from fgai_bench.run.resume import Run, run
from fgai_bench.tasks.definition1 import Audit, AuditOptions, audit, distances, summary
from fgai_bench.testing.fixture import tiny_graph, tiny_model, tiny_problem, trained_model

OPTIONS = AuditOptions(radii=(0.25, 1.0), steps=5)


@pytest.fixture(scope="module")
def pair() -> tuple[AttentionModel, AttentionModel]:
    """A vanilla model, and FGAI trained from it for a while."""
    problem, vanilla = tiny_problem(), trained_model()
    inner = problem.inner({"nodes": 3, "edges_per_node": 4, "steps": 2, "loss": "tvd"})
    defended = FGAI(similarity=1e3, explanation=1e3).fit(
        vanilla, problem.training_data, problem.split, teacher=vanilla, inner=inner, training=Training(epochs=30)
    )
    return vanilla, defended


def test_vanilla_against_itself_is_similar_and_close_exactly(pair: tuple[AttentionModel, AttentionModel]) -> None:
    found = audit(pair[0], pair[0], tiny_graph(), OPTIONS)
    assert found.beta_1.eq(1).all()
    assert found.alpha_1.eq(0).all()
    assert found.metrics()["beta_1_mean"] == 1
    assert found.metrics()["alpha_1_q100"] == 0


@pytest.mark.parametrize("name", ["gat", "gatv2", "gt"])
def test_a_larger_radius_is_never_less_harmful(name: str) -> None:
    model = tiny_model(name)
    found = audit(tiny_model(name, seed=1), model, tiny_graph(), AuditOptions(radii=(0.1, 0.2, 0.4, 2.0), steps=3))
    assert (found.alpha_2.diff(dim=0) >= 0).all()
    assert (found.beta_2.diff(dim=0) <= 0).all()
    assert 0 < found.alpha_2[0].mean() < found.alpha_2[-1].mean() <= 1
    assert found.beta_1.mean() < 1


def test_fgai_is_more_stable_in_its_predictions(pair: tuple[AttentionModel, AttentionModel]) -> None:
    before, after = (audit(pair[0], model, tiny_graph(), OPTIONS) for model in pair)
    assert (after.alpha_2.mean(1) < before.alpha_2.mean(1)).all()


def test_beta_2_is_the_true_worst_case_of_a_node(pair: tuple[AttentionModel, AttentionModel]) -> None:
    """Against every corner of the box around one node, which is where the worst case of a ranking lies."""
    model, data, radius = pair[0].eval(), tiny_graph(), 0.3
    found = audit(model, model, data, AuditOptions(radii=(radius,), steps=2))
    node = 5
    into = (data.edge_index[1] == node).nonzero().flatten()
    assert into.numel() in range(3, 9)
    k = max(1, into.numel() // 2)
    with torch.no_grad():
        scores = model(data).attention.weight[into].log()  # type: ignore[union-attr]
    top = set(scores.argsort(descending=True, stable=True)[:k].tolist())
    worst = 1.0
    for signs in itertools.product((-radius, radius), repeat=into.numel()):
        moved = (scores + torch.tensor(signs)).argsort(descending=True, stable=True)[:k].tolist()
        worst = min(worst, len(top & set(moved)) / k)
    assert found.beta_2[0, found.nodes.tolist().index(node)].item() == pytest.approx(worst)


def test_alpha_2_reaches_what_random_perturbations_reach(pair: tuple[AttentionModel, AttentionModel]) -> None:
    model, data = pair[0].eval(), tiny_graph()
    found = audit(model, model, data, AuditOptions(radii=(1.0,), steps=20))
    draw = torch.Generator().manual_seed(3)
    with torch.no_grad():
        clean = model(data)
        y, size = clean.logits.softmax(1), clean.attention.weight.shape  # type: ignore[union-attr]
        shifts = [torch.rand(size, generator=draw).round().mul(2) - 1 for _ in range(100)]
        reached = torch.stack([distances(y, model(data, shift).logits.softmax(1)) for shift in shifts]).amax(0)
    assert (found.alpha_2[0] >= reached[found.nodes] - 1e-6).float().mean() > 0.95
    assert found.alpha_2[0].mean() > reached[found.nodes].mean()


def test_nothing_is_left_behind_in_the_models() -> None:
    vanilla, defended = tiny_model().train(), tiny_model(seed=1).train()
    state = {name: value.clone() for name, value in defended.state_dict().items()}
    audit(vanilla, defended, tiny_graph(), AuditOptions(radii=(0.5,), steps=1))
    assert vanilla.training
    assert defended.training
    assert all(parameter.requires_grad and parameter.grad is None for parameter in defended.parameters())
    assert all(torch.equal(value, state[name]) for name, value in defended.state_dict().items())


def test_the_definition_holds_where_all_four_conditions_do() -> None:
    found = Audit(
        radii=(1.0, 2.0),
        nodes=torch.arange(3),
        beta_1=torch.tensor([1.0, 0.5, 1.0]),
        alpha_1=torch.tensor([0.0, 0.0, 0.3]),
        beta_2=torch.tensor([[1.0, 1.0, 1.0], [0.0, 1.0, 1.0]]),
        alpha_2=torch.tensor([[0.1, 0.1, 0.1], [0.1, 0.1, 0.1]]),
    )
    assert found.holds(0.2, 0.9) == pytest.approx((1 / 3, 0.0))  # the first node, until R is 2
    assert found.holds(0.5, 0.5) == pytest.approx((1.0, 2 / 3))
    assert found.curves()["alpha_2_q100"] == ((1.0, 2.0), pytest.approx((0.1, 0.1)))


def test_summary_by_hand() -> None:
    found = summary(torch.arange(101.0))
    assert [found[f"q{q}"] for q in (0, 5, 25, 50, 75, 95, 100)] == [0, 5, 25, 50, 75, 95, 100]
    assert found["mean"] == 50


def test_a_node_without_edges_is_not_counted() -> None:
    data = tiny_graph(isolated=True)
    found = audit(tiny_model(), tiny_model(), data, AuditOptions(radii=(0.5,), steps=1))
    assert found.nodes.tolist() == list(range(data.x.shape[0] - 1))


class Blind(AttentionModel):
    """A model without attention."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 3)

    def embed(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)

    def propagate(self, h: torch.Tensor, edge_index: torch.Tensor, *shifts: object, **more: object) -> Output:
        return Output(h, None)


def test_a_model_without_attention_is_not_applicable() -> None:
    with pytest.raises(NotApplicable, match="no attention"):
        audit(tiny_model(), Blind(), tiny_graph(), OPTIONS)


def test_a_graph_without_edges_is_not_applicable() -> None:
    empty = Data(x=tiny_graph().x, edge_index=torch.empty(2, 0, dtype=torch.long))
    with pytest.raises(NotApplicable, match="no edges"):
        audit(tiny_model(), tiny_model(), empty, OPTIONS)


@pytest.mark.parametrize("radii", [(), (0.0,), (1.0, 0.5), (1.0, 1.0)])
def test_radii_are_positive_and_ascending(radii: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="positive and ascending"):
        AuditOptions(radii=radii)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audited") / "run"
    suite = {
        "name": "pairs",
        "datasets": ["csbm-1e3"],
        "models": ["gat"],
        "defenses": ["vanilla", "ln", "fgai"],
        "seeds": 1,
        "training": {"epochs": 5},
        "inner": {"threat": {"steps": 1, "nodes": 3}},
    }
    run(suite, folder, executor="inline", device="cpu")
    return folder


def test_the_command_audits_every_pair_of_a_run(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = len(Run(finished).records())
    command = ["audit", str(finished), "--radius", "0.25,1", "--steps", "3", "--device", "cpu", "--jobs", "1"]
    assert main(command) == 0
    assert "3 steps executed" in capsys.readouterr().out
    records = Run(finished).records()
    audits = records.query("kind == 'audit'").set_index(["label", "metric"])["value"]
    assert len(records) == before + len(audits)
    assert audits["vanilla", "beta_1_q0"] == 1
    assert audits["vanilla", "alpha_1_q100"] == 0
    assert audits["fgai", "alpha_1_mean"] > 0
    curves = Run(finished).curves().query("kind == 'audit' and curve == 'alpha_2_mean'")
    assert curves.groupby("label")["x"].apply(list).to_dict() == {
        label: [0.25, 1.0] for label in ("fgai", "ln", "vanilla")
    }
    assert main(command) == 0
    assert "0 steps executed" in capsys.readouterr().out


def test_the_command_audits_only_what_is_asked_for(finished: Path) -> None:
    narrow = ["--suites", "pairs", "--datasets", "csbm-1e3", "--models", "gat", "--defenses", "ln"]
    few = ["--radius", "0.125", "--steps", "2", "--device", "cpu", "--executor", "inline"]
    assert main(["audit", str(finished), *narrow, *few]) == 0
    curves = Run(finished).curves().query("kind == 'audit' and x == 0.125")
    assert set(curves["label"]) == {"ln"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--radius", "2,1"], "positive and ascending"),
        (["--radius", "far"], "a list of numbers"),
        (["--k1", "0"], "greater than 0"),
        (["--device", "tpu"], "possible are auto, cpu and cuda"),
        (["--models", "gt"], "has no model 'gt'; it has gat"),
        (["--defenses", "vanilla,at"], "has no label 'at'; it has fgai, ln, vanilla"),
    ],
)
def test_a_wrong_request_is_one_sentence(
    arguments: list[str], said: str, finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", str(finished), *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1


def test_a_folder_that_is_no_run_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", str(tmp_path)]) == 2
    assert "is not a run" in capsys.readouterr().err


def test_a_run_without_a_pair_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite = {
        "name": "lonely",
        "datasets": ["csbm-1e3"],
        "models": ["gat"],
        "defenses": ["ln"],
        "seeds": 1,
        "training": {"epochs": 1},
    }
    run(suite, tmp_path / "run", executor="inline", device="cpu")
    assert main(["audit", str(tmp_path / "run"), "--device", "cpu"]) == 2
    assert "no trained node classifier together with its vanilla model" in capsys.readouterr().err
