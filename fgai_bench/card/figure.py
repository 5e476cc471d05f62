"""Draw a card: predictions from clean to worst, and the attention of the most-changed nodes before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from fgai_bench.card.text import NULLS, QUANTITIES
from fgai_bench.report.figures.style import LOOK, PALETTE

if TYPE_CHECKING:
    from fgai_bench.card.evaluation import ChangedNode
    from fgai_bench.card.judgement import Judgement

BEFORE, AFTER, INJECTED = PALETTE[6], PALETTE[3], PALETTE[4]


def draw(card: Judgement) -> Figure:
    """Return the picture of a card; the panels of nodes share one scale."""
    nodes = card.measured.changed
    with mpl.rc_context(LOOK):
        figure = Figure(figsize=(2.6 + 1.9 * len(nodes), 2.9), layout="constrained")
        axes: Any = figure.subplots(1, 1 + len(nodes), squeeze=False, width_ratios=[1.2] + [1] * len(nodes))[0]
        _predictions(axes[0], card)
        largest = max([float(node.weights.max()) for node in nodes], default=1.0)
        for ax, node in zip(axes[1:], nodes, strict=True):
            _attention(ax, node, 1.05 * largest)
        if nodes:
            attack = list(card.measured.outcomes)[-1]
            handles = [
                Patch(color=BEFORE, label="attention before"),
                Patch(color=AFTER, label=f"after {attack}"),
                Patch(color=INJECTED, label="paid to an injected node"),
            ]
            figure.legend(handles=handles, loc="outside lower right", ncols=3, frameon=False)
    return figure


def _predictions(ax: Axes, card: Judgement) -> None:
    score = card.measured.score
    rows = [row for row in card.rows if row.quantity == score]
    places = np.arange(len(rows))[::-1]
    for place, row in zip(places, rows, strict=True):
        spread = [[row.value - row.low], [row.high - row.value]]
        ax.errorbar(row.value, place, xerr=spread, fmt="o", color=BEFORE if row.attack == "clean" else AFTER, capsize=3)
        ax.annotate(f"{row.value:.2f}", (row.value, place), (0, 6), textcoords="offset points", ha="center", fontsize=7)
    ax.axvline(card.measured.guess, color="0.5", linestyle=":", linewidth=1)
    ax.set_yticks(places, [row.attack for row in rows])
    ax.set(
        xlim=(0, 1),
        ylim=(-0.6, len(rows) - 0.4),
        xlabel=f"{QUANTITIES[score].partition(' (')[0]}\n(dotted: {NULLS[score]})",
    )
    ax.set_title("Predictions, 95 % intervals")


def _attention(ax: Axes, node: ChangedNode, limit: float) -> None:
    places = np.arange(len(node.neighbours))[::-1]
    ax.barh(places + 0.2, node.weights[0], height=0.38, color=BEFORE)
    ax.barh(places - 0.2, node.weights[1], height=0.38, color=[INJECTED if new else AFTER for new in node.injected])
    names = [
        "itself" if other == node.node else f"new {other}" if new else str(other)
        for other, new in zip(node.neighbours, node.injected, strict=True)
    ]
    ax.set_yticks(places, names)
    ax.set(xlim=(0, limit), xlabel="attention")
    kept = f"class {node.before} kept" if node.before == node.after else f"class {node.before} to {node.after}"
    ax.set_title(f"Node {node.node}: {kept}")
