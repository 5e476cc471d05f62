"""Figures of a search for settings: what was tried and chosen, which settings matter, and whether it still gained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from fgai_bench.report.figures.style import LOOK, Drawing, legend, panels, save, style_of
from fgai_bench.report.labels import ordered, title
from fgai_bench.tuning.importance import importances
from fgai_bench.tuning.outcome import TOLERANCE, Outcome

RING: Any = {"linestyle": "", "marker": "o", "markersize": 7, "fillstyle": "none"}
STAR: Any = {"linestyle": "", "marker": "*", "markersize": 9, "markeredgecolor": "white", "markeredgewidth": 0.5}
SCORE = {"node": "F1", "link": "ROC-AUC"}


def write_figures(outcomes: Sequence[Outcome], folder: Path, kinds: Sequence[str] = ("png",)) -> list[Path]:
    """Draw a study and write its figures into ``folder/figures``."""
    with mpl.rc_context(LOOK):
        drawings = [draw_trials(outcomes), draw_search(outcomes), *draw_importance(outcomes)]
    return [path for drawing in drawings for path in save(drawing, folder / "figures", kinds)]


def draw_trials(outcomes: Sequence[Outcome]) -> Drawing:
    """Draw attacked against clean validation score of all trials, with the front and the choice of each defense."""
    labels, blocks = _labels(outcomes), _blocks(outcomes)
    figure, axes = panels(1, len(blocks), height=2.6)
    for ax, (where, block) in zip(axes[0], blocks.items(), strict=True):
        for outcome in block:
            _trials_of(ax, outcome, labels)
        ax.axvline(block[0].reference - TOLERANCE, color="0.4", linestyle=(0, (4, 3)), linewidth=1.0)
        ax.set_title(where)
        ax.set_xlabel(f"clean validation {_score(block)}")
    axes[0][0].set_ylabel("attacked")
    marks = [
        Line2D([], [], color="0.4", marker="*", markersize=9, linestyle="", label="chosen"),
        Line2D([], [], color="0.4", marker="o", markersize=7, fillstyle="none", linestyle="", label="on the front"),
    ]
    legend(figure, labels, marks, lines=False)
    caption = (
        f"All {outcomes[0].cell.trials} trials of each defense on validation nodes: score under the validation attack "
        f"against clean score. Right of the dashed line the clean score is within {TOLERANCE} of the vanilla model's. "
        "Rings: no other such trial has both a higher attacked score and a higher overlap of the attention."
    )
    return Drawing("tuning_trials", caption, figure)


def _trials_of(ax: Axes, outcome: Outcome, labels: Sequence[str]) -> None:
    look = style_of(outcome.cell.line.title, labels)
    ok = [tried for tried in outcome.tried if tried.ok]
    ax.plot([t.clean for t in ok], [t.attacked for t in ok], linestyle="", alpha=0.5, **look)
    front = [t for t in ok if t in outcome.front]
    ax.plot([t.clean for t in front], [t.attacked for t in front], color=look["color"], **RING)
    if outcome.choice is not None:
        ax.plot([outcome.choice.clean], [outcome.choice.attacked], color=look["color"], **STAR)


def draw_search(outcomes: Sequence[Outcome]) -> Drawing:
    """Draw the best attacked score of a feasible trial over the number of trials: is the search still gaining?"""
    labels, blocks = _labels(outcomes), _blocks(outcomes)
    figure, axes = panels(1, len(blocks), height=2.2)
    for ax, (where, block) in zip(axes[0], blocks.items(), strict=True):
        for outcome in block:
            curve = outcome.best_so_far()
            color = style_of(outcome.cell.line.title, labels)["color"]
            ax.step(range(1, len(curve) + 1), curve, where="post", color=color)
        ax.set_title(where)
        ax.set_xlabel("trials")
    axes[0][0].set_ylabel(f"best attacked validation {_score(outcomes)}")
    legend(figure, labels)
    caption = (
        "Best score under the validation attack so far, among trials that keep the clean score; a line that is absent "
        "at the left had no such trial yet."
    )
    return Drawing("tuning_search", caption, figure)


def draw_importance(outcomes: Sequence[Outcome]) -> list[Drawing]:
    """Draw how much each setting matters, a panel per defense: the mean over its cells; none with too few trials."""
    shares: dict[str, list[dict[str, float]]] = {}
    for outcome in outcomes:
        if found := importances(outcome):
            shares.setdefault(outcome.cell.line.title, []).append(found)
    if not shares:
        return []
    labels = ordered(shares)
    figure, axes = panels(1, len(labels), height=2.6)
    for ax, label in zip(axes[0], labels, strict=True):
        names = {name for found in shares[label] for name in found}
        means = {name: sum(found.get(name, 0.0) for found in shares[label]) / len(shares[label]) for name in names}
        rows = sorted(means.items(), key=lambda row: (row[1], row[0]))
        ax.barh([name for name, _ in rows], [share for _, share in rows], color=style_of(label, labels)["color"])
        ax.set_title(title(label))
        ax.set_xlabel("importance")
    caption = (
        "Importance of each setting (PED-ANOVA): how much its values differ between the better half of the trials and "
        "all of them; shares of one, means over the cells of a defense."
    )
    return [Drawing("tuning_importance", caption, figure)]


def _labels(outcomes: Sequence[Outcome]) -> list[str]:
    return ordered(outcome.cell.line.title for outcome in outcomes)


def _blocks(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """Return the outcomes by the graph and model that they share, under the title of their panel."""
    blocks: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        cell = outcome.cell
        blocks.setdefault(f"{title(cell.dataset)}, {title(cell.model)}", []).append(outcome)
    return blocks


def _score(outcomes: Sequence[Outcome]) -> str:
    return SCORE.get(outcomes[0].cell.task, "score")
