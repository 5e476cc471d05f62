"""Points with spreads: score against stability, cost over size."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from fgai_bench.leaderboard.rows import STANDARD, worst_cases
from fgai_bench.report.figures.style import Drawing, legend, panels, spread, style_of, tiles
from fgai_bench.statistics.cells import cell, null_cell
from fgai_bench.statistics.labels import ordered, title
from fgai_bench.statistics.results import Measurement, Place, Results, main_suite

ATTACKS_BY_PRECEDENCE = (STANDARD, "injection")  # the first of them that a suite has
UNIFORM_LINE: dict[str, Any] = {"color": "0.4", "linestyle": (0, (4, 3)), "linewidth": 1.0}


def draw_tradeoff(results: Results) -> list[Drawing]:
    """Draw the attacked score against g-JSD: one point per defense, a panel per dataset and model.

    A graph of one seed has no spread to show and is left out beside graphs that have several.
    """
    results = worst_cases(results)
    suite = main_suite(results)
    held = results.names("attack", suite=suite, kind="attack", task="node")
    attack = next((name for name in ATTACKS_BY_PRECEDENCE if name in held), "")
    attacked = [
        (place, seeds)
        for place, seeds in results.select(suite=suite, kind="attack", task="node", attack=attack)
        if cell(results, place, "g_jsd").values  # it has an attention
    ]
    if not attacked:
        return []
    several = {place.dataset for place, seeds in attacked if len(seeds) > 1}
    places = [place for place, _ in attacked if not several or place.dataset in several]
    datasets, models = ordered(place.dataset for place in places), ordered(place.model for place in places)
    labels = ordered(place.label for place in places)
    blocks = [(dataset, model) for dataset in datasets for model in models]
    figure, axes = tiles(len(blocks), len(models) if len(models) > 1 else 2)
    for ax, block in zip(axes, blocks, strict=True):
        _tradeoff(ax, results, [place for place in places if place[3:5] == block], labels)
    legend(figure, labels, extra=[Line2D([], [], label="uniform attention", **UNIFORM_LINE)], lines=False)
    words = "the worst case" if attack == STANDARD else "the published attack"
    caption = (
        f"{'Score' if results.scores else 'F1'} against the stability of attention, both under {words}, "
        f"suite {results.title(suite)}; bars are standard deviations over seeds, the dashed line is a "
        "uniform attention on the same graphs, where it was measured, mean over the rows of a panel; the band reaches "
        "from the least of them to the largest (the leaderboard has every row beside its own)."
    )
    return [Drawing("fig5_tradeoff", caption, figure)]


def _tradeoff(ax: Axes, results: Results, places: Sequence[Place], labels: Sequence[str]) -> None:
    """Draw one panel: a point per defense, and the uniform attention as a line; without data it stays empty."""
    ends: dict[str, Any] = {"elinewidth": 0.8, "capsize": 2}  # ends are seen where one bar lies on another
    for place in sorted(places, key=lambda place: labels.index(place.label)):
        x, y = (cell(results, place, metric) for metric in ("g_jsd", results.score("node", place.dataset)))
        if x.values and y.values and x.mean > 0:
            style = style_of(place.label, labels)
            # A bar that would reach zero has no place on a logarithmic axis.
            low = min(spread(x), 0.9 * x.mean)
            ax.errorbar(x.mean, y.mean, xerr=[[low], [spread(x)]], yerr=spread(y), label=place.label, **ends, **style)
    if not ax.has_data():
        ax.set_axis_off()
        return
    cells = [cell(results, place, "g_jsd") for place in places]
    nulls = [null.mean for null in (null_cell([row]) for row in cells) if null.values]
    if nulls:
        ax.axvline(null_cell(cells).mean, **UNIFORM_LINE)
        ax.axvspan(min(nulls), max(nulls), color=UNIFORM_LINE["color"], alpha=0.12, linewidth=0)
    names, score = f"{title(places[0].model)} on {title(places[0].dataset)}", results.score("node", places[0].dataset)
    ax.set(title=names, xlabel="g-JSD (left is stabler)", ylabel=f"attacked {title(score)}")
    _logarithmic(ax)


def _logarithmic(ax: Axes) -> None:
    """Give an axis few labels, no two alike: within one decade the default labels every minor tick."""
    ax.set_xscale("log")
    low, high = ax.get_xlim()
    close = high < 4 * low  # too close for powers of ten
    powers = LogLocator(subs=(1.0, 3.0) if high < 30 * low else (1.0,), numticks=4)
    ax.xaxis.set_major_locator(MaxNLocator(3) if close else powers)
    ax.xaxis.set_major_formatter(lambda value, place: f"{value:.{1 if close else 0}e}")
    ax.xaxis.set_minor_formatter(NullFormatter())


def draw_scale(results: Results) -> list[Drawing]:
    """Draw seconds of an epoch and memory of training over the number of edges, a column per model."""
    suite = next((name for name in ("scale", "cost") if name in results.suites), "")
    graphs = results.provenance.reindex(columns=["data_dataset", "data_edges"]).dropna()  # a task may tell neither
    sizes = {str(row.data_dataset): float(row.data_edges) for row in graphs.itertuples()}
    places = [(place, seeds) for place, seeds in results.select(suite=suite, kind="train") if place.dataset in sizes]
    if len({place.dataset for place, _ in places}) < 2:
        return []
    models, labels = ordered(p.model for p, _ in places), ordered(p.label for p, _ in places)
    figure, axes = panels(2, len(models), sharex=True, sharey="row")
    measures: list[tuple[str, Mapping[Place, int], str]] = [
        ("train_seconds", _epochs(results, places), "an epoch (s)"),
        ("train_peak_mib", {}, "peak memory (MiB)"),
    ]
    for row, (metric, parts, words) in zip(axes, measures, strict=True):
        for ax, model in zip(row, models, strict=True):
            for label in labels:
                points = sorted(
                    (sizes[place.dataset], cell(results, place, metric).mean / parts.get(place, 1))
                    for place, _ in places
                    if (place.model, place.label) == (model, label)
                )
                known = [(x, y) for x, y in points if y == y]
                ax.plot([x for x, _ in known], [y for _, y in known], label=label, **style_of(label, labels))
            ax.set(title=title(model), yscale="log")
            _logarithmic(ax)
        row[0].set_ylabel(words)
    for ax in axes[-1]:
        ax.set_xlabel("edges")
    legend(figure, labels)
    caption = f"Time of an epoch and peak memory of training over graph size, suite {results.title(suite)}."
    return [Drawing("fig8_scale", caption, figure)]


def _epochs(results: Results, places: Iterable[tuple[Place, Mapping[int, Measurement]]]) -> dict[Place, int]:
    """Return the epochs that the trainings at each place were to have; an extrapolated time is that of all of them."""
    frame = results.provenance
    configs = dict(frame[frame["kind"] == "train"][["hash", "config"]].itertuples(index=False, name=None))
    known = {place: [configs[step.step] for step in seeds.values() if step.step in configs] for place, seeds in places}
    return {place: json.loads(texts[0])["training"]["epochs"] for place, texts in known.items() if texts}
