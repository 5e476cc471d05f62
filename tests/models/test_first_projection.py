"""Rows that are known are projected once, and the result is what the layer alone gives."""

from __future__ import annotations

import copy

import torch

import fgai_bench as fb
from fgai_bench.models.base import frozen_eval
from tests.card.networks import NETWORKS, masked_graph


def appended_logits(model, data, new):
    """Return the logits of a graph with two more nodes, made in the way of the attacks."""
    nodes = data.num_nodes
    edges = torch.cat([data.edge_index, torch.tensor([[nodes, nodes + 1], [0, 3]])], 1)
    return model.propagate(model.appended(model.embed(data.x), model.embed(new)), edges).logits, edges


def test_logits_and_gradients_are_those_of_the_plain_module():
    data, new = masked_graph(), torch.rand(2, 8)
    for name in ("own", "gat", "gatv2", "transformer"):
        module = NETWORKS[name]().eval()
        model = fb.wrap(module).on_graph(data)
        features, plain = (new.clone().requires_grad_() for _ in range(2))
        with frozen_eval(model):
            for _ in range(2):  # the second time from memory
                logits, edges = appended_logits(model, data, features)
        longer = data.clone()
        longer.x, longer.edge_index = torch.cat([data.x, plain]), edges
        theirs = module(longer) if name == "transformer" else module(longer.x, edges)
        assert torch.allclose(logits, theirs, atol=1e-6)
        ours, expected = (torch.autograd.grad(out.sum(), at)[0] for out, at in ((logits, features), (theirs, plain)))
        assert torch.allclose(ours, expected, atol=1e-5)


def test_changed_parameters_are_noticed_also_in_a_copy():
    data, new = masked_graph(), torch.rand(2, 8)
    model = fb.wrap(NETWORKS["gat"]().eval()).on_graph(data)
    with frozen_eval(model):
        before = appended_logits(model, data, new)[0]
    other = copy.deepcopy(model)
    for changed in (model, other):
        with torch.no_grad():
            changed.module.convs[0].lin.weight.mul_(2)
        with frozen_eval(changed):
            after, edges = appended_logits(changed, data, new)
            expected = changed.module(torch.cat([data.x, new]), edges)
        assert not torch.allclose(after, before)
        assert torch.allclose(after, expected[0] if isinstance(expected, tuple) else expected, atol=1e-6)
