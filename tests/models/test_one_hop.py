"""Networks of one hop and of none: what they compute, and what they cannot see."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import elu
from torch_geometric.nn import GATConv, GATv2Conv
from torch_geometric.nn.models import GAT as PyGGAT  # noqa: N811

import fgai_bench as fb
from fgai_bench.metrics import NotApplicable
from fgai_bench.testing.fixture import tiny_graph


def test_gat_one_hop_is_an_embedding_one_gat_layer_and_a_skip_connection() -> None:
    data = tiny_graph()
    model = fb.build_model("gat-one-hop", data, hidden=6, heads=(2,)).eval()
    layer = model.layers[0]
    theirs = GATConv(6, 3, heads=2, concat=False)
    with torch.no_grad():
        theirs.lin.weight.copy_(layer.attend.project.weight.t())
        theirs.att_src.copy_(layer.attend.att_src.unsqueeze(0))
        theirs.att_dst.copy_(layer.attend.att_dst.unsqueeze(0))
        h = elu(data.x @ layer.embed.weight + layer.embed.bias)
        wanted = theirs(h, data.edge_index) + h @ layer.skip.weight
        assert torch.allclose(model(data).logits, wanted, atol=1e-5)


def test_gatv2_one_hop_without_a_skip_connection_is_one_gatv2_layer() -> None:
    data = tiny_graph()
    model = fb.build_model("gatv2-one-hop", data, hidden=6, heads=(2,), skip=False).eval()
    layer = model.layers[0]
    theirs = GATv2Conv(6, 3, heads=2, concat=False, bias=False).eval()
    with torch.no_grad():
        left, right = layer.attend.project.weight.chunk(2, dim=1)
        theirs.lin_l.weight.copy_(left.t())
        theirs.lin_r.weight.copy_(right.t())
        theirs.att.copy_(layer.attend.att.unsqueeze(0))
        h = elu(data.x @ layer.embed.weight + layer.embed.bias)
        assert torch.allclose(model(data).logits, theirs(h, data.edge_index), atol=1e-5)


@pytest.mark.parametrize(("name", "hops"), [("mlp", 0), ("gat-one-hop", 1), ("gatv2-one-hop", 1), ("gat", 2)])
def test_a_node_depends_on_the_nodes_within_its_hops(name: str, hops: int) -> None:
    data = tiny_graph()
    data.x.requires_grad_()
    model = fb.build_model(name, data).eval()
    assert model.hops == hops
    (gradient,) = torch.autograd.grad(model(data).logits[5].sum(), data.x)
    near = torch.zeros(data.num_nodes, dtype=torch.bool)
    near[5] = True
    for _ in range(hops):
        near[data.edge_index[0, near[data.edge_index[1]]]] = True
    assert torch.equal(gradient.abs().sum(1) > 0, near)


@pytest.mark.parametrize("defense", ["ln", "row-norm", "at", "fgai"])
def test_one_hop_networks_take_every_defense(defense: str) -> None:
    data = tiny_graph()
    trained = fb.fit(defense, fb.build_model("gat-one-hop", data, hidden=8), data, epochs=2)
    assert torch.isfinite(trained(data).logits).all()
    assert trained.hops == 1


def test_what_needs_an_attention_is_not_applicable_to_a_perceptron() -> None:
    data = tiny_graph()
    with pytest.raises(NotApplicable, match="needs a model with attention"):
        fb.fit("fgai", fb.build_model("mlp", data), data, epochs=1)
    with pytest.raises(NotApplicable, match="needs a model that has one"):
        fb.attack("explanation", fb.build_model("mlp", data), data, threat="auto")


@pytest.mark.parametrize("defense", ["mlp", "votes", "gcn"])
def test_a_network_of_ones_own_can_be_replaced(defense: str) -> None:
    data = tiny_graph()
    trained = fb.fit(defense, fb.wrap(PyGGAT(8, 4, 1, 3)), data, epochs=1)
    assert trained(data).logits.shape == (36, 3)
