"""Clipped attention: no neighbour has more than the bound, which is tight, in GAT, GATv2, GT and one-hop networks."""

from __future__ import annotations

from math import exp

import pytest
import torch

from fgai_bench.defenses import DEFENSES, Training
from fgai_bench.defenses.base import FitError
from fgai_bench.models import build_model
from fgai_bench.models.gat import GATLayer
from fgai_bench.models.kernels.segments import clipped, plain_attention
from fgai_bench.models.options import AttentionOptions
from fgai_bench.models.sorted_edges import sorted_edges
from fgai_bench.testing.fixture import tiny_graph

MODELS = ("gat", "gatv2", "gt", "gat-one-hop", "gatv2-one-hop")


def test_clipped_scores_by_hand():
    scores = clipped(torch.tensor([-1e9, 0.0, 0.01, 1e9]), 2.0)
    assert scores.tolist() == pytest.approx([-2.0, 0.0, 0.01, 2.0], abs=1e-6)


def largest_share(clip, others):
    """Return the most attention that one in-edge can draw from a node with so many further ones."""
    return exp(2 * clip) / (exp(2 * clip) + others)


@pytest.mark.parametrize("clip", [0.1, 1.0])
@pytest.mark.parametrize("name", MODELS)
def test_no_neighbour_draws_more_than_the_bound_in_any_layer_or_head(name, clip):
    """Huge parameters and features make the bare network look at one neighbour only; the clipped one cannot."""
    data = tiny_graph()
    degree = torch.bincount(data.edge_index[1], minlength=36)  # the others of an in-edge: as many, with the loop
    bound = torch.tensor([largest_share(clip, int(others)) for others in degree])
    above = []
    for score_clip in (clip, None):
        model = build_model(name, 8, 3, seed=0, score_clip=score_clip).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(30)
            _, layers = model.with_layers(model.embed(30 * data.x), data.edge_index)
        largest = [layer.weights[layer.place].amax(1) - bound[layer.edge_index[1]] for layer in layers]
        above.append(max(float(excess.max()) for excess in largest))
    assert above[0] <= 1e-5
    assert above[1] > 0.05


def test_the_bound_is_tight():
    """A GAT layer whose score is c for one source and -c for the others reaches it."""
    layer = GATLayer(1, 1, 1, AttentionOptions(score_clip=0.5)).eval()
    with torch.no_grad():
        layer.att_src.fill_(1e6)
        layer.att_dst.zero_()
        edges = sorted_edges(torch.tensor([[1, 2, 3], [0, 0, 0]]), 4)
        _, weights = layer(torch.tensor([[-1.0], [1.0], [-1.0], [-1.0]]), edges)
    assert float(weights[0]) == pytest.approx(largest_share(0.5, others=3))


@pytest.mark.parametrize("name", MODELS)
def test_kernels_and_formulas_agree(name):
    data, model = tiny_graph(), build_model(name, 8, 3, seed=0, score_clip=0.3).eval()
    fused = model(data)
    with plain_attention():
        plain = model(data)
    assert torch.allclose(fused.logits, plain.logits, atol=1e-5)
    assert torch.allclose(fused.attention.weight, plain.attention.weight, atol=1e-6)
    bare = model.rebuilt(0, score_clip=None)
    bare.load_state_dict(model.state_dict())
    loose = model.rebuilt(0, score_clip=100.0)
    loose.load_state_dict(model.state_dict())
    assert torch.allclose(loose.eval()(data).logits, bare.eval()(data).logits, atol=1e-2)


def test_the_defense_clips_the_model_and_refuses_one_without_scores():
    data = tiny_graph()
    trained = DEFENSES["clipped"](clip=0.7).fit(build_model("gatv2", 8, 3), data, training=Training(epochs=1))
    assert trained.config["score_clip"] == 0.7
    with pytest.raises(FitError, match="MLP has no option score_clip"):
        DEFENSES["clipped"]().fit(build_model("mlp", 8, 3), data, training=Training(epochs=1))
