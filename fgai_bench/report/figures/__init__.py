"""Figures: each a function from the results of a run to drawings, one palette for all, the same bytes every time."""

from collections.abc import Callable
from functools import partial

import matplotlib as mpl

from fgai_bench.report.figures.attention import attention_of, draw_samples, neighbours_of
from fgai_bench.report.figures.correctness import draw_stability_correctness
from fgai_bench.report.figures.curves import draw_f_acc
from fgai_bench.report.figures.floors import draw_floors
from fgai_bench.report.figures.scatter import draw_scale, draw_tradeoff
from fgai_bench.report.figures.style import LOOK, Drawing, save
from fgai_bench.statistics.results import Results

__all__ = ["FIGURES", "Drawing", "drawings", "save"]


# A figure by its name: the suite that fills it, and the function that draws it; no drawings mean no data.
FIGURES: dict[str, tuple[str, Callable[[Results], list[Drawing]]]] = {
    "fig1_f_acc": ("node", draw_f_acc),
    "fig2_attention": ("node", partial(draw_samples, draw=attention_of)),
    "fig3_neighbours": ("node", partial(draw_samples, draw=neighbours_of)),
    "fig5_tradeoff": ("node", draw_tradeoff),
    "floors": ("node", draw_floors),
    "fig8_scale": ("scale", draw_scale),
    "stability_correctness": ("stress", draw_stability_correctness),
}


def drawings(name: str, results: Results) -> list[Drawing]:
    """Return every drawing of a figure that a run has something for, in the common look."""
    with mpl.rc_context(LOOK):
        return FIGURES[name][1](results)
