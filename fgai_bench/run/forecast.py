"""Forecast the time and the memory of steps from the plan, the sizes of graphs and a short calibration of the machine.

Memory is counted in arrays; how many of each a training holds at its peak was fitted to the peaks of 79 kinds of
trainings on an H200, from a thousand to 60 million edges, of which it misses none by more than a sixth.
Time is counted in epochs and in passes of the same model; what one of them takes is measured on two small generated
graphs and carried over by the size.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from fgai_bench.data import DATASETS, Dataset

MIB, GIB = 2**20, 2**30
DOUBT = 1.25  # a forecast of memory may be off by this factor
LIBRARIES = 68 * MIB  # workspaces of the device's libraries
LINK = 105  # bytes of a sorted edge: both ends, order by destination, by source and back, 32-bit copies, room to sort
ATTACKED_LINK = 70  # the same of an attacked copy
SPARSE, DENSE = 36, 8  # bytes of a feature: in CSR and its transpose; in a matrix and what dropout leaves of it
PER_WEIGHT, PER_PARAMETER = 1.6, 5  # arrays per attention weight; parameter, gradient, Adam's two moments, best epoch
PER_NODE = {"gat": 4.0, "gatv2": 4.7, "gt": 12.6}  # arrays of a layer's width that are kept for the gradients
NORMALISED = 1.0  # more of them, for layer normalisation
COPIES = {"vanilla": 1.0, "ln": 1.0, "row-norm": 1.0, "at": 2.0, "fgai": 2.4, "fgai-attention": 1.75}

# What a training costs in epochs of `vanilla`, and one step of its inner attack; measured on an H200 and on a CPU.
EPOCH = {"vanilla": 1.0, "ln": 1.2, "row-norm": 1.1, "at": 2.3, "fgai": 2.3, "fgai-attention": 2.0}
INNER = {"at": 0.27, "fgai": 0.3, "fgai-attention": 1.0}
SCORED = 1.7  # a step of an attack on links against one on nodes: every pair is scored
# What other steps cost, in passes without gradients: evaluations, then one gradient step of an attack.
CLEAN, SANITY, ATTACKED, GRADIENT = 30, 30, 25, 1.5
LINKS = 4  # evaluations of a step on links, which has no curves and no nulls
LONG_SEARCH = {  # gradients
    "worst": 2300,
    "worst-twice": 4600,
    "learned-placement": 1240,
    "ensemble": 60,
    "explanation": 400,
}
EXPLAINED, PER_EXPLAINED = 20, 2  # passes, and small ones over a node's surroundings, where explanations are asked for
LAUNCHED = 2e7  # multiplications that take as long as launching a pass
STARTED = 0.03  # seconds of any step: models are unpacked, results are packed


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
    def declared(cls, dataset: Dataset, outputs: int | None = None) -> Size | None:
        """Return what a dataset declares, without reading it; None if it declares nothing.

        >>> Size.declared(DATASETS["cora"]).links
        13264
        """
        if (facts := dataset.statistics) is None:
            return None
        sparse = dataset.nonzeros < 0.1
        stored = facts.nodes * facts.features * (dataset.nonzeros if sparse else 1.0)
        links = 2 * facts.edges + facts.nodes
        return cls(facts.nodes, links, facts.features, stored, sparse, outputs or facts.classes)


@dataclass(frozen=True)
class Shape:
    """The widths of a model's layers, the heads of each, and the name by which the model is known here."""

    name: str
    widths: tuple[int, ...]
    heads: tuple[int, ...]

    @classmethod
    def of(cls, name: str, options: Mapping[str, Any], outputs: int) -> Shape | None:
        """Return the shape of a built-in model; None for others, about which nothing is known."""
        from fgai_bench.models.options import AttentionOptions, GTOptions

        if name in ("gat", "gatv2"):
            known = AttentionOptions(**options)
            return cls(name, (*(known.hidden * h for h in known.heads), outputs), (*known.heads, 1))
        if name == "gt":
            known = GTOptions(**options)
            return cls(name, (known.hidden,) * len(known.heads), known.heads)
        return None

    def work(self, size: Size) -> float:
        """Return the multiplications of one pass: over the edges, and of the features and the blocks, which are cheap.

        A product of dense features runs near the peak of a processor, the sum over edges at the speed of its memory.
        """
        sides = 2 if self.name == "gatv2" else 1
        features = size.stored * self.widths[0] * sides * (0.3 if size.sparse else 0.05)
        blocks = 12 * 0.05 * size.nodes * sum(w * w for w in self.widths) if self.name == "gt" else 0.0
        return sides * size.links * sum(self.widths) + features + blocks

    def training_bytes(self, size: Size, defense: str) -> float | None:
        """Return the bytes that a training holds at its peak on a GPU; None for a defense about which nothing is known.

        >>> size = Size.declared(DATASETS["arxiv-topology"])
        >>> shape = Shape.of("gat", {"hidden": 128, "heads": [4, 2]}, size.outputs)
        >>> round(shape.training_bytes(size, "fgai") / 2**20)  # measured: 5,792 MiB
        5918
        """
        if defense not in COPIES:
            return None
        before = (size.features, *self.widths[:-1])
        parameters = sum(a * b for a, b in zip(before, self.widths, strict=True))
        rows = (PER_NODE[self.name] + NORMALISED * (defense == "ln")) * size.nodes * sum(self.widths)
        weights = PER_WEIGHT * size.links * sum(self.heads)
        attacked = ATTACKED_LINK * size.links if defense in INNER else 0.0
        graph = size.stored * (SPARSE if size.sparse else DENSE) + LINK * size.links + attacked
        return LIBRARIES + graph + 4 * (PER_PARAMETER * parameters + COPIES[defense] * (rows + weights))


@dataclass(frozen=True)
class Line:
    """A straight line through two measurements: seconds over the work of a pass."""

    fixed: float
    per_work: float

    @classmethod
    def through(cls, small: tuple[float, float], large: tuple[float, float]) -> Line:
        """Return the line through two points ``(work, seconds)``, neither part of it negative.

        >>> Line.through((100.0, 2.0), (300.0, 4.0)).seconds(400.0)
        5.0
        """
        slope = max((large[1] - small[1]) / (large[0] - small[0]), 0.0)
        return cls(max(small[1] - slope * small[0], 0.0), slope)

    def seconds(self, work: float) -> float:
        """Return the seconds for this work."""
        return self.fixed + self.per_work * work


@dataclass(frozen=True)
class Speed:
    """How fast this machine is with one model: seconds of an epoch of training and of a pass without gradients."""

    epoch: Line
    forward: Line


class Calibration:
    """Measure, once for each model that is asked for, how long epochs and passes take on a device."""

    def __init__(self, device: str, threads: int = 1) -> None:
        self.device, self.threads = device, threads
        self._known: dict[str, Speed] = {}

    def speed(self, model: str) -> Speed:
        """Return the speed of the machine with a built-in model."""
        if model not in self._known:
            self._known[model] = self._measured(model)
        return self._known[model]

    @cached_property
    def _graphs(self) -> list[Any]:
        from fgai_bench.data.graph import canonical
        from fgai_bench.data.readers.csbm import generate_csbm

        return [canonical(generate_csbm(edges=edges)).to(self.device) for edges in SAMPLES]

    def _measured(self, model: str) -> Speed:
        import torch

        before = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        try:
            points = [_timed(model, graph, self.device) for graph in self._graphs]
        finally:
            torch.set_num_threads(before)
        (small, one), (large, other) = points
        return Speed(*(Line.through((small, one[i]), (large, other[i])) for i in range(2)))


@cache
def calibration_of(device: str) -> Calibration:
    """Return the calibration of a device, the same one for the life of the process."""
    return Calibration(device)


SAMPLES = (2_000, 20_000)  # undirected edges of the graphs that are timed
TIMED, WARM = 6, 2  # epochs


def _timed(model: str, graph: Any, device: str) -> tuple[float, tuple[float, float]]:
    """Return the work of a pass on a graph, and the seconds of an epoch and of a pass."""
    import torch

    from fgai_bench.data.splits import Split
    from fgai_bench.defenses import DEFENSES, Training
    from fgai_bench.models import build_model

    third = torch.arange(graph.num_nodes, device=graph.y.device).tensor_split(3)
    classes = int(graph.y.max()) + 1
    size = Size(graph.num_nodes, graph.num_edges + graph.num_nodes, graph.x.shape[1], graph.x.numel(), False, classes)
    shape = Shape.of(model, {}, classes)
    assert shape is not None
    made = build_model(model, size.features, classes).to(device)

    def train(epochs: int) -> object:
        return DEFENSES["vanilla"]().fit(made, graph, Split(*third), training=Training(epochs=epochs))

    def look(times: int) -> None:
        with torch.no_grad():
            for _ in range(times):
                made(graph)

    made.eval()
    return shape.work(size), (_each(train, device), _each(look, device))


def _each(work: Callable[[int], object], device: str) -> float:
    """Return the seconds of one round: those of several, less those of a few, so that what comes first is not in it.

    On a CPU they are those of the processor, so that the forecast is that of an idle machine.
    """
    clock = time.process_time if device == "cpu" else time.perf_counter

    def seconds(rounds: int) -> float:
        began = clock()
        work(rounds)
        if device != "cpu":
            import torch

            torch.cuda.synchronize()
        return clock() - began

    seconds(WARM)
    few = seconds(WARM)
    return max(seconds(WARM + TIMED) - few, 1e-6) / TIMED


@dataclass(frozen=True)
class Forecast:
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
    if calibration is None:
        return Forecast(None, needed)
    speed, work = calibration.speed(shape.name), shape.work(size)
    if config["kind"] == "train":
        epochs = _epochs(config)
        return Forecast(None if epochs is None else STARTED + epochs * speed.epoch.seconds(work), needed)
    if (passes := _passes(config)) is None:
        return Forecast(None, None)
    whole, small = passes
    return Forecast(STARTED + whole * speed.forward.seconds(work) + small * speed.forward.fixed, None)


def _sizes(config: Mapping[str, Any]) -> tuple[Shape, Size] | None:
    """Return the shape of a step's model and the size of its problem; None where one of them is not known."""
    size = Size.declared(DATASETS[config["dataset"]["name"]], 64 if config["task"]["name"] == "link" else None)
    shape = size and Shape.of(config["model"]["name"], config["model"]["options"], size.outputs)
    return (shape, size) if shape and size else None


def effort(config: Mapping[str, Any]) -> float:
    """Return how long a step takes in comparison with others, in multiplications; infinite where nothing is known."""
    if (known := _sizes(config)) is None:
        return math.inf
    shape, size = known
    if config["kind"] in ("train", "validate"):
        times = None if (epochs := _epochs(config)) is None else 3 * epochs  # forward, and back to both factors
    else:
        times = sum(passes) if (passes := _passes(config)) is not None else None
    return math.inf if times is None else times * (LAUNCHED + shape.work(size))


def _epochs(config: Mapping[str, Any]) -> float | None:
    """Return how many epochs of `vanilla` a training is worth."""
    defense, inner = config["defense"]["name"], config["inner"]
    if defense not in EPOCH:
        return None
    threat = inner["threat"] if inner else {}
    steps = threat.get("steps", 10) * threat.get("restarts", 1) if defense in INNER else 0
    steps *= SCORED if config["task"]["name"] == "link" else 1
    return config["training"]["epochs"] * (EPOCH[defense] + INNER.get(defense, 0.0) * steps)


def _passes(config: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return how many passes without gradients a step is worth that is no training: over the graph, over few nodes."""
    kind, of_links = config["kind"], config["task"]["name"] == "link"
    if kind == "clean":
        return LINKS if of_links else CLEAN + SANITY * bool(config["sanity"]), 0
    if kind == "attack":
        name, threat = config["attack"]["name"], config["threat"]
        steps = 0 if name.startswith("random") else threat.get("steps", 10) * threat.get("restarts", 1)
        gradients = LONG_SEARCH.get(name, steps) * (SCORED if of_links else 1)
        return (LINKS if of_links else ATTACKED) + GRADIENT * gradients, 0
    if kind in ("effect", "explain"):
        return EXPLAINED, PER_EXPLAINED * (config.get("nodes") or 64)
    return (CLEAN, 0) if kind in ("agree", "measure", "audit") else None


def spoken_bytes(number: float) -> str:
    """Return a size in words.

    >>> spoken_bytes(300 * 2**20), spoken_bytes(47 * 2**30)
    ('0.3 GiB', '47.0 GiB')
    """
    return f"{number / GIB:,.1f} GiB"
