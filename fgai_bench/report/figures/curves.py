"""F-acc curves: accuracy over the share of deleted edges."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from fgai_bench.escaping import file_name
from fgai_bench.report.figures.style import Drawing, legend, panels, style_of
from fgai_bench.statistics.labels import ordered, title
from fgai_bench.statistics.results import Results, main_suite

KEYS = ["suite", "kind", "dataset", "model", "label", "attack_label", "curve", "x"]


def mean_curves(results: Results, suite: str, kind: str, attack: str = "") -> pd.DataFrame:
    """Return the curves averaged over seeds, one row per point."""
    frame = results.curves
    chosen = (frame["suite"] == suite) & (frame["kind"] == kind) & (frame["attack_label"] == attack)
    return frame[chosen].groupby(KEYS, sort=False, as_index=False)["y"].mean()


def draw_f_acc(results: Results) -> list[Drawing]:
    """Draw, per dataset, F+ and F- over the share of deleted edges, clean above attacked, a column per model."""
    suite = main_suite(results)
    if not suite:
        return []
    halves = {
        "clean": mean_curves(results, suite, "clean"),
        "attacked": mean_curves(results, suite, "attack", "injection"),
    }
    every = pd.concat(halves.values())
    every = every[every["curve"].isin(["f_acc_pos", "f_acc_neg"])]
    return [_f_acc_of(results.title(suite), dataset, halves, every) for dataset in ordered(every["dataset"])]


def _f_acc_of(suite: str, dataset: str, halves: dict[str, pd.DataFrame], every: pd.DataFrame) -> Drawing:
    here = every[every["dataset"] == dataset]
    models, labels = ordered(here["model"]), ordered(here["label"])
    figure, axes = panels(len(halves), len(models), sharex=True, sharey="row")
    for row, (condition, frame) in zip(axes, halves.items(), strict=True):
        for ax, model in zip(row, models, strict=True):
            _f_acc_lines(ax, frame[(frame["dataset"] == dataset) & (frame["model"] == model)], labels)
            ax.set_title(f"{title(model)}, {condition}")
        row[0].set_ylabel("share still correct")
    for ax in axes[-1]:
        ax.set_xlabel("share r of deleted edges")
    signs = [Line2D([], [], color="0.4", label="F+"), Line2D([], [], color="0.4", linestyle="--", label="F-")]
    legend(figure, labels, signs)
    caption = (
        f"F-acc curves on {title(dataset)}, suite {suite}: clean above, attacked below; means over seeds. F+ deletes "
        "the edges of highest attention first, F- those of lowest."
    )
    return Drawing(file_name(f"fig1_f_acc_{dataset}"), caption, figure)


def _f_acc_lines(ax: Axes, frame: pd.DataFrame, labels: list[str]) -> None:
    for label in labels:
        for curve, style in (("f_acc_pos", "-"), ("f_acc_neg", "--")):
            points = frame[(frame["label"] == label) & (frame["curve"] == curve)].sort_values("x")
            ax.plot(points["x"], points["y"], linestyle=style, label=f"{label} {curve}", **style_of(label, labels))
