"""Merging a run into the leaderboards of a folder: only like is put together, and the stronger attack holds.

Merging keeps, seed by seed, the attack that leaves the lower score. What was attacked with another threat model or
another spending, made on other data or by other code is refused, and nothing is written.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fgai_bench.leaderboard.csv import locked, read, read_board, write_boards
from fgai_bench.leaderboard.rows import BOARDS, SETTINGS, Board, BoardKey, BoardRow, entries
from fgai_bench.statistics.ranking import TOLERANCE, equal_budgets
from fgai_bench.statistics.results import ReportError, Results

STOPPED = "non-finite gradient"  # a flag of attacks: the search ended there, before its budget of steps did
OTHER_CODE = "rows of other code are not put together, so name a new folder with --to"


def add(run: str | os.PathLike[str], folder: str | os.PathLike[str], write: bool = True) -> list[Path]:
    """Merge a run into the leaderboards of a folder; raise, and write nothing, where rows may not be put together.

    A folder is read under its lock, since another process may be replacing its files. Without ``write`` everything is
    checked and nothing is written.
    """
    results, target = Results.read(run), Path(folder)
    added = {board: entries(board, results) for board in BOARDS}
    if results.names("suite", kind="attack") and not any(added.values()):
        raise ReportError(
            f"{run} holds only {', '.join(results.suites)}, where each defense has a budget of its own; leaderboards "
            "rank rows of one budget, so run a suite such as node"
        )
    if not target.is_dir():
        for board, listed in added.items():
            merged([], listed, board)  # what is refused leaves no folder behind
        if not write:
            return []
        target.mkdir(parents=True, exist_ok=True)
    with locked(target):
        together = {board: merged(_known(target, board), listed, board) for board, listed in added.items()}
        return write_boards(target, together) if write else []


def _known(folder: Path, board: Board) -> list[BoardRow]:
    """Return the rows of a board's file in a folder."""
    path = folder / f"{board.name}.csv"
    text = read_board(path)
    try:
        return read(text) if text is not None else []
    except (AttributeError, KeyError, ValueError, TypeError, csv.Error):
        raise ReportError(f"{path} is not a leaderboard of fgai-bench; choose another folder") from None


def merged(known: Iterable[BoardRow], added: Iterable[BoardRow], board: Board) -> list[BoardRow]:
    """Merge two lists of rows; where they meet, the stronger attack holds. Raises when budgets differ."""
    rows = {entry.key: entry for entry in known}
    rivals: dict[BoardKey, list[BoardKey]] = {}
    for key in rows:
        rivals.setdefault(key.block, []).append(key)
    for entry in added:
        keys = rivals.setdefault(entry.key.block, [])
        for other in (rows[key] for key in keys):
            _refuse_unequal(entry, other)
            if entry.seeds and other.seeds:  # a row without values has nothing to be mixed with
                _refuse_other_origin(entry, other)
        if entry.key in rows:
            rows[entry.key] = _stronger(rows[entry.key], entry, board)
        else:
            rows[entry.key] = entry
            keys.append(entry.key)
    return list(rows.values())


def _refuse_unequal(entry: BoardRow, other: BoardRow) -> None:
    """Refuse two rows of one block whose budgets differ.

    An attack that left a part of its budget is accepted: its row is shown, and not ranked. So is one that stopped
    early where it had no gradient to follow: its row says so.
    """
    names = " ".join(entry.key[2:5])
    if entry.trials and other.trials and entry.trials != other.trials:
        raise ReportError(
            f"the settings of {names} were chosen from {entry.trials} trials, those of the leaderboard's "
            f"{other.key.defense} from {other.trials}; rows of unequal search are not ranked together"
        )
    threats = [{threat for threat, _ in row.budgets.values()} for row in (entry, other)]
    same = equal_budgets(entry.cell(""), other.cell(""), counted=()) and _searched_alike(entry, other)
    if not same or (all(threats) and threats[0] != threats[1]):
        raise ReportError(
            f"{names} under {entry.key.attack} was attacked with another budget than the leaderboard's "
            f"{other.key.defense}; rows of unequal budgets are not ranked together, so run it with the suite's own "
            "budget"
        )


def _searched_alike(entry: BoardRow, other: BoardRow) -> bool:
    """Tell whether two rows took as many gradients where both have values, or the one with fewer had none to follow."""
    for seed in entry.seeds.keys() & other.seeds.keys() & entry.budgets.keys() & other.budgets.keys():
        mine, theirs = (row.budgets[seed][1].get("gradient_calls", 0.0) for row in (entry, other))
        shorter = entry if mine < theirs else other
        if not math.isclose(mine, theirs, rel_tol=TOLERANCE) and STOPPED not in shorter.flags:
            return False
    return True


def _refuse_other_origin(entry: BoardRow, other: BoardRow) -> None:
    """Refuse a row that was made on other data, by other code or, where it is the same row, with other settings."""
    names, mine, theirs = " ".join(entry.key[2:5]), entry.identity, other.identity
    if not mine and not theirs:
        return
    if not mine or not theirs:
        raise ReportError(f"{names}: it or the rows beside it have no fingerprint of their code; {OTHER_CODE}")
    if mine["data"] and theirs["data"] and mine["data"] != theirs["data"]:
        raise ReportError(f"{names}: its data are not those of the leaderboard's rows beside it")
    changed = [part for part, own in mine["code"].items() if theirs["code"].get(part, own) != own]
    if changed:
        raise ReportError(
            f"{names}: its {changed[0]} was computed by other code than the leaderboard's rows beside it; {OTHER_CODE}"
        )
    settings = [{key: row["settings"].get(key) for key in SETTINGS} for row in (mine, theirs)]
    if entry.key == other.key and settings[0] != settings[1]:
        raise ReportError(f"{names}: its settings are not those of the leaderboard's row of the same name")


def _stronger(row: BoardRow, other: BoardRow, board: Board) -> BoardRow:
    """Return all seeds of both rows; at a seed that both have, the values of the attack that left the lower score."""
    sign = 1 if board.better == "higher" else -1

    def score(values: Mapping[str, float]) -> float:
        return sign * values.get(board.score, math.inf)

    seeds, budgets = dict(row.seeds), dict(row.budgets)
    for seed, values in other.seeds.items():
        if seed not in seeds or score(values) < score(seeds[seed]):
            seeds[seed] = values
            budgets |= {seed: other.budgets[seed]} if seed in other.budgets else {}
    gaps = {gap.seed: gap for gap in (*row.gaps, *other.gaps) if gap.seed not in seeds}
    joined: dict[str, Any] = {
        name: tuple(dict.fromkeys([*getattr(row, name), *getattr(other, name)]))
        for name in ("flags", "runs", "versions", "devices", "own_metrics")
    }
    return replace(
        row,
        seeds=dict(sorted(seeds.items())),
        budgets=dict(sorted(budgets.items())),
        gaps=tuple(gaps.values()),
        identity={**other.identity, **row.identity},
        **joined,
    )
