"""Injection: limits for any seed and budget, what is computed once, restarts, flags, sparse features, the control."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from fgai_bench.attacks import ATTACKS, ThreatModel, Victim
from fgai_bench.attacks.domain import FeatureDomain
from fgai_bench.attacks.injection import InjectionScene, injected_edges, starting_points
from fgai_bench.attacks.objectives import OBJECTIVES
from fgai_bench.data import load_dataset
from fgai_bench.models import build_model
from fgai_bench.models.affected_nodes import AffectedNodes
from fgai_bench.models.gat import GAT
from fgai_bench.testing.fixture import CLASSES, FEATURES, NODES, tiny_graph, tiny_model, trained_model

DATA, MODEL = tiny_graph(), trained_model()
SMALL = ThreatModel(nodes=3, edges_per_node=4, steps=3)


@settings(max_examples=30, deadline=None)
@given(nodes=st.integers(0, 5), each=st.integers(0, 20), seed=st.integers(0, 2**31 - 1))
def test_edges_are_distinct_and_go_to_targets(nodes, each, seed):
    targets = DATA.test_index
    edges = injected_edges(NODES, targets, ThreatModel(nodes=nodes, edges_per_node=each), seed)
    degree = min(each, targets.numel())
    assert edges.shape == (2, 2 * nodes * degree)
    out, back = edges.chunk(2, dim=1)
    assert torch.equal(out, back.flip(0))
    assert torch.equal(torch.bincount(out[0], minlength=NODES + nodes)[NODES:], torch.full((nodes,), degree))
    assert bool(torch.isin(out[1], targets).all())
    assert edges.unique(dim=1).size(1) == edges.size(1)


def test_every_injection_of_a_seed_has_the_same_edges():
    graphs = [
        ATTACKS[name]()(MODEL, DATA, DATA.test_index, threat=SMALL, seed=5)
        for name in ("injection", "random-injection")  # the published placement: at random
    ]
    assert all(torch.equal(graph.data.edge_index, graphs[0].data.edge_index) for graph in graphs)


def test_injected_nodes_have_no_label():
    found = ATTACKS["random-injection"]()(MODEL, DATA, DATA.test_index, threat=SMALL)
    assert found.data.y[NODES:].tolist() == [-1, -1, -1]
    assert torch.equal(found.data.x[:NODES], DATA.x)


@pytest.mark.parametrize("name", ["gat", "gatv2"])
def test_what_new_nodes_do_not_reach_need_not_be_computed_again(name):
    graph = load_dataset("cora")
    model = build_model(name, graph.x.shape[1], 7, hidden=4, heads=(2, 2)).eval()
    victim = Victim(model, graph, graph.test_index)
    scene = InjectionScene.prepare(victim, ThreatModel(nodes=2, edges_per_node=3), 0)
    assert scene.affected is not None
    new, near, far, last = (int(changed.sum()) for changed in scene.affected.changed)
    assert (new, near) == (2, 2 + len(set(scene.edge_index[1, scene.edge_index[0] >= graph.x.shape[0]].tolist())))
    assert near < far < last < graph.x.shape[0] / 10
    assert [len(part.nodes) for part in scene.affected.parts] == [near, far, last]
    clean = victim.evaluated()[1]
    assert AffectedNodes.of(clean.logits, clean.attention, clean.hidden, scene.edge_index.clone(), 2) is None
    no_shift = torch.zeros_like(model(scene.graph(torch.zeros(2, graph.x.shape[1]))).attention.weight)
    ways = {
        "in parts": {"affected": scene.affected},
        "by masks": {"affected": scene.affected, "score_shift": no_shift},
        "whole": {},
    }
    found = []
    for arguments in ways.values():
        features = torch.full((2, graph.x.shape[1]), 0.5, requires_grad=True)
        embedded = torch.cat([scene.embedded, model.embed(features)])
        out = model.propagate(embedded, scene.edge_index, **arguments)
        loss = out.logits.square().sum() + 1e3 * out.attention.weight.square().sum()
        found.append((out.logits, out.attention.weight, torch.autograd.grad(loss, features)[0]))
    for way in found[:-1]:
        for some, whole in zip(way, found[-1], strict=True):
            torch.testing.assert_close(some, whole)


@pytest.mark.parametrize("heads", [(2, 1), (2, 2, 1)])
def test_once_its_encodings_are_known_the_transformer_computes_only_what_new_nodes_reach(heads):
    """With two new nodes on the same targets, so that rows are listed several times."""
    graph = load_dataset("cora")
    model = build_model("gt", graph.x.shape[1], 7, hidden=8, heads=heads).eval()
    victim = Victim(model, graph, graph.test_index[:4])
    scene = InjectionScene.prepare(victim, ThreatModel(nodes=2, edges_per_node=4), 0)
    assert scene.affected.changed[1].sum() == 2 + 4
    assert scene.affected.rows[1].numel() > 2 + 4
    found = []
    for arguments in ({"affected": scene.affected}, {}):
        features = torch.full((2, graph.x.shape[1]), 0.5, requires_grad=True)
        embedded = torch.cat([scene.embedded, model.embed(features)])
        out = model.propagate(embedded, scene.edge_index, **arguments)
        loss = out.logits.square().sum() + 1e3 * out.attention.weight.square().sum()
        found.append((out.logits, out.attention.weight, torch.autograd.grad(loss, features)[0]))
    for some, whole in zip(*found, strict=True):
        torch.testing.assert_close(some, whole)
    assert (
        model.train().surroundings(scene.embedded, victim.evaluated()[1], scene.edge_index, 2) is None
    )  # batch statistics


class Counting(GAT):
    """A GAT that notes how many rows it is asked to embed."""

    def embed(self, x):
        self.rows = [*getattr(self, "rows", []), x.shape[0]]
        return super().embed(x)


@pytest.mark.parametrize("name", ["injection", "explanation"])
def test_clean_nodes_are_embedded_once(name):
    model = Counting(FEATURES, CLASSES)
    ATTACKS[name]()(model, DATA, DATA.test_index, threat=SMALL)
    assert model.rows[0] == NODES
    assert set(model.rows[1:]) == {SMALL.nodes}
    assert len(model.rows) > SMALL.steps


def test_more_restarts_are_never_weaker_and_cost_more_gradients():
    attack = ATTACKS["injection"]()
    one, three = (
        attack(MODEL, DATA, DATA.test_index, threat=SMALL.model_copy(update={"restarts": restarts}))
        for restarts in (1, 3)
    )
    assert max(three.curve) >= max(one.curve)
    assert (one.ledger.gradient_calls, three.ledger.gradient_calls) == (3, 9)


def test_the_first_start_is_near_zero_and_the_others_anywhere():
    threat = ThreatModel(nodes=4, step=0.1, restarts=2, feature_low=-1.0, feature_high=3.0)
    near, far = starting_points(DATA, threat, 0, FeatureDomain.of(threat, DATA))
    assert near.abs().max() <= 0.1
    assert -1.0 <= far.min() < -0.1
    assert 1.0 < far.max() <= 3.0


# The border of the smooth overlap is a constant of its gradient, so that single steps need not raise its value.
ASCENDING = [loss for loss in OBJECTIVES if loss != "attention-overlap"]


@pytest.mark.parametrize("loss", ASCENDING)
def test_every_loss_ascends(loss):
    found = ATTACKS["injection"](loss=loss)(MODEL, DATA, DATA.test_index, threat=SMALL)
    assert len(found.curve) == SMALL.steps + 1
    assert max(found.curve) > found.curve[0]
    assert found.flags == ()


class Deaf(GAT):
    """A model that ignores the features."""

    def embed(self, x):
        return super().embed(torch.ones(x.shape[0], FEATURES))


class Broken(GAT):
    """A model whose gradient is not finite."""

    def embed(self, x):
        return super().embed((x * 0).sqrt())


@pytest.mark.parametrize(("model", "flag"), [(Deaf, "zero gradient"), (Broken, "non-finite gradient")])
@pytest.mark.parametrize("name", ["injection", "feature-pgd", "explanation"])
def test_a_gradient_that_is_worth_nothing_is_flagged(name, model, flag):
    scenario = "features" if name == "feature-pgd" else "injection"
    threat = ThreatModel(scenario=scenario, nodes=3, edges_per_node=4, steps=3)
    found = ATTACKS[name]()(model(FEATURES, CLASSES), DATA, DATA.test_index, threat=threat)
    assert flag in found.flags


@pytest.mark.parametrize("name", ["injection", "random-injection", "explanation"])
def test_sparse_and_dense_features_are_attacked_alike(name):
    sparse = tiny_graph(sparse=True)
    ours = ATTACKS[name]()(MODEL, sparse, DATA.test_index, threat=SMALL)
    theirs = ATTACKS[name]()(MODEL, DATA, DATA.test_index, threat=SMALL)
    assert torch.allclose(ours.data.x.to_dense(), theirs.data.x, atol=1e-5)
    assert ours.data.x.layout == torch.sparse_csr


def test_the_readout_says_what_is_attacked():
    """Looking at one node only, the attack moves that node's loss and follows nothing else."""
    looked = DATA.test_index[:1]
    found = ATTACKS["injection"]()(MODEL, DATA, DATA.test_index, threat=SMALL, readout=lambda out: out.logits[looked])
    with torch.no_grad():
        clean, attacked = MODEL(DATA).logits[looked], MODEL(found.data).logits[looked]
    expected = torch.nn.functional.cross_entropy(attacked, clean.argmax(1)).item()
    assert max(found.curve) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("name", ["gat", "gatv2", "gt"])
def test_the_curve_ends_where_the_attacked_graph_stands(name):
    """The objective that the search reports is the one of the graph that it returns, positional encodings included."""
    model = tiny_model(name).eval()
    found = ATTACKS["injection"]()(model, DATA, DATA.test_index, threat=SMALL)
    with torch.no_grad():
        prediction = model(DATA).logits[DATA.test_index].argmax(1)
        loss = torch.nn.functional.cross_entropy(model(found.data).logits[DATA.test_index], prediction)
    assert max(found.curve) == pytest.approx(loss.item(), rel=1e-4)


def test_targets_fewer_than_edges_are_all_attached():
    targets = DATA.test_index[:2]
    found = ATTACKS["random-injection"]()(MODEL, DATA, targets, threat=SMALL)
    assert found.ledger.edges == SMALL.nodes * 2


def test_a_graph_without_labels_can_be_attacked():
    bare = Data(x=DATA.x, edge_index=DATA.edge_index)
    assert ATTACKS["injection"]()(MODEL, bare, DATA.test_index, threat=SMALL).ledger.nodes == 3
