"""Exported records: read like the run they come from, and never read once they have changed."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fgai_bench.cli import main
from fgai_bench.records import export as exporting
from fgai_bench.records.canonical import canonical, sha256
from fgai_bench.records.errors import StoreError
from fgai_bench.records.export import datasheet, export
from fgai_bench.records.export_format import FORMAT, short_names
from fgai_bench.records.merge import Merged
from fgai_bench.records.result import Result
from fgai_bench.records.store import Store, StoreReader
from fgai_bench.run.plan import Step
from fgai_bench.statistics.results import Results

REPOSITORY = Path(__file__).parents[2]


def digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="session")
def exported(reference: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "records"
    assert main(["records", "export", str(reference), "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def records(exported: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(exported, tmp_path / "results" / "records"))


def make_tables(results: Path) -> subprocess.CompletedProcess[str]:
    variables = [f"RESULTS={results}", f"BIN={Path(sys.executable).parent}", "STAMP="]
    return subprocess.run(["make", "tables", *variables], cwd=REPOSITORY, capture_output=True, text=True, timeout=300)


def test_an_export_has_what_the_run_has(
    exported: Path, reference: Path, content: Callable[[Path], dict[str, Any]]
) -> None:
    assert content(exported) == content(reference)
    with StoreReader(exported) as mine, StoreReader(reference) as its:
        assert mine.records().equals(its.records())
        assert mine.curves().equals(its.curves())
        assert mine.provenance().equals(its.provenance())
        drawn = {  # figures show the first seed, and of attacks the published one
            member["step"]
            for member in its.members()
            if member["seed"] == 0 and member["attack_label"] in ("", "injection")
        }
        assert mine.damaged() == {}
    held = Results.read(reference).artifacts
    shown = {key: content for key, content in held.items() if key[0] in drawn}
    assert Results.read(exported).artifacts == shown != {}


def test_the_manifest_counts_and_names_every_file(exported: Path) -> None:
    manifest = json.loads((exported / "manifest.json").read_text())
    assert manifest["suites"] == {"tiny": {"ok": 24}}
    assert {*manifest["files"], "manifest.json"} == set(digests(exported))
    assert manifest["files"]["steps.csv.xz"]["rows"] == manifest["steps"] == 24
    for name, about in manifest["files"].items():
        assert digests(exported)[name] == about["sha256"]


def test_the_same_records_have_the_same_bytes(exported: Path, tmp_path: Path) -> None:
    export([exported], tmp_path / "again")
    assert digests(tmp_path / "again") == digests(exported)


def test_every_kind_of_value_survives(tmp_path: Path) -> None:
    result = Result(
        "ok",
        metrics={"third": 1 / 3, "tiny": 5e-324, "many": 12.0, "bound": float("-inf"), "slope": float("nan")},
        not_applicable={"g_jsd": 'no "attention",\nnone'},
        cost={"seconds": 0.1},
        curves={"f_acc": ((0.0, 0.1), (1.0, 2 / 3)), "objective": ((0.0, 1.0), (float("nan"), float("inf")))},
        flags=("first", "second"),
        environment={"package": "0"},
        started=1794712299.3434517,
    )
    store = Store(tmp_path / "run")
    store.record(Step("a" * 64, "clean", {"kind": "clean"}, {}, "t" * 64), result)
    store.close()
    export([tmp_path / "run"], tmp_path / "records")
    with StoreReader(tmp_path / "records") as mine, StoreReader(tmp_path / "run") as its:
        assert repr(mine.result("a" * 64)) == repr(its.result("a" * 64))  # a NaN is not equal to itself
        assert canonical(mine.step("a" * 64)) == canonical(its.step("a" * 64))


def test_tracebacks_stay_behind(tmp_path: Path) -> None:
    store = Store(tmp_path / "run")
    result = Result("failed", "it broke", "Traceback in /home/me", environment={"package": "0"})
    store.record(Step("a" * 64, "clean", {"kind": "clean"}, {}, "t" * 64), result)
    store.close()
    export([tmp_path / "run"], tmp_path / "records")
    with StoreReader(tmp_path / "records") as found:
        assert (found.result("a" * 64).reason, found.result("a" * 64).detail) == ("it broke", "")


def test_reports_of_a_run_and_of_its_export_are_the_same(exported: Path, reference: Path, tmp_path: Path) -> None:
    for name, source in (("run", reference), ("export", exported)):
        shown = ["--only", "table1,fig2,leaderboard", "--format", "csv,png"]
        assert main(["report", str(source), "--out", str(tmp_path / name), *shown]) == 0
    assert digests(tmp_path / "run") == digests(tmp_path / "export")
    assert "figures/fig2_attention_csbm-1e3_gat.png" in digests(tmp_path / "export")


@pytest.mark.slow
def test_make_tables_twice_gives_the_same_bytes_and_keeps_what_is_hand_written(records: Path) -> None:
    results = records.parent
    (results / "README.md").write_text("written by hand")
    (results / "tables").mkdir()
    stale = {"tables/stale.md", "claims.md", "comparison.csv"}  # this run says nothing about the paper
    for name in stale:
        (results / name).touch()
    done = make_tables(results)
    assert done.returncode == 0, done.stderr
    first = digests(results)
    for name in ("tables/table1.tex", "tables/table2.md", "leaderboard_node.csv", "page.html",
                 "figures/fig5_tradeoff.png"):  # fmt: skip
        assert name in first
    assert not stale & first.keys()
    assert not [name for name in first if name.endswith(".pdf")]
    assert (results / "README.md").read_text() == "written by hand"
    assert make_tables(results).returncode == 0
    assert digests(results) == first


@pytest.mark.slow
def test_changed_records_stop_make_tables_before_anything_is_written(records: Path) -> None:
    path = records / "metrics.csv.xz"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    before = digests(records.parent)
    done = make_tables(records.parent)
    assert done.returncode != 0
    assert f"error: {path} has changed since it was exported" in done.stderr
    assert digests(records.parent) == before


@pytest.mark.parametrize("damage", ["flip", "cut", "delete"])
def test_a_changed_or_missing_file_is_named(damage: str, records: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in sorted(records.iterdir()):
        whole = path.read_bytes()
        if damage == "delete":
            path.unlink()
        else:
            path.write_bytes(whole[:30] + bytes([whole[30] ^ 1]) + whole[31:] if damage == "flip" else whole[:-9])
        with pytest.raises(StoreError, match=path.name if path.exists() or path.name != "manifest.json" else "a run"):
            StoreReader(records)
        path.write_bytes(whole)
    path.write_bytes(path.read_bytes()[:-1])
    for command in ("report", "compare", "claims", "status"):
        assert main([command, str(records)]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert str(path) in error


def test_an_export_that_is_too_new_or_too_old_is_refused(records: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = json.loads((records / "manifest.json").read_text())
    del manifest["sha256"]
    for number, said in ((99, "the newer fgai-bench 9.0; upgrade"), (1, "the older fgai-bench 9.0; use that version")):
        changed = {**manifest, "format": number, "package": "9.0"}
        (records / "manifest.json").write_text(json.dumps({**changed, "sha256": sha256(changed)}))
        assert main(["report", str(records)]) == 2
        assert f"was written by {said}" in capsys.readouterr().err


def test_records_cannot_be_gone_on_with(records: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--suite", "quick", "--out", str(records), "--device", "cpu"]) == 2
    assert "is not empty and is not a run" in capsys.readouterr().err
    assert main(["audit", str(records), "--device", "cpu"]) == 2
    assert "holds exported records, which can be read but not gone on with" in capsys.readouterr().err
    assert not (records / "store.sqlite").exists()


def test_a_folder_with_other_things_is_not_replaced(
    reference: Path, records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (records / "notes.txt").write_text("mine")
    for out, name in ((records, "notes.txt"), (reference, "artifacts")):
        assert main(["records", "export", str(reference), "--out", str(out)]) == 2
        assert f"holds {name}, which is no part of an export" in capsys.readouterr().err
    assert (records / "notes.txt").read_text() == "mine"


def test_an_interrupted_export_leaves_the_earlier_one(
    reference: Path, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any, **__: Any) -> str:
        raise KeyboardInterrupt

    before = digests(records.parent)
    with monkeypatch.context() as patch:
        patch.setattr(exporting.json, "dumps", interrupt)  # the manifest is written last
        assert main(["records", "export", str(reference), "--out", str(records)]) == 130
    assert digests(records.parent) == before
    assert main(["records", "export", str(reference), "--out", str(records)]) == 0
    assert digests(records.parent) == before


def test_the_data_sheet_tells_what_the_records_hold(exported: Path, reference: Path) -> None:
    with StoreReader(reference) as store:
        steps = len(list(store.steps()))
    assert f"| tiny | {steps} | {steps} ok |" in (exported / "DATASHEET.md").read_text()


def test_hostile_names_stay_in_their_cells_of_the_data_sheet() -> None:
    text = datasheet(Merged({}, [{"suite": "a | b\n<script>", "seed": 0, "step": "0"}], []))
    assert "| a \\| b &lt;script> | 1 | 1 waiting |" in text
    assert "<script" not in text


@pytest.mark.parametrize("folder", ["scale", "tuned"])
def test_an_export_of_an_earlier_format_is_read_and_written_anew(folder: str, tmp_path: Path) -> None:
    committed = REPOSITORY / "results" / folder / "records"
    assert json.loads((committed / "manifest.json").read_text())["format"] < FORMAT
    export([committed], tmp_path / "again")
    with StoreReader(committed) as store, StoreReader(tmp_path / "again") as again:
        assert (list(again.steps()), again.members()) == (list(store.steps()), store.members())


def test_steps_that_begin_alike_are_referred_to_by_all_digits() -> None:
    alike, other = ["0" * 20 + digit * 44 for digit in "12"], "f" * 64
    assert short_names([*alike, other]) == {hash: hash for hash in (*alike, other)}
    assert short_names([alike[0], other]) == {hash: hash[:12] for hash in (alike[0], other)}
