"""What a graph carries grows with it."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.data import Data

from fgai_bench.data.extend import extended


class Counts(TorchDispatchMode):
    """Counts how often an operator is called."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self.calls = name, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += func.overloadpacket.__name__ == self.name
        return func(*args, **(kwargs or {}))


def grown(graph: Data) -> Data:
    return extended(graph, torch.zeros(5, 1), torch.tensor([[0, 4, 1], [1, 1, 4]]))


def papers() -> Data:
    years = torch.tensor([2012, 2020, 2020, 2016])
    return Data(x=torch.zeros(4, 1), edge_index=torch.tensor([[0], [1]]), y=torch.arange(4), year=years)


def test_a_new_node_has_the_most_common_year_and_no_label():
    found = grown(papers())
    assert found.year.tolist() == [2012, 2020, 2020, 2016, 2020]
    assert found.y.tolist() == [0, 1, 2, 3, -1]


def test_the_most_common_row_is_counted_once_so_that_growing_again_waits_for_no_device():
    graph = papers()
    with Counts("mode") as counting:
        grown(graph)
        assert counting.calls == 1
        grown(graph)
        assert counting.calls == 1


def test_a_row_changed_in_place_is_counted_anew():
    graph = papers()
    grown(graph)
    graph.year.fill_(2024)
    assert grown(graph).year[-1] == 2024
