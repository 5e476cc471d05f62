"""What every defense on DeepRobust's GCN shares: the rules that hold for all of them, on a small graph."""

from __future__ import annotations

import copy
import random
import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from fgai_bench.attacks import ATTACKS, ThreatModel
from fgai_bench.data import Split, generate_csbm
from fgai_bench.defenses import DEFENSES, Training
from fgai_bench.defenses.deeprobust_gcn import GCNModel, GCNOptions, normalised, quiet
from fgai_bench.defenses.plain_gcn import ScaledGraph
from fgai_bench.models import AttentionModel, build_model
from fgai_bench.seeds import generator

with quiet():
    from deeprobust.graph import utils

NAMES = [name for name in DEFENSES if issubclass(getattr(DEFENSES[name], "options_class", int), GCNOptions)]
SPLIT = Split(*torch.randperm(100, generator=generator(0, "split")).split([30, 20, 50]))


def graph() -> Data:
    """100 nodes in 3 classes with 300 undirected edges."""
    drawn = generate_csbm(edges=300, degree=6, classes=3, features=12, signal=1.0)
    drawn.edge_index = to_undirected(drawn.edge_index)
    return drawn


def fitted(name: str, data: Data | None = None, seed: int = 0, epochs: int = 4, **options: Any) -> AttentionModel:
    model = build_model("gat", 12, 3)
    return DEFENSES[name](**options).fit(model, data or graph(), SPLIT, seed, training=Training(epochs=epochs))  # type: ignore[no-any-return]


@cache
def trained(name: str) -> AttentionModel:
    return fitted(name)


def logits(model: AttentionModel, data: Data) -> torch.Tensor:
    with torch.no_grad():
        return model(data).logits


def test_quiet_hides_prints_and_warnings_and_puts_pythons_random_state_back(
    capsys: pytest.CaptureFixture[str],
) -> None:
    state = random.getstate()
    with quiet():
        print(random.random())
        warnings.warn("optional package missing", stacklevel=1)
    assert random.getstate() == state
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", NAMES)
def test_fit_leaves_no_trace(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    model, data = build_model("gat", 12, 3), graph()
    before, parameters, mode = data.clone(), copy.deepcopy(model.state_dict()), model.training
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    DEFENSES[name]().fit(model, data, SPLIT, training=Training(epochs=2))
    assert torch.equal(states[0], torch.get_rng_state())
    assert (states[1] == np.random.get_state()[1]).all()
    assert states[2] == random.getstate()
    assert model.training is mode
    assert all(torch.equal(value, parameters[key]) for key, value in model.state_dict().items())
    assert all(torch.equal(data[key], before[key]) for key in ("x", "edge_index", "y"))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("name", NAMES)
def test_one_seed_one_model_and_test_labels_are_never_read(name: str) -> None:
    scrambled = graph()
    scrambled.y[SPLIT.test] = (scrambled.y[SPLIT.test] + 1) % 3
    expected = logits(trained(name), graph())
    assert torch.equal(logits(fitted(name, scrambled), graph()), expected)
    assert not torch.equal(logits(fitted(name, seed=1), graph()), expected)


@pytest.mark.parametrize("name", NAMES)
def test_the_result_is_a_trained_model_of_ours(name: str) -> None:
    seen: list[tuple[int, int]] = []
    model = DEFENSES[name]().fit(
        build_model("gat", 12, 3),
        graph(),
        SPLIT,
        training=Training(epochs=4),
        progress=lambda done, of: seen.append((done, of)),
    )
    assert isinstance(model, GCNModel)
    assert not model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert [set(row) for row in model.history] == [{"prediction"}] * 4
    assert model.history[-1]["prediction"] < model.history[0]["prediction"]
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize("name", NAMES)
def test_no_epochs_give_the_initial_network(name: str) -> None:
    model = fitted(name, epochs=0)
    assert model.history == []
    assert torch.equal(logits(model, graph()), logits(model.rebuilt(seed=0).eval(), graph()))


@pytest.mark.parametrize("name", NAMES)
def test_a_stored_model_comes_back_from_its_configuration_and_parameters(name: str) -> None:
    model = trained(name)
    again = type(model)(**model.config)
    again.load_state_dict(model.state_dict())
    assert torch.equal(logits(again.eval(), graph()), logits(model, graph()))


@pytest.mark.parametrize("name", NAMES)
def test_embedding_is_row_by_row_and_takes_both_layouts(name: str) -> None:
    model, x = trained(name), graph().x
    with torch.no_grad():
        whole = model.embed(x)
        assert torch.allclose(model.embed(x[[7, 3]]), whole[[7, 3]], atol=1e-6)
        assert torch.allclose(model.embed(x.to_sparse_csr()), whole, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_training_takes_sparse_features(name: str) -> None:
    sparse = graph()
    sparse.x = sparse.x.to_sparse_csr()
    assert torch.allclose(logits(fitted(name, sparse), graph()), logits(trained(name), graph()), atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_the_training_graph_in_another_order_of_edges_predicts_the_same(name: str) -> None:
    data = graph()
    data.edge_index = data.edge_index[:, torch.randperm(data.num_edges, generator=torch.Generator().manual_seed(0))]
    assert torch.allclose(logits(trained(name), data), logits(trained(name), graph()), atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_injection_ascends_through_the_defended_model(name: str) -> None:
    threat = ThreatModel(nodes=3, edges_per_node=8, steps=5)
    attacked = ATTACKS["injection"]()(trained(name), graph(), SPLIT.test, threat=threat)
    assert attacked.flags == ()
    assert max(attacked.curve) > attacked.curve[0]
    assert (attacked.ledger.nodes, attacked.ledger.edges) == (3, 24)


@pytest.mark.parametrize("name", NAMES)
def test_an_edge_of_weight_zero_is_no_edge_and_weights_have_gradients(name: str) -> None:
    model, data = trained(name), graph()
    new = torch.tensor([[0, 50, 1, 51], [50, 0, 51, 1]])
    longer = torch.cat([data.edge_index, new], dim=1)
    weight = torch.cat([torch.ones(data.num_edges), torch.zeros(2), torch.ones(2)]).requires_grad_()
    h = model.embed(data.x).detach()
    without = torch.cat([data.edge_index, new[:, 2:]], dim=1)
    weighed = model.propagate(h, longer, edge_weight=weight).logits
    assert torch.allclose(weighed, model.propagate(h, without).logits, atol=1e-4)
    (gradient,) = torch.autograd.grad(weighed.square().sum(), weight)
    assert bool(gradient.isfinite().all())
    assert bool(gradient.any())


@pytest.mark.parametrize("name", [name for name in NAMES if "no-attention" in DEFENSES.entry(name).tags])
def test_a_network_without_attention_says_so(name: str) -> None:
    model, data = trained(name), graph()
    assert model(data).attention is None
    with pytest.raises(ValueError, match="has no attention whose scores could be shifted"):
        model(data, score_shift=torch.zeros(data.num_edges + 100))


def test_the_number_of_classes_is_the_given_models_whatever_the_labels_say() -> None:
    few = graph()
    few.y = few.y.clamp(max=1)
    assert logits(fitted("gnn-svd-sparse", few, epochs=1), few).shape == (100, 3)
    unnamed = build_model("gat", 12, 3)
    del unnamed.config["num_classes"]
    model = DEFENSES["gnn-svd-sparse"]().fit(unnamed, few, SPLIT, training=Training(epochs=1))
    assert logits(model, few).shape == (100, 3)


def test_normalisation_is_deeprobusts() -> None:
    adjacency = torch.rand(6, 6, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(normalised(adjacency), utils.normalize_adj_tensor(adjacency), atol=1e-6)


def test_edge_wise_normalisation_is_the_dense_one() -> None:
    data = graph()
    dense = torch.zeros(100, 100)
    dense[data.edge_index[1], data.edge_index[0]] = 1
    assert torch.allclose(ScaledGraph.of(data.edge_index, 100)(data.x), normalised(dense) @ data.x, atol=1e-5)


def test_the_split_is_the_one_that_is_asked_for() -> None:
    """Other training nodes, another model: the labels that are read are those of the split."""
    other = Split(SPLIT.test[:30], SPLIT.val, SPLIT.test[30:])
    model = DEFENSES["gnnguard-sparse"]().fit(build_model("gat", 12, 3), graph(), other, training=Training(epochs=4))
    assert not torch.equal(logits(model, graph()), logits(trained("gnnguard-sparse"), graph()))


def test_a_subclass_must_say_what_its_structure_is() -> None:
    with pytest.raises(TypeError, match="GCNModel must implement structure"):
        GCNModel(12, 3)(graph())
