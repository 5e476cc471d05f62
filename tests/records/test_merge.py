"""Merging pieces of a study: which result holds, and what is refused."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fgai_bench.cli import main
from fgai_bench.records.export import export
from fgai_bench.records.merge import MergeError
from fgai_bench.records.result import Result
from fgai_bench.records.store import Store, StoreReader
from fgai_bench.run.plan import Step
from fgai_bench.statistics.results import Results

STEP = Step("a" * 64, "clean", {"kind": "clean"}, {}, "t" * 64)
OTHER = replace(STEP, hash="b" * 64)
MEMBER = {
    "suite": "node", "kind": "clean", "task": "node", "dataset": "cora", "model": "gat", "defense": "vanilla",
    "label": "vanilla", "attack": "", "attack_label": "", "explainer": "", "seed": 3, "flags": [],
}  # fmt: skip
OK = Result(metrics={"f1": 0.8}, cost={"seconds": 1.0}, environment={"package": "0"}, started=2.0)
FAILED = replace(OK, status="failed", reason="it broke", metrics={}, started=9.0)


@pytest.fixture
def piece(tmp_path: Path) -> Callable[..., Path]:
    """Makes a run folder with one step at one place."""

    def make(name: str, result: Result | None, step: Step = STEP) -> Path:
        store = Store(tmp_path / name)
        if result is not None:
            store.record(step, result)
        store.place([{**MEMBER, "step": step.hash}])
        store.close()
        return tmp_path / name

    return make


def held(runs: list[Path], out: Path) -> tuple[Result, list[str]]:
    """The result that the merged records have for the place, and the reasons for dropping the others."""
    manifest = export(runs, out)
    with StoreReader(out) as store:
        (member,) = store.members()
        return store.result(member["step"]), [each["why"] for each in manifest["superseded"]]


def test_pieces_of_a_run_are_the_run(
    reference: Path, content: Callable[[Path], dict[str, Any]], tmp_path: Path
) -> None:
    pieces = [tmp_path / str(seed) for seed in (0, 1)]
    for seed, folder in enumerate(pieces):
        export([reference], folder, only={"seed": [seed]})
    manifest = export(pieces, tmp_path / "records")
    assert content(tmp_path / "records") == content(reference)
    assert (manifest["suites"], manifest["superseded"]) == ({"tiny": {"ok": 24}}, [])


def test_an_ok_result_holds_over_a_failure(piece: Callable[..., Path], tmp_path: Path) -> None:
    runs = [piece("broken", FAILED), piece("sound", OK)]
    for order in (runs, runs[::-1]):
        assert held(order, tmp_path / "out") == (OK, ["failed gave way to ok"])


def test_what_gave_way_is_told_as_long_as_the_step_is_there(piece: Callable[..., Path], tmp_path: Path) -> None:
    store = Store(tmp_path / "later")
    store.record(OTHER, OK)
    store.place([{**MEMBER, "step": OTHER.hash, "seed": 4}])
    store.close()
    merged = export([piece("broken", FAILED), piece("sound", OK), tmp_path / "later"], tmp_path / "out")
    assert [entry["step"] for entry in merged["superseded"]] == [STEP.hash]
    assert export([tmp_path / "out"], tmp_path / "again")["superseded"] == merged["superseded"]
    assert export([tmp_path / "out"], tmp_path / "fewer", only={"seed": [4]})["superseded"] == []


def test_the_latest_of_several_failures_holds(piece: Callable[..., Path], tmp_path: Path) -> None:
    late = replace(FAILED, status="oom", reason="needs 214 GiB", started=10.0)
    found, why = held([piece("late", late), piece("early", FAILED)], tmp_path / "out")
    assert (found.status, why) == ("oom", ["failed gave way to oom"])


def test_the_earliest_of_agreeing_results_holds_in_any_order(piece: Callable[..., Path], tmp_path: Path) -> None:
    again = replace(OK, metrics={"f1": 0.8 * (1 + 1e-7)}, cost={"seconds": 7.0}, started=5.0)
    runs = [piece("early", OK), piece("late", again)]
    for order in (runs, runs[::-1]):
        assert held(order, tmp_path / "out") == (OK, ["the same values"])


def test_the_same_record_in_two_folders_gives_way_to_nobody(piece: Callable[..., Path], tmp_path: Path) -> None:
    run = piece("one", OK)
    export([run], tmp_path / "copy")
    assert held([run, tmp_path / "copy"], tmp_path / "out") == (OK, [])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"metrics": {"f1": 0.81}}, "f1 is 0.8 and 0.81"),
        ({"metrics": {"f1": 0.8, "g_jsd": 0.1}}, "g_jsd is None and 0.1"),
        ({"ledger": {"nodes": 20.0}}, "ledger nodes is None and 20.0"),
        ({"flags": ("zero gradient",)}, "flags is  and zero gradient"),
    ],
)
def test_results_that_differ_are_refused(
    change: dict[str, Any], said: str, piece: Callable[..., Path], tmp_path: Path
) -> None:
    runs = [piece("one", OK), piece("two", replace(OK, **change))]
    with pytest.raises(MergeError, match=f"different results for node clean cora gat vanilla seed 3: {said}; leave"):
        export(runs, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_place_goes_to_the_step_that_has_a_result(piece: Callable[..., Path], tmp_path: Path) -> None:
    runs = [piece("gpu", None, OTHER), piece("cpu", OK)]
    assert held(runs, tmp_path / "out") == (OK, ["another step stands at node clean cora gat vanilla seed 3"])


def test_two_steps_with_results_at_one_place_are_refused(piece: Callable[..., Path], tmp_path: Path) -> None:
    runs = [piece("gpu", OK, OTHER), piece("cpu", OK)]
    with pytest.raises(MergeError, match="two different steps have results for node clean cora gat vanilla seed 3"):
        export(runs, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_checkpoints_may_have_stayed_behind_and_samples_come_from_whoever_has_them(
    piece: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = replace(OK, artifacts={"model": b"checkpoint", "attention": b"sample"})
    bare, full = piece("bare", whole), piece("full", replace(whole, started=3.0))
    for path in (bare / "artifacts").iterdir():
        path.unlink()
    assert main(["records", "export", str(bare), str(full), "--out", str(tmp_path / "out")]) == 0
    assert "1 results or places gave way to another" in capsys.readouterr().out
    assert Results.read(tmp_path / "out").artifacts == {(STEP.hash, "attention"): b"sample"}
    assert Results.read(bare).artifacts == {}
    with StoreReader(tmp_path / "out") as store:
        assert [row["role"] for row in store.step(STEP.hash)["artifacts"]] == ["attention", "model"]
        assert store.damaged() == {}


def test_exported_records_can_be_merged_again_and_keep_their_history(
    piece: Callable[..., Path], tmp_path: Path
) -> None:
    export([piece("one", OK), piece("two", FAILED)], tmp_path / "records")
    late = replace(FAILED, status="oom")
    found = held([tmp_path / "records", piece("three", late)], tmp_path / "out")
    assert found == (OK, ["failed gave way to ok", "oom gave way to ok"])


def trial(folder: Path, model: bytes, attacks: dict[str, float]) -> Path:
    """A run folder with a training and attacks on the model that it made."""
    store = Store(folder)
    train = Step("c" * 64, "train", {"kind": "train"}, {}, "c" * 64)
    store.record(train, replace(OK, metrics={"validation_score": 0.9}, artifacts={"model": model}))
    members = [{**MEMBER, "kind": "train", "step": train.hash}]
    for label, value in attacks.items():
        step = Step(label * 64, "attack", {"kind": "attack"}, {"model": train.hash}, train.hash)
        store.record(step, replace(OK, metrics={"f1": value}))
        members.append({**MEMBER, "kind": "attack", "attack_label": label, "step": step.hash})
    store.place(members)
    store.close()
    return folder


def test_different_trainings_of_one_trial_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = trial(tmp_path / "1", b"one", {"d": 0.5}), trial(tmp_path / "2", b"two", {"e": 0.3})
    assert main(["records", "export", str(first), str(second), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert f"{first} and {second} have different results for node train cora gat vanilla seed 3: model is" in said
    assert not (tmp_path / "out").exists()
    same = trial(tmp_path / "3", b"one", {"e": 0.3})
    assert export([first, same], tmp_path / "agreed")["steps"] == 3


@pytest.mark.parametrize("kept", ["another", "none"])
def test_an_orphan_is_refused(kept: str, tmp_path: Path) -> None:
    """A piece whose own training was lost has a result about a model that the other piece does not hold."""
    first = trial(tmp_path / "1", b"one", {"d": 0.5} if kept == "another" else {})
    orphan = trial(tmp_path / "2", b"two", {"e": 0.3})
    store = Store(orphan)
    (attack,) = [step for step in store.steps() if step["kind"] == "attack"]
    about = {"trained_model": hashlib.sha256(b"two").hexdigest()}
    step = Step(attack["hash"], "attack", attack["config"], {}, attack["trial"])
    store.record(step, replace(store.result(attack["hash"]), facts=about))
    store.forget(["c" * 64])
    store.close()
    if kept == "none":
        store = Store(first)
        store.forget(["c" * 64])
        store.close()
    words = "another model than the one that" if kept == "another" else "a model that none of the runs has"
    with pytest.raises(MergeError, match=rf"2 measured node attack cora gat vanilla e seed 3 on {words}"):
        export([first, orphan], tmp_path / "out")
    assert export([orphan], tmp_path / "alone")["steps"] == 1


@pytest.mark.parametrize(
    ("option", "chosen", "lacking", "said"),
    [
        ("--suites", "elsewhere", "truth", "the suite 'truth'; there are some of elsewhere, node"),
        ("--datasets", "citeseer", "pubmed", "the dataset 'pubmed'; there are some of citeseer, cora"),
        ("--models", "gt", "gatv2", "the model 'gatv2'; there are some of gat, gt"),
        ("--seeds", "7,", "0,", "the seed 0; there are some of 3, 7"),
    ],
)
def test_an_export_of_a_part_has_nothing_else(
    option: str, chosen: str, lacking: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [str(trial(tmp_path / "1", b"one", {"d": 0.5})), str(run_elsewhere(tmp_path / "2"))]
    assert main(["records", "export", *runs, "--out", str(tmp_path / "out"), option, chosen]) == 0
    with StoreReader(tmp_path / "out") as store:
        assert [member["dataset"] for member in store.members()] == ["citeseer"]
        assert [step["hash"] for step in store.steps()] == ["f" * 64]
    assert main(["records", "export", *runs, "--out", str(tmp_path / "no"), option, lacking]) == 2
    assert f"there are no records of {said}" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "no").exists()


def run_elsewhere(folder: Path) -> Path:
    store = Store(folder)
    step = Step("f" * 64, "train", {"kind": "train"}, {}, "f" * 64)
    store.record(step, OK)
    place = {"kind": "train", "suite": "elsewhere", "dataset": "citeseer", "model": "gt", "seed": 7}
    store.place([{**MEMBER, **place, "step": step.hash}])
    store.close()
    return folder
