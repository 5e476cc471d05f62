"""The standard attack: nowhere weaker than any other, the same search for all, and honest where it cannot climb."""

from __future__ import annotations

import pytest
import torch

from benchmarks.plain_cover import covered_attack
from fgai_bench.attacks import ATTACKS, ThreatModel
from fgai_bench.defenses import DEFENSES, Training
from fgai_bench.models import build_model
from fgai_bench.models.gat import GAT
from fgai_bench.tasks.link_prediction import LinkProblem
from fgai_bench.tasks.node_classification import NodeProblem

THREAT = ThreatModel(nodes=5, edges_per_node=4)
PROBLEM = NodeProblem.prepare("csbm-1e3", seed=0)
WEAKER = ("injection", "random-injection")


@pytest.fixture(scope="module")
def models():
    """A vanilla model and one that was trained against the attack."""
    made = build_model("gat", PROBLEM.data.x.shape[1], PROBLEM.num_outputs)
    training = Training(epochs=40)
    vanilla = DEFENSES["vanilla"]().fit(made, PROBLEM.training_data, PROBLEM.split, training=training)
    inner = PROBLEM.inner({"nodes": 5, "edges_per_node": 4, "steps": 2, "loss": "nll", "targets": "train"})
    defended = DEFENSES["at"]().fit(made, PROBLEM.training_data, PROBLEM.split, training=training, inner=inner)
    return {"vanilla": vanilla, "at": defended}


@pytest.fixture(scope="module")
def worst(models):
    """The standard attack on both, with the vanilla model as the surrogate."""
    attack = ATTACKS["worst"]()
    arguments = {"threat": THREAT, "seed": 0, "surrogate": models["vanilla"]}
    return {name: attack(model, PROBLEM.data, PROBLEM.targets, **arguments) for name, model in models.items()}


def f1(model, data) -> float:
    with torch.no_grad():
        predicted = model(data).logits[PROBLEM.targets].argmax(1)
    return float((predicted == PROBLEM.data.y[PROBLEM.targets]).float().mean())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vanilla", "at"])
def test_no_other_attack_of_the_same_budget_is_stronger(name, models, worst):
    model, least = models[name], f1(models[name], worst[name].data)
    for other in WEAKER:
        attacked = ATTACKS[other]()(model, PROBLEM.data, PROBLEM.targets, threat=THREAT, seed=0)
        assert least <= f1(model, attacked.data) + 0.005, other
    assert least <= f1(model, covered_attack(model.eval(), PROBLEM.data, PROBLEM.targets, nodes=5, each=4)) + 0.005
    assert least < f1(model, PROBLEM.data) - 0.1


@pytest.mark.slow
def test_a_search_is_as_long_as_its_budget_says(worst):
    for found in worst.values():
        assert found.ledger.gradient_calls >= 15 * 20  # gradients per edge, and those of the sources
        assert (found.ledger.nodes, found.ledger.edges) <= (5, 20)
        assert found.curve == tuple(sorted(found.curve))
        assert found.flags == ()


@pytest.mark.slow
def test_the_steps_of_the_threat_model_change_nothing(models, worst):
    longer = THREAT.model_copy(update={"steps": 50, "step": 0.5, "restarts": 3})
    again = ATTACKS["worst"]()(models["vanilla"], PROBLEM.data, PROBLEM.targets, threat=longer, seed=0)
    assert torch.equal(again.data.x, worst["vanilla"].data.x)


class Deaf(GAT):
    """A GAT whose outputs carry no gradient to the features."""

    def embed(self, x):
        return super().embed(x).detach()


@pytest.mark.slow
def test_a_model_without_a_gradient_is_attacked_by_guesses_and_transfer_and_says_so(models):
    deaf = Deaf(**models["vanilla"].config)
    deaf.load_state_dict(models["vanilla"].state_dict())
    deaf.eval()
    attack = ATTACKS["worst"]()
    guessed = attack(deaf, PROBLEM.data, PROBLEM.targets, threat=THREAT, seed=0)
    helped = attack(deaf, PROBLEM.data, PROBLEM.targets, threat=THREAT, seed=0, surrogate=models["vanilla"])
    assert guessed.flags == helped.flags == ("zero gradient",)
    assert f1(deaf, helped.data) <= f1(deaf, guessed.data) < f1(deaf, PROBLEM.data)


@pytest.mark.slow
def test_links_are_judged_by_their_roc_auc():
    problem = LinkProblem.prepare("csbm-1e3", seed=0)
    model = build_model("gat", problem.data.x.shape[1], problem.num_outputs, hidden=2, heads=(1,))
    training = Training(epochs=20)
    trained = DEFENSES["vanilla"]().fit(
        model, problem.training_data, problem.split, training=training, supervision=problem.supervision
    )
    few = ThreatModel(nodes=3, edges_per_node=5)
    arguments = {"threat": few, "seed": 0, "readout": problem.readout}
    scores = {
        name: problem.attacked(trained, ATTACKS[name]()(trained, problem.data, problem.targets, **arguments)).metrics
        for name in ("injection", "worst")
    }
    assert scores["worst"]["roc_auc"] < scores["injection"]["roc_auc"] < problem.clean(trained).metrics["roc_auc"]
