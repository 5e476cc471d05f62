"""The command ``fgai-bench tune`` and what belongs to it: sentences for wrong requests, printed spaces, files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fgai_bench.attacks import validation
from fgai_bench.cli.app import main


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seeds", "0,1000"], "seed 0 belongs to the evaluation"),
        (["--seeds", "a"], "is not a whole number"),
        (["--trials", "0"], "--trials must lie between"),
        (["--suite", "full"], "one suite at a time"),
        (["--defenses", "fgia"], "unknown defense 'fgia'"),
        (["--jobs", "0"], "--jobs must lie between"),
    ],
)
def test_a_wrong_request_is_one_sentence(arguments, said, tmp_path, capsys):
    assert main(["tune", "--out", str(tmp_path / "run"), "--device", "cpu", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_spaces_are_listed(capsys):
    assert main(["ls", "defenses", "--spaces"]) == 0
    printed = capsys.readouterr().out
    assert "defense.closeness" in printed
    assert "declares none" in printed
    assert main(["ls", "attacks", "--spaces"]) == 2


def test_the_help_imports_neither_optuna_nor_torch():
    code = "import sys, fgai_bench.cli.app; print([name for name in ('optuna', 'torch') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_study_by_the_command_writes_its_files(tiny, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(validation, "STAGES", ((1, 3),))
    suite = tmp_path / "tiny.yaml"
    suite.write_text(yaml.safe_dump({**tiny, "defenses": ["brief"]}))
    run = tmp_path / "run"
    request = ["--suite", str(suite), "--trials", "1", "--seeds", "1000", "--executor", "inline", "--device", "cpu"]
    assert main(["tune", *request, "--out", str(run)]) == 0
    printed = capsys.readouterr().out
    written = [line for line in printed.splitlines() if line.startswith(str(run))]
    assert {Path(line).name for line in written} == {
        "tuned.yaml", "trials.csv",
    }  # fmt: skip
    assert all(Path(line).is_file() for line in written)
    assert "the suite's own" in printed
    assert "trial 0 of 1" in printed
    assert f"next: fgai-bench run --suite {run / 'tuned.yaml'}" in printed


def test_a_dry_run_shows_searches_and_what_overrides_a_setting(tiny, tmp_path, capsys):
    suite = tmp_path / "tiny.yaml"
    suite.write_text(yaml.safe_dump({**tiny, "defenses": ["vanilla"]}))
    request = ["tune", "--suite", str(suite), "--trials", "3", "--dry-run", "--out", str(tmp_path / "run")]
    assert main([*request, "--set", "training.lr=0.02", "--set", "attack.steps=2"]) == 0
    printed = capsys.readouterr().out
    assert "note: --set training.lr holds in trial 0 only" in printed
    assert "attack.steps" not in printed
    assert "6 trainings in 1 searches" in printed  # three trials, two split seeds
    assert "node" in printed
    assert not (tmp_path / "run").exists()
