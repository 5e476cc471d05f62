"""The commands of the workflow that validates a submission, run on a good export and on bad ones."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fgai_bench.cli import main
from fgai_bench.records.export import export
from fgai_bench.suites import SUITES
from tests.leaderboard.test_forgeries import foreign, forge, graph, placed, rehash, relabelled, setting, value

WORKFLOW = Path(__file__).parents[2] / ".github" / "workflows" / "submission.yml"


@pytest.fixture
def folder(reference: Path, tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run to submit, in the folder where the workflow runs."""
    monkeypatch.chdir(tmp_path)
    SUITES.add("tiny", tiny, origin="fgai_bench")
    yield Path(shutil.copytree(reference, tmp_path / "run"))
    SUITES._entries.pop("tiny")


def commands() -> list[list[str]]:
    """The lines of the step `Validate` that call the program."""
    steps = yaml.safe_load(WORKFLOW.read_text())["jobs"]["validate"]["steps"]
    script = next(step["run"] for step in steps if step.get("name") == "Validate")
    lines = [line.strip().removesuffix("&&") for line in script.splitlines() if line.strip().startswith("fgai-bench")]
    return [shlex.split(line)[1:] for line in lines]


def validated() -> int:
    """Run the commands up to the first that fails; return its exit code."""
    return next((code for line in commands() if (code := main(line))), 0)


def test_a_good_export_passes_and_nothing_is_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export([folder], "submitted", extras=("models", "graphs"))
    assert validated() == 0
    assert "submitted would be added to results" in capsys.readouterr().out
    assert not Path("results").exists()


@pytest.mark.slow
def test_the_defense_of_a_package_passes_without_its_code(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for kind in ("train", "clean", "attack"):
        forge(folder, kind, foreign)
    placed(folder, relabelled("theirs"))
    rehash(folder)
    export([folder], "submitted", extras=("models", "graphs"))
    assert validated() == 0, capsys.readouterr().out


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "a changed value": (lambda run: forge(run, "attack", value("metrics", "f1", 0.99)), "f1 is recorded as 0.99"),
    "a graph over budget": (
        lambda run: forge(run, "attack", graph(lambda p: {**p, "features": p["features"] * 9})),
        "outside [-1, 1]",
    ),
    "other settings": (lambda run: forge(run, "train", setting("training", "epochs", new=1)), "training.epochs is 1"),
    "a private suite": (
        lambda run: placed(run, lambda m: {**m, "suite": "mine"}),
        "'mine' is no suite of this package",
    ),
    "chosen seeds": (
        lambda run: placed(run, lambda m: {**m, "seed": m["seed"] * 2, "suite_seeds": "0,2"}),
        "seeds=0 2",
    ),
}


@pytest.mark.parametrize(
    "name", [name if name == "a changed value" else pytest.param(name, marks=pytest.mark.slow) for name in BAD]
)
def test_a_bad_export_fails_with_the_sentence(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change, said = BAD[name]
    change(folder)
    export([folder], "submitted", extras=("models", "graphs"))
    assert validated() in (1, 2)
    heard = capsys.readouterr()
    assert said in heard.out + heard.err


def test_a_damaged_export_fails_with_the_name_of_the_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export([folder], "submitted", extras=("models", "graphs"))
    table = Path("submitted/metrics.csv.xz")
    table.write_bytes(table.read_bytes()[:-1])
    assert validated() == 2
    assert "metrics.csv.xz has changed since it was exported" in capsys.readouterr().err


def test_the_workflow_installs_and_runs_nothing_of_the_submitter() -> None:
    text = WORKFLOW.read_text()
    assert "ref: ${{ github.event.pull_request.base.sha }}" in text
    assert "--plugin" not in text
    assert "pip install" not in text
