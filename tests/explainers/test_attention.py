"""Explainers from attention and gradients: equal to PyG's, to an enumeration of paths and to the whole graph."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.explain import AttentionExplainer
from torch_geometric.explain import Explainer as PyGExplainer
from torch_geometric.nn import GATConv

from fgai_bench.explainers import EXPLAINERS, BlockExplainer
from fgai_bench.explainers import computation_graph as field_module
from fgai_bench.explainers.attention import layer_attentions
from fgai_bench.explainers.computation_graph import field_of
from fgai_bench.explainers.gnn_explainer import MODEL
from fgai_bench.explainers.gradient import Saliency, weight_gradient
from fgai_bench.metrics import NotApplicable
from fgai_bench.models import AttentionModel, Output, build_model, from_pyg
from fgai_bench.models.base import frozen_eval
from fgai_bench.models.gat import GAT
from fgai_bench.models.kernels.segments import plain_attention, segment_sum
from fgai_bench.testing.fixture import CLASSES, FEATURES, tiny_graph, tiny_model, trained_model

NODES = torch.tensor([0, 7, 20])
MANY = [name for name in EXPLAINERS.names() if issubclass(EXPLAINERS[name], BlockExplainer)]


class Theirs(torch.nn.Module):
    """Two layers of GATConv, as a user would write them."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.first = GATConv(FEATURES, 4, heads=2)
            self.second = GATConv(8, CLASSES, heads=2, concat=False)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(torch.relu(self.first(x, edge_index)), edge_index)


def test_the_mean_is_that_of_pygs_attention_explainer() -> None:
    module, data = Theirs().eval(), tiny_graph()
    theirs = PyGExplainer(module, AttentionExplainer(reduce="mean"), "model", MODEL, edge_mask_type="object")
    expected = torch.stack([theirs(data.x, data.edge_index, index=node).edge_mask for node in NODES.tolist()])
    found = EXPLAINERS["attention-mean"]()(from_pyg(module), data, NODES)
    # PyG keeps all edges between nodes in reach, also those that end two hops away, which two layers never read.
    assert torch.allclose(found, torch.where(found > 0, expected, 0.0), atol=1e-6)
    assert int((found > 0).sum()) == field_of(data.edge_index, data.x.shape[0], NODES, 2).edges.numel()


def test_the_last_is_the_models_own_attention_within_reach() -> None:
    model, data = trained_model(), tiny_graph()
    with torch.no_grad():
        weight = model(data).attention.of_graph().weight  # type: ignore[union-attr]
    found = EXPLAINERS["attention-last"]()(model, data, NODES)
    assert torch.equal(found, torch.where(found > 0, weight, 0.0))


def paths_by_hand(model: AttentionModel, data: Data, node: int, residual: float) -> Tensor:
    """Walk every path of the computation tree backwards from the node, one edge or self-loop at a time: ``(E,)``."""
    score = torch.zeros(data.edge_index.size(1), dtype=torch.double)
    size = data.x.shape[0]
    steps = []  # per layer: destination -> [(source, weight, edge or None)]
    for attention in layer_attentions(model, data):
        into: dict[int, list[tuple[int, float, int | None]]] = {place: [] for place in range(size)}
        kept = attention.weight.numel() - attention.added
        for place, (source, end) in enumerate(attention.edge_index.T.tolist()):
            weight = (1 - residual) * float(attention.weight[place])
            into[end].append((source, weight, place if place < kept else None))
        for place in range(size if residual else 0):
            into[place].append((place, residual, None))
        steps.append(into)

    def walk(layer: int, at: int, product_so_far: float) -> None:
        for source, weight, edge in steps[layer][at]:
            if edge is not None:
                score[edge] += product_so_far * weight
            if layer:
                walk(layer - 1, source, product_so_far * weight)

    walk(len(steps) - 1, node, 1.0)
    return score.float()


@pytest.mark.parametrize("name", ["gatt", "attention-rollout"])
@pytest.mark.parametrize("kind", ["gat", "gatv2", "gt", "three layers", "pyg"])
def test_products_along_paths_are_those_of_an_enumeration(name: str, kind: str) -> None:
    data = tiny_graph()
    makers: dict[str, Callable[[], AttentionModel]] = {
        "three layers": lambda: build_model("gat", FEATURES, CLASSES, hidden=3, heads=(2, 2)),
        "pyg": lambda: from_pyg(Theirs()),
    }
    model = makers.get(kind, lambda: tiny_model(kind))().eval()
    found = EXPLAINERS[name]()(model, data, NODES)
    residual = 0.5 if name == "attention-rollout" else 0.0
    for row, node in zip(found, NODES.tolist(), strict=True):
        assert torch.allclose(row, paths_by_hand(model, data, node, residual), atol=1e-6)


class Anywhere(GAT):
    """A GAT that does not say that it is local, so that everything is computed on the whole graph."""

    local = False


def test_uniform_paths_are_those_of_a_random_walk() -> None:
    """0 -> 1 -> 2 with self-loops: every step is taken with probability 1/2, and two of them see the node 2."""
    data = tiny_graph()
    data.edge_index, data.x = torch.tensor([[0, 1], [1, 2]]), data.x[:3]
    found = EXPLAINERS["uniform-paths"]()(trained_model(), data, torch.tensor([2, 1]))
    assert found.tolist() == [[0.25, 0.75], [0.5 + 0.25, 0.0]]


@pytest.mark.parametrize("name", ["saliency", "integrated-gradients", "attention-gradient"])
def test_gradients_on_cut_out_graphs_are_those_on_the_whole_graph(name: str) -> None:
    data, model = tiny_graph(), trained_model()
    whole = Anywhere(**model.config).eval()
    whole.load_state_dict(model.state_dict())
    scores = EXPLAINERS[name]()(model, data, NODES)
    assert torch.allclose(scores, EXPLAINERS[name]()(whole, data, NODES), atol=1e-6)
    assert float(scores.max()) > 1e-3


def test_a_part_of_a_graph_keeps_the_encodings_of_the_whole() -> None:
    data, model = tiny_graph(), tiny_model("gt").eval()
    with frozen_eval(model), torch.no_grad():
        h = model.embed(data.x)
        field = field_of(data.edge_index, data.x.shape[0], NODES, model.hops)
        part = field.part()
        assert model.restricted(part.edges, part.rows, data.edge_index, data.x.shape[0])
        assert torch.allclose(
            model.propagate(h[part.rows], part.edges).logits[part.roots],
            model.propagate(h, data.edge_index).logits[NODES],
            atol=1e-5,
        )


def test_attention_times_gradient_gives_the_gradient_of_edge_weights() -> None:
    """With weights w and their gradients g, an edge's own weight moves p by ``w (g - sum over its softmax of w g)``."""
    data, model = tiny_graph(), trained_model()
    from fgai_bench.models.sorted_edges import sorted_edges

    with frozen_eval(model), plain_attention():
        h = model.embed(data.x).requires_grad_()
        classes = model.propagate(h, data.edge_index).logits.argmax(1)
        out, layers = model.with_layers(h, data.edge_index)
        p = out.logits[7].softmax(0)[classes[7]]
        slopes = torch.autograd.grad(p, [layer.weights for layer in layers])
    edges = sorted_edges(data.edge_index, data.x.shape[0])
    total = torch.zeros(data.edge_index.size(1))
    for layer, slope in zip(layers, slopes, strict=True):
        pulled = layer.weights.detach() * slope  # (E, H), sorted by destination
        centred = pulled - layer.weights.detach() * segment_sum(pulled, edges)[edges.destination]
        total += centred.sum(1)[layer.place][: total.numel()]
    with frozen_eval(model):
        field = field_of(data.edge_index, data.x.shape[0], torch.tensor([7]), model.hops)
        expected = weight_gradient(model, h.detach(), data.edge_index, torch.tensor([7]), classes[[7]])
    assert torch.allclose(total[field.edges], expected[field.edges], atol=1e-6)


def test_integrated_gradients_sum_to_what_the_edges_change() -> None:
    data, model = tiny_graph(), trained_model()
    with frozen_eval(model):
        h = model.embed(data.x)
        classes = model.propagate(h, data.edge_index).logits.argmax(1)
        field = field_of(data.edge_index, data.x.shape[0], NODES, model.hops)
        levels = [(step + 0.5) / 64 for step in range(64)]
        part, best = field.part(), classes[NODES]
        slopes = [weight_gradient(model, h[part.rows], part.edges, part.roots, best, level) for level in levels]
        whole, none = (
            model.propagate(h, edges).logits.softmax(1)[NODES, classes[NODES]]
            for edges in (data.edge_index, data.edge_index[:, :0])
        )
    total = torch.zeros(3).index_add_(0, field.owner, torch.stack(slopes).mean(0))
    assert torch.allclose(total, whole - none, atol=5e-3)
    assert float((whole - none).abs().max()) > 0.02


@pytest.mark.parametrize("name", MANY)
def test_blocks_of_nodes_give_the_scores_of_all_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data, model = tiny_graph(), trained_model()
    nodes = torch.arange(data.x.shape[0])
    explainer = EXPLAINERS[name]()
    assert isinstance(explainer, BlockExplainer)
    whole = explainer(model, data, nodes, seed=3)
    monkeypatch.setattr(field_module, "TABLE_ENTRIES", 5 * data.x.shape[0])
    blocks = list(explainer.stream(model, data, nodes, seed=3))
    assert len(blocks) == 8  # five nodes in each
    assert torch.allclose(torch.cat([block.dense(data.edge_index.size(1)) for block in blocks]), whole, atol=1e-6)


@pytest.mark.parametrize("kind", ["gat", "gatv2", "gt", "pyg"])
@pytest.mark.parametrize("name", MANY)
def test_every_model_with_attention_is_explained(name: str, kind: str) -> None:
    data = tiny_graph(isolated=True)
    model = from_pyg(Theirs()) if kind == "pyg" else tiny_model(kind)
    alone = data.x.shape[0] - 1
    scores = EXPLAINERS[name]()(model, data, torch.tensor([3, alone]))
    assert bool(scores[0].any())
    assert not bool(scores[1].any())  # nothing leads to it
    assert float(scores.min()) >= 0


@pytest.mark.parametrize("name", EXPLAINERS)
def test_of_no_nodes_there_are_no_scores(name: str) -> None:
    data, none = tiny_graph(), torch.empty(0, dtype=torch.long)
    assert EXPLAINERS[name]()(trained_model(), data, none).shape == (0, data.edge_index.size(1))


class Mean(AttentionModel):
    """A mean over neighbours, without attention."""

    def __init__(self) -> None:
        super().__init__()
        self.config = {}
        self.layers = torch.nn.ModuleList([torch.nn.Linear(FEATURES, CLASSES)])

    def embed(self, x: Tensor) -> Tensor:
        return self.layers[0](x)

    def propagate(self, h: Tensor, edge_index: Tensor, score_shift=None, edge_weight=None) -> Output:
        weight = torch.ones(edge_index.size(1)) if edge_weight is None else edge_weight
        return Output(h + torch.zeros_like(h).index_add(0, edge_index[1], h[edge_index[0]] * weight[:, None]), None)

    def rebuilt(self, seed: int = 0, **changes: object) -> AttentionModel:
        return Mean()


@pytest.mark.parametrize("name", MANY)
def test_a_model_without_attention_is_not_applicable_where_attention_is_read(name: str) -> None:
    data, explainer = tiny_graph(), EXPLAINERS[name]()
    if "attention" in explainer.tags or name == "untrained":
        with pytest.raises(NotApplicable, match="no attention"):
            explainer(Mean(), data, NODES)
    else:
        scores = explainer(Mean(), data, NODES)
        assert torch.equal(scores > 0, data.edge_index[1] == NODES[:, None])  # one layer: its own in-edges


def test_a_model_that_hides_its_layers_still_has_a_last_one() -> None:
    class Quiet(GAT):
        def with_layers(self, h: Tensor, edge_index: Tensor) -> tuple[Output, tuple[()]]:
            return self.propagate(h, edge_index), ()

    model, data = Quiet(FEATURES, CLASSES), tiny_graph()
    assert EXPLAINERS["attention-last"]()(model, data, NODES).any()
    with pytest.raises(NotApplicable, match="does not tell the attention of its hidden layers"):
        EXPLAINERS["gatt"]()(model, data, NODES)


def test_a_field_holds_the_edges_that_can_matter_and_no_others() -> None:
    data = tiny_graph()
    size = data.x.shape[0]
    field = field_of(data.edge_index, size, NODES, 2)
    found = {(int(NODES[owner]), int(edge)) for owner, edge in zip(field.owner, field.edges, strict=True)}
    source, destination = data.edge_index.tolist()
    near = {
        node: {node} | {s for s, d in zip(source, destination, strict=True) if d == node} for node in NODES.tolist()
    }
    pairs = product(NODES.tolist(), range(len(source)))
    assert found == {(node, edge) for node, edge in pairs if destination[edge] in near[node]}
    assert sorted(len(part.nodes) for part in field.split(0)) == [1, 1, 1]
    assert torch.equal(torch.cat([part.edges for part in field.split(60)]), field.edges)


def test_what_saliency_differentiates_is_the_probability_of_the_predicted_class() -> None:
    data, model = tiny_graph(), trained_model()
    edge = int((data.edge_index[1] == 7).nonzero()[0])
    with frozen_eval(model), torch.no_grad():
        h = model.embed(data.x)
        classes = model.propagate(h, data.edge_index).logits.argmax(1)

        def probability(weight: float) -> float:
            weights = torch.ones(data.edge_index.size(1))
            weights[edge] = weight
            return float(model.propagate(h, data.edge_index, edge_weight=weights).logits[7].softmax(0)[classes[7]])

        slope = (probability(1.02) - probability(0.98)) / 0.04
    assert float(Saliency()(model, data, torch.tensor([7]))[0, edge]) == pytest.approx(abs(slope), rel=1e-2)
