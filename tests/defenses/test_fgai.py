"""FGAI: each term by itself, the two scopes, the zero gradient of the literal form, the teacher."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import pytest
import torch
from pydantic import ValidationError
from torch_geometric.data import Data

import fgai_bench as fb
from fgai_bench.attacks.base import Victim
from fgai_bench.attacks.domain import FeatureDomain
from fgai_bench.attacks.injection import InjectionScene
from fgai_bench.data.splits import Split
from fgai_bench.defenses import DEFENSES, Fit, NodeSupervision, Training
from fgai_bench.defenses.fgai import Faithfulness, FGAIOptions
from fgai_bench.losses import topk_surrogate, tvd
from fgai_bench.models import Output
from fgai_bench.models.gat import GAT
from fgai_bench.tasks.node_classification import NodeProblem
from fgai_bench.testing.fixture import tiny_graph, tiny_model, tiny_problem, trained_model

PROBLEM = tiny_problem()
TERMS = ("closeness", "similarity", "prediction", "explanation")
INNER = PROBLEM.inner({"nodes": 2, "edges_per_node": 4, "steps": 1})
TASK = NodeSupervision(PROBLEM.training_data, PROBLEM.split)
FAST = {"fgai": {}, "fgai-attention": {"steps": 1}}


def given(data=None) -> Fit:
    """What an objective is made from: a student, a graph and the teacher."""
    data = tiny_graph() if data is None else data
    return Fit(tiny_model(), data, PROBLEM.split, TASK, Training(), 0, teacher=trained_model())


def fit(name="fgai", epochs=1, **options):
    arguments = {"teacher": trained_model(), "inner": INNER, "training": Training(epochs=epochs)}
    arguments |= {key: options.pop(key) for key in list(options) if key in arguments}
    return DEFENSES[name](**FAST[name], **options).fit(tiny_model(), PROBLEM.training_data, PROBLEM.split, **arguments)


@pytest.mark.parametrize("name", ["fgai", "fgai-attention"])
@pytest.mark.parametrize("on", [on for size in range(1, 5) for on in itertools.combinations(TERMS, size)])
def test_every_term_can_be_switched_off(name, on):
    fitted = fit(name, **{term: float(term in on) for term in TERMS})
    assert [set(row) for row in fitted.history] == [set(on)]


@pytest.mark.parametrize("term", TERMS)
def test_a_weight_weighs_its_term(term):
    off = dict.fromkeys(TERMS, 0.0)
    one, ten = (fit(**{**off, term: weight}).history[0][term] for weight in (1.0, 10.0))
    assert ten == pytest.approx(10 * one, rel=1e-5)
    assert one > 0


def test_without_dropout_the_first_epoch_starts_at_the_teacher():
    fitted = fit(dropout=False)
    assert fitted.history[0]["closeness"] == fitted.history[0]["similarity"] == 0.0


@pytest.mark.parametrize("name", ["fgai", "fgai-attention"])
def test_without_epochs_the_result_is_the_teacher(name):
    data = tiny_graph()
    with torch.no_grad():
        assert torch.equal(fit(name, epochs=0)(data).logits, trained_model()(data).logits)


def test_with_closeness_alone_and_no_dropout_the_teacher_stays():
    """D and its gradient are zero at the teacher, so nothing pulls away from it but the decay of the weights."""
    data = tiny_graph()
    without_decay = Training(epochs=3, weight_decay=0)
    fitted = fit(dropout=False, similarity=0.0, prediction=0.0, explanation=0.0, training=without_decay)
    with torch.no_grad():
        assert torch.equal(fitted(data).logits, trained_model()(data).logits)


class Counting(GAT):
    """A GAT that counts its evaluations."""

    def propagate(self, *args, **kwargs):
        self.calls = getattr(self, "calls", 0) + 1
        return super().propagate(*args, **kwargs)


@pytest.mark.parametrize("name", ["fgai", "fgai-attention"])
def test_the_teachers_output_is_computed_once(name):
    teacher = Counting(**trained_model().config)
    teacher.load_state_dict(trained_model().state_dict())
    fit(name, epochs=3, teacher=teacher)
    assert teacher.calls == 1


def test_an_unchanged_node_keeps_its_embedding_with_its_dropout():
    """The clean and the attacked output share one draw of dropout on the features: without an attack they are equal."""
    nothing = PROBLEM.inner({"nodes": 0})
    options = {"closeness": 0.0, "similarity": 0.0, "prediction": 1.0, "explanation": 1.0, "anchor": "self"}
    teacher = trained_model().rebuilt(0, attention_dropout=0.0, heads=(), dropout=0.6)  # one layer: dropout on x only
    row = fit(teacher=teacher, inner=nothing, **options).history[0]
    assert row["prediction"] == row["explanation"] == 0.0


def outputs(seed=0):
    """A clean and a perturbed output with attention over the tiny graph's edges."""
    model, data = trained_model(), tiny_graph()
    shift = torch.randn(176, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        return model(data), model(data, score_shift=shift)


def test_terms_by_formula():
    clean, perturbed = outputs()
    other = Output(perturbed.logits + 1, perturbed.attention)
    objective = Faithfulness(FGAIOptions(similarity=2.0, explanation=3.0, k=0.25), given())
    own, after = objective.seen(other), objective.seen(perturbed)
    near = objective.towards_teacher(own)
    far = {name: term(own, after) for name, term in objective.perturbed_terms.items()}
    w, w_tilde = clean.attention.weight[:140], perturbed.attention.weight[:140]
    assert near["closeness"].item() == pytest.approx(tvd(other.logits, clean.logits).item(), rel=1e-5)
    assert near["similarity"].item() == pytest.approx(2 * topk_surrogate(w, w_tilde, 35).item(), rel=1e-5)
    assert far["prediction"].item() == pytest.approx(tvd(clean.logits, perturbed.logits).item(), rel=1e-5)
    assert far["explanation"].item() == 0.0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"anchor": "teacher", "output": "raw"}, lambda y, o, p: tvd(y, p)),
        ({"anchor": "self", "output": "raw"}, lambda y, o, p: tvd(o, p)),
        ({"anchor": "teacher", "output": "probability"}, lambda y, o, p: tvd(y.softmax(1), p.softmax(1))),
        ({"anchor": "self", "output": "probability"}, lambda y, o, p: tvd(o.softmax(1), p.softmax(1))),
    ],
)
def test_anchor_and_output(options, expected):
    clean, perturbed = outputs()
    own = Output(clean.logits * 0.5, clean.attention)
    objective = Faithfulness(FGAIOptions(**options), given())
    found = objective.perturbed_terms["prediction"](objective.seen(own), objective.seen(perturbed))
    assert found.item() == pytest.approx(expected(clean.logits, own.logits, perturbed.logits).item())


def test_node_scope_is_the_mean_over_neighbourhoods():
    """Against a loop over nodes: L_k of each node's in-edges, k half of them rounded down but at least one."""
    clean, perturbed = outputs()
    objective = Faithfulness(FGAIOptions(scope="node"), given())
    graph = clean.attention.of_graph()
    w, w_tilde = graph.weight, perturbed.attention.weight[:140]
    each = []
    for node in range(36):
        mine = graph.edge_index[1] == node
        each.append(topk_surrogate(w[mine], w_tilde[mine], max(1, int(mine.sum()) // 2)))
    seen = objective.seen(clean), objective.seen(perturbed)
    assert objective.surrogate(*seen).item() == pytest.approx(torch.stack(each).mean().item(), rel=1e-5)


def explanation_gradient(literal: bool) -> torch.Tensor:
    """The gradient of the fourth term with respect to the student's parameters, in one vector."""
    defense = DEFENSES["fgai-attention"](literal=literal, steps=2)
    student, data = trained_model(), tiny_graph()
    objective = Faithfulness(defense.options, given(data))
    shift = defense.worst_shifts(student, data, objective)["explanation"]
    h = student.embed(data.x)
    out = student.propagate(h, data.edge_index)
    perturbed = defense.perturbing(student, h, data, out, "explanation")(shift)
    term = objective.perturbed_terms["explanation"](objective.seen(out), objective.seen(perturbed))
    assert term.item() > 0
    found = torch.autograd.grad(term, list(student.parameters()), allow_unused=True, materialize_grads=True)
    return torch.cat([gradient.flatten() for gradient in found])


def test_the_literal_fourth_term_has_no_gradient_and_the_score_space_one_has():
    assert explanation_gradient(literal=True).abs().max() == 0.0
    assert explanation_gradient(literal=False).abs().max() > 1.0


@pytest.mark.parametrize("name", ["prediction", "explanation"])
def test_the_inner_ascent_stays_in_the_box_and_raises_its_term(name):
    defense = DEFENSES["fgai-attention"](radius=0.5, steps=5)
    student, data = trained_model(), tiny_graph()
    objective = Faithfulness(defense.options, given(data))

    def term(shift):
        out = student(data)
        perturbed = defense.perturbing(student, student.embed(data.x), data, out, name)(shift)
        seen = objective.seen(out), objective.seen(perturbed)
        return {name: term(*seen) for name, term in objective.perturbed_terms.items()}

    shift = defense.worst_shifts(student, data, objective)[name]
    random = 0.5 * (2 * torch.rand(shift.shape, generator=torch.Generator().manual_seed(1)) - 1)
    assert shift.abs().max() <= 0.5
    assert term(shift)[name] > term(random)[name]


def test_a_shift_leaves_a_distribution():
    defense, student, data = DEFENSES["fgai-attention"](), trained_model(), tiny_graph()
    out = student(data)
    shift = torch.randn(out.attention.weight.shape, generator=torch.Generator().manual_seed(0))
    moved = defense.perturbing(student, student.embed(data.x), data, out, "explanation")(shift).attention
    sums = torch.zeros(36).index_add_(0, moved.edge_index[1], moved.weight)
    assert torch.allclose(sums, torch.ones(36), atol=1e-5)


def test_what_is_missing_is_asked_for_in_one_sentence():
    for name in ("fgai", "fgai-attention"):
        with pytest.raises(ValueError, match=r"^\w+ needs teacher=\.\.\., the trained vanilla model$"):
            fit(name, teacher=None)
    with pytest.raises(ValueError, match=r"^FGAI needs inner=\.\.\., an attack on the model being trained$"):
        fit(inner=None)
    assert fit(inner=None, prediction=0.0, explanation=0.0).history  # nothing to perturb, nothing needed


def test_a_teacher_without_attention_is_refused():
    gcn = DEFENSES["gnn-svd-sparse"]().fit(
        tiny_model(), PROBLEM.training_data, PROBLEM.split, training=Training(epochs=0)
    )
    with pytest.raises(ValueError, match="FGAI needs a model with attention, and this teacher has none"):
        fit(teacher=gcn)


@pytest.mark.parametrize("options", [{"k": 0}, {"k": 1.5}, {"scope": "edge"}, {"similarity": -1}, {"lambda1": 3}])
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(ValidationError):
        DEFENSES["fgai"](**options)


# The second perturbation


@pytest.mark.parametrize("z", [-0.5, 0.2, 1.0])
def test_the_second_perturbation_follows_the_gradient_of_the_change_of_attention(z):
    """A star of four nodes with zero features; at its centre 0 one injected node of feature z, score s = LeakyReLU(z).

    Into node 0 lead three edges and its loop, each of weight 1/4, under attack 1/(4 + e^s). The three edges out of it
    keep 1/2. With all six edges in the top-k, ``L_k = 2 * 3 * (1/4 - 1/(4 + e^s)) / (2 * 6)``.
    """
    leaves = torch.tensor([1, 2, 3])
    star = torch.cat([torch.stack([leaves, 0 * leaves]), torch.stack([0 * leaves, leaves])], dim=1)
    data = Data(x=torch.zeros(4, 1), edge_index=star, y=torch.tensor([0, 1, 0, 1]))
    model = GAT(1, 1, heads=()).eval()
    for name, value in model.named_parameters():
        torch.nn.init.constant_(value, float("att_dst" not in name and "bias" not in name))
    split = Split(torch.tensor([0, 1]), torch.tensor([2]), torch.tensor([3]))
    task = NodeSupervision(data, split)
    faithful = Faithfulness(FGAIOptions(k=1.0), Fit(model, data, split, task, Training(), 0, teacher=model))
    victim = Victim(model, data, torch.tensor([0]))
    scene = InjectionScene.with_edges(victim, *victim.evaluated(), torch.tensor([[4, 0], [0, 4]]), 1, FeatureDomain())
    features = torch.tensor([[z]], requires_grad=True)
    out = scene.output(features)
    change = faithful.attention_change(victim.read(out), out, scene.reference)
    slope = 1.0 if z > 0 else 0.2
    e = math.exp(slope * z)
    assert change.item() == pytest.approx((1 / 4 - 1 / (4 + e)) / 2, rel=1e-5)
    (gradient,) = torch.autograd.grad(change, features)
    assert gradient.item() == pytest.approx(slope * e / (4 + e) ** 2 / 2, rel=1e-5)


def test_on_cora_the_second_perturbation_raises_the_change_of_attention_more_than_the_shared_one():
    data = fb.load_dataset("cora", seed=0)
    model = fb.fit("vanilla", fb.build_model("gat", data), data, epochs=30)
    problem = NodeProblem(data, Split.of(data))
    faithful = Faithfulness(
        FGAIOptions(), Fit(model, data, problem.split, problem.supervision, Training(), 0, teacher=model)
    )
    shared = problem.inner({"loss": "tvd"})
    with torch.no_grad():
        clean = faithful.seen(model(data))

        def after(attacked):
            return faithful.surrogate(clean, faithful.seen(model(attacked.data))).item()

        change = {
            name: [after(attack(model, data, seed)) for seed in range(3)]
            for name, attack in {"shared": shared, "own": shared.maximising(faithful.attention_change)}.items()
        }
    assert all(own > shared > 0 for own, shared in zip(change["own"], change["shared"], strict=True)), change


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({"explanation_attack": "shared"}, ["output"]),
        ({"explanation_attack": "own"}, ["output", "attention"]),
        ({"explanation_attack": "own", "explanation": 0.0}, ["output"]),
        ({"explanation_attack": "own", "prediction": 0.0}, ["attention"]),
        ({"explanation_attack": "shared", "prediction": 0.0}, ["output"]),
    ],
)
def test_each_perturbed_term_has_an_attack_of_its_own_unless_it_is_shared(options, asked):
    seen = []

    class Asked:
        """An inner attack that notes what it maximises, and with which seed."""

        def __init__(self, attack, aim):
            self.attack, self.aim = attack, aim

        def maximising(self, objective):
            return Asked(self.attack.maximising(objective), "attention")

        def __call__(self, model, data, seed):
            seen.append((self.aim, seed))
            return self.attack(model, data, seed)

    fit(epochs=2, inner=Asked(INNER, "output"), **options)
    assert [aim for aim, _ in seen] == asked * 2
    assert len({seed for _, seed in seen}) == len(seen)


def test_each_perturbed_term_is_taken_on_the_graph_of_its_own_attack():
    """Two attacks that return fixed graphs, an injected node of ones and one of -3; each term by its formula."""
    data = PROBLEM.training_data

    def with_node(value):
        extended = data.clone()
        extended.x = torch.cat([data.x, torch.full((1, data.x.shape[1]), value)])
        extended.edge_index = torch.cat([data.edge_index, torch.tensor([[36, 0], [0, 36]])], dim=1)
        return extended

    graphs = {"output": with_node(1.0), "attention": with_node(-3.0)}

    class Fixed:
        def __init__(self, aim):
            self.aim = aim

        def maximising(self, objective):
            return Fixed("attention")

        def __call__(self, model, data, seed):
            return SimpleNamespace(data=graphs[self.aim], injected=None)

    options = {"closeness": 0.0, "similarity": 0.0, "explanation": 3.0, "dropout": False}
    found = fit(inner=Fixed("output"), **options).history[0]
    teacher = trained_model()
    with torch.no_grad():
        clean, *perturbed = (teacher(graph) for graph in (data, graphs["output"], graphs["attention"]))
    w, edges = clean.attention.of_graph().weight, data.edge_index.shape[1]
    change = [tvd(clean.logits, out.logits[:36]).item() for out in perturbed]
    surrogate = [3 * topk_surrogate(w, out.attention.weight[:edges], edges // 2).item() for out in perturbed]
    assert found["prediction"] == pytest.approx(change[0], rel=1e-4)
    assert found["explanation"] == pytest.approx(surrogate[1], rel=1e-4)
    assert abs(change[0] - change[1]) > 0.1 * change[0]
    assert abs(surrogate[0] - surrogate[1]) > 0.1 * surrogate[1]


def test_a_control_has_nothing_to_maximise_and_another_attack_says_so():
    control = PROBLEM.inner({"attack": "random-injection", "nodes": 2, "edges_per_node": 4})
    assert fit(inner=control).history
    with pytest.raises(TypeError, match="cannot maximise another objective than its own"):
        fit(inner=PROBLEM.inner({"attack": "worst", "nodes": 2, "edges_per_node": 4}))


def test_both_perturbations_repeat_with_the_seed():
    one, two = (fit(epochs=3) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))


@pytest.mark.parametrize("name", ["fgai", "at"])
def test_the_inner_attack_aims_where_the_option_says(name):
    aims = {aim: PROBLEM.inner(DEFENSES[name](aim=aim).inner_options).targets.tolist() for aim in ("all", "train")}
    assert aims == {"all": list(range(36)), "train": PROBLEM.split.train.tolist()}


def test_k_above_one_is_a_number_of_edges():
    assert Faithfulness(FGAIOptions(k=35), given()).k == Faithfulness(FGAIOptions(k=0.25), given()).k == 35
    assert Faithfulness(FGAIOptions(k=10**6), given()).k == 140
    with pytest.raises(ValidationError, match="a share of the edges"):
        FGAIOptions(k=35, scope="node")


def test_labels_are_not_read_at_all():
    scrambled = PROBLEM.training_data.clone()
    scrambled.y = torch.zeros_like(scrambled.y)
    arguments = {"teacher": trained_model(), "inner": INNER, "training": Training(epochs=2)}
    one, two = (
        DEFENSES["fgai"]().fit(tiny_model(), data, PROBLEM.split, **arguments)
        for data in (scrambled, PROBLEM.training_data)
    )
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))


def test_in_units_of_a_node_two_copies_of_a_graph_give_the_terms_of_one():
    """The published terms double with the graph (D) or stay (L_k); in units of a node all of them stay."""
    one, options = tiny_graph(), {"closeness": 1.0, "similarity": 1.0, "output": "probability"}
    nodes = one.x.shape[0]
    two = one.clone()
    two.x, two.y = torch.cat([one.x, one.x]), torch.cat([one.y, one.y])
    two.edge_index = torch.cat([one.edge_index, one.edge_index + nodes], dim=1)
    losses = {}
    for unit in ("graph", "node"):
        for name, data in (("one", one), ("two", two)):
            task = NodeSupervision(data, PROBLEM.split)
            given = Fit(tiny_model(), data, PROBLEM.split, task, Training(), 0, teacher=trained_model())
            faithful = Faithfulness(FGAIOptions(unit=unit, **options), given)
            with torch.no_grad():
                out = tiny_model().eval()(data)
            losses[unit, name] = {
                term: value.item() for term, value in faithful.towards_teacher(faithful.seen(out)).items()
            }
    assert losses["node", "two"] == pytest.approx(losses["node", "one"], rel=1e-4)
    assert losses["graph", "two"]["closeness"] == pytest.approx(2 * losses["graph", "one"]["closeness"], rel=1e-4)
    assert 0 < losses["node", "one"]["closeness"] < 1
    assert 0 < losses["node", "one"]["similarity"] < 1
