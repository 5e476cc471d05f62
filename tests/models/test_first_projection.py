"""Rows that are known are projected once, and the result is what the layer alone gives."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch_geometric.nn import GATConv

import fgai_bench as fb
from fgai_bench.models.base import frozen_eval
from fgai_bench.models.first_projection import RoomForRows
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


class WithSquares(nn.Module):
    """A network that also reads the features themselves, in a way that its gradient needs them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.skip = GATConv(8, 3), nn.Linear(8, 3)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index) + self.skip(x * x)


def test_features_that_are_read_otherwise_have_their_gradient_too():
    data, module = masked_graph(), WithSquares().eval()
    model = fb.wrap(module).on_graph(data)
    for seed in (0, 1, 2):  # the same room is written again
        new = torch.rand(2, 8, generator=torch.Generator().manual_seed(seed))
        ours, theirs = (new.clone().requires_grad_() for _ in range(2))
        with frozen_eval(model):
            logits, edges = appended_logits(model, data, ours)
        expected = module(torch.cat([data.x, theirs]), edges)
        assert torch.allclose(logits, expected, atol=1e-6)
        found, known = (torch.autograd.grad(out.sum(), at)[0] for out, at in ((logits, ours), (expected, theirs)))
        assert torch.allclose(found, known, atol=1e-5)


def test_rows_that_somebody_still_holds_are_not_written_over():
    room, rows = RoomForRows(), torch.zeros(2, 3)
    first = room.joined(rows, torch.ones(1, 3))
    second = room.joined(rows, 2 * torch.ones(1, 3))
    assert first[2].tolist() == [1, 1, 1]
    assert second[2].tolist() == [2, 2, 2]
    place = first.data_ptr()
    del first
    assert room.joined(rows, 3 * torch.ones(1, 3)).data_ptr() == place


def test_a_module_that_works_in_place_spoils_nothing_for_the_next_pass():
    room, rows = RoomForRows(), torch.zeros(2, 3)
    room.joined(rows, torch.ones(1, 3)).add_(5)
    assert room.joined(rows, torch.ones(1, 3)).tolist() == [[0, 0, 0], [0, 0, 0], [1, 1, 1]]
