"""What a leaderboard asks of a run before it ranks it beside others."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fgai_bench.cli import main
from fgai_bench.leaderboard.eligibility import objections
from fgai_bench.leaderboard.merge import add
from fgai_bench.records.export import export
from fgai_bench.records.store import Store, StoreReader
from fgai_bench.run.plan import Step
from fgai_bench.statistics.results import ReportError
from fgai_bench.suites import SUITES

Change = Callable[[dict[str, Any], dict[str, Any]], None]


def leave(config: dict[str, Any], environment: dict[str, Any]) -> None:
    """Change nothing."""


@pytest.fixture
def registered(tiny: dict[str, Any]) -> Iterator[None]:
    """The tiny suite under its name, as if a package had registered it."""
    SUITES.add("tiny", tiny, origin="fgai_bench")
    yield
    SUITES._entries.pop("tiny")


@pytest.fixture
def remade(reference: Path, tmp_path: Path, registered: None) -> Callable[..., Path]:
    """Makes a copy of the reference run, recorded by a program without uncommitted changes, and changed."""

    def make(change: Change = leave, name: str = "run") -> Path:
        folder = Path(shutil.copytree(reference, tmp_path / name))
        store = Store(folder)
        for step in list(store.steps()):
            artifacts = {row["role"]: store.artifacts.read(row["sha256"]) for row in step["artifacts"]}
            result = store.result(step["hash"])
            config, where = copy.deepcopy(step["config"]), {**result.environment, "dirty": False, "commit": "abc"}
            change(config, where)
            made = Step(step["hash"], step["kind"], config, {}, step["trial"])
            store.record(made, replace(result, artifacts=artifacts, environment=where))
        store.close()
        return folder

    return make


def setting(*path: str, value: Any) -> Change:
    """Returns a change of one value of every configuration that has it."""

    def change(config: dict[str, Any], environment: dict[str, Any]) -> None:
        for key in path[:-1]:
            config = config.get(key) or {}
        if path[-1] in config:
            config[path[-1]] = value

    return change


def test_a_run_of_the_suite_itself_is_added(
    remade: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, boards = remade(), tmp_path / "boards"
    assert objections(folder) == []
    assert main(["leaderboard", "add", str(folder), "--to", str(boards), "--check"]) == 0
    assert f"would be added to {boards}" in capsys.readouterr().out
    assert not boards.exists()
    assert main(["leaderboard", "add", str(folder), "--to", str(boards)]) == 0
    with StoreReader(folder) as store:
        row = next(m["step"] for m in store.members() if m["kind"] == "attack")
    assert row[:12] in (boards / "leaderboard_node_full.csv").read_text()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (setting("training", "epochs", value=2), "training.epochs is 2 and not 3 as in"),
        (setting("defense", "options", value={"weight": 9}), "defense.options.weight is 9"),
        (setting("threads", value=2), "threads is 2 and not 1"),
        (setting("threat", "steps", value=1), "threat.steps is 1 and not 3 as in"),
        (setting("threat", "nodes", value=1), "threat.nodes is 1 and not 5 as in"),
        (
            setting("dataset", "source", "files", value=[["a", ""]]),
            'dataset.source.files is [["a",""]]',
        ),
        (setting("code", "model", value="other"), "6 of its steps were made by other code than this program's"),
        (lambda config, environment: config.pop("code"), "24 of its steps were made by other code"),
    ],
)
def test_what_is_not_as_the_suite_says_is_refused_in_a_sentence(
    change: Change, said: str, remade: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, boards = remade(change), tmp_path / "boards"
    assert main(["leaderboard", "add", str(folder), "--to", str(boards), "--check"]) == 1
    out = capsys.readouterr().out
    assert said in out
    assert "would be refused" in out
    assert main(["leaderboard", "add", str(folder), "--to", str(boards)]) == 2
    assert capsys.readouterr().err.startswith(f"error: {folder} is not added: ")
    assert not boards.exists()


def test_rows_of_other_code_are_not_put_together(remade: Callable[..., Path], tmp_path: Path) -> None:
    boards, first, second = (tmp_path / name for name in ("boards", "first", "second"))
    export([remade()], first, only={"defense": ["vanilla"]})
    export([remade(setting("code", "model", value="other"), "other")], second, only={"defense": ["at"]})
    (node, *_) = add(first, boards)
    before = node.read_bytes()
    with pytest.raises(ReportError, match="were made by other code or settings than the rest of their suite"):
        add(second, boards)
    assert node.read_bytes() == before


@pytest.mark.slow
def test_only_its_code_and_an_attack_that_is_gone_are_in_the_way_of_the_committed_study(
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = Path(__file__).parents[2] / "results"
    assert main(["leaderboard", "add", str(results / "records"), "--to", str(results), "--check"]) == 1
    code, *gone, refused = capsys.readouterr().out.splitlines()
    assert code.endswith("of its steps were made by other code than this program's, or its plugins'")
    attack, option = "does not plan it: unknown attack 'worst-twice'", "defense.options.explanation_attack is null"
    assert gone  # an attack that is gone, and an option that FGAI did not have
    assert all(attack in line or option in line for line in gone)
    assert refused == f"{results / 'records'} would be refused"
