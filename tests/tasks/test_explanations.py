"""Explanations by hand: covered edges, effects and every measure on a star and on a path; the shared sample."""

from __future__ import annotations

import math
from importlib import import_module

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.data import Split
from fgai_bench.explainers import EXPLAINERS, Explainer
from fgai_bench.models import AttentionModel, build_model
from fgai_bench.models.base import Output
from fgai_bench.tasks.explanations import explain_offers, measured_effects, shared_nodes
from fgai_bench.tasks.measurement import measured
from fgai_bench.tasks.node_classification import NodeProblem

MODULE = import_module("fgai_bench.tasks.explanations")


class Means(AttentionModel):
    """Layers that average a node with its in-neighbours; the logits are (the last average, 0)."""

    local = True

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = range(layers)

    def embed(self, x: Tensor) -> Tensor:
        return x

    def propagate(
        self, h: Tensor, edge_index: Tensor, score_shift: object = None, edge_weight: object = None
    ) -> Output:
        source, destination = edge_index
        degree = 1 + torch.bincount(destination, minlength=len(h)).unsqueeze(1)
        for _ in self.layers:
            h = (h + torch.zeros_like(h).index_add_(0, destination, h[source])) / degree
        return Output(torch.cat([h, torch.zeros_like(h)], dim=1), None)


class Told(Explainer):
    """The scores that it is told, by edge, for every node."""

    def __init__(self, scores: list[float], *tags: str) -> None:
        self.scores, self.tags = torch.tensor(scores), tags  # type: ignore[misc]

    def explain(self, model: AttentionModel, data: Data, nodes: Tensor, seed: int) -> Tensor:
        return self.scores.expand(nodes.numel(), -1)


def asked(
    x: list[float], edges: list[tuple[int, int]], node: int, layers: int, explainer: Explainer
) -> dict[str, float]:
    """Return what is measured of an explainer at one node, on a graph that nobody attacks."""
    data = Data(
        x=torch.tensor(x).unsqueeze(1), edge_index=torch.tensor(edges).T, y=torch.zeros(len(x), dtype=torch.long)
    )
    others = torch.tensor([other for other in range(len(x)) if other != node])
    problem, model = NodeProblem(data, Split(others[:1], others[1:], torch.tensor([node]))), Means(layers)
    effects = measured_effects(problem, model, data, seed=0)
    return measured(explain_offers(explainer, problem, model, data, effects, 0)).metrics


def sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z))


def test_a_star_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves 4, 2, -1, -2 around a centre of 0: its logit is 3/5, and -1/4, 1/4, 4/4, 5/4 without each leaf.

    So the effects on the logit are .85, .35, -.4, -.65, and the first leaf alone turns the prediction. The told scores
    rise from the first leaf to the last, and the explanation is the last two.
    """
    monkeypatch.setattr(MODULE, "PARTLY", 1.0)  # every edge goes: nothing is drawn
    found = asked([0, 4, 2, -1, -2], [(leaf, 0) for leaf in (1, 2, 3, 4)], 0, 1, Told([0.1, 0.2, 0.3, 0.4]))
    for scope in ("covered", "into"):  # one hop: the same
        assert found[f"edge_share_{scope}_clean"] == 1
        # ranks 1, 2, 3, 4 against 4, 1, 2, 3: 1 - 6 (9 + 1 + 1 + 1) / 60
        assert found[f"effect_spearman_logit_{scope}_clean"] == pytest.approx(-0.2)
        assert found[f"effect_spearman_signed_logit_{scope}_clean"] == pytest.approx(-1)
        # probabilities fall by .2077, .0835, -.0854, -.1316: the same order; so does the loss against class 0
        assert found[f"effect_spearman_{scope}_clean"] == pytest.approx(-0.2)
        assert found[f"effect_spearman_signed_loss_{scope}_clean"] == pytest.approx(-1)
        assert found[f"effect_precision_{scope}_clean"] == 0.5  # {3, 4} and {1, 4}
        assert found[f"turned_auroc_{scope}_clean"] == 0  # the first leaf has the lowest score
        assert found[f"fidelity_plus_{scope}_clean"] == 0  # (0 + 4 + 2) / 3 without the top
        assert found[f"fidelity_minus_{scope}_clean"] == 1  # (0 - 1 - 2) / 3 on the top alone
        assert found[f"characterisation_{scope}_clean"] == 0
        expected = (sigmoid(0.6) - sigmoid(2)) - (sigmoid(0.6) - sigmoid(-1))
        assert found[f"robust_fidelity_{scope}_clean"] == pytest.approx(expected)
    turned = asked([0, 4, 2, -1, -2], [(leaf, 0) for leaf in (1, 2, 3, 4)], 0, 1, Told([0.4, 0.3, 0.2, 0.1]))
    assert turned["turned_auroc_into_clean"] == 1
    assert turned["fidelity_plus_into_clean"] == 1  # (0 - 1 - 2) / 3
    assert turned["fidelity_minus_into_clean"] == 0  # (0 + 4 + 2) / 3
    assert turned["characterisation_into_clean"] == 1


PATH = [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2), (3, 4), (4, 3)]
FEATURES = [12, 0, 0, 3, -3]
# Node 2 sees 0 -> 1, 1 -> 2, 2 -> 1, 2 -> 3, 3 -> 2, 4 -> 3 in two layers. The first layer has 4, 1, 0 at the nodes 1,
# 2, 3, and the logit of node 2 is 5/3. Without one of these edges it is 1/3, 3/4, 7/3, 5/3, 2, 13/6: the effects are
# 4/3, 11/12, -2/3, 0, -1/3, -1/2, and their sizes have the ranks 6, 5, 4, 1, 2, 3.


def test_a_path_by_hand_where_an_explanation_covers_everything_in_sight() -> None:
    scores = [0.9, 0.0, 0.6, 0.5, 0.1, 0.3, 0.0, 0.2]  # the order of the sizes, but for 3 -> 2 and 4 -> 3
    found = asked(FEATURES, PATH, 2, 2, Told(scores))
    assert found["edge_share_covered_clean"] == 1
    assert found["edge_share_into_clean"] == pytest.approx(2 / 6)
    assert found["effect_spearman_logit_covered_clean"] == pytest.approx(1 - 6 * (1 + 1) / 210)
    # signed, the effects have the ranks 6, 5, 1, 4, 3, 2, the scores 6, 5, 4, 1, 3, 2
    assert found["effect_spearman_signed_logit_covered_clean"] == pytest.approx(1 - 6 * (9 + 9) / 210)
    assert found["effect_spearman_logit_into_clean"] == 1  # 11/12 above 1/3
    assert found["effect_precision_covered_clean"] == 1  # 0 -> 1, 1 -> 2, 2 -> 1
    assert found["fidelity_plus_covered_clean"] == 0  # without them (3/2 + 0) / 2
    assert found["fidelity_minus_covered_clean"] == 0  # with them alone (4 + 0) / 2
    assert found["fidelity_plus_into_clean"] == 0  # without 1 -> 2, as above: 3/4


def test_a_path_by_hand_where_an_explanation_covers_the_edges_into_the_node() -> None:
    """Nobody asks an explanation about edges that it does not cover."""
    scores = [0.05, 0.0, 0.1, 0.02, 0.9, 0.2, 0.0, 0.8]
    found = asked(FEATURES, PATH, 2, 2, Told(scores, "into-node"))
    for scope in ("covered", "into"):
        assert found[f"edge_share_{scope}_clean"] == pytest.approx(2 / 6)
        assert found[f"effect_spearman_logit_{scope}_clean"] == -1  # 3 -> 2 is above 1 -> 2, and its effect is smaller
        assert found[f"effect_spearman_signed_logit_{scope}_clean"] == -1
        assert found[f"effect_precision_{scope}_clean"] == 0
    everything = asked(FEATURES, PATH, 2, 2, Told(scores))  # ranks 2, 3, 1, 6, 4, 5
    expected = 1 - 6 * (16 + 4 + 9 + 25 + 4 + 4) / 210
    assert everything["effect_spearman_logit_covered_clean"] == pytest.approx(expected)


def graph(seed: int, nodes: int = 8, features: int = 5) -> Data:
    draw = torch.Generator().manual_seed(seed)
    edges = (torch.rand(nodes, nodes, generator=draw) < 0.25).fill_diagonal_(False).nonzero().T
    labels = torch.randint(3, (nodes,), generator=draw)
    return Data(x=torch.randn(nodes, features, generator=draw), edge_index=edges, y=labels)


@pytest.mark.parametrize("name", ["gat", "gatv2", "gat-one-hop", "gatv2-one-hop", "gt"])
def test_effects_equal_deletion_by_brute_force_on_random_graphs(name: str) -> None:
    """Ten graphs for each of five models: each edge deleted from the whole graph, all four quantities."""
    for seed in range(10):
        data, node = graph(seed), seed % 8
        data.edge_index = torch.cat([data.edge_index, data.edge_index.flip(0)], dim=1).unique(dim=1)
        size = data.edge_index.size(1)
        model = build_model(
            name, 5, 3, seed=seed, **({"hidden": 8, "heads": [2, 1]} if name == "gt" else {"hidden": 4})
        )
        rest = torch.tensor([other for other in range(8) if other != node])
        problem = NodeProblem(data, Split(rest[:3], rest[3:], torch.tensor([node])))
        effects = measured_effects(problem, model, data, seed=0).clean
        model.eval()
        with torch.no_grad():
            h = model.embed(data.x)
            whole = model.propagate(h, data.edge_index).logits[node]
            best = int(whole.argmax())
            for edge in range(size):
                kept = torch.arange(size) != edge
                after = model.propagate(h, data.edge_index[:, kept]).logits[node]
                label = int(data.y[node])
                expected = torch.stack(
                    [
                        (whole.softmax(0) - after.softmax(0))[best],
                        (whole - after)[best],
                        (whole.log_softmax(0) - after.log_softmax(0))[label],
                        (after.argmax() != best).float(),
                    ]
                )
                measured_here = effects.values[effects.edges == edge, :4]
                found = measured_here[0] if len(measured_here) else torch.zeros(4)  # out of sight
                torch.testing.assert_close(found, expected, atol=2e-5, rtol=0)


@pytest.mark.parametrize("name", ["gat-one-hop", "gatv2-one-hop"])
def test_contribution_is_the_effect_of_deletion_in_a_network_of_one_layer(name: str) -> None:
    """A theorem: logits without an edge have a closed form. A self-loop of the graph is added again by the model."""
    for seed in range(3):
        data, model = graph(seed, nodes=12), build_model(name, 5, 3, seed=seed, hidden=4).eval()
        data.edge_index = torch.cat([data.edge_index, torch.tensor([[2, 5], [2, 5]])], dim=1)
        nodes = torch.unique(data.edge_index[1])
        problem = NodeProblem(data, Split(nodes[:0], nodes[:0], nodes))
        effects = measured_effects(problem, model, data, seed=0).clean
        scores = EXPLAINERS["contribution"]().sparse(model, data, effects.nodes)(data, effects.nodes)
        assert torch.equal(scores.edges, effects.edges)
        torch.testing.assert_close(scores.values, effects.values[:, 0].abs(), atol=2e-6, rtol=1e-4)
        loops = data.edge_index[0, scores.edges] == data.edge_index[1, scores.edges]
        assert scores.values[loops].tolist() == [0.0, 0.0]


def test_effects_tell_edges_apart_where_the_prediction_is_nearly_certain() -> None:
    """Leaves of 60, 1 and .5: the probability is 1 - 1e-9 or so, which single precision cannot write."""
    effects = asked([20, 60, 1, 0.5], [(1, 0), (2, 0), (3, 0)], 0, 1, Told([0.9, 0.1, 0.3]))
    # logits 81.5 / 4, and 21.5 / 3, 80.5 / 3, 81 / 3 without each: the last two effects are below 1e-8
    assert effects["effect_spearman_covered_clean"] == 1


def test_the_order_of_edges_has_no_part_in_any_measure() -> None:
    """Each node's scores are equal, so that every choice of the top edges is a draw."""
    data, model = graph(3, nodes=12), build_model("gat", 5, 3, seed=0, hidden=4).eval()
    order = torch.randperm(data.edge_index.size(1), generator=torch.Generator().manual_seed(1))
    found = []
    for edges in (data.edge_index, data.edge_index[:, order]):
        moved = Data(x=data.x, y=data.y, edge_index=edges)
        nodes = torch.unique(data.edge_index[1])
        problem = NodeProblem(moved, Split(nodes[:0], nodes[:0], nodes))
        effects = measured_effects(problem, model, moved, seed=0)
        offers = explain_offers(Told([0.5] * edges.size(1)), problem, model, moved, effects, 0)
        found.append((offers["probabilities-without-top-into-clean"], measured(offers).metrics))
    torch.testing.assert_close(*(removed for removed, _ in found))
    names = [name for name in found[0][1] if name.endswith("_clean") and "robust" not in name]  # which draws deletions
    assert [found[0][1][name] for name in names] == pytest.approx([found[1][1][name] for name in names], abs=1e-6)


def test_nulls_are_asked_again_about_the_nodes_of_explainers_that_search() -> None:
    data, model = graph(4, nodes=30), build_model("gat", 5, 3, seed=0, hidden=4).eval()
    nodes = torch.unique(data.edge_index[1])
    problem = NodeProblem(data, Split(nodes[:0], nodes[:0], nodes))
    effects = measured_effects(problem, model, data, seed=0)
    scores = torch.rand(data.edge_index.size(1), generator=torch.Generator().manual_seed(0)).tolist()
    searched, null = (
        measured(explain_offers(Told(scores, tag), problem, model, data, effects, 0)).metrics
        for tag in ("post-hoc", "null")
    )
    for measure in ("effect_spearman", "effect_precision", "fidelity_plus", "robust_fidelity", "edge_share"):
        assert null[f"{measure}_covered_few_clean"] == searched[f"{measure}_covered_clean"]
    assert null["effect_spearman_covered_clean"] != searched["effect_spearman_covered_clean"]


def test_all_models_explain_one_sample_of_each_degree_and_exposure() -> None:
    """Of 60 targets 20 have a target as a neighbour and 40 have not; half of each have one in-edge, half have three."""
    targets, carriers = torch.arange(60), torch.arange(60, 64)
    edges = []
    for node in range(60):
        sources = carriers[:3].tolist() if node % 2 else carriers[:1].tolist()
        edges += [(source, node) for source in sources]
    for node in range(40, 60):  # the last in-neighbour is a target instead
        edges[[end for _, end in edges].index(node)] = ((node + 1) % 60, node)
    data = Data(x=torch.zeros(64, 1), edge_index=torch.tensor(edges).T, y=torch.zeros(64, dtype=torch.long))
    problem = NodeProblem(data, Split(carriers[:2], carriers[2:], targets))
    nodes = shared_nodes(problem, seed=0, size=12)
    assert nodes.unique().numel() == 12
    for exposed in (False, True):
        for odd in (0, 1):
            inside = ((nodes >= 40) == exposed) & (nodes % 2 == odd)
            assert int(inside.sum()) == (2 if exposed else 4)
    assert torch.equal(nodes, shared_nodes(problem, seed=0, size=12))
    assert not torch.equal(nodes, shared_nodes(problem, seed=1, size=12))
    assert shared_nodes(problem, seed=0).sort().values.tolist() == targets.tolist()  # all where there are fewer
