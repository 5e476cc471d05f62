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

from fgai_bench.leaderboard.csv import locked, read
from fgai_bench.leaderboard.merge import add, merged
from fgai_bench.leaderboard.rows import BOARDS, entries
from fgai_bench.records.result import Result
from fgai_bench.statistics.results import ReportError, Results
from tests.report_fixtures import attack_result

NODE = BOARDS[0]


def parsed(path: Path) -> dict[tuple[str, str, str], dict[str, str]]:
    found = csv.DictReader(io.StringIO(path.read_text()))
    return {(row["dataset"], row["defense"], row["attack"]): row for row in found}


def test_adding_a_run_twice_changes_nothing(small: Path, tmp_path: Path) -> None:
    before = [path.read_bytes() for path in add(small, tmp_path)]
    assert [path.read_bytes() for path in add(small, tmp_path)] == before


def test_the_stronger_attack_holds_seed_by_seed(small: Path, bench: Any, tmp_path: Path) -> None:
    made = bench()
    for seed, harm in ((0, 0.3), (1, -0.05), (3, 0.0)):
        made.add("attack", attack_result("ln", seed, harm=harm), label="ln", attack_label="injection", seed=seed)
    add(small, tmp_path)
    (node, *_) = add(made.close(), tmp_path)
    row = parsed(node)["amazon-photo", "ln", "injection"]
    # Seed 0: 0.59 replaces 0.89; seed 1: 0.90 stays, the other attack left 0.95; seed 2 stays; seed 3 comes in.
    assert float(row["f1_mean"]) == pytest.approx((0.59 + 0.90 + 0.91 + 0.905) / 4)
    assert row["n"] == "4"
    assert len(row["run"].split()) == 2
    assert parsed(node)["amazon-photo", "at", "injection"]["n"] == "3"


def test_unequal_budgets_are_refused_and_nothing_is_written(
    small: Path, broken: Path, bench: Any, tmp_path: Path
) -> None:
    made = bench()
    made.add("attack", attack_result("ln", 0), label="mine", attack_label="injection", threat={"nodes": 80})
    add(small, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ReportError, match="amazon-photo gat mine under injection was attacked with another budget"):
        add(made.close(), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    with pytest.raises(ReportError, match="another budget"):  # a run at odds with itself
        add(broken, tmp_path / "empty")
    assert not (tmp_path / "empty").exists()


def test_an_attack_that_left_some_of_its_budget_is_added_and_not_ranked(
    small: Path, bench: Any, tmp_path: Path
) -> None:
    spent = attack_result("vanilla", 0).ledger

    def submitted(name: str, flags: tuple[str, ...] = (), **other: float) -> Path:
        made = bench()
        for seed in range(3):
            result = replace(attack_result("ln", seed, ledger={**spent, **other}), flags=flags)
            made.add("attack", result, label=name, defense="ln", attack_label="injection", seed=seed)
        return Path(made.close())

    add(small, tmp_path)
    (node, *_) = add(submitted("thrifty", edges=0.9 * spent["edges"]), tmp_path)
    row = parsed(node)["amazon-photo", "thrifty", "injection"]
    assert (row["n"], row["status"], row["rank"]) == ("3", "ok", "")
    assert parsed(node)["amazon-photo", "fgai", "injection"]["rank"]
    # A search ends early where it has no gradient to follow. Its row says so; no other may be shorter, and none longer.
    stopped = ("non-finite gradient",)
    (node, *_) = add(submitted("stopped", stopped, gradient_calls=0.8 * spent["gradient_calls"]), tmp_path)
    assert parsed(node)["amazon-photo", "stopped", "injection"]["flags"] == "non-finite gradient"
    for name, flags, share in (("eager", (), 9), ("eager", stopped, 9), ("lazy", (), 0.8)):
        with pytest.raises(ReportError, match=f"{name} under injection was attacked with another budget"):
            add(submitted(name, flags, gradient_calls=share * spent["gradient_calls"]), tmp_path)


def test_what_has_no_value_keeps_nobody_out(bench: Any) -> None:
    """A row of gaps says nothing about the code of those beside it."""
    made = bench()
    made.add("attack", Result("oom", "needs 1,602 GiB"), label="large", attack_label="injection")
    gap = entries(NODE, Results.read(made.close()))
    made = bench()
    made.add("attack", attack_result("ln", 0), label="ln", attack_label="injection")
    known = [replace(row, identity={"code": {}, "data": [], "settings": {}, "rows": {}})
             for row in entries(NODE, Results.read(made.close())) if row.seeds]  # fmt: skip
    names = {row.key[4] for row in merged(gap, known, NODE)}
    assert {"large", "ln"} <= names


def test_a_file_that_is_no_leaderboard_is_left_alone(small: Path, tmp_path: Path) -> None:
    (tmp_path / "leaderboard_node.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ReportError, match="is not a leaderboard"):
        add(small, tmp_path)
    assert (tmp_path / "leaderboard_node.csv").read_text() == "a,b\n1,2\n"


def test_an_edited_value_is_not_merged_with(small: Path, tmp_path: Path) -> None:
    (node, *_) = add(small, tmp_path)
    before = node.read_bytes()
    node.write_bytes(before.replace(b"0.9,", b"0.99,", 1))
    assert node.read_bytes() != before
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ReportError, match=r"leaderboard_node.csv is not what was last written: its checksum is not in"):
        add(small, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files
    node.write_bytes(before)
    add(small, tmp_path)


def test_the_checksums_are_those_of_sha256sum(small: Path, tmp_path: Path) -> None:
    written = add(small, tmp_path)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in sorted(written)]
    assert (tmp_path / "leaderboards.sha256").read_text().splitlines() == lines
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["leaderboards.sha256", *(path.name for path in written)]
    )


def test_a_folder_of_an_earlier_version_gets_its_checksums(small: Path, tmp_path: Path) -> None:
    before = [path.read_bytes() for path in add(small, tmp_path)]
    (tmp_path / "leaderboards.sha256").unlink()
    assert [path.read_bytes() for path in add(small, tmp_path)] == before
    assert (tmp_path / "leaderboards.sha256").is_file()


@pytest.mark.parametrize("replaced", range(5))
def test_a_writer_killed_at_any_moment_leaves_a_folder_that_can_be_added_to(
    small: Path, bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replaced: int
) -> None:
    made = bench()
    made.add("attack", attack_result("ln", 0), label="mine", defense="ln", attack_label="injection")
    other, board = made.close(), tmp_path / "board"
    add(small, board)
    done, replace = [], os.replace

    def killed(*paths: Any) -> None:
        if len(done) == replaced:
            raise KeyboardInterrupt
        done.append(paths)
        replace(*paths)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            add(other, board)
    add(small, tmp_path / "reference")
    reference = [path.read_bytes() for path in add(other, tmp_path / "reference")]
    assert [path.read_bytes() for path in add(other, board)] == reference
    assert not list(board.glob("*.part"))


def test_two_adds_at_once_lose_no_row(bench: Any, tmp_path: Path) -> None:
    folders = []
    for number in range(6):
        made = bench()
        where = {"label": f"mine-{number}", "defense": "ln", "attack_label": "injection"}
        made.add("attack", attack_result("ln", 0), **where)
        folders.append(made.close())
    board = tmp_path / "new" / "board"  # made by whichever comes first
    with ThreadPoolExecutor(len(folders)) as pool:
        list(pool.map(lambda folder: add(folder, board), folders))
    defenses = {row.key[4] for row in read((board / "leaderboard_node.csv").read_text())}
    assert defenses == {f"mine-{number}" for number in range(6)}


def test_files_that_somebody_is_replacing_are_not_read(bench: Any, tmp_path: Path) -> None:
    made = bench()
    made.add("attack", attack_result("ln", 0), label="ln", defense="ln", attack_label="injection")
    folder, board = made.close(), tmp_path / "board"
    add(folder, board)
    file = board / "leaderboard_node.csv"
    whole = file.read_bytes()
    with ThreadPoolExecutor(1) as pool:
        with locked(board):
            file.write_bytes(whole[:100])  # what a reader would see between two files of another writer
            second = pool.submit(add, folder, board)
            with pytest.raises(TimeoutError):
                second.result(timeout=0.5)
            file.write_bytes(whole)
        second.result()
    assert file.read_bytes() == whole
