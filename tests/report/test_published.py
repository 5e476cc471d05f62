"""Published numbers as they are read: the shipped paper's, and folders that are wrong in a single place."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import sysconfig
from collections import Counter
from pathlib import Path

import pytest

from fgai_bench.metrics import METRICS
from fgai_bench.report.published import published, read_paper, text_of
from fgai_bench.statistics.results import ReportError

REPOSITORY = Path(__file__).parents[2]
TABLES = {"table1": 120, "table2": 120, "f_slope": 192, "link": 48, "ablation": 21 * 4, "cost": 21 * 2}
PAPER = """\
title: A tiny paper
link: https://example.org/tiny
stand_ins:
  - {dataset: large, stand_in: small, note: a sample of it}
tables:
  - name: main
    file: main.csv
    task: node
    suites: [node, stress]
    attack: budget-40
    status: state
    rows: {dataset: {column: graph}, model: {constant: gat}, defense: {switches: {a: first, b: second}}}
    metrics:
      - {name: drop, mean: drop, std: spread, ours: slope, kind: attack, direction: lower, positive_where: {up: 1}}
"""
ROWS = "graph,a,b,drop,spread,up,state\nlarge,1,1,0.5,0.1,0,ok\nother,0,1,0.25,,1,OOM\n"


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """Write a paper of one table with two rows."""
    (tmp_path / "paper.yaml").write_text(PAPER)
    (tmp_path / "main.csv").write_text(ROWS)
    return tmp_path


def changed(folder: Path, file: str, old: str, new: str) -> Path:
    """Replace a piece of one file of a folder."""
    content = (folder / file).read_text()
    assert old in content
    (folder / file).write_text(content.replace(old, new))
    return folder


def test_every_published_number_is_there() -> None:
    assert Counter(number.table for number in published() if not number.stand_in) == TABLES


def test_numbers_on_arxiv_stand_also_beside_its_topology() -> None:
    arxiv = [number for number in published() if number.dataset == "ogbn-arxiv"]
    stand_in = [number for number in published() if number.stand_in]
    assert len(arxiv) == len(stand_in) > 0
    assert {number.dataset for number in stand_in} == {"arxiv-topology"}
    assert all("surrogate features" in number.note for number in stand_in)


def test_signs_of_the_f_slopes_are_those_of_the_paper() -> None:
    slopes = {(n.model, n.label, n.dataset, n.metric): n.mean for n in published() if n.table == "f_slope"}
    assert slopes["gat", "vanilla", "amazon-photo", "f_slope_neg_attacked"] == 1.0594  # underlined
    assert slopes["gat", "vanilla", "amazon-photo", "f_slope_pos"] == -1.2821


def test_methods_and_terms_have_our_names() -> None:
    labels = {table: {number.label for number in published() if number.table == table} for table in TABLES}
    assert labels["cost"] == {"vanilla", "ln", "at", "fgai", "pro-gnn", "gnn-svd", "gnnguard"}
    assert {"similarity+prediction+explanation", "prediction+explanation", "similarity"} <= labels["ablation"]


def test_directions_agree_with_those_of_our_metrics() -> None:
    declared = {number.ours: number.direction for number in published() if number.kind != "train"}
    assert declared == {name: METRICS.entry(name).direction for name in declared}


def test_the_title_and_the_claims_travel_along() -> None:
    assert read_paper("paper").title == "Faithful Interpretation for Graph Neural Networks"
    assert "vanilla-f1-drops" in text_of("claims.yaml")


def test_a_folder_of_ones_own_is_read(tiny: Path) -> None:
    large, small, other = published(tiny)
    assert (large.table, large.task, large.suites, large.attack) == ("main", "node", ("node", "stress"), "budget-40")
    assert (large.dataset, large.model, large.label, large.metric) == ("large", "gat", "first+second", "drop")
    assert (large.mean, large.std, large.status, large.stand_in) == (-0.5, 0.1, "ok", False)
    assert (small.dataset, small.mean, small.note, small.stand_in) == ("small", -0.5, "a sample of it", True)
    assert (other.label, other.mean, other.status) == ("second", 0.25, "oom")  # marked as rising
    assert math.isnan(other.std)


def test_a_scale_multiplies_the_number_and_its_spread(tiny: Path) -> None:
    percent = published(changed(tiny, "paper.yaml", "direction: lower", "direction: lower, scale: 10"))[0]
    assert (percent.mean, percent.std) == (-5.0, 1.0)


@pytest.mark.parametrize(
    ("file", "old", "new", "sentence"),
    [
        ("paper.yaml", "file: main", "fle: main", "tables[0]: unknown key 'fle'; possible are name, file, task,"),
        ("paper.yaml", "link:", "url:", "unknown key 'url'; possible are title, link,"),
        ("paper.yaml", "ours: slope, ", "", "tables[0].metrics[0].ours: field required"),
        ("paper.yaml", "kind: attack", "kind: attacked", "tables[0].metrics[0].kind: input should be 'clean'"),
        ("paper.yaml", "{constant: gat}", "{constant: gat, column: a}", "give one of column, constant and switches"),
        ("paper.yaml", "title: A tiny paper", "title: [", "cannot be read"),
        ("paper.yaml", PAPER, "- a list", "must be a mapping with the keys title, link"),
        ("paper.yaml", "mean: drop", "mean: fall", "has no column 'fall', which paper.yaml reads; it has graph, a, b"),
        ("paper.yaml", "file: main.csv", "file: other.csv", "other.csv cannot be read"),
        ("paper.yaml", "{column: graph}", "{column: graph, names: {large: l}}", "line 3: graph is 'other'"),
        ("paper.yaml", "mean: drop", "where: {b: 2}, mean: drop", "line 2: no metric of paper.yaml stands in this row"),
        ("main.csv", "0.25", "a quarter", "line 3: could not convert string to float: 'a quarter'"),
    ],
)
def test_a_wrong_folder_is_refused_in_one_sentence(tiny: Path, file: str, old: str, new: str, sentence: str) -> None:
    with pytest.raises(ReportError) as refusal:
        published(changed(tiny, file, old, new))
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_an_unknown_name_lists_what_is_possible(tmp_path: Path) -> None:
    for where in ("nature", tmp_path):  # a folder without a paper.yaml is none either
        with pytest.raises(ReportError, match=r"can be paper, fgai, or the path of a folder that holds a paper\.yaml"):
            published(where)


def test_a_checkout_that_is_not_installed_reads_the_folder_beside_the_package(tmp_path: Path) -> None:
    if not (REPOSITORY / "baselines").is_dir():
        pytest.skip("the checkout is not here")
    # Without `site` an editable install has no effect; the dependencies are named by their path.
    paths = os.pathsep.join([str(REPOSITORY), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    code = (
        "import importlib.util as u, fgai_bench.report.published as p;"
        "print(u.find_spec(p.PACKAGE), len(p.published()), p.shipped_baselines())"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["None", str(len(published())), str(REPOSITORY / "baselines")], done.stderr
