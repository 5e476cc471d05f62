"""Placements: inside the budget, where they say they are, and as good a cover as a plain greedy one."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from benchmarks.plain_cover import greedy_targets
from fgai_bench.attacks import ThreatModel, Victim
from fgai_bench.attacks.placement import attached_edges, cover, defective, random
from fgai_bench.data import load_dataset
from fgai_bench.models import Output, build_model
from fgai_bench.testing.fixture import tiny_graph, trained_model

PLACEMENTS = {"random": random, "cover": cover, "defective": defective}


def victim(data: Data, targets: torch.Tensor | None = None, model=None) -> tuple[Victim, Output]:
    made = Victim(model or trained_model(), data, data.test_index if targets is None else targets)
    return made, made.evaluated()[1]


def covered(data: Data, targets: torch.Tensor, chosen: torch.Tensor) -> int:
    """How many targets are attached to, or have a neighbour that is."""
    reached = set(chosen.tolist())
    reached |= {d for s, d in data.edge_index.t().tolist() if s in reached}
    return len(reached & set(targets.tolist()))


@pytest.mark.parametrize("name", PLACEMENTS)
@pytest.mark.parametrize(("nodes", "each"), [(3, 4), (1, 40), (7, 5), (0, 3)])
def test_a_placement_stays_inside_the_budget_and_among_the_targets(name, nodes, each):
    attacked, clean = victim(tiny_graph())
    threat = ThreatModel(nodes=nodes, edges_per_node=each)
    attached = PLACEMENTS[name](attacked, clean, threat, 0)
    assert attached.shape == (nodes, min(each, attacked.targets.numel()))
    assert torch.isin(attached, attacked.targets).all()
    assert all(row.unique().numel() == row.numel() for row in attached)
    assert torch.equal(attached, PLACEMENTS[name](attacked, clean, threat, 0))
    edges = attached_edges(36, attached)
    assert edges.shape == (2, 2 * attached.numel())
    assert edges.unique(dim=1).size(1) == edges.size(1)


def test_the_cover_of_a_star_is_its_hub():
    spokes = torch.arange(1, 6)
    star = Data(
        x=torch.eye(6), edge_index=torch.stack([torch.cat([spokes, 0 * spokes]), torch.cat([0 * spokes, spokes])])
    )
    star.y = torch.zeros(6, dtype=torch.long)
    attacked, _ = victim(star, torch.arange(6), build_model("gat", 6, 2))
    clean = Output(torch.tensor([[1.0, 0.0]]).repeat(6, 1), None)  # every target is right
    assert cover(attacked, clean, ThreatModel(nodes=1, edges_per_node=1), 0).tolist() == [[0]]
    alone = Output(torch.tensor([[0.0, 1.0]]).repeat(6, 1).index_copy(0, torch.tensor([3]), clean.logits[:1]), None)
    nearest = cover(attacked, alone, ThreatModel(nodes=1, edges_per_node=1), 0, strength=0.1)
    assert nearest.tolist() == [[3]]  # through the hub only 0.3 / 2 of the need would be served


def test_what_is_wrong_already_is_not_covered():
    pairs = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    data = Data(x=torch.eye(4), edge_index=pairs, y=torch.tensor([0, 0, 1, 1]))
    attacked, _ = victim(data, torch.arange(4), build_model("gat", 4, 2))
    clean = Output(torch.tensor([[1.0, 0.0]]).repeat(4, 1), None)  # nodes 2 and 3 are wrong
    (chosen,) = cover(attacked, clean, ThreatModel(nodes=1, edges_per_node=1), 0).flatten().tolist()
    assert chosen in (0, 1)


def test_the_cover_of_cora_holds_as_much_as_a_plain_greedy_one():
    data = load_dataset("cora")
    attacked, _ = victim(data, model=build_model("gat", data.x.shape[1], 7))
    right = torch.nn.functional.one_hot(data.y, 7).float() * 10
    ours = cover(attacked, Output(right, None), ThreatModel(nodes=20, edges_per_node=10), 0)
    plain = torch.tensor(greedy_targets(data, data.test_index, 200))
    assert ours.unique().numel() == 200
    assert covered(data, data.test_index, ours.flatten()) >= covered(data, data.test_index, plain) - 2
