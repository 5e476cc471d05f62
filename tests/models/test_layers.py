"""The attention layers against PyG's (copied weights, float64) and against dense arithmetic."""

import math

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GATv2Conv

from fgai_bench.attacks import ThreatModel
from fgai_bench.attacks.base import Victim
from fgai_bench.attacks.injection import InjectionScene
from fgai_bench.models import build_model
from fgai_bench.models.gat import GATLayer
from fgai_bench.models.gatv2 import GATv2Layer
from fgai_bench.models.gt import GTLayer
from fgai_bench.models.kernels.segments import AttentionCall, attend, segment_softmax, weighted_sum
from fgai_bench.models.options import AttentionOptions, GTOptions
from fgai_bench.models.sorted_edges import sorted_edges
from fgai_bench.testing.fixture import tiny_graph, tiny_problem

NODES, IN, OUT, HEADS = 12, 5, 4, 3


@pytest.fixture
def graph():
    generator = torch.Generator().manual_seed(0)
    pairs = torch.randint(0, NODES - 1, (2, 30), generator=generator)  # node 11 is isolated
    edge_index = torch.unique(pairs[:, pairs[0] != pairs[1]], dim=1)
    edge_index = edge_index[:, torch.randperm(edge_index.size(1), generator=generator)]
    x = torch.randn(NODES, IN, dtype=torch.float64, generator=generator)
    return x, edge_index


def run_ours(layer, x, edge_index):
    edges = sorted_edges(edge_index, x.size(0))
    out, weights = layer(layer.project(x), edges)
    return out, edges.edge_index, weights[edges.inverse]


def copied_gat(theirs):
    ours = GATLayer(IN, OUT, HEADS, AttentionOptions(dropout=0.0, attention_dropout=0.0)).double()
    with torch.no_grad():
        ours.project.weight.copy_(theirs.lin.weight.t())
        ours.att_src.copy_(theirs.att_src[0])
        ours.att_dst.copy_(theirs.att_dst[0])
        ours.bias.copy_(theirs.bias)
    return ours, [(ours.att_src, theirs.att_src), (ours.att_dst, theirs.att_dst), (ours.bias, theirs.bias)]


def copied_gatv2(theirs):
    ours = GATv2Layer(IN, OUT, HEADS, AttentionOptions(dropout=0.0, attention_dropout=0.0)).double()
    with torch.no_grad():
        theirs.lin_l.bias.zero_()
        theirs.lin_r.bias.zero_()
        ours.project.weight.copy_(torch.cat([theirs.lin_l.weight, theirs.lin_r.weight]).t())
        ours.att.copy_(theirs.att[0])
        ours.bias.copy_(theirs.bias)
    return ours, [(ours.att, theirs.att), (ours.bias, theirs.bias)]


@pytest.mark.parametrize(("convolution", "copy"), [(GATConv, copied_gat), (GATv2Conv, copied_gatv2)])
def test_layer_equals_pyg(graph, convolution, copy):
    x, edge_index = graph
    theirs = convolution(IN, OUT, HEADS).double()
    torch.nn.init.uniform_(theirs.bias)
    ours, parameters = copy(theirs)
    x_ours, x_theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    out, edges, weights = run_ours(ours, x_ours, edge_index)
    expected, (their_edges, their_weights) = theirs(x_theirs, edge_index, return_attention_weights=True)

    torch.testing.assert_close(out, expected, rtol=0, atol=1e-9)
    assert torch.equal(edges, their_edges)
    torch.testing.assert_close(weights, their_weights, rtol=0, atol=1e-9)

    direction = torch.randn(out.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    tilt = torch.linspace(-1, 1, weights.numel(), dtype=torch.float64).view_as(weights)
    ((out * direction).sum() + (weights * tilt).sum()).backward()
    ((expected * direction).sum() + (their_weights * tilt).sum()).backward()
    torch.testing.assert_close(x_ours.grad, x_theirs.grad, rtol=0, atol=1e-9)
    for mine, other in parameters:
        torch.testing.assert_close(mine.grad.flatten(), other.grad.flatten(), rtol=0, atol=1e-9)


def test_gt_attention_equals_dense_softmax(graph):
    x, edge_index = graph
    layer = GTLayer(8, 2, GTOptions(dropout=0.0, attention_dropout=0.0, layer_norm=True)).double()
    h = torch.cat([x, x[:, :3]], dim=1)  # (N, 8)
    edges = sorted_edges(edge_index, NODES)
    _, weights = layer(h, edges)

    query, key, _ = layer.qkv(h).view(NODES, 3, 2, 4).unbind(1)
    scores = torch.einsum("ihd,jhd->hij", query, key) / math.sqrt(4)  # destination i, source j
    allowed = torch.eye(NODES, dtype=torch.bool)
    allowed[edge_index[1], edge_index[0]] = True
    dense = scores.masked_fill(~allowed, -math.inf).softmax(-1)  # (H, N, N)
    torch.testing.assert_close(weights, dense[:, edges.destination, edges.source].t(), rtol=0, atol=1e-12)


def test_the_core_has_the_right_gradients(graph):
    _, edge_index = graph
    edges = sorted_edges(edge_index, NODES)
    generator = torch.Generator().manual_seed(2)
    scores = torch.randn(edges.source.numel(), 2, dtype=torch.float64, generator=generator, requires_grad=True)
    values = torch.randn(NODES, 2, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    shift = torch.randn(edges.source.numel(), dtype=torch.float64, generator=generator, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: segment_softmax(s, edges), scores)
    assert torch.autograd.gradcheck(lambda s, v: weighted_sum(s, v, edges), (scores, values))
    assert torch.autograd.gradcheck(lambda s, v, d: attend(s, v, AttentionCall(edges, d)), (scores, values, shift))


def test_softmax_survives_large_scores(graph):
    edges = sorted_edges(graph[1], NODES)
    scores = torch.linspace(-1e4, 1e4, edges.source.numel()).unsqueeze(1)
    weights = segment_softmax(scores, edges)
    sums = torch.zeros(NODES, 1).index_add_(0, edges.destination, weights)
    torch.testing.assert_close(sums, torch.ones(NODES, 1))


def test_sorted_edges_follow_a_change_in_place():
    edge_index = torch.tensor([[0, 1], [1, 2]])
    before = sorted_edges(edge_index, 3)
    assert sorted_edges(edge_index, 3) is before
    edge_index[0, 0] = 2
    after = sorted_edges(edge_index, 3)
    assert after.edge_index[0, 0] == 2
    assert before.edge_index[0, 0] == 0


def test_a_loop_of_the_graph_is_not_added_twice():
    edges = sorted_edges(torch.tensor([[0, 1], [1, 1]]), 2)
    assert edges.edge_index.tolist() == [[0, 1, 0], [1, 1, 0]]
    assert edges.added == 1


@pytest.mark.parametrize("end", [7, -1])
def test_an_edge_to_nowhere_is_refused(end):
    with pytest.raises(ValueError, match=f"names node {end} in a graph of 3 nodes"):
        sorted_edges(torch.tensor([[0], [end]]), 3)


@pytest.mark.parametrize("name", ["gat", "gatv2", "gt"])
def test_shifting_the_last_scores_needs_no_hidden_layer_again(name):
    data = tiny_graph()
    model = build_model(name, data.x.shape[1], 3, heads=(2, 1) if name == "gt" else (2, 2), seed=1).eval()
    h = model.embed(data.x)
    out = model.propagate(h, data.edge_index)
    shift = torch.linspace(-1, 1, out.attention.weight.numel()).requires_grad_()
    found = []
    for shifted in (
        model.shifting(out, h, data.edge_index)(shift),
        model.propagate(h, data.edge_index, score_shift=shift),
    ):
        gradient = torch.autograd.grad(shifted.logits.square().sum(), shift, retain_graph=True)[0]
        found.append((shifted.logits, shifted.attention.weight, gradient))
    for quick, whole in zip(*found, strict=True):
        torch.testing.assert_close(quick, whole)
    assert not torch.allclose(found[0][0], out.logits)


@pytest.mark.parametrize("name", ["gat", "gatv2", "gt"])
def test_without_self_loops_a_node_sees_its_neighbours_and_a_lonely_one_itself(name):
    """A path 0 - 1 - 2 and node 3 without edges: the one neighbour of an end has all of its weight."""
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    data = Data(x=torch.eye(4), edge_index=edges)
    model = build_model(name, 4, 3, self_loops=False).eval()
    out, layers = model.with_layers(model.embed(data.x), edges)
    for weights in (out.attention.weight, *(layer.averaged().weight for layer in layers)):
        assert weights[[1, 2]].tolist() == [1.0, 1.0]
        assert weights[[0, 3]].sum().item() == pytest.approx(1.0)
        assert weights[4:].tolist() == [0.0, 0.0, 0.0, 1.0]  # the added loops
    shifted = model.shifting(out, model.embed(data.x), edges)(torch.zeros(8))
    assert torch.allclose(shifted.logits, out.logits)


@pytest.mark.parametrize("options", [{"self_loops": False}, {"output_activation": "elu"}])
@pytest.mark.parametrize("name", ["gat", "gatv2", "gt"])
def test_an_attack_sees_the_model_as_it_is(name, options):
    """The few rows that an attack computes anew are those of the whole model."""
    problem, model = tiny_problem(), build_model(name, 8, 3, **options).eval()
    victim = Victim(model, problem.data, problem.targets)
    scene = InjectionScene.prepare(victim, ThreatModel(nodes=2, edges_per_node=3), seed=0)
    features = torch.full((2, 8), 0.5)
    with torch.no_grad():
        part, whole = scene.output(features), model(scene.graph(features))
    assert torch.allclose(part.logits, whole.logits, atol=1e-5)
    assert torch.allclose(part.attention.weight, whole.attention.weight, atol=1e-5)


@pytest.mark.parametrize("name", ["gat", "gatv2", "gt"])
def test_elu_of_the_logits(name):
    data, (plain, bent) = tiny_graph(), (build_model(name, 8, 3, output_activation=a).eval() for a in ("none", "elu"))
    with torch.no_grad():
        assert torch.allclose(bent(data).logits, torch.nn.functional.elu(plain(data).logits), atol=1e-6)
