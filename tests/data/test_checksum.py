from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data

from fgai_bench.data.checksum import arrays_sha256, graph_sha256


def graph(**changes: torch.Tensor) -> Data:
    parts = {"x": torch.eye(2), "edge_index": torch.tensor([[0, 1], [1, 0]]), "y": torch.tensor([0, 1])}
    return Data(**{**parts, **changes})


def test_every_part_of_a_graph_counts() -> None:
    sums = {
        graph_sha256(graph()),
        graph_sha256(graph(x=torch.eye(2) * 2)),
        graph_sha256(graph(y=torch.tensor([1, 1]))),
        graph_sha256(graph(edge_index=torch.tensor([[0], [1]]))),
    }
    assert len(sums) == 4
    assert graph_sha256(graph()) == graph_sha256(graph())


def test_values_and_shapes_of_arrays_count() -> None:
    flat = np.arange(4)
    assert len({arrays_sha256({"a": array}) for array in (flat, flat[::-1], flat.reshape(2, 2))}) == 3
