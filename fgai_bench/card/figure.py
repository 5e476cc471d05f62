"""Draw a card: predictions from clean to worst."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from fgai_bench.card.text import NULLS, QUANTITIES
from fgai_bench.report.figures.style import LOOK, PALETTE

if TYPE_CHECKING:
    from fgai_bench.card.judgement import Judgement

BEFORE, AFTER = PALETTE[6], PALETTE[3]


def draw(card: Judgement) -> Figure:
    """Return the picture of a card: the score on the clean graph and under each attack, with intervals."""
    score = card.measured.score
    rows = list(card.scores.values())
    places = np.arange(len(rows))[::-1]
    with mpl.rc_context(LOOK):
        figure = Figure(figsize=(3.6, 2.9), layout="constrained")
        ax: Any = figure.subplots()
        for place, row in zip(places, rows, strict=True):
            spread, color = [[row.value - row.low], [row.high - row.value]], BEFORE if row.attack == "clean" else AFTER
            ax.errorbar(row.value, place, xerr=spread, fmt="o", color=color, capsize=3)
            place_of_text = {"xytext": (0, 6), "textcoords": "offset points", "ha": "center"}
            ax.annotate(f"{row.value:.2f}", (row.value, place), fontsize=7, **place_of_text)
        ax.axvline(card.measured.guess, color="0.5", linestyle=":", linewidth=1)
        ax.set_yticks(places, [row.attack for row in rows])
        label = f"{QUANTITIES[score].partition(' (')[0]}\n(dotted: {NULLS[score]})"
        ax.set(xlim=(0, 1), ylim=(-0.6, len(rows) - 0.4), xlabel=label, title="Predictions, 95 % intervals")
    return figure
