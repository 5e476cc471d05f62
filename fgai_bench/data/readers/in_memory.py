"""A dataset that is a graph in memory: what ``DATASETS.add("mine", data)`` makes of a PyG ``Data``."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

from fgai_bench.data.errors import DataError
from fgai_bench.data.graph import undirected_edge_count
from fgai_bench.data.user_graph import given_graph, num_classes


@dataclass(frozen=True)
class HeldGraph:
    """A reader that returns the graph it holds; it is sent to other processes as bytes, not as shared memory."""

    data: Data

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        content = io.BytesIO()
        torch.save(self.data.to_dict(), content)
        return _restored, (content.getvalue(),)

    def __call__(self, root: Path) -> Data:
        """Return a copy of the graph."""
        return self.data.clone()


def _restored(content: bytes) -> HeldGraph:
    return HeldGraph(Data.from_dict(torch.load(io.BytesIO(content), weights_only=False)))


def counted(data: Any) -> tuple[HeldGraph, tuple[int, int, int, int]]:
    """Return a reader of a user's graph, and its nodes, undirected edges, features and classes."""
    graph = given_graph(data)
    sizes = graph.x.shape[0], undirected_edge_count(graph.edge_index), graph.x.shape[1], num_classes(graph)
    return HeldGraph(graph), sizes


def for_suites(name: str, data: Any) -> Data:
    """Return a user's graph as a suite can use it, or raise a sentence that names the dataset.

    The models of suites know features and edges, and take each edge in both directions.
    """
    try:
        graph = given_graph(data)
    except DataError as error:
        raise DataError(f"the dataset {name!r} cannot be used: {error}") from None
    if int(graph.y.min()) < 0:
        raise DataError(f"the dataset {name!r} has nodes without a label; suites need a class for every node")
    if graph.get("edge_attr") is not None:
        raise DataError(
            f"the dataset {name!r} has edge_attr, which the models of suites do not use; leave it out, or evaluate a "
            "network of your own with fgai_bench.evaluate"
        )
    return graph
