"""Floors beside attacks: for every row a bar from what is proven to what was found, and floors over the budget."""

import json
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from fgai_bench.leaderboard.rows import STANDARD, worst_cases
from fgai_bench.report.figures.style import Drawing, legend, legend_below, style_of, tiles
from fgai_bench.statistics.cells import Cell, cell
from fgai_bench.statistics.labels import ordered, title
from fgai_bench.statistics.results import Place, Results, main_suite

THINNEST = 0.006  # of a bar, so that one whose two ends meet is seen


def draw_floors(results: Results) -> list[Drawing]:
    """Draw the sandwich of every row, and the floor over the number of injected edges; a panel per graph."""
    lowered = worst_cases(results)
    suite = main_suite(lowered, "certify")
    places = [
        place
        for place, seeds in lowered.select(suite=suite, kind="certify", task="node", explainer="")
        if _floor(lowered, place).values
    ]
    if not places:
        return []
    return [_sandwiches(lowered, places), _curves(lowered, places)]


def _sandwiches(results: Results, places: Sequence[Place]) -> Drawing:
    datasets = ordered(place.dataset for place in places)
    most = max(sum(place.dataset == dataset for place in places) for dataset in datasets)
    figure, axes = tiles(len(datasets), height=1 + 0.22 * most)
    for ax, dataset in zip(axes, datasets, strict=True):
        _sandwich(ax, results, [place for place in places if place.dataset == dataset])
        ax.set(title=title(dataset), xlabel=title(results.score("node", dataset)))
    marks = [
        Line2D([], [], color="0.35", linewidth=5, solid_capstyle="butt", label="floor to worst case"),
        Line2D([], [], color="black", marker="|", linestyle="none", label="clean"),
    ]
    legend_below(figure, marks)
    caption = (
        "Proven and found: a bar reaches from the floor, below which no attack of the threat model can go, to the "
        "worst case that an attack was found to leave. The truth lies inside the bar; the mark is the clean score. "
        "Means over seeds."
    )
    return Drawing("floors", caption, figure)


def _sandwich(ax: Axes, results: Results, places: Sequence[Place]) -> None:
    """Draw one bar for each model and defense of a graph, the highest floor on top."""
    rows = sorted(places, key=lambda place: _floor(results, place).mean)
    for height, place in enumerate(rows):
        floor, worst = _floor(results, place), _worst(results, place)
        clean = cell(results, place._replace(kind="clean"), results.score("node", place.dataset))
        if worst is not None:
            width = max(worst - floor.mean, THINNEST)
            ax.barh(height, width, left=(worst + floor.mean - width) / 2, height=0.6, color="0.35")
        else:
            ax.plot(floor.mean, height, marker=">", color="0.35")
        ax.plot(clean.mean, height, marker="|", color="black")
    ax.set_yticks(range(len(rows)), [_name(place) for place in rows])
    ax.set_xlim(max(0, _floor(results, rows[0]).mean - 0.05), 1)


def _floor(results: Results, place: Place) -> Cell:
    return cell(results, place, f"certified_{results.score('node', place.dataset)}")


def _worst(results: Results, place: Place) -> float | None:
    """Return the mean worst case of a row; of the first attack of its suite where the standard one was not run."""
    held = results.names("attack", suite=place.suite, kind="attack", task="node")
    for attack in [STANDARD, *held]:
        attacked = cell(results, place._replace(kind="attack", attack=attack), results.score("node", place.dataset))
        if attacked.values:
            return attacked.mean
    return None


def _curves(results: Results, places: Sequence[Place]) -> Drawing:
    datasets, labels = ordered(place.dataset for place in places), ordered(_name(place) for place in places)
    figure, axes = tiles(len(datasets))
    curves = results.curves[results.curves["curve"] == "floor"]
    for ax, dataset in zip(axes, datasets, strict=True):
        for place in [place for place in places if place.dataset == dataset]:
            steps = [step.step for step in results.at(place).values()]
            mean = curves[curves["step"].isin(steps)].groupby("x")["y"].mean()
            style = style_of(_name(place), labels)
            ax.plot(mean.index, mean, color=style["color"])
            if (worst := _worst(results, place)) is not None:
                threat = json.loads(next(iter(results.at(place).values())).threat)
                edges = threat["nodes"] * threat["edges_per_node"]
                ax.plot(edges, worst, marker="v", color=style["color"], linestyle="none")
        score = title(results.score("node", dataset))
        ax.set(title=title(dataset), xlabel="injected edges", ylabel=score, ylim=(0, 1))
    legend(figure, labels, extra=[Line2D([], [], color="0.35", marker="v", linestyle="none", label="worst case found")])
    caption = "Floors over the number of injected edges, and the worst case that was found; means over seeds."
    return Drawing("floors_over_budget", caption, figure)


def _name(place: Place) -> str:
    return f"{title(place.model)}, {title(place.label)}"
