"""The figure of a search, drawn from its trials."""

from __future__ import annotations

from pathlib import Path

from fgai_bench.report.figures.tuning import write_figures

HEAD = "task,dataset,model,defense,trial,clean,attacked,feasible,on_front,chosen,allowed\n"


def test_a_study_has_a_figure(tmp_path: Path):
    lines = [
        f"node,{dataset},gat,{defense},{trial},0.9,0.{5 + trial},yes,yes,{'yes' if trial else 'no'},0.89\n"
        for dataset in ("cora", "pubmed", "citeseer", "amazon-cs", "amazon-photo")
        for defense in ("vanilla", "fgai")
        for trial in range(2)
    ]
    (tmp_path / "trials.csv").write_text(HEAD + "".join(lines))
    first, second = ({path.stem: path.read_bytes() for path in write_figures(tmp_path)} for _ in range(2))
    assert list(first) == ["tuning_trials"]
    assert first == second
