"""The figure of a search for settings, from its ``trials.csv``: what was tried and what was chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from fgai_bench.report.figures.style import LOOK, Drawing, legend, panels, save, style_of
from fgai_bench.statistics.labels import ordered, title

RING: Any = {"linestyle": "", "marker": "o", "markersize": 7, "fillstyle": "none"}
STAR: Any = {"linestyle": "", "marker": "*", "markersize": 9, "markeredgecolor": "white", "markeredgewidth": 0.5}
LIMIT: Any = {"color": "0.4", "linestyle": (0, (4, 3)), "linewidth": 1.0}
SCORE = {"node": "F1", "link": "ROC-AUC"}
COLUMNS = 4  # panels side by side


def write_figures(folder: Path, kinds: Sequence[str] = ("png",)) -> list[Path]:
    """Draw the study whose trials lie in a folder, and write its figure into ``folder/figures``."""
    trials = pd.read_csv(folder / "trials.csv")
    with mpl.rc_context(LOOK):
        drawing = draw_trials(trials)
    return save(drawing, folder / "figures", kinds)


def draw_trials(trials: pd.DataFrame) -> Drawing:
    """Draw attacked against clean validation score of all trials, with the front and the choice of each defense."""
    labels = ordered(trials["defense"])
    figure, axes = _grid(trials, 2.6)
    for ax, block in zip(axes, _blocks(trials), strict=True):
        for label in ordered(block["defense"]):
            _trials_of(ax, block[block["defense"] == label], style_of(label, labels))
        ax.axvline(block["allowed"].iloc[0], **LIMIT)
        ax.set_xlabel(f"clean validation {_score(block)}")
        ax.set_ylabel("attacked")
    marks = [Line2D([], [], color="0.4", label="chosen", **STAR), Line2D([], [], color="0.4", label="front", **RING)]
    legend(figure, labels, marks, lines=False)
    caption = (
        "All trials of each defense on validation nodes: score under the validation attack against clean score. Right "
        "of the dashed line the clean score is near enough to the vanilla model's. Rings: no other such trial has both "
        "a higher attacked score and a higher overlap of the attention."
    )
    return Drawing("tuning_trials", caption, figure)


def _trials_of(ax: Axes, trials: pd.DataFrame, look: dict[str, Any]) -> None:
    ax.plot(trials["clean"], trials["attacked"], linestyle="", alpha=0.5, **look)
    for column, mark in (("on_front", RING), ("chosen", STAR)):
        marked = trials[trials[column] == "yes"]
        ax.plot(marked["clean"], marked["attacked"], color=look["color"], **mark)


def _grid(trials: pd.DataFrame, height: float) -> tuple[Any, list[Axes]]:
    """Return axes for each graph and model, titled; those that stay empty are removed."""
    blocks = list(_blocks(trials))
    columns = min(len(blocks), COLUMNS)
    figure, grid = panels(-(-len(blocks) // columns), columns, height)
    axes = [ax for row in grid for ax in row]
    for ax in axes[len(blocks) :]:
        ax.remove()
    for ax, block in zip(axes, blocks, strict=False):
        ax.set_title(f"{title(block['dataset'].iloc[0])}, {title(block['model'].iloc[0])}")
    return figure, axes[: len(blocks)]


def _blocks(trials: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the trials by the task, graph and model that they share."""
    for _, block in trials.groupby(["task", "dataset", "model"], sort=False):
        yield block


def _score(block: pd.DataFrame) -> str:
    return SCORE.get(block["task"].iloc[0], "score")
