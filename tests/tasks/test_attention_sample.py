"""The kept sample of attention: which place it shows, and that its weights are those of the models."""

from __future__ import annotations

import torch
from torch_geometric.data import Data

from fgai_bench.models import Attention
from fgai_bench.tasks.attention_sample import PER_NEIGHBOUR, attention_sample

# Node 0 has neighbours 1 and 2; node 3 is injected next to 0. Edges lead from the first row to the second.
CLEAN = torch.tensor([[1, 2, 0, 0], [0, 0, 1, 2]])
NEW = torch.tensor([[3, 0], [0, 3]])
GRAPH = Data(x=torch.zeros(3, 1), edge_index=CLEAN)


def sampled(before: torch.Tensor, after: torch.Tensor) -> dict[str, torch.Tensor]:
    loops = torch.arange(4).expand(2, 4)
    clean = Attention(torch.cat([CLEAN, loops[:, :3]], 1), torch.cat([before, torch.ones(3)]), added=3)
    attacked = Attention(torch.cat([CLEAN, NEW, loops], 1), torch.cat([after, torch.ones(4)]), added=4)
    return attention_sample(clean, attacked, GRAPH, torch.tensor([0, 1]))


def test_weights_are_looked_up_by_edge_and_new_edges_were_zero() -> None:
    before, after = torch.tensor([0.6, 0.4, 1.0, 1.0]), torch.tensor([0.1, 0.2, 0.9, 0.8, 0.7, 0.5])
    found = sampled(before, after)
    assert (found["centre"].item(), found["nodes"].item()) == (0, 3)
    weights = {
        tuple(edge): (round(w, 4), round(v, 4))
        for edge, w, v in zip(
            found["edge_index"].T.tolist(), found["clean"].tolist(), found["attacked"].tolist(), strict=True
        )
    }
    assert weights == {
        (1, 0): (0.6, 0.1), (2, 0): (0.4, 0.2), (3, 0): (0.0, 0.7),
        (0, 1): (1.0, 0.9), (0, 2): (1.0, 0.8), (0, 3): (0.0, 0.5),
    }  # fmt: skip


def test_a_hub_does_not_fill_the_picture() -> None:
    # Node 1 is the centre; its neighbour 0 has forty in-edges.
    star = torch.stack([torch.arange(1, 41), torch.zeros(40, dtype=torch.long)])
    edges = torch.cat([star, star.flip(0)], 1)
    attention = Attention(edges, torch.ones(80))
    graph = Data(x=torch.zeros(41, 1), edge_index=edges)
    found = attention_sample(attention, attention, graph, torch.tensor([0, 1]))
    assert found["centre"].item() == 1
    into_hub = found["edge_index"][1] == 0
    assert int(into_hub.sum()) == PER_NEIGHBOUR


def test_the_place_does_not_depend_on_the_weights() -> None:
    one = sampled(torch.rand(4), torch.rand(6))
    other = sampled(torch.rand(4), torch.rand(6))
    assert torch.equal(one["edge_index"], other["edge_index"])
