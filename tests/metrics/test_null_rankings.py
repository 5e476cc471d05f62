"""Nulls: an attention and rankings that know nothing of the model, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from fgai_bench.metrics import degree_ranking, g_jsd, node_jsd, uniform_attention
from fgai_bench.models import align, build_model
from fgai_bench.testing.fixture import tiny_graph

STAR = torch.tensor([[1, 2, 0, 0], [0, 0, 1, 2]])  # node 0 with two neighbours, both directions


def test_every_node_pays_the_same_to_its_neighbours_and_to_itself() -> None:
    attention = uniform_attention(STAR, 3)
    assert attention.of_graph().weight.tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 2, 1 / 2])
    assert (attention.added, attention.weight[4:].tolist()) == (3, pytest.approx([1 / 3, 1 / 2, 1 / 2]))


def test_a_loop_of_the_graph_is_not_added_again() -> None:
    looped = torch.tensor([[0, 1], [0, 0]])
    assert uniform_attention(looped, 2).weight.tolist() == pytest.approx([1 / 2, 1 / 2, 1.0])  # node 1: its own loop


def test_one_injected_node_moves_a_uniform_attention_by_what_the_degrees_say() -> None:
    """Node 3 attaches to node 0, whose weights go from 1/3 to 1/4; the two other edges stay."""
    attacked = torch.cat([STAR, torch.tensor([[3, 0], [0, 3]])], dim=1)
    before, after = uniform_attention(STAR, 3), uniform_attention(attacked, 4)
    w, v = 1 / 3, 1 / 4
    m = (w + v) / 2
    jensen = w * math.log(w / m) + v * math.log(v / m)
    assert g_jsd(*align(before, after, common=True)) == pytest.approx(2 * jensen / (2 * 4), rel=1e-6)
    # Node 0 over its four in-edges: three of 1/3 against 1/4, and a new one of 0 against 1/4; nodes 1 and 2 stay.
    node = (3 * jensen + v * math.log(2)) / 2
    assert node_jsd(before, after) == pytest.approx(node / 3, rel=1e-6)


def test_it_has_the_edges_and_loops_of_a_models_attention() -> None:
    data = tiny_graph()
    own = build_model("gat", data.x.shape[1], 3)(data).attention
    null = uniform_attention(data.edge_index, data.x.shape[0])
    assert torch.equal(own.edge_index, null.edge_index)
    assert own.added == null.added


def test_the_degree_ranking_divides_by_the_root_of_both_degrees() -> None:
    path = torch.tensor([[0, 1], [1, 2]])  # degrees 1, 2, 1
    assert degree_ranking(path).weight.tolist() == pytest.approx([1 / math.sqrt(2)] * 2)
