"""Exports whose hashes are right and whose content cannot be read: refused in a sentence, in bounded memory."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import lzma
import os
import sqlite3
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fgai_bench.bounded import MIB
from fgai_bench.cli import main
from fgai_bench.records import artifacts
from fgai_bench.records import export_format as exporting
from fgai_bench.records.canonical import sha256
from fgai_bench.records.export import export
from fgai_bench.records.lock import RunLocked, holder, run_lock
from fgai_bench.records.result import Result
from fgai_bench.records.store import Store, StoreReader
from fgai_bench.run.plan import Step

Change = Callable[[Any], Any]
MEMBER = {
    "suite": "mine", "kind": "clean", "step": "a" * 64, "task": "node", "dataset": "cora", "model": "gat",
    "defense": "vanilla", "label": "vanilla", "attack": "", "attack_label": "", "explainer": "", "seed": 0, "flags": [],
}  # fmt: skip


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """An export of one step with a value of every kind, at two places."""
    store = Store(tmp_path / "run")
    config = {
        key: {"name": name} for key, name in zip(("task", "dataset", "model"), ("node", "cora", "gat"), strict=True)
    }
    result = Result(
        metrics={"f1": 0.5},
        cost={"seconds": 0.1},
        curves={"f_acc": ((0.0, 0.1), (1.0, 0.5))},
        ledger={"nodes": 5.0},
        flags=("zero gradient",),
        artifacts={"history": b"history"},
        environment={"package": "0", "commit": None, "dirty": None},
    )
    store.record(Step("a" * 64, "clean", {"kind": "clean", **config}, {}, "b" * 64), result)
    store.place([MEMBER, {**MEMBER, "seed": 1}])
    store.close()
    export([tmp_path / "run"], tmp_path / "records")
    return tmp_path / "records"


def reseal(folder: Path, files: dict[str, bytes], change: Change = lambda manifest: manifest) -> None:
    """Write files and a manifest that has their hashes."""
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["sha256"]
    for name, content in files.items():
        (folder / name).write_bytes(content)
        manifest["files"][name] |= {"sha256": sha256(content), "bytes": len(content)}
    manifest = change(manifest)
    sealed = {**manifest, "sha256": sha256(manifest)} if isinstance(manifest, dict) else manifest
    (folder / "manifest.json").write_text(json.dumps(sealed))


def rows_of(folder: Path, table: str) -> list[list[str]]:
    with lzma.open(folder / f"{table}.csv.xz", "rt", newline="") as stream:
        return list(csv.reader(stream))


def packed(rows: list[list[str]]) -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows(rows)
    return lzma.compress(out.getvalue().encode())


def with_cell(table: str, column: str, text: str) -> Callable[[Path], None]:
    """Return a forgery: one cell of the first row."""

    def forge(folder: Path) -> None:
        rows = rows_of(folder, table)
        rows[1][rows[0].index(column)] = text
        reseal(folder, {f"{table}.csv.xz": packed(rows)})

    return forge


def with_file(name: str, content: bytes) -> Callable[[Path], None]:
    return lambda folder: reseal(folder, {name: content})


def with_manifest(change: Change) -> Callable[[Path], None]:
    return lambda folder: reseal(folder, {}, change)


FORGERIES: dict[str, Callable[[Path], None]] = {
    "no xz": with_file("steps.csv.xz", b"not compressed"),
    "half an xz": with_file("metrics.csv.xz", lzma.compress(b"step,name,family,value,reason\n" * 9)[:-9]),
    "no text": with_file("steps.csv.xz", lzma.compress(b"\xff\xfe\x00")),
    "no columns": with_file("steps.csv.xz", lzma.compress(b"")),
    "too few fields": with_file("flags.csv.xz", lzma.compress(b"step,position,reason\na,0\n")),
    "an open quote": with_file("flags.csv.xz", lzma.compress(b'step,position,reason\na,0,"b\n')),
    "a step that is not there": with_file("flags.csv.xz", lzma.compress(b"step,position,reason\nb,0,c\n")),
    "no zip": with_file("artifacts.zip", b"not a zip"),
    "a number that is none": with_cell("metrics", "value", "many"),
    "a configuration that is no JSON": with_cell("steps", "config", "{"),
    "a nested configuration": with_cell("steps", "config", "[" * 100_000),
    "a curve that is none": with_cell("curves", "x", "{"),
    "an environment that is not there": with_cell("steps", "environment", "other"),
    "a place that is none": with_cell("members", "content", "[]"),
    "a position that is none": with_cell("members", "position", ""),
    "a manifest that is a list": with_manifest(lambda manifest: []),
    "a manifest without files": with_manifest(lambda manifest: {**manifest, "files": {}}),
    "a format that is a word": with_manifest(lambda manifest: {**manifest, "format": "1"}),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_export_is_refused_in_one_sentence(
    name: str, exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", str(exported)]) == 0
    capsys.readouterr()
    FORGERIES[name](exported)
    assert main(["report", str(exported), "--out", str(tmp_path / "out"), "--format", "csv"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert str(exported) in said
    assert main(["records", "export", str(exported), "--out", str(tmp_path / "again")]) == 2
    assert not (tmp_path / "again").exists()


def bomb(folder: Path, name: str) -> int:
    """Put 32 MiB of zeros into a small file, and return its size."""
    zeros = bytes(32 * MIB)
    path = folder / name
    if name == "artifacts.zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as pack:
            pack.writestr("0" * 64, zeros)
    else:
        path.write_bytes(lzma.compress(b"step,position,reason\n" + zeros))
    reseal(folder, {name: path.read_bytes()})
    return path.stat().st_size


@pytest.mark.parametrize("name", ["artifacts.zip", "flags.csv.xz"])
def test_a_bomb_is_refused_before_it_fills_the_memory(
    name: str, exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bomb(exported, name) < MIB
    monkeypatch.setattr(exporting, "LARGEST", 4 * MIB)
    monkeypatch.setattr(artifacts, "LARGEST", 4 * MIB)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="would unpack to more than"), StoreReader(exported) as store:
            assert [*store.steps(), store.artifacts.read("0" * 64)]
        assert tracemalloc.get_traced_memory()[1] < 24 * MIB
    finally:
        tracemalloc.stop()


def test_a_curve_of_many_steps_can_be_read_back(tmp_path: Path) -> None:
    points = [number / 7 for number in range(20_000)]
    store = Store(tmp_path / "run")
    result = Result(curves={"objective": (points, points)}, environment={"package": "0"})
    store.record(Step("a" * 64, "clean", {"kind": "clean"}, {}, "b" * 64), result)
    store.close()
    export([tmp_path / "run"], tmp_path / "records")
    with StoreReader(tmp_path / "records") as found:
        assert found.result("a" * 64).curves == {"objective": (points, points)}


def test_an_artifact_in_the_pack_has_the_hash_of_its_name(exported: Path) -> None:
    with zipfile.ZipFile(exported / "artifacts.zip") as pack:
        (name,) = pack.namelist()
    with zipfile.ZipFile(exported / "artifacts.zip", "w") as pack:
        pack.writestr(name, b"another history")
    reseal(exported, {"artifacts.zip": (exported / "artifacts.zip").read_bytes()})
    with StoreReader(exported) as store:
        assert [name[:12] in problem for problem in store.damaged().values()] == [True]


@pytest.mark.parametrize("datasets", ["", ",", " "])
def test_an_export_of_nothing_replaces_nothing(
    datasets: str, exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (exported / "manifest.json").read_bytes()
    line = ["records", "export", str(tmp_path / "run"), "--out", str(exported)]
    assert main([*line, "--datasets", datasets]) == 2
    assert "names nothing; write names separated by commas" in capsys.readouterr().err
    Store(tmp_path / "empty").close()
    assert main(["records", "export", str(tmp_path / "empty"), "--out", str(exported)]) == 2
    assert "there are no records to export" in capsys.readouterr().err
    assert (exported / "manifest.json").read_bytes() == before


def test_a_manifest_of_somebody_else_is_no_export_to_replace(
    exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "manifest.json").write_text('{"name": "my app"}')
    assert main(["records", "export", str(exported), "--out", str(tmp_path / "app")]) == 2
    assert "holds manifest.json, which is no part of an export" in capsys.readouterr().err
    assert (tmp_path / "app" / "manifest.json").read_text() == '{"name": "my app"}'


def test_more_rows_than_any_export_has_are_not_kept(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of five bytes takes three hundred in memory."""
    monkeypatch.setattr(exporting, "MOST_ROWS", 1)
    with pytest.raises(ValueError, match="a table has at most 1 rows"), StoreReader(exported) as store:
        store.members()


def test_a_pipe_is_not_waited_for(exported: Path) -> None:
    os.mkfifo(exported / "graphs.zip")
    with StoreReader(exported) as store:
        assert len(store.statuses()) == 1
    run = exported.parent / "run"
    os.mkfifo(run / "run.lock")
    with pytest.raises(ValueError, match=r"run\.lock cannot be read: it is no regular file"):
        holder(run)
    with pytest.raises(RunLocked, match=r"run\.lock is no regular file"), run_lock(run):
        pass


def test_an_artifact_that_is_too_large_is_not_read(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "LARGEST", 4)
    with (
        StoreReader(exported.parent / "run") as store,
        pytest.raises(ValueError, match="is not read: it has more than"),
    ):
        store.artifact("a" * 64, "history")


def test_a_store_with_a_view_is_not_read(exported: Path) -> None:
    """A view can be a query that never ends."""
    with contextlib.closing(sqlite3.connect(exported.parent / "run" / "store.sqlite")) as connection:
        connection.execute("ALTER TABLE members RENAME TO others")
        connection.execute("CREATE VIEW members AS SELECT * FROM others")
        connection.commit()
    with pytest.raises(ValueError, match="has views or tables that no store has"):
        StoreReader(exported.parent / "run")
