"""No floor is proven for a network that mixes nodes far apart, however it does so; see docs/floors.md."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import (
    GAT,
    GCN,
    MLP,
    GATConv,
    GCNConv,
    GraphConv,
    GraphUNet,
    LayerNorm,
    MeanAggregation,
    SAGEConv,
    Sequential,
    TransformerConv,
)
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.nn.models import Polynormer, SGFormer
from torch_geometric.utils import degree, to_undirected

import fgai_bench as fb
from fgai_bench.attacks import ThreatModel
from fgai_bench.metrics import NotApplicable

NODES, WIDE, CLASSES, EDGES = 1500, 8, 3, 10


@pytest.fixture(scope="module")
def ring() -> Data:
    """Return a ring that is so long that a mean over its nodes hardly moves when one node is added."""
    nodes = torch.arange(NODES)
    forward = torch.stack([nodes, (nodes + 1) % NODES])
    data = Data(
        x=torch.randn(NODES, WIDE, generator=torch.Generator().manual_seed(0)),
        edge_index=torch.cat([forward, forward.flip(0)], dim=1),
        y=nodes % CLASSES,
        test_mask=torch.ones(NODES, dtype=torch.bool),
    )
    data.batch = torch.zeros(NODES, dtype=torch.long)
    return data


class Two(nn.Module):
    """Two layers; between them a module, and a function of the network's own forward."""

    def __init__(
        self,
        layer: Callable[..., nn.Module] = SAGEConv,
        module: nn.Module | None = None,
        function: Callable[[Tensor], Tensor] = torch.relu,
    ) -> None:
        super().__init__()
        self.first, self.module, self.last = layer(WIDE, WIDE), module or nn.Identity(), layer(WIDE, CLASSES)
        self.function = function

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.last(self.function(self.module(self.first(x, edge_index))), edge_index)


class AddsMean(nn.Module):
    def forward(self, h: Tensor) -> Tensor:
        return h + h.mean(0)


class Repeats(Two):
    """It passes messages once more by hand."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = super().forward(x, edge_index)
        return h + torch.zeros_like(h).index_add(0, edge_index[1], h[edge_index[0]])


class Degrees(Two):
    """It normalises by degrees by hand."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        edge_index, weight = gcn_norm(edge_index, None, x.shape[0])
        return self.last(self.first(x, edge_index, weight), edge_index, weight)


class OtherEdges(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        skipping = torch.stack([edge_index[0], (edge_index[1] + 1) % NODES])
        return self.last(self.first(x, edge_index), skipping)


class Trains(Two):
    """Its normalisation takes the statistics of the batch, whatever mode it is told to be in."""

    def train(self, mode: bool = True) -> Trains:
        super().train(mode)
        self.module.train()
        return self


def largest_half(h: Tensor) -> Tensor:
    kept = h.norm(dim=1).topk(h.shape[0] // 2).indices
    return torch.zeros_like(h).index_copy(0, kept, h[kept])


def hooked() -> nn.Module:
    network = Two()
    network.first.register_forward_hook(lambda layer, given, out: out + out.mean(0))
    return network


def polynormer() -> nn.Module:
    network = Polynormer(WIDE, WIDE, CLASSES, local_layers=2, global_layers=1)
    network._global = True
    return network


TRIAL = "a trial injection changed outputs more than 1 hops beyond"
MIXING: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "layer norm of PyG": (lambda: Two(module=LayerNorm(WIDE)), "its layer LayerNorm computes statistics over all"),
    "batch norm that trains": (lambda: Trains(module=nn.BatchNorm1d(WIDE)), "BatchNorm1d stays in training mode"),
    "SGFormer": (lambda: SGFormer(WIDE, WIDE, CLASSES), "whether its module SGFormer mixes nodes"),
    "Polynormer": (polynormer, "whether its module Polynormer mixes nodes"),
    "top-k pooling": (lambda: GraphUNet(WIDE, WIDE, CLASSES, 2), "whether its module GraphUNet mixes nodes"),
    "own module": (lambda: Two(module=AddsMean()), "whether its module AddsMean mixes nodes"),
    "softmax over nodes": (lambda: Two(module=nn.Softmax(0)), "whether its module Softmax mixes nodes"),
    "inside a layer": (
        lambda: Two(lambda *sizes: SAGEConv(*sizes, aggr="median")),
        "its aggregation MedianAggregation is local",
    ),
    "own activation": (lambda: GCN(WIDE, WIDE, 2, CLASSES, act=AddsMean().forward), "GCN has act of its own"),
    "own function": (
        lambda: Sequential("x, edge_index", [(SAGEConv(WIDE, CLASSES), "x, edge_index -> x"), torch.sigmoid]),
        "Sequential has module_1 of its own",
    ),
    "hook": (hooked, "SAGEConv has forward_hooks of its own"),
    "against the edges": (
        lambda: Two(lambda *sizes: SAGEConv(*sizes, flow="target_to_source")),
        "against the direction of edges",
    ),
    "other edges": (OtherEdges, "SAGEConv runs over other edges than the graph's"),
    "hand-written layer": (Repeats, TRIAL),
    "hand-written degrees": (lambda: Degrees(GraphConv), TRIAL),
    "mean": (lambda: Two(function=lambda h: h + h.mean(0)), TRIAL),
    "faint mean": (lambda: Two(function=lambda h: h + 1e-6 * h.mean(0)), TRIAL),
    "mean without NaN": (lambda: Two(function=lambda h: h + h.nan_to_num(0, 0, 0).mean(0)), TRIAL),
    "mean of signs": (lambda: Two(function=lambda h: h + (h > 0).float().mean(0)), TRIAL),
    "maximum": (lambda: Two(function=lambda h: h + h.amax(0)), TRIAL),
    "top-k": (lambda: Two(function=largest_half), TRIAL),
    "number of nodes": (lambda: Two(function=lambda h: h * h.shape[0] / NODES), TRIAL),
    "branch on a value": (lambda: Two(function=lambda h: h if h.max() < 5 else 2 * h), TRIAL),
    "batch statistics": (lambda: Two(function=lambda h: F.batch_norm(h, None, None, training=True)), TRIAL),
}


@pytest.mark.parametrize("name", MIXING)
def test_no_floor_where_nodes_are_mixed(name: str, ring: Data) -> None:
    make, reason = MIXING[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = make().eval()
    with pytest.raises(NotApplicable, match=reason):
        fb.certify(network, ring, ThreatModel(nodes=1, edges_per_node=EDGES), certificate="reach")


LOCAL: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "gat": (lambda: Two(GATConv), 1),
    "gcn and batch norm": (lambda: Two(GCNConv, nn.BatchNorm1d(WIDE)), 2),
    "transformer and layer norm": (lambda: Two(TransformerConv, nn.LayerNorm(WIDE)), 1),
    "layer norm of PyG, by node": (lambda: Two(module=LayerNorm(WIDE, mode="node")), 1),
    "pyg's gat": (lambda: GAT(WIDE, WIDE, 3, CLASSES, norm="batch", jk="cat"), 2),
    "perceptron": (lambda: MLP([WIDE, WIDE, CLASSES]), -1),
}


@pytest.mark.parametrize("name", LOCAL)
def test_the_floor_of_a_local_network_counts_the_hops_on_a_ring(name: str, ring: Data) -> None:
    make, radius = LOCAL[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = make().eval()
    floor = fb.certify(network, ring, ThreatModel(nodes=1, edges_per_node=EDGES), certificate="reach")
    assert floor.moved == EDGES * (2 * radius + 1 if radius >= 0 else 0)


def test_a_dense_product_of_this_package_keeps_its_declared_floor() -> None:
    """A dense adjacency matrix carries NaN along weights of 0, so only networks with a forward of one's own meet it."""
    data = fb.load_dataset("csbm-1e3")
    model = fb.fit("gnnguard", fb.build_model("gat", data), data, epochs=1)
    floor = fb.certify(model, data, ThreatModel(nodes=1, edges_per_node=1), certificate="reach")
    assert 0 < floor.moved < floor.targets


def test_a_large_output_elsewhere_hides_no_change(ring: Data) -> None:
    """One node with outputs of a thousand once raised the tolerance for all others."""

    class Hides(Two):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            h = self.last(x, edge_index)
            first = torch.zeros(x.shape[0], 1).index_fill(0, torch.tensor([0]), 1e7)
            return h + 3 * torch.sign(x).mean(0)[:CLASSES] + first

    with pytest.raises(NotApplicable, match="a trial injection changed outputs"):
        fb.certify(Hides().eval(), ring, ThreatModel(nodes=1, edges_per_node=1), certificate="reach")


def test_degrees_show_in_a_dense_graph_too() -> None:
    """One new edge among forty changes a degree by so little that it would pass for rounding."""
    drawn = torch.Generator().manual_seed(0)
    edges = to_undirected(torch.randint(0, NODES, (2, 20 * NODES), generator=drawn))
    data = Data(x=torch.randn(NODES, WIDE, generator=drawn), edge_index=edges[:, edges[0] != edges[1]])
    data.y, data.test_mask = torch.zeros(NODES, dtype=torch.long), torch.ones(NODES, dtype=torch.bool)

    class Normalised(Two):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            scale = degree(edge_index[1], x.shape[0]).clamp(min=1).rsqrt()[:, None]
            return scale * self.last((scale * self.first(scale * x, edge_index)).relu(), edge_index)

    with pytest.raises(NotApplicable, match=TRIAL):
        fb.certify(Normalised(GraphConv).eval(), data, ThreatModel(nodes=20, edges_per_node=1), certificate="reach")


def test_an_attention_that_looks_at_all_nodes_has_no_floor_though_the_outputs_do_not(ring: Data) -> None:
    class MarksGlobal(Two):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            score = x[:, 0] - x[:, 0].mean()
            fb.mark_attention(edge_index, score[edge_index[0]].sigmoid())
            return self.last(x, edge_index)

    with pytest.raises(NotApplicable, match="a trial injection changed attention more than 0 hops beyond"):
        fb.certify(MarksGlobal(SAGEConv).eval(), ring, ThreatModel(nodes=1, edges_per_node=1), certificate="reach")


def test_an_aggregation_is_known_only_inside_a_layer() -> None:
    data = Data(x=torch.randn(4, WIDE), edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.arange(4) % CLASSES)
    data.test_mask = torch.ones(4, dtype=torch.bool)

    class Pools(Two):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            everything = torch.zeros(x.shape[0], dtype=torch.long)
            return self.last(x, edge_index) + self.module(x, everything)[:, :CLASSES]

    with pytest.raises(NotApplicable, match="whether its module MeanAggregation mixes nodes"):
        fb.certify(Pools(module=MeanAggregation()).eval(), data, certificate="reach")
