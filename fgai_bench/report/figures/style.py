"""One look for all figures: a palette that colour-blind readers can tell apart, and files without dates."""

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image

from fgai_bench.statistics.cells import Cell
from fgai_bench.statistics.labels import title
from fgai_bench.suites.schema import TUNED

# Okabe and Ito's palette and a dark red; black for the vanilla model.
PALETTE = ("#000000", "#56B4E9", "#E69F00", "#D55E00", "#CC79A7", "#009E73", "#0072B2", "#999999", "#882255")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "H")
OTHER_MARKERS = ("<", ">", "p", "h")  # of what is not known here: none of them looks like one of ours
OUR_DEFENSES = ("vanilla", "ln", "at", "fgai", "fgai-attention", "pro-gnn", "gnn-svd", "gnnguard", "gcn")
WIDTH = 7.0  # inches: the width of a page's text; half of it stays readable
LOOK: Any = {
    "font.size": 8,
    "font.family": "DejaVu Sans",
    "axes.titlesize": 8,
    "axes.titley": 1.0,  # no ticks are above a panel: looking for them takes an eighth of the time
    "axes.labelsize": 8,
    "legend.fontsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.3,
    "lines.markersize": 3.5,
    "pdf.fonttype": 42,
    "svg.hashsalt": "fgai-bench",
    "text.parse_math": False,  # a dollar in a label is a dollar
}
METADATA: Any = {"Creator": "fgai-bench", "Producer": None, "CreationDate": None}  # no date: the same bytes
DPI = 200


@dataclass(frozen=True)
class Drawing:
    """A figure that has been drawn: name of its files, caption, and the matplotlib figure."""

    name: str
    caption: str
    figure: Figure


def style_of(label: str, labels: Sequence[str] = ()) -> dict[str, Any]:
    """Return the colour and, for readers who see no colours, the marker of a defense.

    Those that are not ours take the palette in turn, never the vanilla model's black, with markers of their own. Tuned
    settings have the colour and marker of their defense, hollow, and the form for sparse graphs those of the dense one.

    >>> style_of("vanilla")["color"], style_of("mine", ["vanilla", "mine"])["color"]
    ('#000000', '#56B4E9')
    >>> style_of("ln tuned")["color"] == style_of("ln")["color"], style_of("ln tuned")["markerfacecolor"]
    (True, 'white')
    """
    own = _base(label)
    hollow = {"markerfacecolor": "white"} if label.endswith(TUNED) else {}
    if own in OUR_DEFENSES:
        return {"color": PALETTE[OUR_DEFENSES.index(own)], "marker": MARKERS[OUR_DEFENSES.index(own)], **hollow}
    others = list(dict.fromkeys(base for base in map(_base, labels) if base not in OUR_DEFENSES))
    turn = others.index(own) if own in others else 0
    color = PALETTE[1 + turn % (len(PALETTE) - 1)]
    return {"color": color, "marker": OTHER_MARKERS[turn % len(OTHER_MARKERS)], **hollow}


def _base(label: str) -> str:
    """Return the defense that a label is drawn as."""
    return label.removesuffix(TUNED).removesuffix("-sparse")


def panels(rows: int, columns: int, height: float = 1.9, **options: Any) -> tuple[Figure, list[list[Axes]]]:
    """Make a grid of axes at the width of a page, or narrower for few columns."""
    figure = Figure(figsize=(max(3.4, min(WIDTH, 2.6 * columns)), height * rows + 0.6), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, [list(row) for row in axes]


def tiles(count: int, columns: int = 2, height: float = 1.9) -> tuple[Figure, list[Axes]]:
    """Make so many axes, row by row; what is left of the last row stays empty."""
    columns = min(columns, count)
    figure, axes = panels(math.ceil(count / columns), columns, height)
    every = [ax for row in axes for ax in row]
    for ax in every[count:]:
        ax.set_axis_off()
    return figure, every[:count]


def spread(cell: Cell) -> float:
    """Return half the length of an error bar: the standard deviation, none for one seed."""
    return 0.0 if math.isnan(cell.std) else cell.std


def legend(figure: Figure, labels: Iterable[str], extra: Sequence[Line2D] = (), lines: bool = True) -> None:
    """Draw one legend below all panels."""
    known = list(labels)
    style: Any = "-" if lines else ""
    handles = [Line2D([], [], linestyle=style, label=_shown(name), **style_of(name, known)) for name in known]
    legend_below(figure, [*handles, *extra])


def legend_below(figure: Figure, handles: Sequence[Line2D]) -> None:
    """Draw these below all panels, in rows of nearly the same length."""
    longest = max(len(str(handle.get_label())) for handle in handles)
    most = max(1, int(figure.get_size_inches()[0] / (0.45 + 0.062 * longest)))  # inches: a mark, and a letter
    rows = math.ceil(len(handles) / most)
    columns = math.ceil(len(handles) / rows)
    figure.legend(handles=list(handles), loc="outside lower center", ncols=columns, frameon=False)


def _shown(name: str) -> str:
    """Return a name for a legend; matplotlib would leave out one that begins with an underscore."""
    return f" {title(name)}" if title(name).startswith("_") else title(name)


def _show_powers(figure: Figure) -> None:
    """Let the numbers of logarithmic axes be set as powers of ten: they are matplotlib's own, and no label."""
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            for number in axis.get_ticklabels(which="both") if axis.get_scale() == "log" else ():
                number.set_parse_math(True)


def save(drawing: Drawing, folder: Path, kinds: Iterable[str]) -> list[Path]:
    """Write a drawing as PDF and PNG; the same drawing has the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {kind: folder / f"{drawing.name}.{kind}" for kind in kinds}
    with mpl.rc_context(LOOK), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # a box stands for a sign that the font lacks
        _show_powers(drawing.figure)
        # Lay out once and hold it: both files then agree, and the second one is cheap.
        if (layout := drawing.figure.get_layout_engine()) is not None:
            layout.execute(drawing.figure)
        drawing.figure.set_layout_engine("none")
        _show_powers(drawing.figure)
        if "pdf" in paths:
            drawing.figure.savefig(paths["pdf"], dpi=DPI, metadata=METADATA)
        if "png" in paths:
            _save_png(drawing.figure, paths["png"])
    return list(paths.values())


def _save_png(figure: Figure, path: Path) -> None:
    """Write a figure in 256 colours, none of which is seen to differ from its own: a third of the bytes."""
    figure.set_dpi(DPI)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    coloured = Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3])
    few = coloured.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(path, dpi=(DPI, DPI), optimize=True)
