"""PyG's layers through our kernels: outputs, attention and gradients are PyG's own."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GATv2Conv, TransformerConv

import fgai_bench as fb
from fgai_bench.models import from_pyg
from fgai_bench.models.base import frozen_eval
from fgai_bench.models.pyg_layers import PlainForward, is_plain
from fgai_bench.testing.fixture import CLASSES, FEATURES, tiny_graph

LAYERS = {
    "gat": (GATConv, {"negative_slope": 0.4}),
    "gat mean": (GATConv, {"concat": False, "bias": False}),
    "gat residual": (GATConv, {"residual": True}),
    "gat without loops": (GATConv, {"add_self_loops": False}),
    "gatv2": (GATv2Conv, {"concat": False, "residual": True}),
    "gatv2 shared": (GATv2Conv, {"share_weights": True}),
    "transformer": (TransformerConv, {"beta": True}),
    "transformer mean": (TransformerConv, {"root_weight": False, "concat": False}),
}


class TwoLayers(nn.Module):
    """Two layers with a normalisation over all nodes between them; ``backwards`` declares the second one first."""

    def __init__(self, kind: str, backwards: bool = False) -> None:
        super().__init__()
        conv, options = LAYERS[kind]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            first = conv(FEATURES, 4, heads=2, **options)
            width = 8 if options.get("concat", True) else 4
            second = conv(width, CLASSES, **options)
        layers = {"first": first, "second": second}
        for name in sorted(layers, reverse=backwards):
            setattr(self, name, layers[name])

    def forward(self, x, edge_index):
        h = self.first(x, edge_index)
        return self.second((h - h.mean(0)).tanh(), edge_index=edge_index)


def appended(data: Data, new: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return features and edges of the graph with new nodes, joined to some nodes in both directions."""
    nodes = data.num_nodes + torch.arange(len(new))
    pairs = torch.stack([nodes.repeat(2), torch.tensor([0, 3, 5, 3])])
    return torch.cat([data.x, new]), torch.cat([data.edge_index, pairs, pairs.flip(0)], 1)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("kind", LAYERS)
def test_logits_gradients_and_attention_are_those_of_pyg(kind, backwards):
    data, module = tiny_graph(), TwoLayers(kind, backwards).eval()
    model = fb.wrap(module).on_graph(data)
    new = torch.rand(2, FEATURES, generator=torch.Generator().manual_seed(1))
    ours, theirs = (new.clone().requires_grad_() for _ in range(2))
    longer, edges = appended(data, theirs)
    expected = module(longer, edges)
    with frozen_eval(model):
        out = model.propagate(torch.cat([model.embed(data.x), model.embed(ours)]), edges)
    assert torch.allclose(out.logits, expected, atol=1e-5)
    direction = torch.randn(expected.shape, generator=torch.Generator().manual_seed(2))
    found, known = (
        torch.autograd.grad((at * direction).sum(), to)[0] for at, to in ((out.logits, ours), (expected, theirs))
    )
    assert torch.allclose(found, known, atol=1e-5)
    hidden = module.first(longer, edges)
    _, (used, weights) = module.second((hidden - hidden.mean(0)).tanh(), edges, return_attention_weights=True)
    pyg = {tuple(edge): weight for edge, weight in zip(used.t().tolist(), weights.mean(1).tolist(), strict=True)}
    attention = zip(out.attention.edge_index.t().tolist(), out.attention.weight.tolist(), strict=True)
    assert {tuple(edge): weight for edge, weight in attention} == pytest.approx(pyg, abs=1e-5)


def test_training_is_pygs_own():
    """Dropout of attention weights draws what PyG draws."""
    data, module = tiny_graph(), GATConv(FEATURES, CLASSES, dropout=0.5)
    model = from_pyg(module).train()
    found = []
    for network in (lambda: model(data).logits, lambda: module(data.x, data.edge_index)):
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(3)
            found.append(network())
    assert torch.equal(*found)


class Louder(GATConv):
    """A layer of one's own: what it changes must not be lost."""

    def message(self, x_j, alpha):
        return 2 * super().message(x_j, alpha)


def with_hook() -> GATConv:
    layer = GATConv(FEATURES, CLASSES)
    layer.register_message_forward_hook(lambda layer, inputs, messages: 2 * messages)
    return layer


@pytest.mark.parametrize(
    "make",
    [
        lambda: Louder(FEATURES, CLASSES),
        with_hook,
        lambda: GATConv(FEATURES, CLASSES, aggr="max"),
        lambda: GATConv(FEATURES, CLASSES, flow="target_to_source", add_self_loops=False),
        lambda: GATConv(FEATURES, CLASSES, edge_dim=2),
    ],
    ids=["subclass", "hook", "maximum", "reversed", "edge features"],
)
def test_a_layer_that_is_not_plain_is_left_to_pyg(make):
    data, layer = tiny_graph(), make().eval()
    assert not is_plain(layer)
    with torch.no_grad():
        logits = layer(data.x, data.edge_index)
        assert not isinstance(from_pyg(layer).module.forward, PlainForward)
        if layer.flow == "source_to_target":
            assert torch.equal(from_pyg(layer)(data).logits, logits)


def test_nodes_without_in_edges_are_left_to_pyg():
    graph = Data(x=torch.rand(3, FEATURES), edge_index=torch.tensor([[0, 1], [1, 0]]))
    layer = TransformerConv(FEATURES, CLASSES).eval()
    with torch.no_grad():
        assert torch.equal(from_pyg(layer)(graph).logits, layer(graph.x, graph.edge_index))
