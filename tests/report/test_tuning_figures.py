"""Figures of a search: drawn from its tables, and the best score so far by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd

from fgai_bench.report.figures.tuning import best_so_far, write_figures

HEAD = "task,dataset,model,defense,trial,clean,attacked,feasible,on_front,chosen,allowed\n"


def test_best_so_far_waits_for_a_feasible_trial():
    rows = [(0, 0.9, "no"), (1, 0.4, "yes"), (2, 0.3, "yes"), (3, 0.99, "no"), (4, 0.6, "yes")]
    curve = list(best_so_far(pd.DataFrame(rows, columns=["trial", "attacked", "feasible"])))
    assert math.isnan(curve[0])
    assert curve[1:] == [0.4, 0.4, 0.4, 0.6]


def test_a_study_has_two_figures(tmp_path: Path):
    lines = [
        f"node,{dataset},gat,{defense},{trial},0.9,0.{5 + trial},yes,yes,{'yes' if trial else 'no'},0.89\n"
        for dataset in ("cora", "pubmed", "citeseer", "amazon-cs", "amazon-photo")
        for defense in ("vanilla", "fgai")
        for trial in range(2)
    ]
    (tmp_path / "trials.csv").write_text(HEAD + "".join(lines))
    first, second = ({path.stem: path.read_bytes() for path in write_figures(tmp_path)} for _ in range(2))
    assert list(first) == ["tuning_trials", "tuning_search"]
    assert first == second
