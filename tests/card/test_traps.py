"""What used to go wrong without a word, or with one of torch's: each gets the right result or one sentence."""

from __future__ import annotations

import copy
import inspect

import pytest
import torch
from torch import nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.datasets import KarateClub
from torch_geometric.nn import GAT, GATConv, GENConv, GINEConv
from torch_geometric.transforms import RandomNodeSplit

import fgai_bench as fb
from fgai_bench.attacks import ATTACKS, ThreatModel
from fgai_bench.attacks.auto_threat import chosen_threat
from fgai_bench.data import DataError, Split
from fgai_bench.data.user_graph import given_graph, given_split
from fgai_bench.defenses import DEFENSES
from fgai_bench.models.base import ModelError
from fgai_bench.testing.fixture import CLASSES, FEATURES
from tests.card.networks import WithEdgeAttributes

QUICK = ("injection",)


def changed(data: Data, **attributes) -> Data:
    """Return the graph with some attributes replaced; None removes one."""
    content = {**data.to_dict(), **attributes}
    return Data.from_dict({name: value for name, value in content.items() if value is not None})


def test_boolean_masks_are_the_split(data):
    split, _ = given_split(given_graph(data))
    for part in ("train", "val", "test"):
        assert torch.equal(getattr(split, part), data[f"{part}_mask"].nonzero().view(-1))
    assert torch.equal(Split.given(data).train, split.train)


def test_masks_where_indices_are_meant_are_read_as_masks(data, network):
    by_mask = fb.attack("injection", network, data, threat="auto", targets=data.test_mask)
    by_index = fb.attack("injection", network, data, threat="auto", targets=data.test_mask.nonzero().view(-1))
    assert torch.equal(by_mask.data.edge_index, by_index.data.edge_index)
    model = fb.wrap(network)
    first_release = ATTACKS["injection"]()(model, data, data.test_mask, threat=ThreatModel(nodes=1, edges_per_node=3))
    assert first_release.ledger.edges == 3
    split = Split(data.train_mask, data.val_mask, data.test_mask)
    assert torch.equal(split.test, data.test_mask.nonzero().view(-1))
    parts, _ = given_split(given_graph(changed(data, test_mask=None, test_index=data.test_mask)))
    assert torch.equal(parts.test, split.test)


def test_a_new_split_by_masks_counts_and_the_indices_that_it_left_behind_are_named():
    graph = fb.load_dataset("csbm-1e3", seed=0)
    drawn = RandomNodeSplit(num_val=20, num_test=30)(graph)
    split, notes = given_split(given_graph(drawn))
    assert torch.equal(split.test, drawn.test_mask.nonzero().view(-1))
    assert len(split.test) == 30
    assert torch.equal(Split.of(drawn).train, split.train)
    assert notes == [
        "train_index, val_index, test_index of the graph name other nodes than its masks: the masks are used"
    ]
    assert given_split(given_graph(graph))[1] == []
    kept = torch.arange(graph.num_nodes) % 2 == 0
    part, _ = given_split(given_graph(graph.subgraph(kept)))
    assert torch.equal(part.test, graph.test_mask[kept].nonzero().view(-1))


def test_part_of_a_split_is_refused_where_all_of_it_is_needed(data):
    graph = changed(data, val_mask=None)
    with pytest.raises(DataError, match="carries train_mask and test_mask but neither val_mask nor val_index"):
        Split.of(graph)
    with pytest.raises(DataError, match="training needs val nodes; give the graph a val_mask"):
        fb.fit("vanilla", fb.build_model("gat", graph), graph, epochs=1)


def test_edge_attributes_follow_every_change_of_the_edges(data):
    """Deleted, reordered and new edges: each edge keeps its own attribute."""
    graph = changed(data, edge_attr=torch.rand(data.num_edges, 2))
    network = WithEdgeAttributes().eval()
    model = fb.wrap(network).on_graph(graph)
    order = torch.randperm(data.num_edges, generator=torch.Generator().manual_seed(0))[:100]
    with torch.no_grad():
        theirs = network(graph.x, graph.edge_index[:, order], graph.edge_attr[order])
        ours = model.propagate(graph.x, graph.edge_index[:, order]).logits
    assert torch.allclose(theirs, ours, atol=1e-6)


def test_inputs_that_the_graph_lacks_are_named(data):
    with pytest.raises(ModelError, match="forward needs edge_attr, which the graph does not carry; it carries x, edge"):
        fb.evaluate(WithEdgeAttributes(), data, attacks=QUICK)
    with pytest.raises(ModelError, match=r"also needs edge_attr: call model.on_graph\(data\) first"):
        fb.wrap(WithEdgeAttributes()).propagate(data.x, data.edge_index)


def test_inputs_that_the_network_does_not_take_are_said(data, network):
    card = fb.evaluate(network, changed(data, edge_attr=torch.rand(data.num_edges, 2)), attacks=QUICK)
    assert "the graph's edge_attr is no input of this network" in card.notes


def test_an_optional_input_is_left_out_where_no_layer_uses_it(data):
    graph = changed(data, edge_attr=torch.rand(data.num_edges, 2))
    network = GAT(FEATURES, 4, 2, CLASSES, v2=True).eval()
    with torch.no_grad():
        assert torch.allclose(fb.wrap(network)(graph).logits, network(graph.x, graph.edge_index), atol=1e-6)


class WithOptional(nn.Module):
    """Two layers that use edge attributes where they are given any."""

    def __init__(self, layer: type) -> None:
        super().__init__()
        inside = nn.Sequential(nn.Linear(FEATURES, CLASSES), nn.ReLU(), nn.Linear(CLASSES, CLASSES))
        self.layer = GINEConv(inside, edge_dim=2) if layer is GINEConv else layer(FEATURES, CLASSES, edge_dim=2)

    def forward(self, x, edge_index, edge_attr=None):
        return self.layer(x, edge_index, edge_attr)


@pytest.mark.parametrize("layer", [GENConv, GINEConv, GATConv])
def test_an_optional_input_is_given_where_the_outputs_depend_on_it(layer, data):
    """GENConv computes something else without edge attributes, and GINEConv fails."""
    graph = changed(data, edge_attr=torch.rand(data.num_edges, 2))
    network = WithOptional(layer).eval()
    with torch.no_grad():
        own = network(graph.x, graph.edge_index, graph.edge_attr)
        assert torch.allclose(fb.wrap(network)(graph).logits, own, atol=1e-6)
    card = fb.evaluate(network, graph, attacks=())
    assert card.row("f1").value == float((own.argmax(1) == graph.y)[graph.test_mask].double().mean())
    assert "its optional edge_attr is given, since its outputs are others without" in card.notes
    assert "the graph's edge_attr is no input of this network" not in card.notes
    without = fb.evaluate(network, data, attacks=()) if layer is not GINEConv else card
    assert layer is GINEConv or "its optional edge_attr is given" not in str(without)


def test_a_network_that_keeps_activations_is_copied_by_their_values(data):
    network = GATConv(FEATURES, CLASSES)
    network.kept = network(data.x, data.edge_index)
    model = fb.wrap(network)
    model.module.kept = model(data).logits
    again = copy.deepcopy(model)
    assert torch.equal(again.module.kept, model.module.kept)
    assert not again.module.kept.requires_grad
    assert network.kept.requires_grad  # the user's own is as it was
    with torch.no_grad():
        assert torch.equal(again(data).logits, model(data).logits)
    assert fb.fit("vanilla", network, data, epochs=1)(data).logits.shape == (data.num_nodes, CLASSES)


def test_a_budget_follows_the_features_and_the_size_of_the_graph(data):
    small = Data(x=50 + 50 * torch.rand(8, 3), edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), y=torch.zeros(8).long())
    threat = chosen_threat("auto", small, torch.arange(8)).threat
    assert (threat.nodes, threat.edges_per_node) == (1, 1)
    assert threat.feature_low == float(small.x.min())
    assert threat.feature_high == float(small.x.max())


def test_a_budget_that_does_not_fit_warns(data, network):
    graph = changed(data, x=10 * data.x)
    with pytest.warns(UserWarning, match="auto") as told:
        found = fb.attack("injection", network, graph, threat="paper")
    sentences = [str(warning.message) for warning in told]
    assert any("but the attacker may use [-1, 1]: the network looks stronger than it is" in text for text in sentences)
    assert any(f"20 nodes are added to a graph of {data.num_nodes}" in text for text in sentences)
    assert set(sentences) <= set(found.flags)
    assert set(sentences) <= set(fb.evaluate(network, graph, attacks=QUICK, threat="paper").alarms)


def test_a_budget_is_that_of_the_scenario_of_the_attack(data, network):
    graph = changed(data, x=10 * data.x)
    assert fb.attack("feature-pgd", network, graph, ThreatModel(nodes=1)).flags == ()  # its range is of new nodes
    with pytest.raises(ValueError, match=r"worst is an attack of the scenario 'injection', .* are .*worst-edges"):
        fb.attack("worst", network, graph, ThreatModel(scenario="edges", edges=1))  # 20 nodes are another budget


def test_a_doubled_self_loop_is_named_with_the_way_out(data, network):
    graph = changed(data, edge_index=torch.cat([data.edge_index, torch.tensor([[3, 3], [3, 3]])], 1))
    with pytest.raises(ModelError, match=r"several self-loops at node 3; data.coalesce\(\) leaves one of each edge"):
        fb.evaluate(network, graph, attacks=())
    assert fb.evaluate(network, graph.coalesce(), attacks=()).facts["nodes"] == data.num_nodes


def test_a_step_follows_the_range_and_too_few_steps_are_an_alarm(data):
    assert ThreatModel(feature_low=0.0, feature_high=10.5).step == 1.05
    assert (ThreatModel().step, ThreatModel(feature_low=-3, feature_high=1).step) == (0.1, 0.3)
    targets, ranges = torch.arange(4), {"feature_low": 0.0, "feature_high": 3.0}
    slow = chosen_threat(ThreatModel(nodes=1, step=0.1, **ranges), data, targets)
    assert slow.alarms[0].startswith("10 steps of 0.1 cannot cross [0, 3]: the published attack looks weaker")
    assert not chosen_threat(ThreatModel(nodes=1, **ranges), data, targets).alarms


def test_attack_certify_and_evaluate_have_the_same_default_threat():
    functions = (fb.attack, fb.certify, fb.evaluate)
    assert {inspect.signature(function).parameters["threat"].default for function in functions} == {"auto"}


def test_the_name_of_a_dataset_is_that_graph(network):
    model = fb.build_model("mlp", "csbm-1e3", hidden=4)
    card = fb.evaluate(model, "csbm-1e3", attacks=())
    assert card.facts["nodes"] == fb.load_dataset("csbm-1e3").num_nodes
    with pytest.raises(ValueError, match="unknown dataset 'coar'; the nearest names are: cora"):
        fb.evaluate(network, "coar")


def test_unlabelled_test_nodes_are_left_out_and_said(data, network):
    test = data.test_mask.nonzero().view(-1)
    y = data.y.clone()
    y[test[:4]] = torch.tensor([-1, -1, -100, -1])
    card = fb.evaluate(network, changed(data, y=y), attacks=QUICK)
    assert card.facts["test nodes"] == test.numel() - 4
    assert f"4 of {test.numel()} test nodes have no label and are left out" in card.notes
    with pytest.raises(ValueError, match="4 of the targets have no label"):
        fb.attack("injection", network, changed(data, y=y), targets=test)


def test_nothing_to_test_on_is_no_perfect_score(data, network):
    with pytest.raises(DataError, match="no node to test on: its test mask is empty"):
        fb.evaluate(network, changed(data, test_mask=torch.zeros_like(data.test_mask)))
    y = torch.where(data.test_mask, -1, data.y)
    with pytest.raises(DataError, match="no node to test on: its test nodes have no labels"):
        fb.evaluate(network, changed(data, y=y))


def test_a_node_in_two_parts_is_refused(data, network):
    with pytest.raises(DataError, match="are both train and test nodes; each node may be in one part"):
        fb.evaluate(network, changed(data, test_mask=~data.val_mask))


@pytest.mark.parametrize(
    "as_given",
    [
        lambda d: changed(d, x=d.x.double()),
        lambda d: changed(d, x=d.x.to_sparse()),
        lambda d: changed(d, y=d.y.view(-1, 1)),
        lambda d: changed(d, y=d.y.double()),
        lambda d: changed(d, edge_index=d.edge_index.int()),
        lambda d: changed(d, test_mask=d.test_mask.long()),
        lambda d: changed(d, test_mask=None, test_index=d.test_mask.nonzero().view(-1).flip(0)),
    ],
    ids=["double", "coo", "column of labels", "labels as numbers", "short edges", "mask of numbers", "indices"],
)
def test_usual_forms_of_a_graph_mean_the_same(as_given, data, network):
    found = fb.attack("random-injection", network, as_given(data), threat="auto")
    same = fb.attack("random-injection", network, data, threat="auto")
    assert torch.equal(found.data.edge_index, same.data.edge_index)
    assert torch.equal(found.data.x.to_dense(), same.data.x.to_dense())


def test_a_network_in_double_precision_is_evaluated_in_single(data, network):
    double = copy.deepcopy(network).double()
    with torch.no_grad():
        assert torch.allclose(fb.wrap(double)(data).logits, network(data.x, data.edge_index), atol=1e-5)
    assert next(double.parameters()).dtype == torch.float64


WRONG_GRAPHS = {
    "no features": (lambda d: changed(d, x=None), "the graph has no features; set data.x"),
    "a vector of features": (
        lambda d: changed(d, x=d.x[:, 0]),
        r"must have the shape \(nodes, features\), not \(36,\)",
    ),
    "NaN": (lambda d: changed(d, x=d.x / 0), "NaN or infinite"),
    "no edges": (lambda d: changed(d, edge_index=None), "the graph has no edge_index"),
    "edges that lie": (lambda d: changed(d, edge_index=d.edge_index.t()), r"of the shape \(2, edges\), not \(140, 2\)"),
    "an edge to nowhere": (lambda d: changed(d, edge_index=d.edge_index + 9), "names the node 44, but data.x has 36"),
    "no labels": (lambda d: changed(d, y=None), "the graph has no labels"),
    "several labels": (lambda d: changed(d, y=torch.ones(36, 3)), "of several labels per node, choose one"),
    "regression": (lambda d: changed(d, y=d.y + 0.5), "about classes, not about regression"),
    "edge attributes of another length": (lambda d: changed(d, edge_attr=torch.ones(3)), "but the graph has 140 edges"),
    "a short mask": (lambda d: changed(d, test_mask=d.test_mask[:9]), "but the graph has 36 nodes"),
    "an unknown node": (lambda d: changed(d, test_mask=None, test_index=torch.tensor([99])), "names the node 99"),
    "two kinds of nodes": (lambda d: HeteroData(), "a HeteroData has to_homogeneous"),
    "several graphs": (lambda d: [d, d], "not a list of 2; choose one of it"),
}


@pytest.mark.parametrize("what", WRONG_GRAPHS)
def test_a_graph_that_cannot_be_used_is_answered_with_one_sentence(what, data, network):
    spoiled, sentence = WRONG_GRAPHS[what]
    with pytest.raises(DataError, match=sentence) as told:
        fb.evaluate(network, spoiled(data), attacks=QUICK)
    assert "\n" not in str(told.value)


class InPlace(GATConv):
    def forward(self, x, edge_index):
        return super().forward(x.mul_(2), edge_index)


WRONG_NETWORKS = {
    "writes into the graph": (lambda: InPlace(FEATURES, CLASSES), "the network changes x in place"),
    "a class": (lambda: GAT, "a network is needed, a torch.nn.Module, not the class GAT"),
    "other features": (lambda: GAT(5, 4, 2, CLASSES), r"cannot be called with x \(36, 8\), edge_index \(2, 140\)"),
    "too few classes": (lambda: GAT(FEATURES, 4, 2, 2), "has 2 outputs, but the labels go up to class 2"),
}


@pytest.mark.parametrize("what", WRONG_NETWORKS)
def test_a_network_that_cannot_be_used_is_answered_with_one_sentence(what, data):
    made, sentence = WRONG_NETWORKS[what]
    with pytest.raises(ModelError, match=sentence):
        fb.evaluate(made(), data, attacks=QUICK)


def test_a_network_that_writes_into_its_input_leaves_the_users_graph_as_it_is(data):
    graph = data.clone()
    with pytest.raises(ModelError, match="in place"):
        fb.attack("injection", InPlace(FEATURES, CLASSES), graph)
    assert torch.equal(graph.x, data.x)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_the_mode_of_the_caller_does_not_matter(mode, data, network):
    outside = fb.fit("at", network, data, epochs=2)
    found = fb.attack("injection", network, data)
    with mode():
        graph = data.clone()
        inside = fb.fit("at", network, graph, epochs=2)
        same = fb.attack("injection", network, graph)
        fb.evaluate(fb.build_model("gat", graph), graph, attacks=QUICK, progress=False)
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()
    assert all(map(torch.equal, inside.state_dict().values(), outside.state_dict().values()))
    assert torch.equal(found.data.x, same.data.x)


def test_a_network_that_draws_gives_the_same_attack_twice_and_leaves_the_random_state(data):
    class Noisy(GATConv):
        def forward(self, x, edge_index):
            return super().forward(x + torch.rand_like(x), edge_index)

    network, before = Noisy(FEATURES, CLASSES), torch.get_rng_state()
    first, second = (fb.attack("injection", network, data) for _ in range(2))
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(first.data.x, second.data.x)


def test_where_no_node_has_two_in_edges_the_card_still_says_what_predictions_are_worth(data, network):
    path = torch.stack([torch.arange(35), torch.arange(1, 36)])
    card = fb.evaluate(network, changed(data, edge_index=path), attacks=QUICK)
    assert card.explanation == "unproven"
    assert "attention is not shown to explain the predictions" in str(card)


def test_roc_auc_of_test_nodes_of_one_class_is_refused(data):
    y = (data.y == 0).long()
    y[data.test_mask] = 1
    graph = changed(data, y=y, score="roc_auc")
    with pytest.raises(ValueError, match="those that are scored have one class only"):
        fb.evaluate(GATConv(FEATURES, CLASSES), graph, attacks=QUICK)


def test_unwrapped_modules_are_wrapped_or_refused_with_the_way_out(data, network):
    with pytest.raises(
        ModelError, match=r"WithBatchNorm is not a model of this package; wrap it first: fgai_bench.wrap"
    ):
        ATTACKS["injection"]()(network, data, data.test_mask)
    with pytest.raises(ModelError, match="wrap it first"):
        DEFENSES["vanilla"]().fit(network, data)
    assert isinstance(network, nn.Module)
    assert fb.wrap(fb.wrap(network)).module is not network


def test_a_dataset_of_one_graph_is_that_graph():
    assert torch.equal(given_graph(KarateClub()).edge_index, KarateClub()[0].edge_index)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda n, d: fb.evaluate(n, d, attacks=("wurst",)), "unknown attack 'wurst'; the nearest names are: worst"),
        (lambda n, d: fb.evaluate(n, d, threat="papre"), "unknown threat 'papre'; possible are 'auto', 'paper'"),
        (lambda n, d: fb.attack("worst", n, d, threat="auto", loss="nll"), "'worst' has no option 'loss'"),
        (lambda n, d: fb.fit("at", n, d, wieght=1), "the defense 'at': unknown key 'wieght'; did you mean 'weight'"),
        (lambda n, d: fb.fit("fgai", n, d, similarty=1), "did you mean 'similarity'"),
        (lambda n, d: fb.fit("vanilla", n, d, epochs=-1), "epochs"),
        (lambda n, d: fb.fit("vanilla", copy.deepcopy(n).requires_grad_(False), d), "the network has nothing to train"),
        (lambda n, d: fb.fit("vanilla", n, d, lr=-1), "the training of the defense 'vanilla': lr: input should be"),
        (lambda n, d: fb.fit("at", n, d, inner={"nods": 1}), "the inner attack of 'at': unknown key 'nods'; did you"),
        (lambda n, d: fb.attack("injection", n, d, targets="test"), "a boolean mask or a vector of node numbers"),
        (lambda n, d: fb.attack("injection", fb.wrap(n, inputs=["nope"]), d), "the network's inputs name 'nope'"),
        (lambda n, d: fb.fit("vanilla", n, d, epoch=3), "no option 'epoch'; did you mean 'epochs', of the training"),
        (lambda n, d: fb.fit("at", n, d, epoch=3), "no option 'epoch'; did you mean 'epochs', of the training"),
        (lambda n, d: fb.evaluate(n, d, split=3, attacks=QUICK), None),
    ],
)
def test_wrong_requests_are_answered_with_one_sentence(call, sentence, data, network):
    if sentence is None:
        graph = changed(data, test_mask=data.test_mask.view(-1, 1))
        with pytest.raises(DataError, match="test_mask holds 1 splits, counted from 0; there is no split 3"):
            call(network, graph)
        return
    with pytest.raises(ValueError, match=sentence) as told:
        call(network, data)
    assert type(told.value).__module__.startswith("fgai_bench")
