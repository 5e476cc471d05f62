"""Post-hoc explainers: masks of the edges that count, compared by key, with their noise beside them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GATConv

from fgai_bench.attacks import ATTACKS, Attacked, ThreatModel
from fgai_bench.data.extend import reached_nodes
from fgai_bench.explainers import EXPLAINERS
from fgai_bench.explainers.gnn_explainer import GNNExplainerMasks, Surface
from fgai_bench.explainers.pg_explainer import PGExplainerMasks
from fgai_bench.metrics import NotApplicable
from fgai_bench.metrics.explainer_stability import explanation_overlap
from fgai_bench.models import Attention, from_pyg
from fgai_bench.tasks.explanations import (
    SEARCHED_SAMPLE,
    explain_offers,
    measured_effects,
    reached_or_all,
    shared_nodes,
)
from fgai_bench.tasks.measurement import measured
from fgai_bench.testing.fixture import CLASSES, FEATURES, tiny_model, tiny_problem, trained_model

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


def recorded(explainer: Any, attacked: Data) -> dict[str, float]:
    problem, model = tiny_problem(), trained_model().train()
    effects = measured_effects(problem, model, attacked, seed=0)
    found = measured(explain_offers(explainer, problem, model, attacked, effects, seed=0)).metrics
    assert model.training
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())
    return found


@pytest.mark.parametrize("name", ["gnn-explainer", "pg-explainer"])
def test_what_is_recorded(name: str, attacked: Attacked) -> None:
    found = recorded(EXPLAINERS[name](epochs=2), attacked.data)
    kinds = ("topk_overlap", "rank_correlation")
    spearman = [f"effect_spearman{sign}{of}" for sign in ("", "_signed") for of in ("", "_logit", "_loss")]
    fidelities = ("fidelity_plus", "fidelity_minus", "characterisation", "robust_fidelity")
    claims = (*spearman, *fidelities, "effect_precision", "edge_share")
    turned = {name for name in found if name.startswith("turned_auroc")}  # where some edge turns a prediction
    assert set(found) - turned == {
        *(f"explainer_{kind}{ending}" for kind in kinds for ending in ("", "_unchanged", "_floor")),
        *("attention_topk_overlap", "explained_nodes", "explained_unchanged"),
        *(f"{claim}_{scope}{end}" for claim in claims for scope in ("covered", "into") for end in ("", "_clean")),
    }
    assert all(math.isfinite(value) for value in found.values())
    assert found["explained_nodes"] == SEARCHED_SAMPLE


def test_without_an_attack_there_is_nothing_but_the_noise() -> None:
    found = recorded(GNNExplainerMasks(epochs=2), tiny_problem().data)
    assert found["explainer_topk_overlap"] == found["explainer_topk_overlap_floor"]
    assert found["attention_topk_overlap"] == 1


def test_an_explainer_without_noise_has_no_floor_and_clean_values_without_an_attack(attacked: Attacked) -> None:
    found = recorded(EXPLAINERS["gatt"](), tiny_problem().data)
    assert found["explainer_topk_overlap_floor"] == found["explainer_topk_overlap"] == 1
    assert found["explainer_rank_correlation_floor"] == pytest.approx(1)
    for name in ("effect_spearman_into", "fidelity_plus_covered", "robust_fidelity_into"):
        assert found[name] == pytest.approx(found[f"{name}_clean"])
    assert recorded(EXPLAINERS["gatt"](), attacked.data)["explainer_rank_correlation"] < 1


def test_stability_is_of_reached_nodes_and_a_second_sample_of_those_that_stay(attacked: Attacked) -> None:
    problem, model = tiny_problem(), trained_model()
    reached = reached_nodes(problem.data, attacked.data, 2)
    assert torch.equal(reached_or_all(problem, model, attacked.data), reached)
    assert bool(reached_or_all(problem, model, problem.data).all())  # where nothing is new
    effects = measured_effects(problem, model, attacked.data, seed=0)
    same = model(problem.data).logits.argmax(1) == model(attacked.data).logits[: problem.data.num_nodes].argmax(1)
    assert bool((same & reached)[effects.steady].all())


def test_a_model_that_needs_the_whole_graph_is_not_asked() -> None:
    problem, model = tiny_problem(), from_pyg(GATConv(FEATURES, CLASSES)).eval()
    with pytest.raises(NotApplicable, match="a pass of the model over the whole graph"):
        measured_effects(problem, model, problem.data, seed=0)


def test_overlap_counts_the_edges_that_the_clean_explanation_saw() -> None:
    clean = Attention(EDGES, torch.tensor([0.9, 0.8, 0.1, 0.0]))
    same = Attention(EDGES.flip(1), torch.tensor([1.0, 0.1, 0.8, 0.9]))  # another order, and one edge more
    assert explanation_overlap([(clean, same)]) == 1.0  # k = 3 // 2
    assert explanation_overlap([(clean, Attention(EDGES, torch.tensor([0.1, 0.2, 0.9, 0.0])))]) == 0.0
    with pytest.raises(NotApplicable, match="names no edge"):
        explanation_overlap([(Attention(EDGES, torch.zeros(4)), clean)])


def test_links_are_not_explained(attacked: Attacked) -> None:
    problem = tiny_problem()
    linked = type("Linked", (), {"readout": lambda self, out: out, "data": problem.data, "targets": problem.targets})()
    with pytest.raises(NotApplicable, match="not about links"):
        measured_effects(linked, trained_model(), attacked.data, seed=0)


def test_targets_without_edges_cannot_be_explained() -> None:
    problem = tiny_problem()
    bare = Data(x=problem.data.x, edge_index=problem.data.edge_index[:, :0])
    lonely = type("Lonely", (), {"readout": None, "data": bare, "targets": problem.targets})()
    with pytest.raises(NotApplicable, match="no target has an edge"):
        shared_nodes(lonely, seed=0)
