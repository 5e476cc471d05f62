"""One set of hostile labels through every format: whatever a label holds, it is shown as text and breaks nothing."""

from __future__ import annotations

import csv
import io
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fgai_bench.cli.app import main
from fgai_bench.leaderboard.rows import BOARDS
from tests.report_fixtures import attack_result, clean_result, compiled, load, train_result

pytestmark = pytest.mark.slow
LABELS = (
    "<!--<script>", "</script><b>bold</b>", "constructor", "__proto__", "toString", "=1+1", "+2", "-1+cmd|' /C x'!A0",
    "@sum", "'=quoted", "two\nlines", "a|b\\|c", "$x^2", "$\\frac{", "50% & #1_{a}~", "\\input{/etc/passwd}", "`tick",
    "_hidden", "🦆 ±", "nul\x00 bell\x07", "/*DATA*/",
)  # fmt: skip
DATASETS = ("a/b", "../../up", "dots.v2", "<!--<script>")
DRAWN = ("<!--<script>", "two\nlines", "$\\frac{", "_hidden")
MODEL = "constructor"


def csv_text(cell: str) -> str:
    """Return what a cell of a CSV file stands for, as docs/leaderboard-schema.md says."""
    return cell[1:] if re.match(r"'+[=+\-@\t\r]", cell) else cell


@pytest.fixture(scope="module")
def hostile(bench: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a store in which every name is hostile."""
    made = bench()
    made.add("train", train_result("fgai", 0), dataset=DATASETS[0], model=MODEL, label="fgai")
    for dataset in DATASETS:
        for label in LABELS if dataset == DATASETS[0] else LABELS[:2]:
            where = {"dataset": dataset, "model": MODEL, "label": label, "defense": "ln"}
            for seed in range(2):
                made.add("clean", clean_result("ln", seed), seed=seed, **where)
                attacked = attack_result("ln", seed)
                if label not in DRAWN or dataset != DATASETS[0]:  # one drawing of a neighbourhood per label takes long
                    attacked = replace(attacked, artifacts={})
                made.add("attack", attacked, seed=seed, attack_label="injection", **where)
    run = made.close()
    folder = tmp_path_factory.mktemp("hostile") / "deep" / "report"
    assert main(["report", str(run), "--out", str(folder)]) == 0
    assert main(["claims", str(run), "--out", str(folder)]) == 0
    assert main(["compare", str(run), "--out", str(folder)]) == 0
    return folder


def test_nothing_is_written_outside_the_report_and_no_two_names_share_a_file(hostile: Path) -> None:
    assert [path.name for path in hostile.parent.parent.iterdir()] == ["deep"]
    assert [path.name for path in hostile.parent.iterdir()] == ["report"]
    figures = {path.stem for path in (hostile / "figures").glob("fig1_f_acc_*.pdf")}
    assert len(figures) == len(DATASETS)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]+", name) for name in figures)
    drawn = {kind: {path.stem for path in (hostile / "figures").glob(f"*.{kind}")} for kind in ("pdf", "png")}
    assert drawn["pdf"] == drawn["png"]


def test_leaderboards_give_back_the_labels(hostile: Path) -> None:
    text = (hostile / "leaderboard_node_full.csv").read_text(encoding="utf-8", errors="strict")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert {csv_text(row["defense"]) for row in rows} == {*LABELS, "uniform-attention"}
    assert {csv_text(row["dataset"]) for row in rows} == set(DATASETS)
    assert BOARDS[0].name == "leaderboard_node"


def test_no_cell_of_a_csv_is_a_formula(hostile: Path) -> None:
    files = sorted(hostile.rglob("*.csv"))
    assert len(files) > 8
    found = set()
    for path in files:
        rows = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"), newline=""))
        for row in rows:
            cells = {name: cell for name, cell in row.items() if name != "text"}  # written by us, from numbers
            for cell in cells.values():
                assert not re.match(r"[=+\-@\t\r]", cell) or is_number(cell), (path, cell)
            found |= {csv_text(cell) for cell in cells.values()}
    assert set(LABELS) <= found


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def test_rows_of_markdown_stay_rows_and_hold_no_html(hostile: Path) -> None:
    for path in [*(hostile / "tables").glob("*.md"), hostile / "comparison.md", hostile / "index.md"]:
        text = path.read_text(encoding="utf-8")
        assert "<!--" not in text
        assert "<script" not in text
        tables = [line for line in text.splitlines() if line.startswith("|")]
        widths = {len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in tables}
        assert len(widths) <= 1, path
    assert "two lines" in (hostile / "tables" / "table2.md").read_text(encoding="utf-8")


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_the_document_compiles_and_reads_no_other_file(hostile: Path) -> None:
    done = compiled(hostile)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "passwd" not in done.stdout


@pytest.mark.page
def test_the_page_shows_every_label_as_text(hostile: Path, browser: Any) -> None:
    load(browser, (hostile / "page.html").as_uri())
    assert browser.get_log("browser") == []
    shown = browser.execute_script(
        "return [...document.querySelectorAll('#board tbody tr')].map(tr => [...tr.children].map(td => td.textContent))"
    )
    columns = browser.execute_script("return [...document.querySelectorAll('#board th')].map(th => th.dataset.key)")
    defenses = {row[columns.index("defense")] for row in shown}
    assert defenses == {*LABELS, "Uniform attention"}
    assert {row[columns.index("model")] for row in shown} == {MODEL}
    assert {row[columns.index("dataset")] for row in shown} == set(DATASETS)
    assert browser.execute_script("return document.querySelectorAll('script').length") == 2
    assert browser.execute_script("return document.querySelectorAll('td b').length") == 0
