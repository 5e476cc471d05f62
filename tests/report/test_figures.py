"""Figures, compared by what they draw."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import rc_context
from matplotlib.collections import LineCollection

from fgai_bench.report.figures import Drawing, drawings, save, style
from fgai_bench.report.figures.attention import Sample, layout
from fgai_bench.report.figures.style import LOOK
from fgai_bench.statistics.results import Results
from tests.report_fixtures import attack_result, clean_result


def drawn(name: str, folder: Path) -> list[Drawing]:
    return drawings(name, Results.read(folder))


def lines(drawing: Drawing, panel: int) -> dict[str, Any]:
    return {line.get_label(): line.get_xydata().tolist() for line in drawing.figure.axes[panel].lines}


def test_f_acc_curves_are_clean_above_attacked(small: Path) -> None:
    (drawing,) = drawn("fig1_f_acc", small)
    assert [ax.get_title() for ax in drawing.figure.axes] == ["GAT, clean", "GAT, attacked"]
    clean, attacked = lines(drawing, 0), lines(drawing, 1)
    assert len(clean) == 4 * 2
    assert clean["fgai f_acc_pos"] == [[r, pytest.approx(1 - 0.4 * r)] for r in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)]
    assert [y for _, y in attacked["vanilla f_acc_neg"]] == [0.5] * 6


def test_the_subgraph_shows_every_edge_that_is_there(small: Path) -> None:
    (drawing,) = drawn("fig2_attention", small)
    panels = [ax for ax in drawing.figure.axes if ax.get_title()]
    assert [ax.get_title() for ax in panels] == [
        "GAT Vanilla, clean", "GAT Vanilla, attacked", "GAT FGAI, clean", "GAT FGAI, attacked",
    ]  # fmt: skip
    weights = [sorted(next(c for c in ax.collections if isinstance(c, LineCollection)).get_array()) for ax in panels]
    assert weights[0] == pytest.approx([0.2, 0.3, 0.5, 1.0])  # the injected edge is not there yet
    assert weights[1] == pytest.approx([0.1, 0.1, 0.1, 0.7, 1.0])
    scales = {next(c for c in ax.collections if isinstance(c, LineCollection)).get_clim() for ax in panels}
    assert scales == {(0.0, 1.0)}  # one for all panels
    assert "injected node" in legend_of(drawing)


def legend_of(drawing: Drawing) -> list[str]:
    return [text.get_text() for legend in drawing.figure.legends for text in legend.get_texts()]


def test_shared_neighbours_are_red(small: Path) -> None:
    (drawing,) = drawn("fig3_neighbours", small)
    titles = [ax.get_title() for ax in drawing.figure.axes]
    assert titles[1] == "GAT Vanilla, attacked: 3 of 3 kept"
    colors = [line.get_color() for line in drawing.figure.axes[1].lines]
    assert sorted(colors) == ["#CC79A7", "#D55E00", "#D55E00", "#D55E00"]  # the injected node, and the three shared
    assert legend_of(drawing) == ["the node itself", "named before and after", "named only here", "injected node"]


def test_one_point_per_defense(small: Path) -> None:
    (drawing,) = drawn("fig5_tradeoff", small)
    points = {c.get_label(): c.lines[0].get_xydata()[0].tolist() for c in drawing.figure.axes[0].containers}
    assert points.keys() == {"vanilla", "ln", "at", "fgai"}
    assert points["ln"] == pytest.approx([0.002, 0.9])


def test_the_tradeoff_is_that_under_the_worst_case_where_it_is_recorded(bench: Any) -> None:
    made = bench()
    for attack, harm in (("injection", 0.0), ("worst", 0.2), ("learned-placement", 0.3)):  # the lowest of a seed
        made.add("attack", attack_result("ln", 1, harm), label="ln", attack_label=attack)
    (drawing,) = drawn("fig5_tradeoff", made.close())
    (point,) = drawing.figure.axes[0].containers
    assert point.lines[0].get_xydata()[0].tolist() == pytest.approx([0.002, 0.6])
    assert "under the worst case" in drawing.caption


def test_a_band_shows_how_far_the_nulls_of_the_rows_are_apart(bench: Any) -> None:
    made = bench()
    for label, null in (("vanilla", 1e-6), ("ln", 4e-6)):
        found = attack_result(label, 1)
        found = replace(found, metrics={**found.metrics, "g_jsd_uniform": null})
        made.add("attack", found, label=label, attack_label="injection")
    (drawing,) = drawn("fig5_tradeoff", made.close())
    (band,) = drawing.figure.axes[0].patches
    box = band.get_path().get_extents(band.get_patch_transform())
    assert (box.x0, box.x1) == pytest.approx((1e-6, 4e-6))
    (line,) = [line for line in drawing.figure.axes[0].lines if line.get_linestyle() == "--"]
    assert line.get_xdata()[0] == pytest.approx(2.5e-6)


def test_scale_is_an_epochs_time_over_edges(wide: Path) -> None:
    (drawing,) = drawn("fig8_scale", wide)
    assert lines(drawing, 0)["vanilla"] == [[1000, 1.0 / 200], [10000, 10.0 / 20]]
    assert lines(drawing, 1)["vanilla"] == [[1000, 1000.0], [10000, 1000.0]]


def test_no_data_no_figure(broken: Path) -> None:
    assert drawn("fig8_scale", broken) == []


def test_a_label_of_the_users_own_gets_a_line(bench: Any) -> None:
    made = bench()
    for label in ("mine", "vanilla"):
        made.add("clean", clean_result("ln", 0), label=label, suite="own")
        made.add("attack", attack_result("ln", 0), label=label, attack_label="injection", suite="own")
    (drawing,) = drawn("fig1_f_acc", made.close())
    assert "mine f_acc_pos" in lines(drawing, 0)


def test_no_other_entry_has_the_marker_of_ours() -> None:
    assert not set(style.MARKERS) & set(style.OTHER_MARKERS)
    labels = ["vanilla", "mine", "mine tuned", "yours"]
    mine, tuned, yours = (style.style_of(label, labels) for label in labels[1:])
    assert mine["marker"] != yours["marker"]
    assert tuned == {**mine, "markerfacecolor": "white"}


def test_files_have_no_dates(small: Path, tmp_path: Path) -> None:
    (drawing,) = drawn("fig1_f_acc", small)
    (path,) = save(drawing, tmp_path, ["pdf"])
    assert path.name == "fig1_f_acc_amazon-photo.pdf"
    assert b"CreationDate" not in path.read_bytes()


def test_the_layout_keeps_nodes_apart_and_the_centre_in_the_middle() -> None:
    edges = np.array([[1, 2, 3, 0, 5], [0, 0, 1, 4, 3]])
    place = layout(Sample(edges, np.ones(5), np.ones(5), centre=0, nodes=5))
    assert place[0] == (0.0, 0.0)
    assert len(set(place.values())) == len(place) == 6
    assert {round(float(np.hypot(*place[n])), 6) for n in (1, 2, 4)} == {0.5}
    assert {round(float(np.hypot(*place[n])), 6) for n in (3, 5)} == {1.0}


def test_powers_of_ten_are_set_as_powers_and_labels_as_they_are(tmp_path: Path) -> None:
    with rc_context(LOOK):
        figure, ((ax,),) = style.panels(1, 1)
        ax.set(yscale="log", ylim=(1, 1e5), xlabel="$x$")
    save(Drawing("powers", "", figure), tmp_path, ["png"])
    assert any("10^{" in number.get_text() for number in ax.get_yticklabels())
    assert all(number.get_parse_math() for number in ax.get_yticklabels())
    assert not ax.xaxis.label.get_parse_math()
