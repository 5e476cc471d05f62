"""Attention on a drawn subgraph, and a node's top-k neighbours, before and after an attack: vanilla beside FGAI.

Both are drawn from the artifact ``attention`` of an attack step, a sample of the graph around one node:

- ``edge_index`` ``(2, S)``: the sampled edges, as (source, destination) of the whole graph;
- ``clean``, ``attacked`` ``(S,)``: their attention before and after; an edge that is not there has weight 0;
- ``centre`` ``(1,)``: the node whose in-edges are all in the sample; ``nodes`` ``(1,)``: size of the clean graph, so
  that injected nodes are those from there on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.lines import Line2D

from fgai_bench.escaping import file_name
from fgai_bench.report.figures.style import Drawing, legend_below, panels
from fgai_bench.statistics.labels import ordered, title
from fgai_bench.statistics.results import Results, main_suite

ARTIFACT_ROLE = "attention"
SHOWN_DEFENSES = ("vanilla", "fgai")
COLORS = LinearSegmentedColormap.from_list("attention", ["#dfe3e6", "#56B4E9", "#0072B2", "#00203f"])
TOP = 8
SHARED, OTHER, INJECTED = "#D55E00", "#999999", "#CC79A7"
NODE, CENTRE = "0.25", "#0072B2"


@dataclass(frozen=True)
class Sample:
    """A sampled neighbourhood; fields as in the artifact."""

    edge_index: np.ndarray
    clean: np.ndarray
    attacked: np.ndarray
    centre: int
    nodes: int

    @classmethod
    def of(cls, arrays: dict[str, Any]) -> Sample:
        """Make a sample of the arrays of its artifact; added self-loops are no edges of the graph and stay out."""
        proper = arrays["edge_index"][0] != arrays["edge_index"][1]
        return cls(
            arrays["edge_index"][:, proper],
            arrays["clean"][proper].astype(float),
            arrays["attacked"][proper].astype(float),
            int(arrays["centre"][0]),
            int(arrays["nodes"][0]),
        )

    def weights(self, attacked: bool) -> np.ndarray:
        return self.attacked if attacked else self.clean

    def top(self, attacked: bool) -> list[int]:
        """Return the sources of the centre's strongest in-edges, strongest first; ties go to the earlier edge."""
        into = np.flatnonzero(self.edge_index[1] == self.centre)
        weights = self.weights(attacked)[into]
        order = np.argsort(-weights, kind="stable")[:TOP]
        return [int(self.edge_index[0, into[i]]) for i in order if weights[i] > 0]


def samples(results: Results) -> dict[tuple[str, str], dict[str, Sample]]:
    """Return the samples of attention by (dataset, model) and defense, of the first seed of the published attack."""
    suite = main_suite(results)
    by_place: dict[tuple[str, str], dict[str, Sample]] = {}
    for place, seeds in results.select(suite=suite, kind="attack", task="node", attack="injection"):
        steps = [measured.step for measured in seeds.values() if measured.status == "ok"]
        arrays = results.artifact(steps[0], ARTIFACT_ROLE) if steps and place.label in SHOWN_DEFENSES else None
        if arrays is not None:
            by_place.setdefault((place.dataset, place.model), {})[place.label] = Sample.of(arrays)
    return {key: {label: of[label] for label in SHOWN_DEFENSES if label in of} for key, of in by_place.items()}


def draw_samples(results: Results, draw: Callable[[str, str, dict[str, Sample]], Drawing]) -> list[Drawing]:
    """Draw the samples of each dataset and model, in the paper's order."""
    by_place = samples(results)
    datasets, models = (ordered(place[i] for place in by_place) for i in (0, 1))
    places = [(dataset, model) for dataset in datasets for model in models if (dataset, model) in by_place]
    return [draw(*place, by_place[place]) for place in places]


def attention_of(dataset: str, model: str, of: dict[str, Sample]) -> Drawing:
    """Draw the sampled subgraph with edges coloured by attention; defenses below each other."""
    figure, axes = panels(len(of), 2, height=2.4)
    highest = [weights.max(initial=0.0) for sample in of.values() for weights in (sample.clean, sample.attacked)]
    scale = Normalize(0, float(max(highest)) or 1.0)
    for row, (label, sample) in zip(axes, of.items(), strict=True):
        for ax, attacked in zip(row, (False, True), strict=True):
            _subgraph(ax, sample, attacked, scale)
            ax.set_title(f"{title(model)} {title(label)}, {'attacked' if attacked else 'clean'}")
    every = [ax for row in axes for ax in row]
    figure.colorbar(ScalarMappable(scale, COLORS), ax=every, label="attention", fraction=0.04, aspect=35)
    ring = {"markersize": 8, "markerfacecolor": "none", "markeredgecolor": CENTRE, "markeredgewidth": 1.4}
    legend_below(figure, [_mark("the node itself", **ring), _mark("node", color=NODE), _injected_mark()])
    caption = (
        f"Attention around one node of {title(dataset)} (ringed), before and after injection; injected nodes are pink "
        "squares. Darker edges carry more attention, on one scale for all panels."
    )
    return Drawing(file_name(f"fig2_attention_{dataset}_{model}"), caption, figure)


def _mark(words: str, **style: Any) -> Line2D:
    """Return a legend's entry for a kind of node."""
    return Line2D([], [], label=words, **{"linestyle": "", "marker": "o", "markersize": 4, **style})


def _injected_mark() -> Line2D:
    return _mark("injected node", marker="s", color=INJECTED)


def _subgraph(ax: Axes, sample: Sample, attacked: bool, scale: Normalize) -> None:
    place = layout(sample)
    weights = sample.weights(attacked)
    order = [i for i in np.argsort(weights, kind="stable") if weights[i] > 0]
    lines = [[place[int(n)] for n in sample.edge_index[:, i]] for i in order]
    edges = LineCollection(lines, cmap=COLORS, norm=scale, linewidths=1.1, zorder=1)
    edges.set_array(weights[order])
    ax.add_collection(edges)
    seen = sorted({int(n) for i in order for n in sample.edge_index[:, i]})
    for new, color, marker in ((False, NODE, "o"), (True, INJECTED, "s")):
        at = np.array([place[n] for n in seen if (n >= sample.nodes) == new]).reshape(-1, 2)
        ax.scatter(at[:, 0], at[:, 1], s=12, color=color, marker=marker, zorder=2, linewidths=0)
    ax.scatter(*place[sample.centre], s=70, facecolors="none", edgecolors=CENTRE, linewidths=1.4, zorder=3)
    ax.set(aspect="equal", xlim=(-1.1, 1.1), ylim=(-1.1, 1.1))
    ax.axis("off")


def layout(sample: Sample) -> dict[int, tuple[float, float]]:
    """Return a position per node: the centre in the middle, its neighbours on a ring, all others on an outer ring.

    Nodes of the outer ring are sorted by the neighbour they hang on, so that lines cross little.
    """
    edges = [(int(a), int(b)) for a, b in sample.edge_index.T]
    inner = sorted({a for a, b in edges if b == sample.centre} | {b for a, b in edges if a == sample.centre})
    parent: dict[int, int] = {}
    for a, b in edges:
        for node, other in ((a, b), (b, a)):
            if node != sample.centre and node not in inner and other in inner:
                parent[node] = min(parent.get(node, len(inner)), inner.index(other))
    rest = {n for edge in edges for n in edge} - {sample.centre, *inner}
    outer = sorted(rest, key=lambda n: (parent.get(n, len(inner)), n))
    return {sample.centre: (0.0, 0.0), **_ring(inner, 0.5), **_ring(outer, 1.0)}


def _ring(nodes: list[int], radius: float) -> dict[int, tuple[float, float]]:
    angles = [2 * math.pi * i / max(len(nodes), 1) for i in range(len(nodes))]
    return {n: (radius * math.cos(a), radius * math.sin(a)) for n, a in zip(nodes, angles, strict=True)}


def neighbours_of(dataset: str, model: str, of: dict[str, Sample]) -> Drawing:
    """Draw the centre's top-k neighbours before and after, the shared ones in red."""
    figure, axes = panels(len(of), 2, height=2.2)
    for row, (label, sample) in zip(axes, of.items(), strict=True):
        tops = [sample.top(attacked) for attacked in (False, True)]
        shared = set(tops[0]) & set(tops[1])
        everyone = sorted(set(tops[0]) | set(tops[1]))
        for ax, top, words in zip(row, tops, ("clean", "attacked"), strict=True):
            _star(ax, sample, top, shared, everyone)
            ax.set_title(f"{title(model)} {title(label)}, {words}: {len(shared)} of {len(tops[0])} kept")
    kept, here = _mark("named before and after", color=SHARED), _mark("named only here", color=OTHER)
    legend_below(figure, [_mark("the node itself", color="black", markersize=6), kept, here, _injected_mark()])
    caption = (
        f"The {TOP} neighbours of one node of {title(dataset)} that its attention names, before and after injection. "
        "Red: named both times; grey: only here; pink squares: injected."
    )
    return Drawing(file_name(f"fig3_neighbours_{dataset}_{model}"), caption, figure)


def _star(ax: Axes, sample: Sample, top: list[int], shared: set[int], everyone: list[int]) -> None:
    place = _ring(everyone, 1.0)
    for node in top:
        injected = node >= sample.nodes
        color = SHARED if node in shared else INJECTED if injected else OTHER
        x, y = place[node]
        ax.plot([0, x], [0, y], color=color, linewidth=1.6 if node in shared else 1.0, zorder=1)
        ax.scatter([x], [y], s=26, color=color, marker="s" if injected else "o", zorder=2)
        ax.annotate(str(node), (1.22 * x, 1.22 * y), ha="center", va="center", fontsize=6)
    ax.scatter([0], [0], s=45, color="black", zorder=3)
    ax.set(aspect="equal", xlim=(-1.45, 1.45), ylim=(-1.45, 1.45))
    ax.axis("off")
