"""Forecast the memory and the time of steps from the plan, before anything of their size is allocated.

What an entry takes stands on the entry (``cost``); here it is put together with the sizes of graph and model.
Memory is counted in arrays; how many of each a training holds at its peak was fitted to the peaks of 79 kinds of
trainings on an H200, from a thousand to 60 million edges, of which it misses none by more than a sixth.
Time is counted in passes of the model without gradients, three to an epoch of ``vanilla``. How long epochs take is
measured on two small generated graphs and carried over by the size.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

from fgai_bench.attacks import ATTACKS
from fgai_bench.data import DATASETS, Dataset
from fgai_bench.defenses import DEFENSES
from fgai_bench.models import MODELS
from fgai_bench.tasks import TASKS

MIB, GIB = 2**20, 2**30
MEMORY_TOLERANCE = 1.25  # a forecast of memory may be off by this factor
LIBRARY_BYTES = 68 * MIB  # workspaces of the device's libraries
EDGE_BYTES = 105  # of a sorted edge: both ends, order by destination, by source and back, 32-bit copies, room to sort
ATTACKED_EDGE_BYTES = 70  # the same of an attacked copy
SPARSE_FEATURE_BYTES, DENSE_FEATURE_BYTES = 36, 8  # in CSR and its transpose; in a matrix and what dropout leaves of it
ARRAYS_PER_WEIGHT, ARRAYS_PER_PARAMETER = 1.6, 5  # a parameter has its gradient, Adam's two moments, the best epoch

PASSES_OF_EPOCH = 3  # forward, and back to both factors of every product
PASSES_OF_GRADIENT = 1.5  # for one step of an attack
EXPLAINED, PER_EXPLAINED_NODE = 20, 2  # passes over the graph, and small ones over a node's surroundings
LAUNCH_WORK = 2e7  # multiplications that take as long as launching a pass
STEP_SECONDS = 0.03  # of any step: models are unpacked, results are packed
TIMED_EDGES = (2_000, 20_000)  # undirected edges of the graphs that are timed
TIMED_EPOCHS, WARM_EPOCHS = 6, 2


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

    def work(self, size: Size) -> float:
        """Return the multiplications of one pass: over the edges, and of the features and the blocks, which are cheap.

        A product of dense features runs near the peak of a processor, the sum over edges at the speed of its memory.
        """
        products = self.cost.get("products", 1)
        features = size.stored * self.widths[0] * products * (0.3 if size.sparse else 0.05)
        blocks = self.cost.get("blocks", 0) * 0.05 * size.nodes * sum(w * w for w in self.widths)
        return products * size.links * sum(self.widths) + features + blocks

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
        edges = size.links * (EDGE_BYTES + ATTACKED_EDGE_BYTES * ("inner_step" in cost))
        return LIBRARY_BYTES + features + edges + 4 * (ARRAYS_PER_PARAMETER * parameters + cost["copies"] * kept)


class Speed(NamedTuple):
    """How fast a machine is with one model: seconds of a pass whatever the size, and per multiplication."""

    fixed: float
    per_work: float

    @classmethod
    def through(cls, small: tuple[float, float], large: tuple[float, float]) -> Speed:
        """Return the speed by two measurements ``(work, seconds)``, neither part of it negative.

        >>> Speed.through((100.0, 2.0), (300.0, 4.0)).seconds(400.0)
        5.0
        """
        slope = max((large[1] - small[1]) / (large[0] - small[0]), 0.0)
        return cls(max(small[1] - slope * small[0], 0.0), slope)

    def seconds(self, work: float) -> float:
        """Return the seconds of a pass of this work."""
        return self.fixed + self.per_work * work


Calibration = Callable[[str], Speed]  # from the name of a model


def calibration_of(device: str) -> Calibration:
    """Return a function that measures, once for each model, how long its passes take on a device."""
    return partial(_calibrated, device)


@cache
def _calibrated(device: str, model: str) -> Speed:
    import torch

    from fgai_bench.data.graph import canonical
    from fgai_bench.data.readers.csbm import generate_csbm

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        graphs = [canonical(generate_csbm(edges=edges)).to(device) for edges in TIMED_EDGES]
        return Speed.through(*(_timed(model, graph, device) for graph in graphs))
    finally:
        torch.set_num_threads(threads)


def _timed(model: str, graph: Any, device: str) -> tuple[float, float]:
    """Return the work and the seconds of a pass on a graph, by the seconds of a few epochs.

    On a CPU they are those of the processor, so that the forecast is that of an idle machine.
    """
    import torch

    from fgai_bench.data.splits import Split
    from fgai_bench.models import build_model
    from fgai_bench.options import Training

    thirds = torch.arange(graph.num_nodes, device=graph.y.device).tensor_split(3)
    classes = int(graph.y.max()) + 1
    size = Size(graph.num_nodes, graph.num_edges + graph.num_nodes, graph.x.shape[1], graph.x.numel(), False, classes)
    shape = Shape.of(model, {}, classes)
    assert shape is not None
    network = build_model(model, size.features, classes).to(device)
    clock = time.process_time if device == "cpu" else time.perf_counter

    def seconds(epochs: int) -> float:
        began = clock()
        DEFENSES["vanilla"]().fit(network, graph, Split(*thirds), training=Training(epochs=epochs))
        if device != "cpu":
            torch.cuda.synchronize()
        return clock() - began

    seconds(WARM_EPOCHS)
    before = seconds(WARM_EPOCHS)  # what comes before the first epoch is in both measurements, and in no difference
    epoch = max(seconds(WARM_EPOCHS + TIMED_EPOCHS) - before, 1e-6) / TIMED_EPOCHS
    return shape.work(size), epoch / PASSES_OF_EPOCH


class Forecast(NamedTuple):
    """What a step will probably take; None where nothing is known."""

    seconds: float | None
    bytes: float | None


def forecast(config: Mapping[str, Any], calibration: Calibration | None) -> Forecast:
    """Forecast a step of a plan; nothing is read, and nothing of the step's size is allocated.

    Without a calibration, because the step's device is not here, memory alone is known.
    """
    if (known := _sizes(config)) is None:
        return Forecast(None, None)
    shape, size = known
    needed = shape.training_bytes(size, config["defense"]["name"]) if config["kind"] == "train" else None
    if calibration is None or (passes := passes_of(config)) is None:
        return Forecast(None, needed)
    speed = calibration(config["model"]["name"])
    whole, small = passes
    return Forecast(STEP_SECONDS + whole * speed.seconds(shape.work(size)) + small * speed.fixed, needed)


def effort(config: Mapping[str, Any]) -> float:
    """Return how long a step takes in comparison with others, in multiplications; infinite where nothing is known."""
    known, passes = _sizes(config), passes_of(config)
    return sum(passes) * (LAUNCH_WORK + known[0].work(known[1])) if known and passes else math.inf


def _sizes(config: Mapping[str, Any]) -> tuple[Shape, Size] | None:
    """Return the shape of a step's model and the size of its problem; None where one of them is not known."""
    outputs = TASKS.entry(config["task"]["name"]).cost.get("outputs")
    size = Size.declared(DATASETS[config["dataset"]["name"]], outputs)
    shape = size and Shape.of(config["model"]["name"], config["model"]["options"], size.outputs)
    return (shape, size) if shape and size else None


def passes_of(config: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return how many passes without gradients a step is worth, over the graph and over few nodes; None if unknown."""
    kind, task = config["kind"], TASKS.entry(config["task"]["name"]).cost
    gradient = task.get("gradient", 1.0)
    if kind in ("train", "validate"):
        if "epoch" not in (cost := DEFENSES.entry(config["defense"]["name"]).cost):
            return None
        inner = _steps(config["inner"]["threat"] if config["inner"] else {}) * cost.get("inner_step", 0.0) * gradient
        return PASSES_OF_EPOCH * config["training"]["epochs"] * (cost["epoch"] + inner), 0
    if kind == "attack":
        gradients = ATTACKS.entry(config["attack"]["name"]).cost.get("gradients", _steps(config["threat"]))
        return task.get("attacked", 0) + PASSES_OF_GRADIENT * gradients * gradient, 0
    if kind in ("effect", "explain"):
        return EXPLAINED, PER_EXPLAINED_NODE * (config.get("nodes") or 64)
    return task.get("clean", 0) + task.get("sanity", 0) * bool(config.get("sanity")), 0


def _steps(threat: Mapping[str, Any]) -> int:
    return int(threat.get("steps", 10) * threat.get("restarts", 1))


def spoken_bytes(number: float) -> str:
    """Return a size in words.

    >>> spoken_bytes(300 * 2**20), spoken_bytes(47 * 2**30)
    ('0.3 GiB', '47.0 GiB')
    """
    return f"{number / GIB:,.1f} GiB"
