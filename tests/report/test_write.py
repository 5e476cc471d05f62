"""Whole reports through the public command: every file, twice the same bytes, a document that compiles."""

from __future__ import annotations

import hashlib
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from fgai_bench.cli.app import main
from fgai_bench.records.store import Store
from fgai_bench.report.answer import answers
from fgai_bench.report.figures import FIGURES
from fgai_bench.report.write import names
from fgai_bench.statistics.results import Results
from tests.report_fixtures import compiled


def digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.slow
def test_the_same_store_gives_the_same_bytes(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        assert main(["report", str(small), "--out", str(tmp_path / name)]) == 0
    one = digests(tmp_path / "one")
    assert one == digests(tmp_path / "two")
    for name in (
        "page.html", "index.md", "tables/table1.tex", "tables/table2.md", "tables/f_slope.csv",
        "figures/fig1_f_acc_amazon-photo.png", "figures/fig2_attention_amazon-photo_gat.pdf", "leaderboard_node.csv",
        "leaderboard_link.csv", "leaderboard_cost.csv",
    ):  # fmt: skip
        assert name in one
    said = capsys.readouterr().out
    (answer,) = answers(Results.read(small))
    assert said.splitlines()[0] == answer.sentence  # the answer comes first
    assert said.splitlines()[-1].endswith("begin with page.html or index.md")
    index = (tmp_path / "one" / "index.md").read_text()
    for part in (f"- {answer.sentence}", "| GAT, LN | **.910 → .900 [.87, .92]** |", "](figures/fig5_tradeoff.png)"):
        assert part in index
    assert "link: not tested in this run; `fgai-bench run --suite link`" in said
    assert "definition: not tested in this run" in said


@pytest.fixture(scope="session")
def document(wide: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the store that has something for everything."""
    folder = tmp_path_factory.mktemp("report")
    assert main(["report", str(wide), "--out", str(folder), "--format", "latex,pdf,csv"]) == 0
    return folder


def test_everything_has_a_file(document: Path) -> None:
    tables = {path.stem for path in (document / "tables").glob("*.tex")}
    figures = {path.stem for path in (document / "figures").glob("*.pdf")}
    for name in names():
        if name in ("floors", "deviations"):
            continue  # neither is in this run; test_floors.py and tables/test_deviations.py have runs with them
        if name in FIGURES:
            assert any(figure.startswith(name) for figure in figures), name
        elif name in ("claims", "comparison"):
            assert (document / f"{name}.csv").is_file()
        elif name not in ("leaderboard", "metrics", "page", "reliability"):
            assert name in tables
    assert not list(document.rglob("*.png"))  # not asked for


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_the_document_compiles(document: Path, broken: Path, tmp_path: Path) -> None:
    assert main(["report", str(broken), "--out", str(tmp_path), "--format", "latex"]) == 0
    for folder in (document, tmp_path):
        done = compiled(folder)
        assert done.returncode == 0, done.stdout[-2000:]
        assert (folder / "all.pdf").stat().st_size > 10_000


def test_a_part_can_be_asked_for(small: Path, tmp_path: Path) -> None:
    assert main(["report", str(small), "--out", str(tmp_path), "--only", "table1,dataset_node", "--format", "csv"]) == 0
    assert sorted(digests(tmp_path)) == ["tables/dataset_node.csv", "tables/table1.csv"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--only", "tabel1"], "nothing to report is called 'tabel1'; possible are table1"),
        (["--format", "docx"], "unknown format 'docx'; possible are latex"),
        (["--suite", "nodes"], "has no suite 'nodes'; it has: node"),
    ],
)
def test_wrong_requests_get_one_sentence(
    small: Path, tmp_path: Path, arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(small), "--out", str(tmp_path), *arguments]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1


def test_a_folder_that_is_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("report", "compare", "claims"):
        assert main([command, str(tmp_path)]) == 2
        assert "is not a run" in capsys.readouterr().err


def test_a_run_that_has_only_begun(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(shutil.copytree(small, tmp_path / "run"))
    with closing(Store(folder)) as store:
        store.forget(store.statuses())
    for command in ("report", "compare", "claims"):
        assert main([command, str(folder)]) == 2
        assert "has no recorded step of its plan yet" in capsys.readouterr().err


def test_a_report_says_what_the_run_says_about_the_paper(
    wide: Path, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(wide), "--out", str(tmp_path / "all"), "--format", "markdown,csv"]) == 0
    for command in (["compare", "--to", "paper"], ["claims"]):
        assert main([*command, str(wide), "--out", str(tmp_path / "alone")]) == 0
    said = capsys.readouterr().out
    assert "beside the paper" in said
    assert "fgai-f1-attacked-above-vanilla" in said
    alone = digests(tmp_path / "alone")
    comparison = {"comparison.csv", "comparison.md", "comparison_shares.csv"}
    assert set(alone) == {"claims.csv", "claims.md", "claims_cells.csv", *comparison}
    assert alone.items() <= digests(tmp_path / "all").items()
    index = (tmp_path / "all" / "index.md").read_text()
    assert "- [claims](claims.md): a verdict on each of the paper's claims" in index
    assert main(["report", str(wide), "--out", str(tmp_path / "one"), "--only", "claims", "--format", "csv"]) == 0
    assert set(digests(tmp_path / "one")) == {"claims.csv", "claims_cells.csv"}
    assert main(["report", str(small), "--out", str(tmp_path / "small"), "--only", "claims,comparison"]) == 0
    assert set(digests(tmp_path / "small")) == comparison  # no claim can be told from it
    assert main(["compare", str(small), "--to", "nature"]) == 2
    assert "--to can be paper" in capsys.readouterr().err
