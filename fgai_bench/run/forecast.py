"""Forecast the memory of trainings from the plan, before anything of their size is allocated.

What an entry takes stands on the entry (``cost``); here it is put together with the sizes of graph and model.
Memory is counted in arrays; how many of each a training holds at its peak was fitted to the peaks of 79 kinds of
trainings on an H200, from a thousand to 60 million edges, of which it misses none by more than a sixth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from fgai_bench.bounded import MIB
from fgai_bench.data import DATASETS, Dataset
from fgai_bench.defenses import DEFENSES
from fgai_bench.models import MODELS
from fgai_bench.tasks import TASKS

MEMORY_TOLERANCE = 1.25  # a forecast of memory may be off by this factor
LIBRARY_BYTES = 68 * MIB  # workspaces of the device's libraries
EDGE_BYTES = 105  # of a sorted edge: both ends, order by destination, by source and back, 32-bit copies, room to sort
ATTACKED_EDGE_BYTES = 70  # the same of an attacked copy
SPARSE_FEATURE_BYTES, DENSE_FEATURE_BYTES = 36, 8  # in CSR and its transpose; in a matrix and what dropout leaves of it
ARRAYS_PER_WEIGHT, ARRAYS_PER_PARAMETER = 1.6, 5  # a parameter has its gradient, Adam's two moments, the best epoch


@dataclass(frozen=True)
class Size:
    """The size of a problem: nodes, edges in both directions with loops, feature columns, stored features, outputs."""

    nodes: int
    links: int
    features: int
    stored: float
    sparse: bool
    outputs: int

    @classmethod
    def declared(cls, dataset: Dataset, outputs: float | None = None) -> Size | None:
        """Return what a dataset declares, without reading it; None if it declares nothing.

        >>> Size.declared(DATASETS["cora"]).links
        13264
        """
        if (facts := dataset.statistics) is None:
            return None
        sparse = dataset.nonzeros < 0.1
        stored = facts.nodes * facts.features * (dataset.nonzeros if sparse else 1.0)
        links = 2 * facts.edges + facts.nodes
        return cls(facts.nodes, links, facts.features, stored, sparse, int(outputs or facts.classes))


class Shape(NamedTuple):
    """A model: widths and heads of its layers, and its declared costs."""

    widths: tuple[int, ...]
    heads: tuple[int, ...]
    cost: Mapping[str, float]

    @classmethod
    def of(cls, model: str, options: Mapping[str, Any], outputs: int) -> Shape | None:
        """Return the shape of a model; None for one that declares no costs."""
        cost, known = MODELS.entry(model).cost, getattr(MODELS[model], "options_class", None)
        if not cost or known is None:
            return None
        widths, heads = zip(*known(**options).layers(outputs), strict=True)
        return cls(widths, heads, cost)

    def training_bytes(self, size: Size, defense: str) -> float | None:
        """Return the bytes that a training holds at its peak on a GPU; None for a defense that declares no costs.

        >>> size = Size.declared(DATASETS["arxiv-topology"])
        >>> shape = Shape.of("gat", {"hidden": 128, "heads": [4, 2]}, size.outputs)
        >>> round(shape.training_bytes(size, "fgai") / 2**20)  # measured: 5,792 MiB
        5918
        """
        if "copies" not in (cost := DEFENSES.entry(defense).cost):
            return None
        before = (size.features, *self.widths[:-1])
        parameters = sum(a * b for a, b in zip(before, self.widths, strict=True))
        arrays = self.cost["arrays_per_node"] + cost.get("arrays_per_node", 0.0)
        kept = arrays * size.nodes * sum(self.widths) + ARRAYS_PER_WEIGHT * size.links * sum(self.heads)
        features = size.stored * (SPARSE_FEATURE_BYTES if size.sparse else DENSE_FEATURE_BYTES)
        edges = size.links * (EDGE_BYTES + ATTACKED_EDGE_BYTES * cost.get("attacked_edges", 0.0))
        return LIBRARY_BYTES + features + edges + 4 * (ARRAYS_PER_PARAMETER * parameters + cost["copies"] * kept)


def memory_of(config: Mapping[str, Any]) -> float | None:
    """Return the bytes that a training of a plan will hold; None where its entries declare too little.

    Nothing is read, and nothing of the training's size is allocated.
    """
    outputs = TASKS.entry(config["task"]["name"]).cost.get("outputs")
    size = Size.declared(DATASETS[config["dataset"]["name"]], outputs)
    shape = size and Shape.of(config["model"]["name"], config["model"]["options"], size.outputs)
    return shape.training_bytes(size, config["defense"]["name"]) if shape and size else None
