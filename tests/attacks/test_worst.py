"""The standard attack: nowhere weaker than any other, the same search for all, and honest where it cannot climb."""

from __future__ import annotations

import pytest
import torch

import fgai_bench as fb
from benchmarks.plain_cover import covered_attack
from fgai_bench.attacks import ATTACKS, ThreatModel, Victim
from fgai_bench.attacks.local_search import BLACK_BOX
from fgai_bench.attacks.search import SMALL, PortfolioSearch
from fgai_bench.attacks.validation import narrowed
from fgai_bench.defenses import DEFENSES, Training
from fgai_bench.models import build_model
from fgai_bench.models.base import frozen_eval
from fgai_bench.models.gat import GAT
from fgai_bench.tasks.link_prediction import LinkProblem
from fgai_bench.tasks.node_classification import NodeProblem

THREAT = ThreatModel(nodes=5, edges_per_node=4)
PROBLEM = NodeProblem.prepare("csbm-1e3", seed=0)
WEAKER = ("injection", "random-injection", "learned-placement", "validation")


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
        assert least <= f1(model, attacked.data) + 0.002, other
    assert least <= f1(model, covered_attack(model.eval(), PROBLEM.data, PROBLEM.targets, nodes=5, each=4)) + 0.005
    assert least < f1(model, PROBLEM.data) - 0.1


@pytest.mark.slow
def test_a_search_stays_inside_its_budget_and_doubts_nothing(worst):
    for found in worst.values():
        assert (found.ledger.nodes, found.ledger.edges) <= (5, 20)
        assert found.curve == tuple(sorted(found.curve))
        assert found.flags == ()


@pytest.mark.slow
def test_the_steps_of_the_threat_model_change_nothing(models, worst):
    longer = THREAT.model_copy(update={"steps": 50, "step": 0.5, "restarts": 3})
    again = ATTACKS["worst"]()(models["vanilla"], PROBLEM.data, PROBLEM.targets, threat=longer, seed=0)
    assert torch.equal(again.data.x, worst["vanilla"].data.x)


@pytest.mark.parametrize("nodes", [0, 2])
def test_where_nothing_can_change_the_curve_is_what_the_graph_leaves(nodes):
    class Alone(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.out = torch.nn.Linear(PROBLEM.data.x.shape[1], PROBLEM.num_outputs)

        def forward(self, x, edge_index):
            return self.out(x)

    network = Alone()
    threat = ThreatModel(nodes=nodes, edges_per_node=4, feature_low=-4.0, feature_high=4.0)
    found = fb.attack("worst", network, PROBLEM.data, threat=threat)
    right = network(PROBLEM.data.x, None)[PROBLEM.targets].argmax(1) == PROBLEM.data.y[PROBLEM.targets]
    assert found.curve == (pytest.approx(1 - float(right.float().mean())),)
    assert (found.flags, found.ledger.gradient_calls, found.ledger.nodes) == ((), 0, nodes)


def test_one_hop_stays_as_it_is_without_new_nodes():
    model = build_model("gat-one-hop", PROBLEM.data.x.shape[1], PROBLEM.num_outputs)
    none = ThreatModel(nodes=0, edges_per_node=3)
    found = ATTACKS["worst"]()(model, PROBLEM.data, PROBLEM.targets, threat=none, seed=0)
    assert (found.ledger.nodes, found.ledger.edges, found.ledger.gradient_calls) == (0, 0, 0)
    assert torch.equal(found.data.edge_index, PROBLEM.data.edge_index)


class Misleading(GAT):
    """A GAT whose gradient points the other way."""

    def embed(self, x):
        h = super().embed(x)
        return 2 * h.detach() - h


def test_a_gradient_that_misleads_is_a_flag(models):
    class Short(ATTACKS["worst"]):
        effort = 0.05

    model = Misleading(**models["vanilla"].config)
    model.load_state_dict(models["vanilla"].state_dict())
    for victim, flags in ((model, (BLACK_BOX,)), (models["vanilla"], ())):
        other = models["vanilla"] if victim is model else model
        found = Short()(victim, PROBLEM.data, PROBLEM.targets, threat=THREAT, seed=0, surrogate=other)
        assert found.flags == flags


def test_the_published_attack_inside_is_the_published_attack(models):
    threat = ThreatModel(nodes=2, edges_per_node=3, feature_low=0.0, feature_high=1.0)
    victim = Victim(models["vanilla"].eval(), PROBLEM.data, PROBLEM.targets)
    _, inside = ATTACKS["worst"]().outsiders(victim, threat.model_copy(update={"step": 0.7, "restarts": 2}), 0)
    alone = ATTACKS["injection"]()(models["vanilla"], PROBLEM.data, PROBLEM.targets, threat=threat, seed=0)
    assert torch.equal(inside.injected, alone.injected)


def test_what_the_validation_attack_finds_is_a_source():
    class Weak(ATTACKS["worst"]):
        effort = 0.05

        def portfolio(self, search, some=range(16)):
            return search.started([("random", "margin", SMALL)] * 16, some)

    problem = LinkProblem.prepare("csbm-1e3", seed=0)
    model = build_model("gat", problem.data.x.shape[1], problem.num_outputs)
    training = Training(epochs=10)
    trained = DEFENSES["ln"]().fit(
        model, problem.training_data, problem.split, training=training, supervision=problem.supervision
    )
    with frozen_eval(trained):
        victim = Victim(trained, problem.data, problem.targets, problem.readout)
        alone = narrowed(PortfolioSearch(victim, THREAT, 0), Weak.effort)
        strongest, *others = Weak().sources(PortfolioSearch(victim, THREAT, 0))
    assert strongest.score == pytest.approx(alone.score, abs=1e-6)
    assert all(other.score > alone.score for other in others)
    assert others


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
    assert guessed.flags == ("zero gradient",)
    assert set(helped.flags) == {"a black-box member is stronger", "zero gradient"}
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
