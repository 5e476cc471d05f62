"""Runs: taken up again, side by side, interrupted; the records are the same."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

import fgai_bench as fb
from fgai_bench.cli import main
from fgai_bench.records.lock import RunLocked, holder, run_lock
from fgai_bench.run.preflight import RequestError
from fgai_bench.run.resume import Run, run

Content = Callable[[Path], dict[str, Any]]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "fgai_bench.cli", *arguments]


def test_two_jobs_give_the_records_of_one(
    tiny: dict[str, Any], reference: Path, tmp_path: Path, content: Content
) -> None:
    done = fb.run(tiny, tmp_path / "run", jobs=2, device="cpu")
    assert done.executed == len(content(reference)["steps"])
    assert content(tmp_path / "run") == content(reference)


def test_the_same_request_again_executes_nothing_and_needs_no_torch(tiny: dict[str, Any], reference: Path) -> None:
    script = (
        "import sys, json; from fgai_bench.run.resume import run;"
        "done = run(json.loads(sys.argv[1]), sys.argv[2], device='cpu'); print(done.executed, 'torch' in sys.modules)"
    )
    import json

    line = [sys.executable, "-c", script, json.dumps(tiny), str(reference)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=600)
    assert done.stdout == "0 False\n", done.stderr


def test_a_run_goes_on_where_it_was_left(
    tiny: dict[str, Any], reference: Path, tmp_path: Path, content: Content
) -> None:
    first = run(tiny, tmp_path / "run", executor="inline", device="cpu", defenses=["vanilla"], seeds=1)
    rest = run(tiny, tmp_path / "run", executor="inline", device="cpu")
    assert first.executed == 4
    assert first.executed + rest.executed == len(content(reference)["steps"])
    assert content(tmp_path / "run")["steps"] == content(reference)["steps"]


def test_more_seeds_run_the_missing_ones_only(
    tiny: dict[str, Any], reference: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of three defenses and two attacks a seed is twelve steps; the two seeds that are there keep their records."""
    folder = Path(shutil.copytree(reference, tmp_path / "run"))
    suite = tmp_path / "tiny.yaml"
    suite.write_text(yaml.safe_dump(tiny))
    before = Run(folder).records()
    line = ["run", "--suite", str(suite), "--seeds", "3", "--out", str(folder), "--device", "cpu"]
    assert main([*line, "--executor", "inline"]) == 0
    said = capsys.readouterr().out
    assert "12 steps executed" in said
    assert said.splitlines()[-1] == f"next: fgai-bench report {folder}"
    after = Run(folder).records()
    assert sorted(set(after["seed"])) == [0, 1, 2]
    kept = after[after["seed"] < 2]
    assert set(kept["step"]) == set(before["step"])
    assert set(kept["started"]) == set(before["started"])  # not run again


def test_a_changed_configuration_is_another_suite_beside_the_old_one(
    tiny: dict[str, Any], reference: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(reference, tmp_path / "run"))
    before = Run(folder).records()
    changed = run(
        tiny, folder, executor="inline", device="cpu", assignments=["attack.nodes=2"], defenses=["at"], seeds=1
    )
    after = changed.records()
    assert changed.executed == 2
    new = after[after["suite"] == "tiny, changed: threat.nodes=2"]
    assert after[after["suite"] == "tiny"].equals(before)
    assert set(new["label"]) == {"at"}
    assert set(new.query("kind == 'attack'")["ledger_nodes"]) == {2.0}


def test_a_folder_in_use_says_who_uses_it(tiny: dict[str, Any], reference: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(reference, tmp_path / "run"))
    with run_lock(folder):
        with pytest.raises(RunLocked, match=rf"is being written by process {os.getpid()} on \S+ since"):
            run(tiny, folder, device="cpu")
        said = holder(folder)
        assert said is not None
        assert f"process {os.getpid()} " in said
    assert holder(folder) is None
    assert run(tiny, folder, device="cpu").executed == 0


def test_a_lock_that_is_asked_for_while_somebody_looks_for_its_holder_is_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run.lock").touch()
    with (tmp_path / "run.lock").open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        monkeypatch.setattr(time, "sleep", lambda seconds: looking.close())
        with run_lock(tmp_path):
            assert looking.closed


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from fgai_bench.records.lock import run_lock\n"
        "with run_lock(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert holder(tmp_path) is not None
        process.kill()
    with run_lock(tmp_path):
        assert f"process {os.getpid()} " in (holder(tmp_path) or "")


def test_ctrl_c_exits_130_and_loses_nothing(
    tiny: dict[str, Any], reference: Path, tmp_path: Path, content: Content
) -> None:
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(tiny))
    folder = tmp_path / "run"
    line = command(
        "run", "--suite", str(tmp_path / "tiny.yaml"), "--out", str(folder), "--jobs", "1", "--device", "cpu"
    )
    # What is started in the background of a script ignores Ctrl-C, and so would its children.
    heed = partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed)
    assert process.stdout is not None
    while not process.stdout.readline().startswith("[3/"):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert holder(folder) is None
    recorded = content(folder)["steps"]
    steps = len(content(reference)["steps"])
    assert 3 <= len(recorded) < steps
    assert f"{len(recorded)} of {steps} steps recorded; the same command goes on" in errors
    rest = run(tiny, folder, executor="inline", device="cpu")
    assert rest.executed == steps - len(recorded)
    assert content(folder) == content(reference)


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        ({"jobs": 0}, "--jobs must lie between 1 and 1024, not 0"),
        ({"executor": "slurm"}, "unknown executor 'slurm'; possible are local, inline, ray"),
        ({"address": "auto"}, "--address is the address of a Ray cluster; add --executor ray"),
        ({"device": "tpu"}, "unknown device 'tpu'; possible are auto, cpu and cuda"),
        ({"data_root": "/no/such/folder"}, "the data root /no/such/folder is not a folder"),
    ],
)
def test_a_request_that_cannot_be_met_is_refused_before_anything_is_written(
    request_: dict[str, Any], sentence: str, tiny: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(RequestError) as caught:
        run(tiny, tmp_path / "run", **request_)
    assert str(caught.value).startswith(sentence)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_a_run_is_left_alone(tiny: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(RequestError, match="is not empty and is not a run"):
        run(tiny, tmp_path, device="cpu")
    with pytest.raises(RequestError, match=r"thesis\.tex is a file, so the run cannot be written"):
        run(tiny, tmp_path / "thesis.tex" / "run", device="cpu")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("left", ["artifacts/thesis.pt", "artifacts/" + "0" * 64 + ".safetensors", "notes"])
def test_a_folder_with_somebodys_files_is_refused_and_they_stay(
    left: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "e" / left
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine")
    for store in (False, True):
        if store:
            (tmp_path / "e" / "store.sqlite").touch()  # of that name, but empty
        assert main(["run", "--out", str(tmp_path / "e"), "--device", "cpu"]) == 2
        assert capsys.readouterr().err.endswith("is not empty and is not a run; choose another folder with --out\n")
    assert path.read_text() == "mine"


def test_a_link_in_the_place_of_a_lock_is_refused_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "run.lock").symlink_to(tmp_path / "thesis.tex")
    assert main(["run", "--out", str(tmp_path / "e"), "--device", "cpu"]) == 2
    assert (tmp_path / "thesis.tex").read_text() == "mine"


def test_what_a_run_killed_at_its_start_leaves_is_taken_up(tiny: dict[str, Any], tmp_path: Path) -> None:
    with run_lock(tmp_path):
        lock = (tmp_path / "run.lock").read_text()
    (tmp_path / "run.lock").write_text(lock)
    (tmp_path / "store.sqlite").touch()
    suite = {**tiny, "defenses": ["vanilla"], "seeds": 1, "attacks": []}
    assert run(suite, tmp_path, executor="inline", device="cpu").executed == 2


def test_a_plugin_that_leaves_is_a_wrong_request_and_not_a_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from fgai_bench.defenses import DEFENSES

    monkeypatch.setattr(DEFENSES, "_entries", dict(DEFENSES._entries))
    plugin = tmp_path / "plugin_that_leaves.py"
    plugin.write_text(
        "import sys\nfrom fgai_bench.defenses import DEFENSES\nfrom fgai_bench.defenses.vanilla import Vanilla\n"
        "@DEFENSES.register('leaves-at-once', tags=('node',))\nclass Leaves(Vanilla):\n"
        "    def __init__(self, **options):\n        sys.exit(0)\n"
    )
    line = ["run", "--plugin", str(plugin), "--datasets", "csbm-1e3", "--models", "gat", "--device", "cpu"]
    assert main([*line, "--defenses", "leaves-at-once", "--out", str(tmp_path / "run")]) == 2
    assert "defense 'leaves-at-once' cannot be made with the options {}" in capsys.readouterr().err
    plugin.with_name("leaves_when_imported.py").write_text("import sys\nsys.exit(0)\n")
    assert main(["ls", "--plugin", str(plugin.with_name("leaves_when_imported.py"))]) == 2


def test_status_counts_and_finds_damage(reference: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", str(reference)]) == 0
    assert "nobody is writing to it" in capsys.readouterr().out
    folder = Path(shutil.copytree(reference, tmp_path / "run"))
    victim = next((folder / "artifacts").iterdir())
    victim.write_bytes(b"")
    assert main(["status", str(folder)]) == 1
    assert f"damaged: the artifact {victim} is damaged" in capsys.readouterr().out
    assert main(["status", str(tmp_path)]) == 2


def test_a_dry_run_writes_nothing_and_counts_what_was_run(
    tiny: dict[str, Any], reference: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(tiny))
    line = ["run", "--dry-run", "--device", "cpu", "--suite", str(tmp_path / "tiny.yaml")]
    assert main([*line, "--out", str(tmp_path / "new")]) == 0
    assert "24 steps (6 train, 6 clean, 12 attack); 0 done, 24 to run" in capsys.readouterr().out
    assert not (tmp_path / "new").exists()
    assert main([*line, "--out", str(reference), "--seeds", "3"]) == 0
    out = capsys.readouterr().out
    assert "36 steps (9 train, 9 clean, 18 attack); 24 done, 12 to run" in out
    assert out.splitlines()[0] == "3 seeds: 0-2"
    assert main([*line, "--seed", "100"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "1 seed: 100"
    assert main([*line, "--seed", "1", "--seeds", "2"]) == 2
    assert "--seed is one seed and --seeds says how many" in capsys.readouterr().err


def test_a_dataset_that_cannot_be_had_stops_no_other(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One with a checksum, which is known before, and one without, whose content the plan would read."""
    monkeypatch.setenv("FGAI_BENCH_OFFLINE", "1")
    small = {**tiny, "defenses": ["vanilla"], "attacks": [], "seeds": 1}
    suite = tmp_path / "small.yaml"
    suite.write_text(yaml.safe_dump(small))
    (tmp_path / "empty").mkdir()
    line = ["run", "--suite", str(suite), "--executor", "inline", "--device", "cpu", "--out", str(tmp_path / "run")]
    line += ["--data-root", str(tmp_path / "empty")]
    assert main([*line, "--datasets", "questions,csbm-1e3,minesweeper"]) == 1
    said = " ".join(capsys.readouterr())
    for name in ("questions", "minesweeper"):
        assert f"left out: {name}, because {name} needs heterophilous/{name}/raw/{name}.npz under " in said
    done = Run(tmp_path / "run")
    assert done.counts() == {"ok": 2}
    assert set(done.records()["dataset"]) == {"csbm-1e3"}
    assert main([*line, "--datasets", "questions"]) == 2
