"""The store: what is written is what is read, and damage is noticed wherever it strikes."""

from __future__ import annotations

import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fgai_bench.records.artifacts import Artifacts, DamagedArtifact
from fgai_bench.records.errors import StoreError
from fgai_bench.records.result import RecordedStep, Result
from fgai_bench.records.store import FILE, VERSION, Store, StoreReader
from fgai_bench.run.plan import Step
from fgai_bench.run.resume import run
from tests.campaign import campaign

STEP = Step("a" * 64, "attack", {"kind": "attack", "threat": {"nodes": 5}}, {}, "b" * 64)
RESULT = Result(
    metrics={"f1": 1 / 3, "g_jsd": 1e-300, "slope": float("nan"), "bound": float("-inf")},
    cost={"attack_seconds": 0.25},
    not_applicable={"node_jsd": "the model has no attention"},
    curves={"objective": ((0.0, 1.0), (0.1, 0.2))},
    ledger={"nodes": 5.0},
    flags=("zero gradient",),
    facts={"checksum": "c"},
    artifacts={"attacked": b"bytes"},
    environment={"package": "0"},
    started=1.5,
    seconds=2.5,
)
Content = Callable[[Path], dict[str, Any]]


@pytest.fixture
def copy(reference: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(reference, tmp_path / "run"))


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.record(STEP, RESULT)
    found = StoreReader(tmp_path).result(STEP.hash)
    assert str(found.metrics.pop("slope")) == "nan"  # type: ignore[attr-defined]
    assert found.metrics == {"f1": 1 / 3, "g_jsd": 1e-300, "bound": float("-inf")}
    assert (found.cost, found.not_applicable) == (RESULT.cost, RESULT.not_applicable)
    assert (found.ledger, found.flags, found.facts) == (RESULT.ledger, RESULT.flags, RESULT.facts)
    assert found.curves == {"objective": ([0.0, 1.0], [0.1, 0.2])}
    assert store.artifact(STEP.hash, "attacked") == b"bytes"


def test_recording_twice_keeps_the_second(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.record(STEP, RESULT)
    store.record(STEP, Result("failed", "no", environment={"package": "0"}))
    assert store.statuses() == {STEP.hash: "failed"}
    assert store.step(STEP.hash)["metrics"] == []


def test_a_transaction_that_fails_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def fail() -> None:
        with store.transaction() as execute:
            execute("INSERT INTO steps VALUES ('a', 'ok', '{}', 'b')")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert store.statuses() == {}


def test_an_artifact_has_the_name_of_its_content_and_is_checked_against_it(tmp_path: Path) -> None:
    artifacts = Artifacts(tmp_path)
    name = artifacts.write(b"content")
    assert name == "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73"
    artifacts.path(name).write_bytes(b"c0ntent")
    with pytest.raises(DamagedArtifact, match="is damaged"):
        artifacts.read(name)
    artifacts.path(name).unlink()
    with pytest.raises(DamagedArtifact, match="is missing"):
        artifacts.read(name)


def test_files_that_no_record_names_are_removed_and_nothing_else(tmp_path: Path) -> None:
    artifacts = Artifacts(tmp_path)
    kept, orphan = artifacts.write(b"kept"), artifacts.write(b"orphan")
    half = tmp_path / f".{orphan}.abc_1.part"
    half.touch()
    (tmp_path / "a folder").mkdir()
    foreign = [tmp_path / name for name in ("thesis.pt", ".notes.part", "mine.safetensors", ".hidden")]
    for path in foreign:
        path.touch()
    assert set(artifacts.remove_all_but([kept])) == {artifacts.path(orphan), half}
    assert set(tmp_path.iterdir()) == {artifacts.path(kept), tmp_path / "a folder", *foreign}


def test_nothing_is_removed_behind_a_link(tmp_path: Path) -> None:
    artifacts = Artifacts(tmp_path / "elsewhere")
    name = artifacts.write(b"somebody's")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    linked = Artifacts(tmp_path / "link")
    assert linked.read(name) == b"somebody's"
    assert linked.remove_all_but([]) == []
    assert artifacts.read(name) == b"somebody's"


@pytest.mark.parametrize(("version", "said"), [(VERSION + 1, "a newer .* upgrade"), (1, "an older fgai-bench")])
def test_a_store_of_another_version_is_refused_in_one_sentence(version: int, said: str, copy: Path) -> None:
    with sqlite3.connect(copy / FILE) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    for opened in (StoreReader, Store):
        with pytest.raises(StoreError, match=f"is a store of version {version}, made by {said}"):
            opened(copy)


@pytest.mark.parametrize(
    "written", [b"", b"SQLite format 3\0", b"not a database at all, but long enough for a header" * 9]
)
def test_a_file_that_is_no_store_is_refused_by_the_reader(written: bytes, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(written)
    with pytest.raises(StoreError), StoreReader(tmp_path) as store:
        store.records()


def test_a_store_that_cannot_be_opened_is_closed_again(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"not a database at all, but long enough for a header" * 9)
    with pytest.raises(StoreError) as caught:
        Store(tmp_path)
    opened = [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
    assert caught.value.__traceback__ is not None
    assert str((tmp_path / FILE).resolve()) not in opened


def test_somebody_elses_database_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    with pytest.raises(StoreError, match="is not a store of fgai-bench"):
        Store(tmp_path)


def test_a_folder_without_a_store_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"is not a run: it has no store\.sqlite"):
        StoreReader(tmp_path)


def read_everything(folder: Path, content: Content) -> dict[str, Any] | None:
    """The content of a store and its artifacts as a reader sees them; None when anything is refused."""
    try:
        found = content(folder)
        with StoreReader(folder) as store:
            return None if store.damaged() else found
    except StoreError:
        return None


def test_no_flipped_bit_of_the_store_goes_unnoticed(copy: Path, content: Content) -> None:
    """Every flip is refused, or strikes a byte that holds nothing."""
    path, before = copy / FILE, content(copy)
    whole = path.read_bytes()
    rng, refused = random.Random(0), 0
    flips = campaign(150, 300)
    for _ in range(flips):
        place = rng.randrange(len(whole))
        flipped = bytearray(whole)
        flipped[place] ^= 1 << rng.randrange(8)
        path.write_bytes(flipped)
        found = read_everything(copy, content)
        assert found is None or found == before, f"the flip at byte {place} changed what is read"
        refused += found is None
    assert refused > flips / 3


def test_no_truncated_store_goes_unnoticed(copy: Path, content: Content) -> None:
    path = copy / FILE
    whole = path.read_bytes()
    for share in (0.0, 0.001, 0.3, 0.5, 0.9, 0.999):
        path.write_bytes(whole[: int(share * len(whole))])
        assert read_everything(copy, content) is None


def test_a_changed_number_is_named_and_the_next_run_redoes_its_step(
    copy: Path, tiny: dict[str, Any], content: Content, reference: Path
) -> None:
    with sqlite3.connect(copy / FILE) as connection:
        (step,) = connection.execute("SELECT min(hash) FROM steps").fetchone()
        connection.execute("UPDATE steps SET content = replace(content, '0.', '0.9') WHERE hash = ?", (step,))
    connection.close()
    with pytest.raises(StoreError, match=f"the records of step {step[:12]} have changed"), StoreReader(copy) as store:
        store.records()
    assert run(tiny, copy, executor="inline", device="cpu").executed == 1
    assert content(copy) == content(reference)


@pytest.mark.parametrize("damage", ["flip", "truncate"])
def test_a_damaged_artifact_is_named_and_the_next_run_redoes_its_step(
    damage: str, copy: Path, tiny: dict[str, Any], content: Content, reference: Path
) -> None:
    path = sorted((copy / "artifacts").iterdir())[0]
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] if damage == "truncate" else bytes([whole[0] ^ 1]) + whole[1:])
    with StoreReader(copy) as store:
        assert [path.name in sentence for sentence in store.damaged().values()] == [True]
    assert run(tiny, copy, executor="inline", device="cpu").executed == 1
    assert content(copy) == content(reference)
    assert path.read_bytes() == whole


def test_records_stand_without_their_artifacts_and_what_a_new_step_needs_is_made_again(
    copy: Path, tiny: dict[str, Any], content: Content, reference: Path
) -> None:
    """Only the store was kept. The same suite runs nothing; a certificate needs models, and gets the same ones."""
    shutil.rmtree(copy / "artifacts")
    with StoreReader(copy) as store:
        assert store.damaged() == {}
    assert run(tiny, copy, executor="inline", device="cpu").executed == 0
    assert content(copy) == content(reference)
    more = {**tiny, "certificates": ["reach"]}
    run(more, copy, executor="inline", device="cpu")
    again, before = content(copy)["steps"], content(reference)["steps"]
    assert len(again) > len(before)
    assert all(again[hash] == step for hash, step in before.items())
    made, whole = ({path.name for path in (folder / "artifacts").iterdir()} for folder in (copy, reference))
    assert set() < made < whole  # models, and no attacked graph


def test_where_a_model_comes_out_otherwise_what_was_measured_on_the_lost_one_is_measured_again(
    copy: Path, tiny: dict[str, Any], reference: Path
) -> None:
    """A store from another kind of machine: its model has other bits, and its scores are those of that model."""
    shutil.rmtree(copy / "artifacts")
    with Store(copy) as store:
        elsewhere = [{"role": "model", "sha256": "0" * 64, "bytes": 1}]
        for step in [step for step in store.steps() if step["kind"] in ("train", "clean")]:
            recorded = RecordedStep(step["hash"], step["kind"], step["config"], {}, step["trial"])
            result = store.result(step["hash"])
            rows = elsewhere if step["kind"] == "train" else ()
            store.record(recorded, replace(result, metrics={**result.metrics, "f1": 0.123}), rows)
    run({**tiny, "certificates": ["reach"]}, copy, executor="inline", device="cpu")
    with StoreReader(copy) as found, StoreReader(reference) as before:
        clean = [step["hash"] for step in before.steps() if step["kind"] == "clean"]
        assert all(found.result(hash).metrics == before.result(hash).metrics for hash in clean)
        attacks = [step["hash"] for step in before.steps() if step["kind"] == "attack"]
        assert all(found.step(hash)["started"] > before.step(hash)["started"] for hash in attacks)


def test_a_store_that_a_full_disk_left_half_made_is_made_again(tmp_path: Path) -> None:
    """The limit on the size of files stands for the end of the disk: the header fits, the tables do not."""
    script = (
        "import resource, signal, sys; from fgai_bench.records.store import Store, StoreError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, resource.RLIM_INFINITY))\n"
        "try: Store(sys.argv[1])\n"
        "except StoreError as error: print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert f"{tmp_path / FILE} " in said.stdout, said.stderr
    with pytest.raises(StoreError, match="holds no records: its run ended before it wrote one"):
        StoreReader(tmp_path)
    store = Store(tmp_path)
    store.record(STEP, RESULT)
    assert StoreReader(tmp_path).statuses() == {STEP.hash: "ok"}


def test_words_that_no_file_can_hold_are_recorded_readably(tmp_path: Path) -> None:
    store = Store(tmp_path)
    reason = "no file /data/caf\udce9"
    result = Result("failed", reason, reason, not_applicable={"f1": reason}, flags=(reason,), environment={"a": reason})
    store.record(STEP, result)
    found = StoreReader(tmp_path).result(STEP.hash)
    readable = "no file /data/caf\\udce9"
    assert (found.reason, found.detail, found.flags) == (readable, readable, (readable,))
    assert found.not_applicable == {"f1": readable}


def test_an_endless_reason_keeps_its_head_and_its_tail(tmp_path: Path) -> None:
    store = Store(tmp_path)
    endless = "first words" + "x" * 30_000_000 + "last words"
    flags = tuple(f"flag {number}" for number in range(1000))
    store.record(STEP, Result("failed", endless, endless, not_applicable={"f1": endless}, flags=flags, environment={}))
    found = StoreReader(tmp_path).result(STEP.hash)
    for text in (found.reason, found.detail, found.not_applicable["f1"]):
        assert text.startswith("first words")
        assert text.endswith("last words")
        assert re.search(r"\[\.\.\. \d+ characters cut \.\.\.\]", text)
    assert len(found.flags) == 101
    assert found.flags[-1] == "900 more flags were cut"
    assert (tmp_path / FILE).stat().st_size < 200_000


def test_a_changed_label_is_named_and_the_next_run_writes_it_anew(
    copy: Path, tiny: dict[str, Any], content: Content, reference: Path
) -> None:
    with sqlite3.connect(copy / FILE) as connection:
        connection.execute("UPDATE members SET content = replace(content, 'fgai', 'gnnguard') WHERE position > 5")
    connection.close()
    with pytest.raises(StoreError, match="a label of its plan has changed"), StoreReader(copy) as store:
        store.members()
    assert run(tiny, copy, executor="inline", device="cpu").executed == 0
    with StoreReader(copy) as mine, StoreReader(reference) as its:
        assert sorted(map(str, mine.members())) == sorted(map(str, its.members()))
