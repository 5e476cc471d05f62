"""The true effect of an edge: exact, whatever the model, and equal to deleting edges one by one."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import TransformerConv

from fgai_bench.explainers import EXPLAINERS, EdgeScores, edge_effects
from fgai_bench.explainers.computation_graph import field_of
from fgai_bench.explainers.edge_effects import deletion_effects, drawn_pairs, outputs_by_removal, top_pairs
from fgai_bench.models import AttentionModel, build_model, from_pyg
from fgai_bench.testing.fixture import CLASSES, FEATURES, tiny_graph, tiny_model, trained_model
from fgai_bench.testing.traces import disturbed, no_trace_on

MODULE = import_module("fgai_bench.explainers.edge_effects")  # the package's attribute of this name is the function
NODES = torch.tensor([0, 7, 20])


class Theirs(torch.nn.Module):
    """Two layers that add no self-loops."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.first, self.second = TransformerConv(FEATURES, 4), TransformerConv(4, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(torch.relu(self.first(x, edge_index)), edge_index)


def models() -> dict[str, AttentionModel]:
    return {
        "gat": trained_model(),
        "gatv2": tiny_model("gatv2"),
        "three layers": build_model("gat", FEATURES, CLASSES, hidden=3, heads=(2, 2)),
        "gt": tiny_model("gt"),
        "pyg": from_pyg(Theirs()),
    }


@pytest.mark.parametrize("kind", ["gat", "gatv2", "three layers", "gt", "pyg"])
def test_the_effect_is_that_of_deleting_edges_one_by_one(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "MOST_COPIED_EDGES", 200)  # several parts
    model, data = models()[kind].eval(), tiny_graph()
    effects = edge_effects(model, data, NODES)
    with torch.no_grad():
        whole = model(data).logits.softmax(1)
        classes = whole.argmax(1)
        embedded = model.embed(data.x)
        for owner, edge, effect in zip(effects.owner, effects.edges, effects.values, strict=True):
            node = NODES[owner]
            kept = torch.arange(data.edge_index.size(1)) != edge
            after = model.propagate(embedded, data.edge_index[:, kept]).logits[node].softmax(0)[classes[node]]
            assert float(effect) == pytest.approx(float(whole[node, classes[node]] - after), abs=1e-6)
    assert float(effects.values.abs().max()) > 1e-4


def test_edges_may_be_deleted_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "MOST_COPIED_EDGES", 7)  # several parts
    model, data = trained_model(), tiny_graph()
    field = field_of(data.edge_index, data.x.shape[0], NODES, 2)
    labels = torch.zeros_like(NODES)
    every = deletion_effects(model, data, field, torch.arange(field.edges.numel()), labels)
    for seed in range(20):
        some = torch.randperm(field.edges.numel(), generator=torch.Generator().manual_seed(seed))[:9]
        torch.testing.assert_close(deletion_effects(model, data, field, some, labels), every[some], atol=1e-6, rtol=0)


def test_a_wrapped_network_may_lose_its_last_edge_and_be_asked_before_it_has_run() -> None:
    class One(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                self.only = TransformerConv(2, 3)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.only(x, edge_index)

    x = torch.tensor([[1.0, 2.0], [0.5, -1.0]])
    data = Data(x=x, edge_index=torch.tensor([[0], [1]]))
    effects = edge_effects(from_pyg(One()), data, torch.tensor([1]))
    with torch.no_grad():
        whole, without = (One()(x, edges)[1].softmax(0) for edges in (data.edge_index, data.edge_index[:, :0]))
    assert effects.edges.tolist() == [0]
    assert float(effects.values) == pytest.approx(float((whole - without)[whole.argmax()]), abs=1e-6)


def test_an_edge_that_cannot_matter_has_no_effect() -> None:
    """Every edge outside of the computation graph leaves the prediction as it is, and is not among the effects."""
    model, data = trained_model(), tiny_graph()
    effects = edge_effects(model, data, torch.tensor([0]))
    with torch.no_grad():
        whole = model(data).logits[0]
        for edge in set(range(data.edge_index.size(1))) - set(effects.edges.tolist()):
            kept = torch.arange(data.edge_index.size(1)) != edge
            assert torch.allclose(model.propagate(model.embed(data.x), data.edge_index[:, kept]).logits[0], whole)


def test_a_node_without_edges_has_no_effects_and_nothing_is_touched() -> None:
    data, model = tiny_graph(isolated=True), disturbed(trained_model())
    with no_trace_on(model, data):
        effects = edge_effects(model, data, torch.tensor([data.x.shape[0] - 1]))
    assert effects.values.numel() == 0


def test_a_draw_of_edges_is_of_each_node_and_repeats() -> None:
    data = tiny_graph()
    field = field_of(data.edge_index, data.x.shape[0], NODES, 2)
    some = drawn_pairs(field, 5, seed=1)
    assert torch.bincount(field.owner[some]).tolist() == [5, 5, 5]
    assert torch.equal(some, drawn_pairs(field, 5, seed=1))
    assert not torch.equal(some, drawn_pairs(field, 5, seed=2))
    into = drawn_pairs(field, 2, 1, field.leads_into_node)
    assert bool(field.leads_into_node[into].all())
    degree = torch.bincount(data.edge_index[1])[NODES]
    assert torch.equal(torch.bincount(field.owner[into]), degree.clamp(max=2))


def test_removal_takes_the_top_edges_of_each_node() -> None:
    model, data = trained_model(), tiny_graph()
    scores = EXPLAINERS["gatt"]().sparse(model, data, NODES)(data, NODES)
    counts = torch.tensor([[0, 0, 0], [1, 2, 3]])
    gone = torch.stack([top_pairs(data, scores, count, 0, torch.ones_like(scores.owner).bool()) for count in counts])
    found = outputs_by_removal(model, data, scores, gone).softmax(2)
    assert found.shape == (2, 3, CLASSES)
    with torch.no_grad():
        embedded = model.embed(data.x)
        assert torch.allclose(found[0], model(data).logits[NODES].softmax(1), atol=1e-6)
        for place, node in enumerate(NODES.tolist()):
            edges, values = scores.of(place)
            gone = edges[values.argsort(descending=True, stable=True)[: int(counts[1, place])]]
            kept = ~torch.isin(torch.arange(data.edge_index.size(1)), gone)
            expected = model.propagate(embedded, data.edge_index[:, kept]).logits[node].softmax(0)
            assert torch.allclose(found[1, place], expected, atol=1e-6)


def top_of(data: Data, nodes: Tensor, seed: int) -> dict[int, set[tuple[int, ...]]]:
    """Return the ends of the two top edges of each node where all scores are equal."""
    field = field_of(data.edge_index, data.x.shape[0], nodes, 2)
    scores = EdgeScores.on(field, torch.ones(field.edges.numel()))
    everything, two = torch.ones_like(field.owner).bool(), torch.full_like(nodes, 2)
    top = top_pairs(data, scores, two, seed, everything)
    return {
        int(node): {tuple(data.edge_index[:, edge].tolist()) for edge in field.edges[top & (field.owner == place)]}
        for place, node in enumerate(nodes)
    }


def test_which_of_equal_scores_come_first_depends_on_the_seed_alone() -> None:
    data, shuffled = tiny_graph(), tiny_graph()
    order = torch.randperm(data.edge_index.size(1), generator=torch.Generator().manual_seed(0))
    shuffled.edge_index = data.edge_index[:, order]
    found = top_of(data, NODES, 0)
    assert all(len(edges) == 2 for edges in found.values())
    assert found == top_of(shuffled, NODES, 0)
    assert {7: found[7]} == top_of(data, torch.tensor([7]), 0)
    assert len({str(top_of(data, NODES, seed)) for seed in range(5)}) > 1


@pytest.mark.parametrize("kind", ["gat", "pyg"])
def test_only_edges_into_the_node_are_those_of_all_that_lead_into_it(kind: str) -> None:
    model, data = models()[kind], tiny_graph()
    every, into = edge_effects(model, data, NODES), edge_effects(model, data, NODES, only_into=True)
    near = data.edge_index[1, every.edges] == NODES[every.owner]
    assert into.edges.tolist() == every.edges[near].tolist()
    torch.testing.assert_close(into.values, every.values[near], atol=1e-6, rtol=0)


class WithEdgeFeatures(torch.nn.Module):
    """Two layers that look at what belongs to an edge."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.first = TransformerConv(FEATURES, 4, edge_dim=2)
            self.second = TransformerConv(4, CLASSES, edge_dim=2)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        return self.second(torch.relu(self.first(x, edge_index, edge_attr)), edge_index, edge_attr)


def test_every_other_edge_keeps_its_attributes() -> None:
    data, module = tiny_graph(), WithEdgeFeatures().eval()
    data.edge_attr = torch.randn(data.edge_index.size(1), 2, generator=torch.Generator().manual_seed(0))
    model = from_pyg(module).on_graph(data)
    effects = edge_effects(model, data, NODES[:1])
    with torch.no_grad():
        whole = module(data.x.to_dense(), data.edge_index, data.edge_attr)[0].softmax(0)
        for edge, effect in zip(effects.edges.tolist(), effects.values.tolist(), strict=True):
            kept = torch.arange(data.edge_index.size(1)) != edge
            without = module(data.x.to_dense(), data.edge_index[:, kept], data.edge_attr[kept])[0].softmax(0)
            assert effect == pytest.approx(float((whole - without)[whole.argmax()]), abs=1e-6)
