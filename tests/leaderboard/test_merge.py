"""What happens when runs meet in a folder of leaderboards, and when two write to it at once."""

from __future__ import annotations

import csv
import hashlib
import io
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fgai_bench.leaderboard.merge import add
from fgai_bench.records.errors import StoreError
from fgai_bench.records.export import export
from fgai_bench.records.store import StoreReader
from fgai_bench.statistics.results import ReportError
from tests.report_fixtures import attack_result


def parsed(path: Path) -> dict[tuple[str, str, str], dict[str, str]]:
    found = csv.DictReader(io.StringIO(path.read_text()))
    return {(row["dataset"], row["defense"], row["attack"]): row for row in found}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def submitted(bench: Any, name: str, seeds: range = range(3), ledger: dict[str, float] | None = None) -> Path:
    """A run of one defense."""
    made = bench()
    for seed in seeds:
        result = attack_result("ln", seed)
        result = replace(result, ledger={**result.ledger, **(ledger or {})})
        made.add("attack", result, label=name, defense="ln", attack_label="injection", seed=seed)
    return Path(made.close())


def board_of(run: Path, folder: Path) -> Path:
    """A board whose own records are those of a run."""
    export([run], folder / "records")
    return folder


def test_adding_a_run_twice_changes_nothing(small: Path, tmp_path: Path) -> None:
    add(small, tmp_path)
    before = contents(tmp_path)
    add(small, tmp_path)
    assert contents(tmp_path) == before


def test_a_row_joins_those_of_the_folder(small: Path, bench: Any, tmp_path: Path) -> None:
    (_, node, *_) = add(submitted(bench, "mine"), board_of(small, tmp_path))
    rows = parsed(node)
    assert {defense for _, defense, _ in rows} == {"vanilla", "ln", "at", "fgai", "mine", "uniform-attention"}
    mine = rows["amazon-photo", "mine", "injection"]
    assert (mine["trust"], mine["rank"], mine["flags"]) == ("reported", "", "reported: nobody has measured it again")
    assert list(rows)[-1] == ("amazon-photo", "mine", "injection")  # below all others
    fgai = rows["amazon-photo", "fgai", "injection"]
    assert (fgai["trust"], fgai["measured_again"], bool(fgai["rank"])) == ("measured here", "0", True)
    with StoreReader(tmp_path / "records") as store:
        assert {member["label"] for member in store.members()} >= {"vanilla", "mine"}


def test_a_result_that_contradicts_the_boards_is_refused_and_nothing_is_written(
    small: Path, bench: Any, tmp_path: Path
) -> None:
    made = bench()
    made.add("attack", attack_result("ln", 0, harm=0.3), label="ln", attack_label="injection", seed=0)
    add(small, tmp_path)
    before = contents(tmp_path)
    with pytest.raises(ReportError, match="different"):
        add(made.close(), tmp_path)
    assert contents(tmp_path) == before


def test_a_row_of_another_spending_is_added_and_not_ranked(small: Path, bench: Any, tmp_path: Path) -> None:
    board_of(small, tmp_path)
    (_, node, *_) = add(submitted(bench, "thrifty", ledger={"edges": 360.0}), tmp_path)
    row = parsed(node)["amazon-photo", "thrifty", "injection"]
    assert (row["n"], row["status"], row["rank"]) == ("3", "ok", "")
    assert parsed(node)["amazon-photo", "fgai", "injection"]["rank"]


def test_leaderboards_without_records_are_left_alone(small: Path, tmp_path: Path) -> None:
    (tmp_path / "leaderboard_node.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ReportError, match="has leaderboards without their records"):
        add(small, tmp_path)
    assert (tmp_path / "leaderboard_node.csv").read_text() == "a,b\n1,2\n"


def test_a_value_that_was_edited_by_hand_does_not_last(small: Path, tmp_path: Path) -> None:
    """Boards are written from records, and a record that was edited is refused."""
    (_, node, *_) = add(small, tmp_path)
    before = node.read_bytes()
    node.write_bytes(before.replace(b"0.9,", b"0.99,", 1))
    assert node.read_bytes() != before
    add(small, tmp_path)
    assert node.read_bytes() == before
    table = tmp_path / "records" / "metrics.csv.xz"
    table.write_bytes(table.read_bytes()[:-1])
    with pytest.raises(ValueError, match="has changed since it was exported"):
        add(small, tmp_path)


def test_the_checksums_are_those_of_sha256sum(small: Path, tmp_path: Path) -> None:
    written = add(small, tmp_path)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in sorted(written)]
    assert (tmp_path / "leaderboards.sha256").read_text().splitlines() == lines
    assert {path.name for path in tmp_path.iterdir()} == {
        "leaderboards.sha256",
        "records",
        *(path.name for path in written),
    }


@pytest.mark.parametrize("replaced", range(4))
def test_a_writer_that_is_killed_leaves_a_folder_that_can_be_added_to(
    small: Path, bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replaced: int
) -> None:
    other, board = submitted(bench, "mine"), tmp_path / "board"
    add(small, board)
    done, replace_file = [], os.replace

    def killed(*paths: Any) -> None:
        if len(done) == replaced:
            raise KeyboardInterrupt
        done.append(paths)
        replace_file(*paths)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            add(other, board)
    add(small, tmp_path / "reference")
    reference = [path.read_bytes() for path in add(other, tmp_path / "reference")]
    assert [path.read_bytes() for path in add(other, board)] == reference
    assert not list(board.glob("*.part"))


def test_adds_at_once_lose_no_row(bench: Any, tmp_path: Path) -> None:
    folders = [submitted(bench, f"mine-{number}", range(1)) for number in range(4)]
    board = tmp_path / "new" / "board"  # made by whichever comes first
    with ThreadPoolExecutor(len(folders)) as pool:
        list(pool.map(lambda folder: add(folder, board), folders))
    assert {defense for _, defense, _ in parsed(board / "leaderboard_node_full.csv")} >= {f"mine-{n}" for n in range(4)}


def test_what_cannot_be_read_leaves_no_folder_behind(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a run"):
        add(tmp_path / "nowhere", tmp_path / "board")
    assert list(tmp_path.iterdir()) == []
