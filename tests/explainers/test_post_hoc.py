"""Post-hoc explainers: masks of the edges that count, compared by key, with their noise beside them."""

from __future__ import annotations

import math

import pytest
import torch
from torch_geometric.data import Data

from fgai_bench.attacks import ATTACKS, Attacked, ThreatModel
from fgai_bench.explainers import EXPLAINERS
from fgai_bench.explainers.post_hoc import GNNExplainerMasks, PGExplainerMasks, Surface
from fgai_bench.metrics import NotApplicable
from fgai_bench.metrics.explanation import divergence, top_overlap
from fgai_bench.models import Attention
from fgai_bench.tasks.explained import SAMPLE, explain_offers, sampled_nodes
from fgai_bench.tasks.measurement import measured
from fgai_bench.testing.fixture import tiny_model, tiny_problem, trained_model

EDGES = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])


@pytest.fixture(scope="module")
def attacked() -> Attacked:
    problem = tiny_problem()
    threat = ThreatModel(nodes=2, edges_per_node=3, steps=3)
    return ATTACKS["injection"]()(trained_model(), problem.data, problem.targets, threat=threat)


def test_a_mask_of_ones_is_the_model_itself_and_a_mask_of_zeros_leaves_a_node_alone() -> None:
    model, data = trained_model(), tiny_problem().data
    surface, h = Surface(model).eval(), model.embed(data.x)
    whole = surface(h, data.edge_index)
    last = surface.hops[-1]
    last._apply_sigmoid = False
    last._edge_mask = torch.ones(data.edge_index.size(1))
    assert torch.allclose(surface(h, data.edge_index), whole, atol=1e-6)
    last._edge_mask = torch.zeros(data.edge_index.size(1))
    alone = model.propagate(h, data.edge_index[:, :0]).logits
    assert torch.allclose(surface(h, data.edge_index), alone, atol=1e-5)


@pytest.mark.parametrize("explainer", [GNNExplainerMasks(epochs=3), PGExplainerMasks(epochs=1)])
def test_a_mask_covers_the_edges_that_a_node_can_see(explainer: GNNExplainerMasks | PGExplainerMasks) -> None:
    """On the path 0 - 1 - 2 - 3 - 4 two layers let node 0 see what happens on 0 - 1 and 1 - 2, and nothing further."""
    pairs = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    edges = torch.cat([pairs, pairs.flip(0)], dim=1)
    path = Data(x=torch.rand(5, 8, generator=torch.Generator().manual_seed(0)), edge_index=edges)
    nodes = torch.tensor([0, 2])
    masks = explainer(tiny_model(), path, nodes, seed=0)
    assert masks.shape == (2, 8)
    mask = masks[0]
    assert not mask.requires_grad
    into = [5, 4]  # 2 -> 1 and 1 -> 0 are the edges that lead to node 0 in two hops
    assert (mask[into] > 0).all()
    assert mask[[2, 3, 6, 7]].eq(0).all()
    assert torch.equal(masks, explainer(tiny_model(), path, nodes, seed=0))
    assert not torch.equal(masks, explainer(tiny_model(), path, nodes, seed=1))


def test_gnn_explainer_finds_the_edge_that_decides() -> None:
    """A node whose prediction hangs on one neighbour: that edge gets the largest weight of its in-edges."""
    problem, model = tiny_problem(), trained_model()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    h, edges = model.embed(problem.data.x), problem.data.edge_index
    predicted = model.propagate(h, edges).logits.argmax(1)
    without = torch.stack(
        [
            model.propagate(h, _less(edges, edge)).logits[end].log_softmax(0)[predicted[end]]
            for edge, end in enumerate(edges[1].tolist())
        ]
    )
    of_node = [(edges[1] == node).nonzero().flatten() for node in range(problem.data.x.shape[0])]
    node, into = max(enumerate(of_node), key=lambda pair: without[pair[1]].max() - without[pair[1]].min())
    explainer = GNNExplainerMasks(epochs=100, lr=0.1)
    mask = explainer(model, problem.data, torch.tensor([node]), seed=0)[0, into]
    rank = without[into].argsort()  # the first costs most to lose
    assert mask[rank[0]] > mask[rank[-1]]


def _less(edges: torch.Tensor, edge: int) -> torch.Tensor:
    return torch.cat([edges[:, :edge], edges[:, edge + 1 :]], dim=1)


@pytest.mark.parametrize("name", ["gnn-explainer", "pg-explainer"])
def test_what_is_recorded(name: str, attacked: Attacked) -> None:
    explainer = EXPLAINERS[name](epochs=2)
    problem, model = tiny_problem(), trained_model().train()
    found = measured(explain_offers(explainer, problem, model, attacked.data, seed=0)).metrics
    assert set(found) == {
        *(f"explainer_{kind}{floor}" for kind in ("topk_overlap", "jsd") for floor in ("", "_floor")),
        *("attention_topk_overlap", "attention_jsd", "explained_nodes"),
    }
    assert all(math.isfinite(value) for value in found.values())
    assert 0 < found["explainer_jsd_floor"] < found["explainer_jsd"] <= math.log(2)  # new edges carry weight
    assert model.training
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())


def test_without_an_attack_there_is_nothing_but_the_noise() -> None:
    problem = tiny_problem()
    found = measured(
        explain_offers(GNNExplainerMasks(epochs=2), problem, trained_model(), problem.data, seed=0)
    ).metrics
    assert found["explainer_topk_overlap"] == found["explainer_topk_overlap_floor"]
    assert found["explainer_jsd"] == found["explainer_jsd_floor"]
    assert found["attention_topk_overlap"] == 1
    assert found["attention_jsd"] == 0


def test_the_sample_is_of_reached_targets(attacked: Attacked) -> None:
    problem = tiny_problem()
    nodes = sampled_nodes(problem, attacked.data, seed=0)
    reached = attacked.data.edge_index[1, problem.data.edge_index.size(1) :]
    assert set(nodes.tolist()) <= set(reached.tolist()) & set(problem.targets.tolist())
    assert len(set(nodes.tolist())) == nodes.numel() <= SAMPLE
    assert nodes.tolist() == sampled_nodes(problem, attacked.data, seed=0).tolist()
    assert sampled_nodes(problem, problem.data, seed=0).numel() == SAMPLE  # any targets, where no edge is new


def test_overlap_counts_the_edges_that_the_clean_explanation_saw() -> None:
    clean = Attention(EDGES, torch.tensor([0.9, 0.8, 0.1, 0.0]))
    same = Attention(EDGES.flip(1), torch.tensor([1.0, 0.1, 0.8, 0.9]))  # another order, and one edge more
    assert top_overlap(clean, same) == 1.0  # k = 3 // 2
    assert top_overlap(clean, Attention(EDGES, torch.tensor([0.1, 0.2, 0.9, 0.0]))) == 0.0
    with pytest.raises(NotApplicable, match="names no edge"):
        top_overlap(Attention(EDGES, torch.zeros(4)), clean)


def test_divergence_by_hand() -> None:
    left = Attention(EDGES, torch.tensor([1.0, 0.0, 0.0, 0.0]))
    right = Attention(EDGES, torch.tensor([0.0, 0.0, 0.5, 0.0]))
    assert divergence(left, right) == pytest.approx(math.log(2))
    assert divergence(left, left) == 0


def test_links_are_not_explained(attacked: Attacked) -> None:
    problem = tiny_problem()
    linked = type("Linked", (), {"readout": lambda self, out: out, "data": problem.data, "targets": problem.targets})()
    with pytest.raises(NotApplicable, match="not about links"):
        explain_offers(GNNExplainerMasks(), linked, trained_model(), attacked.data, seed=0)


def test_targets_without_edges_cannot_be_explained() -> None:
    problem = tiny_problem()
    bare = Data(x=problem.data.x, edge_index=problem.data.edge_index[:, :0])
    lonely = type("Lonely", (), {"readout": None, "data": bare, "targets": problem.targets})()
    with pytest.raises(NotApplicable, match="no target has an edge"):
        sampled_nodes(lonely, bare, seed=0)
