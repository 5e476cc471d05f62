"""Figures: each a function from the results of a run to drawings, one palette for all, the same bytes every time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import matplotlib as mpl

from fgai_bench.report.figures.attention import draw_attention, draw_neighbours
from fgai_bench.report.figures.correctness import draw_stability_correctness
from fgai_bench.report.figures.curves import draw_f_acc
from fgai_bench.report.figures.scatter import draw_scale, draw_tradeoff
from fgai_bench.report.figures.style import LOOK, Drawing, save
from fgai_bench.statistics.results import Results

__all__ = ["FIGURES", "Drawing", "Figure", "save"]


@dataclass(frozen=True)
class Figure:
    """A figure by its name, the suite that fills it, and the function that draws it; no drawings mean no data."""

    name: str
    suite: str
    draw: Callable[[Results], list[Drawing]]

    def drawings(self, results: Results) -> list[Drawing]:
        """Return every drawing that a run has something for, in the common look."""
        with mpl.rc_context(LOOK):
            return self.draw(results)


FIGURES = (
    Figure("fig1_f_acc", "node", draw_f_acc),
    Figure("fig2_attention", "node", draw_attention),
    Figure("fig3_neighbours", "node", draw_neighbours),
    Figure("fig5_tradeoff", "node", draw_tradeoff),
    Figure("fig8_scale", "scale", draw_scale),
    Figure("stability_correctness", "stress", draw_stability_correctness),
)
