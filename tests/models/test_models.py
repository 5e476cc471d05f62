"""GAT, GATv2 and GT as whole models: reference sizes, configuration, norms, edge weights, encodings."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GATConv

import fgai_bench as fb
from fgai_bench.data import laplacian_encoding
from fgai_bench.models import MODELS, build_model
from fgai_bench.models.base import ModelError, frozen_eval
from fgai_bench.testing.fixture import CLASSES, FEATURES, NODES, tiny_graph, tiny_model
from fgai_bench.testing.traces import disturbed, no_trace_on

NAMES = MODELS.names()
ATTENDING = MODELS.names("attention")
STACKED = ["gat", "gatv2", "gt"]


def logits(model, data):
    with torch.no_grad():
        return model(data).logits


def test_reference_sizes():
    """One hidden layer of 8 heads x 8 and a single head to the classes: in*64 + 2*64 + 64, then 64*C + 2*C + C."""
    gat = build_model("gat", 10, 4)
    assert sum(p.numel() for p in gat.parameters()) == (10 * 64 + 3 * 64) + (64 * 4 + 3 * 4)
    gatv2 = build_model("gatv2", 10, 4)
    assert sum(p.numel() for p in gatv2.parameters()) == (2 * 10 * 64 + 2 * 64) + (2 * 64 * 4 + 2 * 4)
    gt = build_model("gt", 10, 4)
    assert gt.project.weight.shape == (10, 128)
    assert [layer.heads for layer in gt.layers] == [8, 1]
    assert [(part.in_features, part.out_features) for part in gt.read_out[::2]] == [(128, 64), (64, 32), (32, 4)]


def test_a_gat_is_two_pyg_layers_with_elu_between():
    ours, data = tiny_model("gat").double().eval(), tiny_graph()
    x = data.x.double()
    theirs = [GATConv(FEATURES, 8, 8).double(), GATConv(64, CLASSES, 1).double()]
    with torch.no_grad():
        for layer, conv in zip(ours.layers, theirs, strict=True):
            conv.lin.weight.copy_(layer.project.weight.t())
            conv.att_src.copy_(layer.att_src.unsqueeze(0))
            conv.att_dst.copy_(layer.att_dst.unsqueeze(0))
        hidden = torch.nn.functional.elu(theirs[0](x, data.edge_index))
        expected = theirs[1](hidden, data.edge_index)
        found = ours.propagate(ours.embed(x), data.edge_index).logits
    assert torch.allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("name", STACKED)
@pytest.mark.parametrize("heads", [(2,), (4, 2), (2, 2, 1)])
def test_depth_and_heads_are_free(name, heads):
    model = build_model(name, FEATURES, CLASSES, hidden=8, heads=heads).eval()
    out = model(tiny_graph())
    assert out.logits.shape == (NODES, CLASSES)
    assert out.attention.weight.shape == (140 + NODES,)
    assert out.attention.added == NODES


def test_a_width_that_heads_do_not_divide_is_refused():
    with pytest.raises(ValueError, match="width 10 of a graph transformer must be a multiple of its heads, 4"):
        build_model("gt", FEATURES, CLASSES, hidden=10, heads=(4,))


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_option_is_one_sentence(name):
    with pytest.raises(
        ModelError, match=rf"^model '{name}': unknown key 'hiden'; did you mean 'hidden'\? \(possible: .*\)$"
    ):
        fb.build_model(name, tiny_graph(), hiden=3)


@pytest.mark.parametrize("name", NAMES)
def test_rebuilt_keeps_the_configuration_but_for_the_changes(name):
    model = build_model(name, FEATURES, CLASSES, hidden=16, seed=3)
    again, narrow = model.rebuilt(seed=3), model.rebuilt(seed=4, hidden=8)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    assert narrow.config == {**model.config, "hidden": 8, "seed": 4}
    assert sum(p.numel() for p in narrow.parameters()) < sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("name", NAMES)
def test_row_normalised_features_do_not_see_a_scale(name):
    model = build_model(name, FEATURES, CLASSES, input_norm="row").eval()
    data = tiny_graph()
    scaled = Data(x=7 * data.x, edge_index=data.edge_index)
    assert torch.allclose(logits(model, scaled), logits(model, data), atol=1e-5)
    assert not torch.allclose(logits(tiny_model(name).eval(), scaled), logits(tiny_model(name).eval(), data), atol=1e-2)


@pytest.mark.parametrize("name", NAMES)
def test_layer_norm_adds_parameters_or_takes_the_place_of_batch_norm(name):
    plain, normed = (build_model(name, FEATURES, CLASSES, layer_norm=flag) for flag in (False, True))
    assert normed.config["layer_norm"] is True
    kinds = {type(part).__name__ for part in normed.modules()}
    assert "BatchNorm1d" not in kinds
    assert not torch.allclose(logits(normed.eval(), tiny_graph()), logits(plain.eval(), tiny_graph()), atol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_dropout_only_while_training(name):
    model, data = tiny_model(name), tiny_graph()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        noisy = [logits(model.train(), data) for _ in range(2)]
    assert not torch.equal(*noisy)
    assert torch.equal(logits(model.eval(), data), logits(model.eval(), data))


@pytest.mark.parametrize("name", ["gat", "gatv2"])
def test_an_edge_of_weight_zero_is_no_edge(name):
    model, data = tiny_model(name).eval(), tiny_graph()
    weight = torch.ones(data.num_edges)
    weight[:20] = 0
    with torch.no_grad():
        h = model.embed(data.x)
        weighed = model.propagate(h, data.edge_index, edge_weight=weight)
        without = model.propagate(h, data.edge_index[:, 20:])
    assert torch.allclose(weighed.logits, without.logits, atol=1e-5)
    assert weighed.attention.weight[:20].max() < 1e-20


@pytest.mark.parametrize("name", ATTENDING)
def test_edge_weights_have_gradients_in_every_layer(name):
    model, data = tiny_model(name).eval(), tiny_graph()
    weight = torch.full((data.num_edges,), 0.5, requires_grad=True)
    out = model.propagate(model.embed(data.x), data.edge_index, edge_weight=weight)
    (gradient,) = torch.autograd.grad(out.logits.square().sum(), weight)
    assert bool(gradient.isfinite().all())
    assert int((gradient != 0).sum()) > 0.9 * data.num_edges


@pytest.mark.parametrize("name", ATTENDING)
def test_a_shift_is_the_softmax_of_shifted_scores(name):
    """``w' = w e^d / sum(w e^d)`` per destination, by a loop over destinations; one head in the last layer."""
    heads = {} if name in STACKED else {"heads": (1,)}
    model, data = build_model(name, FEATURES, CLASSES, **heads).eval(), tiny_graph()
    with torch.no_grad():
        attention = model(data).attention
        shift = torch.randn(attention.weight.shape, generator=torch.Generator().manual_seed(0))
        shifted = model(data, score_shift=shift).attention
    for node in range(NODES):
        mine = attention.edge_index[1] == node
        raised = attention.weight[mine] * shift[mine].exp()
        assert torch.allclose(shifted.weight[mine], raised / raised.sum(), atol=1e-5)


def test_a_transformer_uses_the_encodings_of_the_graph_it_is_given():
    model, data = tiny_model("gt").eval(), tiny_graph()
    fewer = data.edge_index[:, (data.edge_index != 0).all(0)]  # node 0 loses its edges
    with torch.no_grad():
        h = model.embed(data.x)
        given = model.propagate(h, fewer).logits
        own = h + model.encode(laplacian_encoding(fewer, NODES, 8))
        old = h + model.encode(laplacian_encoding(data.edge_index, NODES, 8))
        model.encode.weight.zero_()
        model.encode.bias.zero_()
        assert torch.allclose(model.propagate(own, fewer).logits, given, atol=1e-4)
        assert not torch.allclose(model.propagate(old, fewer).logits, given, atol=1e-2)


def test_a_transformer_follows_edges_that_change_in_place():
    model, data = tiny_model("gt").eval(), tiny_graph()
    before = logits(model, data)
    data.edge_index[:, :40] = data.edge_index[:, 40:80].clone()  # some edges twice, others gone
    again = Data(x=data.x, edge_index=data.edge_index.clone())
    assert torch.equal(logits(model, data), logits(model, again))
    assert not torch.allclose(logits(model, data), before, atol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_undisturbed_leaves_a_model_as_it_was_even_after_an_error(name):
    model = disturbed(tiny_model(name))

    def look_and_stop():
        with frozen_eval(model):
            assert not any(part.training for part in model.modules())
            assert not any(parameter.requires_grad for parameter in model.parameters())
            raise RuntimeError("stop")

    with no_trace_on(model), pytest.raises(RuntimeError, match="stop"):
        look_and_stop()


def test_what_a_subclass_must_implement_is_said():
    from fgai_bench.models import AttentionModel

    with pytest.raises(TypeError, match=r"AttentionModel must implement embed\(x\)"):
        AttentionModel().embed(torch.zeros(1, 1))
    with pytest.raises(TypeError, match=r"AttentionModel must implement propagate\(h, edge_index\)"):
        AttentionModel().propagate(torch.zeros(1, 1), torch.zeros(2, 0, dtype=torch.long))
