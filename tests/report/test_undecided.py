"""Power: what a run leaves open, and how many seeds it says would decide it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fgai_bench.cli import main
from fgai_bench.report.undecided import OpenCell, open_cells, open_places
from fgai_bench.statistics.results import Results
from tests.report_fixtures import fill


def test_a_shared_first_place_says_what_would_part_the_two_best(wide: Path) -> None:
    places = {cell.suite: cell for cell in open_places(Results.read(wide, suite="node"))}
    cell = places["node"]
    assert cell.question.startswith("f1 under injection: LN or AT") or cell.question.startswith(
        "f1 under random-injection"
    )
    assert (cell.place, cell.seeds) == ("Amazon-Photo/GAT", 5)


def test_what_needs_the_fewest_seeds_comes_first(wide: Path) -> None:
    cells = open_cells(Results.read(wide))
    missing = [cell.enough - cell.seeds for cell in cells if cell.enough is not None]
    assert missing == sorted(missing)
    assert all(cell.enough is None for cell in cells[len(missing) :])


def test_words_for_the_number_of_seeds() -> None:
    assert OpenCell("node", "", "", "", 5, 12).more == "7"
    assert OpenCell("node", "", "", "", 5, None).more == "out of reach"


def test_status_says_what_is_open(bench: Callable[[], Any], capsys: pytest.CaptureFixture[str]) -> None:
    made = bench()
    fill(made, seeds=range(5))
    folder = made.close()
    assert main(["status", str(folder)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "more seeds" in printed
    assert "f1 under injection: LN or AT" in printed
    assert f"--seeds N --out {folder}` runs the missing seeds only" in printed.replace("\n", "")
