"""What tasks share: the inner attack of a defense, and the figures that go into the records."""

from __future__ import annotations

import pytest
import torch

from fgai_bench.registry import RegistryError
from fgai_bench.tasks import TASKS
from fgai_bench.testing.fixture import tiny_problem, trained_model

BUDGET = {"nodes": 2, "edges_per_node": 3, "steps": 2}


def test_the_statistics_of_a_dataset_come_with_its_problem() -> None:
    facts = TASKS["node"].prepare("cora", seed=0).provenance
    assert [facts[key] for key in ("nodes", "edges", "features", "classes")] == [2708, 5278, 1433, 7]
    parts = [facts[key] for key in ("train_nodes", "val_nodes", "test_nodes")]
    assert sum(parts) == 2708
    assert parts[2] > 2000  # 80 %
    assert facts["split_hash"] != TASKS["node"].prepare("cora", seed=1).provenance["split_hash"]


@pytest.mark.parametrize("attack", ["injection", "random-injection"])
def test_an_inner_attack_keeps_its_budget_and_ignores_a_loss_that_it_has_no_use_for(attack: str) -> None:
    problem, model = tiny_problem(), trained_model()
    inner = problem.inner({**BUDGET, "attack": attack, "loss": "tvd", "targets": "train"})
    found = inner(model, problem.training_data, 3)
    assert [found.ledger.nodes, found.ledger.edges] == [2, 6]
    assert found.ledger.gradient_calls == (2 if attack == "injection" else 0)
    attached = found.data.edge_index[:, problem.data.edge_index.size(1) :].unique()
    assert set(attached[attached < 36].tolist()) <= set(problem.split.train.tolist())


def test_the_loss_of_an_inner_attack_matters() -> None:
    problem, model = tiny_problem(), trained_model()
    features = [
        problem.inner({**BUDGET, "loss": loss})(model, problem.training_data, 0).data.x[36:]
        for loss in ("tvd", "attention-jsd")
    ]
    assert not torch.equal(*features)


@pytest.mark.parametrize(
    ("options", "said"),
    [({"targets": "test"}, "'all' nodes or the 'train' nodes"), ({"loss": "mse"}, "unknown attack loss 'mse'")],
)
def test_a_wrong_inner_attack_is_one_sentence(options: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tiny_problem().inner(options)


def test_an_unknown_inner_attack_is_named() -> None:
    with pytest.raises(RegistryError, match="unknown attack 'injections'"):
        tiny_problem().inner({"attack": "injections"})
