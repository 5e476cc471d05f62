"""A user's own network and graph get a card in one call, whatever usual form they have."""

from __future__ import annotations

import copy
import inspect

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.datasets import ExplainerDataset, KarateClub
from torch_geometric.datasets.graph_generator import BAGraph
from torch_geometric.nn import GAT

import fgai_bench as fb
from fgai_bench.cli.evaluate import evaluate as command
from fgai_bench.data.extend import typical_row
from fgai_bench.testing.fixture import CLASSES, FEATURES
from tests.card.networks import NETWORKS, WithEdgeAttributes, trained

QUICK = ("injection",)


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def directed(data: Data) -> Data:
    """Return the graph with one direction of most of its edges left out."""
    graph = copy.copy(data)
    keep = (data.edge_index[0] < data.edge_index[1]) | (torch.arange(data.num_edges) % 5 == 0)
    graph.edge_index = data.edge_index[:, keep]
    return graph


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_trained_elsewhere_gets_a_card(name, data):
    network = trained(NETWORKS[name](), data)
    card = fb.evaluate(network, data, attacks=QUICK)
    with torch.no_grad():
        logits = network(data) if name == "transformer" else network(data.x, data.edge_index)
    right = (logits.argmax(1) == data.y)[data.test_mask].numpy()
    assert np.array_equal(card.measured.right, right)
    assert card.facts["test nodes"] == int(data.test_mask.sum())
    assert card.row("f1", "injection").seeds == 3
    assert card.row("attention_change", "injection").value > 0
    assert network.training is False
    assert not any(module._forward_hooks for module in network.modules())


@pytest.mark.slow
def test_the_first_five_minutes_of_a_user():
    """KarateClub as PyG gives it, which names four training nodes only."""
    dataset = KarateClub()
    graph = dataset[0]
    card = fb.evaluate(trained(GAT(graph.num_features, 8, 2, dataset.num_classes), graph, epochs=60), dataset)
    assert list(card.measured.outcomes) == ["random-injection", "injection", "worst"]
    clean, worst = card.row("f1"), card.row("f1", "worst")
    assert worst.value <= card.row("f1", "injection").value <= clean.value
    assert (worst.seeds, worst.nodes) == (1, 30)
    assert worst.low < worst.value < worst.high
    assert "the graph names no test nodes: tested on all nodes outside the train nodes" in card.notes
    assert card.chosen.threat.nodes == 1


def test_motifs_with_features_of_one_value():
    graph = ExplainerDataset(BAGraph(30, 2), "house", num_motifs=3)[0]
    graph.x = torch.ones(graph.num_nodes, 4)
    graph.train_mask = torch.arange(graph.num_nodes) % 2 == 0
    network = trained(GAT(4, 8, 2, 4), graph, epochs=20)
    card = fb.evaluate(network, graph, attacks=QUICK)
    assert (card.chosen.threat.feature_low, card.chosen.threat.feature_high) == (0.0, 1.0)
    assert card.facts["test nodes"] == int((~graph.train_mask).sum())


def test_a_directed_graph_stays_directed(data):
    graph = directed(data)
    network = trained(NETWORKS["gat"](), graph)
    card = fb.evaluate(network, graph, attacks=QUICK)
    with torch.no_grad():
        right = (network(graph.x, graph.edge_index).argmax(1) == graph.y)[graph.test_mask]
    assert np.array_equal(card.measured.right, right.numpy())
    assert f"{graph.num_edges} directed edges" in card.title
    assert any("stays so" in note for note in card.notes)


def test_edge_attributes_reach_the_network(data):
    graph = directed(data)
    graph.edge_attr = torch.rand(graph.num_edges, 2)
    network = trained(WithEdgeAttributes(), graph, "edge_attr")
    card = fb.evaluate(network, graph, attacks=QUICK)
    with torch.no_grad():
        right = (network(graph.x, graph.edge_index, graph.edge_attr).argmax(1) == graph.y)[graph.test_mask]
    assert np.array_equal(card.measured.right, right.numpy())
    assert "the network is given x, edge_index, edge_attr" in card.notes


def test_an_attacked_graph_goes_through_the_users_own_network(data):
    """What an attack returns is a whole graph: the user's network gives on it what the search saw."""
    graph = copy.copy(data)
    graph.edge_attr = torch.rand(graph.num_edges, 2)
    network = trained(WithEdgeAttributes(), graph, "edge_attr", epochs=5)
    found = fb.attack("injection", network, graph, threat="auto").data
    new = found.num_edges - graph.num_edges
    assert torch.allclose(found.edge_attr[-new:], typical_row(graph.edge_attr).expand(new, 2))
    assert found.train_mask.shape == found.y.shape == (found.num_nodes,)
    with torch.no_grad():
        theirs = network(found.x, found.edge_index, found.edge_attr)
        ours = fb.wrap(network).on_graph(graph).propagate(found.x, found.edge_index).logits
    assert torch.allclose(theirs, ours, atol=1e-6)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_features_give_the_card_of_dense_ones(layout, data, network):
    sparse = copy.copy(data)
    sparse.x = data.x.to_sparse(layout=layout)
    dense, same = (fb.evaluate(network, graph, attacks=QUICK) for graph in (data, sparse))
    assert same.frame.equals(dense.frame)


def scaled_by_ten(data: Data, network: torch.nn.Module) -> tuple[Data, torch.nn.Module]:
    """Return ten times the features, and the network that does with them what it did before."""
    graph, other = copy.copy(data), copy.deepcopy(network)
    graph.x = 10 * data.x
    with torch.no_grad():
        other.first.lin.weight /= 10
    return graph, other


def test_features_of_another_scale_get_the_same_card(data, network):
    graph, other = scaled_by_ten(data, network)
    first, second = (fb.evaluate(n, g, attacks=QUICK) for n, g in ((network, data), (other, graph)))
    assert second.chosen.threat.feature_high == pytest.approx(10 * first.chosen.threat.feature_high)
    assert (second.prediction, second.explanation) == (first.prediction, first.explanation)
    assert np.allclose(second.frame.value, first.frame.value, atol=1e-3)


@pytest.mark.slow
def test_the_standard_attack_finds_what_learned_placements_find_in_an_even_network():
    data = fb.load_dataset("cora", seed=0)
    card = fb.evaluate(fb.fit("gcn", fb.build_model("gat", data), data), data, attacks=("worst", "learned-placement"))
    assert card.row("f1", "worst").value <= card.row("f1", "learned-placement").value + 0.002


def test_the_command_attacks_as_the_function_does():
    of_function = inspect.signature(fb.evaluate).parameters["attacks"].default
    assert inspect.signature(command).parameters["attacks"].default.split(",") == list(of_function)
    assert "worst" in of_function


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_the_default_card_of_every_kind_of_network(name, data):
    card = fb.evaluate(trained(NETWORKS[name](), data), data)
    assert card.row("f1", "worst").value <= card.row("f1", "injection").value


@pytest.mark.slow
def test_features_of_another_scale_get_the_same_verdict_under_the_standard_attack(data, network):
    graph, other = scaled_by_ten(data, network)
    first, second = (fb.evaluate(n, g) for n, g in ((network, data), (other, graph)))
    assert second.prediction == first.prediction
    assert second.row("f1", "worst").value == pytest.approx(first.row("f1", "worst").value, abs=0.1)


def test_models_of_this_package_get_cards_too(data):
    model = fb.fit("vanilla", fb.build_model("gat", data), data, epochs=20)
    card = fb.evaluate(model, data, attacks=QUICK)
    assert card.title.startswith("GAT (")
    assert not any("is given" in note for note in card.notes)


def test_a_network_without_attention_is_explained_by_its_gradients(data):
    model = fb.fit("gnn-svd-sparse", fb.build_model("gat", data), data, epochs=3)
    card = fb.evaluate(model, data, attacks=QUICK)
    assert card.explanation == "none"
    assert list(card.frame.quantity[card.frame.part == "explanation"]) == ["gradient_effect_correlation"]
    assert "Explanation: the network has no attention; its gradients rank edges by their effect" in str(card)
    assert card.figure().axes


def test_several_splits_are_told_apart(data, network):
    graph = copy.copy(data)
    for part in ("train", "val", "test"):
        graph[f"{part}_mask"] = torch.stack([data[f"{part}_mask"], data[f"{part}_mask"].roll(3)], 1)
    card = fb.evaluate(network, graph, attacks=QUICK, split=1)
    right = (network(data.x, data.edge_index).argmax(1) == data.y)[data.test_mask.roll(3)]
    assert np.array_equal(card.measured.right, right.numpy())
    assert "the masks hold 2 splits: this is split 1" in card.notes


def test_the_same_seed_gives_the_same_card_and_another_seed_another_attack(data, network):
    first, same, other = (fb.evaluate(network, data, attacks=QUICK, seed=seed) for seed in (0, 0, 9))
    assert first.frame.equals(same.frame)
    assert not first.frame.equals(other.frame)


def test_training_sees_no_test_label_and_takes_options_by_name(data):
    hidden = copy.copy(data)
    hidden.y = data.y.clone()
    hidden.y[data.test_mask] = (data.y[data.test_mask] + 1) % CLASSES
    start = fb.build_model("gat", data)
    first, second = (
        fb.fit("fgai", start, graph, epochs=3, similarity=7.0, inner={"nodes": 2, "steps": 2})
        for graph in (data, hidden)
    )
    with torch.no_grad():
        assert torch.equal(first(data).logits, second(data).logits)
    assert len(first.history) == 3


@pytest.mark.parametrize("attack", ["prbcd", "random-edges", "feature-pgd"])
def test_an_inner_attack_may_change_edges_or_features(attack, data):
    inner = {"attack": attack, "edges": 4, "steps": 2}
    assert len(fb.fit("at", fb.build_model("gat", data), data, epochs=2, inner=inner).history) == 2


def test_a_wrapped_network_can_be_defended(data, network):
    for defense in ("ln", "at"):
        fitted = fb.fit(defense, network, data, epochs=2, **({"inner": {"nodes": 2}} if defense == "at" else {}))
        assert fitted(data).logits.shape == (data.num_nodes, CLASSES)
    assert fb.build_model("gat", data).config["in_channels"] == FEATURES
