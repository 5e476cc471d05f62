"""A user's own PyG module: attention equal to PyG's, shifts equal to a recomputation, and the suite runs on it."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric.nn import GATConv, GATv2Conv, GCNConv, GINConv, GraphConv, TransformerConv
from torch_geometric.utils import add_self_loops, softmax

from fgai_bench.attacks import ATTACKS, ThreatModel
from fgai_bench.defenses import DEFENSES, Training
from fgai_bench.models import from_pyg, mark_attention
from fgai_bench.models.base import ModelError
from fgai_bench.registry import Entry
from fgai_bench.testing import checks_of
from fgai_bench.testing.defenses import DefenseSubject
from fgai_bench.testing.fixture import CLASSES, FEATURES, NODES, tiny_graph, tiny_problem
from fgai_bench.testing.models import ModelSubject
from fgai_bench.testing.traces import no_trace_on

CONVS = [GATConv, GATv2Conv, TransformerConv]


class Theirs(nn.Module):
    """Two layers of one convolution, as a user would write them."""

    def __init__(self, conv: type, seed: int = 0, heads: int = 2) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.first = conv(FEATURES, 4, heads=heads)
            self.second = conv(4 * heads, CLASSES, heads=heads, concat=False)

    def forward(self, x, edge_index):
        return self.second(torch.relu(self.first(x, edge_index)), edge_index)


def their_attention(module: Theirs, data):
    """Logits, edges and head-averaged weights of the last layer, by PyG alone."""
    hidden = torch.relu(module.first(data.x, data.edge_index))
    logits, (edges, weights) = module.second(hidden, data.edge_index, return_attention_weights=True)
    return logits, edges, weights


@pytest.mark.parametrize("conv", CONVS)
def test_logits_and_attention_are_pygs(conv):
    module, data = Theirs(conv), tiny_graph()
    with torch.no_grad():
        out = from_pyg(module)(data)
        logits, edges, weights = their_attention(module, data)
    assert torch.allclose(out.logits, logits, atol=1e-6)
    expected = {tuple(edge): weight for edge, weight in zip(edges.t().tolist(), weights.mean(1).tolist(), strict=True)}
    found = zip(out.attention.edge_index.t().tolist(), out.attention.weight.tolist(), strict=True)
    assert {tuple(edge): weight for edge, weight in found} == pytest.approx(expected, abs=1e-6)
    assert out.attention.added == (0 if conv is TransformerConv else NODES)


@pytest.mark.parametrize("conv", CONVS)
def test_a_shift_is_a_recomputation_with_shifted_scores(conv):
    module, data = Theirs(conv), tiny_graph()
    with torch.no_grad():
        model = from_pyg(module)
        clean = model(data).attention
        shift = torch.randn(clean.weight.shape, generator=torch.Generator().manual_seed(0))
        shifted = model(data, score_shift=shift)
        _, edges, weights = their_attention(module, data)
        place = {tuple(edge): number for number, edge in enumerate(clean.edge_index.t().tolist())}
        order = torch.tensor([place[tuple(edge)] for edge in edges.t().tolist()])
        raised = weights * shift[order].exp().unsqueeze(1)  # (E, H)
        expected = raised / torch.zeros(NODES, 2).index_add_(0, edges[1], raised)[edges[1]]
    assert torch.allclose(shifted.attention.weight[order], expected.mean(1), atol=1e-5)
    assert not torch.allclose(shifted.logits, model(data).logits, atol=1e-3)


def test_shifted_logits_are_the_shifted_sums():
    """GATConv by hand: the logits are the mean over heads of sums of values under the shifted weights."""
    module, data = Theirs(GATConv), tiny_graph()
    model = from_pyg(module)
    with torch.no_grad():
        clean = model(data).attention
        shift = torch.linspace(-1, 1, clean.weight.numel())
        out = model(data, score_shift=shift)
        _, edges, weights = their_attention(module, data)  # edges in the order of ours: the graph's, then loops
        assert torch.equal(edges, clean.edge_index)
        raised = weights * shift.exp().unsqueeze(1)
        attention = raised / torch.zeros(NODES, 2).index_add_(0, edges[1], raised)[edges[1]]
        values = module.second.lin(torch.relu(module.first(data.x, data.edge_index))).view(NODES, 2, CLASSES)
        sums = torch.zeros(NODES, 2, CLASSES).index_add_(0, edges[1], attention.unsqueeze(2) * values[edges[0]])
    assert torch.allclose(out.logits, sums.mean(1) + module.second.bias, atol=1e-5)


@pytest.mark.parametrize("conv", CONVS)
def test_it_passes_the_model_checks(conv):
    model = from_pyg(Theirs(conv))
    declared = frozenset({"attention", "differentiable"})
    found = [check.run(ModelSubject(model.rebuilt, declared, fitted=model)) for check in checks_of("models")]
    failed = {result.name: result.message for result in found if result.status == "failed"}
    assert failed == {}


@pytest.mark.parametrize("conv", CONVS)
@pytest.mark.parametrize("defense", ["vanilla", "ln", "row-norm", "at", "fgai", "fgai-attention"])
def test_every_defense_fits_it_and_an_attack_runs(conv, defense):
    problem = tiny_problem()
    model = from_pyg(Theirs(conv), in_channels=FEATURES)
    entry: Entry = DEFENSES.entry(defense)
    teacher = DEFENSES["vanilla"]().fit(model, problem.training_data, problem.split, training=Training(epochs=5))
    with no_trace_on(model, teacher):
        fitted = DefenseSubject(entry).fit(model=model, teacher=teacher)
    attacked = ATTACKS["injection"]()(
        fitted, problem.data, problem.targets, threat=ThreatModel(nodes=2, edges_per_node=4, steps=2)
    )
    found = problem.attacked(fitted, attacked)
    assert attacked.curve[-1] > attacked.curve[0]
    assert found.metrics["g_jsd"] > 0


def test_a_copy_is_wrapped_and_the_users_module_stays():
    module = Theirs(GATConv)
    model = from_pyg(module)
    with torch.no_grad():
        model.module.first.bias.fill_(1.0)
    assert not bool(module.first.bias.any())
    assert module(tiny_graph().x, tiny_graph().edge_index).shape == (NODES, CLASSES)
    assert not module.first._forward_hooks


def test_loops_of_the_graph_are_not_counted_as_added():
    data = tiny_graph()
    data.edge_index = torch.cat([torch.tensor([[3], [3]]), data.edge_index], dim=1)
    attention = from_pyg(Theirs(GATConv))(data).attention
    assert attention.added == NODES - 1
    assert torch.equal(attention.of_graph().edge_index, data.edge_index)


@pytest.mark.parametrize("conv", [GATConv, GATv2Conv])
def test_an_edge_of_weight_zero_is_no_edge_and_one_of_weight_one_is_itself(conv):
    model, data = from_pyg(Theirs(conv)), tiny_graph()
    kept = torch.arange(data.num_edges) % 3 > 0
    with torch.no_grad():
        h = model.embed(data.x)
        masked = model.propagate(h, data.edge_index, edge_weight=kept.float()).logits
        assert torch.allclose(masked, model.propagate(h, data.edge_index[:, kept]).logits, atol=1e-5)
        whole = model.propagate(h, data.edge_index, edge_weight=torch.ones(data.num_edges)).logits
        assert torch.allclose(whole, model.propagate(h, data.edge_index).logits, atol=1e-6)


@pytest.mark.parametrize("conv", CONVS)
def test_the_layers_are_all_there_and_the_last_is_the_attention(conv):
    model, data = from_pyg(Theirs(conv)), tiny_graph()
    with torch.no_grad():
        out, layers = model.with_layers(model.embed(data.x), data.edge_index)
    assert model.hops == len(layers) == 2
    assert torch.equal(layers[-1].averaged().weight, out.attention.weight)
    assert not torch.allclose(layers[0].averaged().weight, out.attention.weight)


def test_a_module_without_attention_gives_logits_and_no_attention():
    module, data = GCNConv(FEATURES, CLASSES), tiny_graph()
    wrapped = from_pyg(module)
    out = wrapped(data)
    assert torch.allclose(out.logits, module(data.x, data.edge_index), atol=1e-6)
    assert out.attention is None
    with pytest.raises(ValueError, match="no layer of the network is PyG's or calls mark_attention"):
        wrapped(data, score_shift=torch.zeros(data.num_edges))


@pytest.mark.parametrize("layer", [GCNConv(FEATURES, CLASSES), GraphConv(FEATURES, CLASSES), GINConv(nn.Identity())])
def test_edges_of_layers_that_do_not_attend_have_weights_too(layer):
    data, model = tiny_graph(), from_pyg(layer)
    kept = torch.arange(data.num_edges) % 3 > 0
    with torch.no_grad():
        masked = model.propagate(data.x, data.edge_index, edge_weight=kept.float()).logits
        assert torch.allclose(masked, layer(data.x, data.edge_index[:, kept]), atol=1e-5)
        whole = model.propagate(data.x, data.edge_index, edge_weight=torch.ones(data.num_edges)).logits
        assert torch.allclose(whole, layer(data.x, data.edge_index), atol=1e-5)


class ByHand(GATConv):
    """A GATConv that computes everything itself, in the formulas of the paper, and marks its attention."""

    def forward(self, x, edge_index):
        edge_index = add_self_loops(edge_index)[0]
        h, (source, target) = self.lin(x).view(-1, self.heads, self.out_channels), edge_index  # (N, H, D)
        scores = nn.functional.leaky_relu(
            (h * self.att_src).sum(-1)[source] + (h * self.att_dst).sum(-1)[target], self.negative_slope
        )
        weights = mark_attention(edge_index, softmax(scores, target))  # (E, H)
        out = torch.zeros_like(h).index_add(0, target, weights.unsqueeze(-1) * h[source])
        return (out.flatten(1) if self.concat else out.mean(1)) + self.bias


class Marked(nn.Module):
    """The layers of a user's network, none of which is PyG's to the wrapper."""

    def __init__(self) -> None:
        super().__init__()
        theirs = Theirs(ByHand)
        self.layers = [theirs.first, theirs.second]  # a plain list: its layers are found by nobody

    def forward(self, x, edge_index):
        return self.layers[1](torch.relu(self.layers[0](x, edge_index)), edge_index)


def test_a_marked_attention_is_read_and_shifted_as_that_of_pygs_layer():
    data, marked, known = tiny_graph(), from_pyg(Marked()), from_pyg(Theirs(GATConv))
    shift = torch.linspace(-1, 1, data.num_edges + NODES)
    with torch.no_grad():
        for theirs, ours in ((known(data), marked(data)), (known(data, shift), marked(data, shift))):
            assert torch.allclose(theirs.logits, ours.logits, atol=1e-5)
            assert torch.allclose(theirs.attention.weight, ours.attention.weight, atol=1e-6)
        half = torch.full((data.num_edges,), 0.5)
        weighed = [model.propagate(data.x, data.edge_index, edge_weight=half).logits for model in (known, marked)]
    assert torch.allclose(*weighed, atol=1e-5)
    assert (marked.hops, len(marked.with_layers(data.x, data.edge_index)[1])) == (2, 2)


def test_a_graph_with_a_doubled_self_loop_is_named_with_the_way_out():
    data = tiny_graph()
    data.edge_index = torch.cat([data.edge_index, torch.tensor([[3, 3], [3, 3]])], 1)
    model = from_pyg(Theirs(GATConv))
    with pytest.raises(ModelError, match=r"several self-loops at node 3; data.coalesce\(\) leaves one of each edge"):
        model(data)
    assert model(data.coalesce()).attention.added == NODES - 1


def test_layer_norm_needs_the_number_of_features():
    with pytest.raises(ValueError, match="needs in_channels, the number of features per node"):
        from_pyg(Theirs(GATConv)).rebuilt(0, layer_norm=True)
