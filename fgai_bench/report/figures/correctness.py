"""Stability against correctness: is an explanation that stays put under attack also right?"""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fgai_bench.escaping import file_name
from fgai_bench.report.explanations import STABILITY_METRIC, Explained, explained, shared_defenses
from fgai_bench.report.figures.style import Drawing, spread, style_of
from fgai_bench.statistics.labels import CORRECTNESS, title
from fgai_bench.statistics.results import Results

SHAPES = {
    "attention-last": "o",
    "attention-mean": "s",
    "attention-rollout": "D",
    "gatt": "^",
    "attention-gradient": "v",
    "contribution": "d",
    "saliency": "P",
    "integrated-gradients": "X",
    "gnn-explainer": "*",
    "pg-explainer": "h",
}
OTHER_SHAPES = ("<", ">", "p")
MARKER_SIZE = 6.5
BAR: dict[str, Any] = {"linestyle": "", "markersize": MARKER_SIZE, "elinewidth": 0.6, "alpha": 0.95}
BAR |= {"markeredgewidth": 0.6, "markeredgecolor": "white"}
NULL_LINES = {"random": (0, (1, 2)), "uniform": (0, (4, 2)), "degree": (0, (6, 1, 1, 1)), "untrained": (0, (2, 1))}


def draw_stability_correctness(results: Results) -> list[Drawing]:
    """Draw a figure for each suite, settings and graph, a panel for each model: one point per defense and explainer."""
    groups: dict[tuple[str, str], list[Explained]] = {}
    for group in explained(results):
        groups.setdefault((group.origin, group.dataset), []).append(group)
    several = len({origin for origin, _ in groups}) > 1
    drawings = []
    for (origin, dataset), panels in groups.items():
        name = f"stability_correctness_{dataset}" + (f"_{origin.replace(', ', '_')}" if several else "")
        drawings.append(Drawing(file_name(name), _caption(panels), _figure(results, panels)))
    return drawings


def _figure(results: Results, groups: Sequence[Explained]) -> Figure:
    width = 4.4 if len(groups) == 1 else 3.5 * len(groups)
    figure = Figure(figsize=(width + 1.7, 4.1), layout="constrained")
    row = figure.subplots(1, len(groups), squeeze=False, sharey=True)[0]
    explainers = list(dict.fromkeys(name for group in groups for name in group.explainers))
    for ax, group in zip(row, groups, strict=True):
        _panel(ax, results, group, explainers)
    row[0].set_ylabel(f"right: {CORRECTNESS[groups[0].measure]}")
    nulls = list(dict.fromkeys(name for group in groups for name in group.nulls))
    _legend(figure, shared_defenses(groups), explainers, nulls)
    return figure


def _panel(ax: Axes, results: Results, group: Explained, explainers: Sequence[str]) -> None:
    for explainer in explainers:
        for defense in group.defenses:
            x = group.cell(results, defense, explainer, STABILITY_METRIC)
            y = group.cell(results, defense, explainer, group.measure)
            if x.values and y.values:
                color, marker = style_of(defense, group.defenses)["color"], shape(explainer, explainers)
                style = {"marker": marker, "color": color, "label": f"{defense} {explainer}", **BAR}
                ax.errorbar(x.mean, y.mean, xerr=spread(x), yerr=spread(y), **style)
    _nulls(ax, results, group)
    proven = [share for defense in group.defenses if (share := group.proven(results, defense)) is not None]
    if proven:
        text = f"provably stable at {100 * min(proven):.0f} % of the test nodes or more, whatever the attack"
        ax.text(0.01, 0.01, text, transform=ax.transAxes, va="bottom", color="0.35", fontsize="small")
    ax.set_title(f"{title(group.model)} on {title(group.dataset)}, attack {group.attack} ({group.origin})")
    ax.set_xlabel("stable: top edges that stay, where predictions stay")
    low, high = ax.get_xlim()
    ax.set_xlim(low, min(high, 1.03))
    ax.text(0.99, 0.99, "stable and right", transform=ax.transAxes, ha="right", va="top", color="0.6", style="italic")


def _nulls(ax: Axes, results: Results, group: Explained) -> None:
    """Draw each null's correctness, averaged over the defenses, as a line; a ring marks its stability."""
    for name in group.nulls:
        level, kept = (group.average(results, name, metric) for metric in (group.measure, STABILITY_METRIC))
        if level is not None:
            ax.axhline(level, label=f"null {name}", zorder=0, **_line(name))
        if level is not None and kept is not None:
            ax.plot(kept, level, "o", markersize=4, markerfacecolor="white", markeredgecolor="0.45", zorder=1)


def _line(null: str) -> dict[str, Any]:
    return {"color": "0.45", "linewidth": 0.9, "linestyle": NULL_LINES.get(null, (0, (3, 1)))}


def shape(explainer: str, explainers: Sequence[str]) -> str:
    """Return the marker of an explainer; those of others take the remaining ones in turn."""
    unknown = [name for name in explainers if name not in SHAPES]
    return SHAPES[explainer] if explainer in SHAPES else OTHER_SHAPES[unknown.index(explainer) % len(OTHER_SHAPES)]


def _legend(figure: Figure, defenses: Sequence[str], explainers: Sequence[str], nulls: Sequence[str]) -> None:
    """Draw three lists beside the panels: colours are defenses, shapes are explainers, lines are nulls."""

    def entry(label: str, **style: Any) -> Line2D:
        return Line2D([], [], label=label, linestyle="", markersize=MARKER_SIZE, markeredgecolor="white", **style)

    colours = [entry(title(name), marker="o", color=style_of(name, defenses)["color"]) for name in defenses]
    shapes = [entry(title(name), marker=shape(name, explainers), color="0.35") for name in explainers]
    lines = [Line2D([], [], label=title(name), **_line(name)) for name in nulls]
    handles = [entry("defense"), *colours, entry("explainer"), *shapes, entry("null"), *lines]
    drawn = figure.legend(
        handles=handles, loc="outside right center", frameon=False, handletextpad=0.3, labelspacing=0.4
    )
    for place in (0, 1 + len(colours), 2 + len(colours) + len(shapes)):
        drawn.get_texts()[place].set_fontweight("bold")


def _caption(groups: Sequence[Explained]) -> str:
    group = groups[0]
    beside = ", if both are asked about the whole computation graph" if "_covered" in group.measure else ""
    return (
        f"Stability against correctness of explanations, suite {group.origin}: to the right, the share of an "
        f"explanation's top edges that stay under the attack {group.attack}, over reached nodes that keep their class; "
        f"upwards, its {CORRECTNESS[group.measure]} on the clean graph. Means over seeds with standard deviations. "
        "Lines are nulls, which know nothing of the trained model, rings their stability: what is below a line "
        f"explains less than that null does{beside}, however stable it is."
    )
