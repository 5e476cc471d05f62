"""Networks as people write them, each with the card or the sentence that it gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import (
    APPNP,
    GAT,
    MLP,
    ChebConv,
    GATConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    GPSConv,
    LabelPropagation,
    RGCNConv,
    SAGEConv,
    Sequential,
    SGConv,
    SuperGATConv,
)
from torch_geometric.utils import softmax

import fgai_bench as fb
from fgai_bench.models.base import ModelError
from fgai_bench.testing.fixture import CLASSES, FEATURES
from tests.card.networks import Transformers, WithBatchNorm, WithEdgeAttributes, trained

WIDE = 8


class Two(nn.Module):
    """Two layers with a ReLU between them; dropout may be left on by mistake."""

    def __init__(self, first: nn.Module, second: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        self.first, self.second, self.dropout = first, second, dropout

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = F.dropout(self.first(x, edge_index).relu(), self.dropout)
        return self.second(h, edge_index)


class OwnAttention(nn.Module):
    """An attention layer written by hand."""

    def __init__(self, before: int, after: int, marks: bool = False) -> None:
        super().__init__()
        self.values, self.scores, self.marks = nn.Linear(before, after), nn.Linear(2 * after, 1), marks

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h, (source, target) = self.values(x), edge_index
        scores = F.leaky_relu(self.scores(torch.cat([h[source], h[target]], dim=1)).squeeze(1))
        weights = softmax(scores, target, num_nodes=x.shape[0])
        if self.marks:
            weights = fb.mark_attention(edge_index, weights)
        return h + torch.zeros_like(h).index_add(0, target, weights.unsqueeze(1) * h[source])


class Doubled(GATConv):
    """A subclass with a forward of its own, whose attention cannot be asked for."""

    def forward(self, x, edge_index):
        return 2 * super().forward(x, edge_index)


class Patched(Two):
    """Two plain layers, one of which was changed after it was made."""

    def __init__(self) -> None:
        super().__init__(GATConv(FEATURES, WIDE), GATConv(WIDE, CLASSES))
        message = self.first.message
        self.first.message = lambda x_j, alpha: 3 * message(x_j, alpha)


class Keeps(Two):
    """It keeps what its layers computed, as SuperGATConv does."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.hidden = [self.first(x, edge_index).relu()]
        return self.second(self.hidden[0], edge_index)


class NoGradients(Two):
    @torch.no_grad()
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, edge_index)


class TwoHops(Two):
    """It attends over paths of two edges."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        adjacency = torch.zeros(x.shape[0], x.shape[0])
        adjacency[edge_index[0], edge_index[1]] = 1
        return super().forward(x, (adjacency @ adjacency).nonzero().t())


class Relations(nn.Module):
    """Every propagation of its layers runs over the edges of one type."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = RGCNConv(FEATURES, WIDE, 2), RGCNConv(WIDE, CLASSES, 2)

    def forward(self, x, edge_index, edge_type):
        return self.second(self.first(x, edge_index, edge_type).relu(), edge_index, edge_type)


class NoEdges(nn.Module):
    """A perceptron that is given edges and does not look at them."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(FEATURES, CLASSES)

    def forward(self, x, edge_index):
        return self.linear(x)


class WithAdjacency(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(FEATURES, CLASSES)

    def forward(self, x, adj_t):
        return adj_t @ self.linear(x)


class WithAttentionReturned(Two):
    def forward(self, x, edge_index):
        return super().forward(x, edge_index), edge_index


def two(layer: Callable[..., nn.Module], **options) -> Callable[[], nn.Module]:
    return lambda: Two(layer(FEATURES, WIDE, **options), layer(WIDE, CLASSES, **options))


def gin(before: int, after: int) -> nn.Module:
    return GINConv(nn.Sequential(nn.Linear(before, after), nn.ReLU(), nn.Linear(after, after)))


def in_a_list() -> nn.Module:
    first, second = GATConv(FEATURES, WIDE), GATConv(WIDE, CLASSES)
    return Sequential("x, edge_index", [(first, "x, edge_index -> x"), nn.ReLU(), (second, "x, edge_index -> x")])


@dataclass(frozen=True)
class Expected:
    """What a card says.

    Attributes:
        explained: ``attention``, ``gradients``, or nothing.
        proven: whether it has a floor.
        text: what else it says.
    """

    explained: str = ""
    proven: bool = False
    text: str = ""


ATTENTION, GRADIENTS = Expected("attention", True), Expected("gradients", True)
UNKNOWN = "Nothing is proven: reach: it is not known whether its module OwnAttention mixes nodes"
CARDS: dict[str, tuple[Callable[[], nn.Module], Expected]] = {
    "gat": (two(GATConv), ATTENTION),
    "gatv2": (two(GATv2Conv), ATTENTION),
    "pyg's gat": (lambda: GAT(FEATURES, WIDE, 2, CLASSES, heads=2), ATTENTION),
    "transformer of data": (Transformers, ATTENTION),
    "batch norm": (WithBatchNorm, ATTENTION),
    "edge attributes": (WithEdgeAttributes, Expected("attention", True, "is given x, edge_index, edge_attr")),
    "sequential": (in_a_list, ATTENTION),
    "compiled": (lambda: torch.compile(two(GATConv)(), backend="eager"), ATTENTION),
    "gcn": (two(GCNConv), GRADIENTS),
    "gcn that caches": (two(GCNConv, cached=True), Expected("gradients", True, "do not cache here")),
    "sage": (two(SAGEConv), GRADIENTS),
    "gin": (two(gin), GRADIENTS),
    "chebyshev": (two(ChebConv, K=2), Expected("gradients", False, "whether its layer ChebConv is local")),
    "sgc that caches": (lambda: SGConv(FEATURES, CLASSES, K=2, cached=True), Expected("gradients")),
    "appnp": (lambda: Two(GCNConv(FEATURES, CLASSES), APPNP(2, 0.1)), Expected("gradients")),
    "gps": (lambda: Two(GCNConv(FEATURES, 8), GPSConv(8, GCNConv(8, 8), heads=2)), Expected("gradients")),
    "own attention": (two(OwnAttention), Expected(text=UNKNOWN)),
    "own attention, marked": (two(OwnAttention, marks=True), Expected("attention", text=UNKNOWN)),
    "subclass": (two(Doubled), Expected("gradients", text="the attention of its layers cannot be read")),
    "patched": (Patched, Expected("attention", text="kernels compute something else than the network")),
    "dropout left on": (
        lambda: Two(GATConv(FEATURES, WIDE), GATConv(WIDE, CLASSES), dropout=0.5),
        Expected("attention", text="a random part such as dropout is on at evaluation"),
    ),
    "no edges": (NoEdges, Expected(proven=True, text="Predictions stand")),
    "activations kept": (lambda: Keeps(GATConv(FEATURES, WIDE), GATConv(WIDE, CLASSES)), ATTENTION),
    "super gat": (two(SuperGATConv), Expected("gradients")),
    "no gradients": (
        lambda: NoGradients(GCNConv(FEATURES, WIDE), GCNConv(WIDE, CLASSES)),
        Expected(proven=True, text="not measured: the network's outputs have no gradient over its edges"),
    ),
    "no parameters": (lambda: LabelPropagation(2, 0.9), Expected(text="outputs have no gradient over its edges")),
    "relations": (Relations, Expected(text="not measured: a layer does not run over exactly the graph's edges")),
    "paths of two edges": (
        lambda: TwoHops(GATConv(FEATURES, WIDE), GATConv(WIDE, CLASSES)),
        Expected(text="its layer GATConv runs over other edges than the graph's"),
    ),
    "features only": (lambda: MLP([FEATURES, WIDE, CLASSES]), Expected(proven=True)),
}
REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "scripted": (lambda: torch.jit.script(nn.Linear(FEATURES, CLASSES)), "give it as it was before torch.jit"),
    "adjacency": (WithAdjacency, r"forward takes adj_t; write forward\(x, edge_index\)"),
    "two outputs": (
        lambda: WithAttentionReturned(GATConv(FEATURES, WIDE), GATConv(WIDE, CLASSES)),
        r"must return one row of logits per node, \(36, classes\), not tuple",
    ),
}


@pytest.fixture(scope="module")
def graph(data: Data) -> Data:
    graph = data.clone()
    graph.edge_attr = torch.linspace(0, 1, 2 * data.num_edges).view(-1, 2)
    graph.edge_type = torch.arange(data.num_edges) % 2
    return graph


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
@pytest.mark.parametrize("name", [*CARDS, *REFUSED])
def test_any_network_gets_a_card_or_one_sentence(name, graph):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if name in REFUSED:
            make, sentence = REFUSED[name]
            with pytest.raises(ModelError, match=sentence):
                fb.evaluate(make(), graph, attacks=())
            return
        make, expected = CARDS[name]
        network = make()
        inputs = {"edge attributes": ("edge_attr",), "relations": ("edge_type",)}.get(name, ())
        if name not in ("features only", "compiled", "no gradients", "no parameters"):
            network = trained(network, graph, *inputs, epochs=20 if name == "no edges" else 3)
        card = fb.evaluate(network, graph, attacks=("injection",))
    quantities = set(card.frame.quantity)
    assert ("edge_effect_correlation" in quantities) == (expected.explained == "attention")
    assert ("gradient_effect_correlation" in quantities) == (expected.explained == "gradients")
    assert ("Proven: at least" in str(card)) == expected.proven
    assert expected.text in str(card)
    assert card.row("f1", "injection").seeds == 3


def test_a_layer_that_caches_its_edges_is_attacked_all_the_same(graph):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        plain = trained(two(GCNConv)(), graph)
    cached = two(GCNConv, cached=True)()
    cached.load_state_dict(plain.state_dict())
    cached(graph.x, graph.edge_index)
    first, second = (fb.evaluate(network, graph, attacks=("injection",)).frame for network in (plain, cached))
    assert first.equals(second)
    assert cached.first.cached
