"""Leaderboards as CSV files: how rows are written, read back and added to a folder.

A file has one row per (dataset, model, defense, attack). What an entry of :mod:`fgai_bench.leaderboard.rows` holds is
all in its row, so that ranks and intervals are computed anew whenever rows come together.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fgai_bench.leaderboard.csv_cells import as_csv, as_filed
from fgai_bench.leaderboard.files import locked, read_board, write_boards
from fgai_bench.leaderboard.rows import (
    BOARDS,
    KEY,
    Board,
    BoardRow,
    entries,
    lowered,
    merged,
    null_rows,
    ranked,
)
from fgai_bench.records.canonical import canonical
from fgai_bench.records.escaping import csv_text
from fgai_bench.records.frames import LEDGER
from fgai_bench.statistics.errors import ReportError
from fgai_bench.statistics.intervals import centre_interval, mean
from fgai_bench.statistics.ranking import UNIFORM, Better, Cell, Gap, Standing, scale_of
from fgai_bench.statistics.results import Results


def rows(board: Board, listed: Iterable[BoardRow]) -> list[dict[str, Any]]:
    """Return the rows of the file, ranked within their suite, dataset, model and attack; g-JSD has its own rank."""
    entries = lowered(board, list(listed))
    standing = {metric: ranked(entries, metric, better) for metric, better in _ranked_by(board).items()}
    columns = columns_of(board, entries)
    return [
        _row(board, columns, entry, {metric: standing[metric].get(entry.key, Standing()) for metric in standing})
        for entry in sorted([*entries, *null_rows(board, entries)], key=_in_block)
    ]


def _in_block(entry: BoardRow) -> tuple[Any, ...]:
    """Sort by suite, task, dataset, model, attack; the uniform attention comes last."""
    return (*entry.key[:4], entry.key[4] == UNIFORM, entry.key[4:])


def columns_of(board: Board, listed: Iterable[BoardRow]) -> tuple[str, ...]:
    """Return the metrics of a file: the board's own, then those that suites of its rows name."""
    return tuple(dict.fromkeys([*board.columns, *sorted({name for row in listed for name in row.own_metrics})]))


def _ranked_by(board: Board) -> dict[str, Better]:
    return {board.score: board.better, **({"g_jsd": "lower"} if "g_jsd" in board.metrics else {})}


def _row(board: Board, columns: Sequence[str], entry: BoardRow, standing: Mapping[str, Standing]) -> dict[str, Any]:
    row: dict[str, Any] = dict(zip(KEY, entry.key, strict=True))
    cell = entry.cell(board.score)
    row |= {"status": cell.status, "reason": cell.reason, "n": len(cell.values)}
    if entry.key[4] == UNIFORM:
        row |= {"status": "null", "reason": "attention 1/(d+1) on the same graphs", "n": len(entry.seeds)}
    row |= {("rank" if name == board.score else f"rank_{name}"): place.rank for name, place in standing.items()}
    if board.nulls:
        row["beats_uniform"] = {True: "yes", False: "no", None: None}[standing["g_jsd"].beats_null]
    for metric in columns:
        row |= _summary(entry.cell(metric))
    for metric in board.nulls:
        row |= _relative(entry.cell(metric))
    if entry.found_by:
        row["found_by"] = ", ".join(entry.found_by)
        row["worst_slack"] = mean(list(entry.slack.values())) if entry.slack else math.nan
    if entry.trials:
        row |= {"settings": "tuned", "trials": entry.trials}
    row["flags"] = "; ".join(entry.flags)
    for name in LEDGER:
        spent = [ledger[name] for _, ledger in entry.budgets.values() if name in ledger]
        row[f"ledger_{name}"] = max(spent) if spent else math.nan
    row |= {"threat": json.dumps([json.loads(threat) for threat in _threats(entry)], sort_keys=True)}
    row |= {"run": " ".join(entry.runs), "commit": " ".join(entry.versions), "device": "; ".join(entry.devices)}
    row["seeds"] = json.dumps(_kept(board, entry), sort_keys=True, separators=(",", ":"))
    return row


def _threats(entry: BoardRow) -> list[str]:
    """Return the threat models that a row was attacked under, each once: nearly always a single one."""
    return list(dict.fromkeys(threat for threat, _ in entry.budgets.values()))


def _summary(cell: Cell) -> dict[str, float]:
    bounds = centre_interval(cell.values, scale_of(cell.metric)) or (math.nan, math.nan)
    names = (f"{cell.metric}_{part}" for part in ("mean", "std", "low", "high"))
    return dict(zip(names, (cell.mean, cell.std, *bounds), strict=True))


def _relative(cell: Cell) -> dict[str, float]:
    """Return a cell against the uniform attention: the mean difference on the metric's scale, with its interval."""
    relative = cell.relative
    bounds = (relative.bounds_on_scale if relative else None) or (math.nan, math.nan)
    centre = mean(relative.differences) if relative else math.nan
    names = (f"{cell.metric}_vs_uniform{part}" for part in ("", "_low", "_high"))
    return dict(zip(names, (centre, *bounds), strict=True))


def _kept(board: Board, entry: BoardRow) -> dict[str, Any]:
    """Return everything that a later merge needs: values, budgets and gaps of the seeds.

    A metric lists its values in the order of ``seeds``, with None where it has none. A budget names its threat model by
    the place in the row's ``threat``, and what was spent by that in ``ledgers``, where they stand in full: seeds nearly
    always share both.
    """
    place = {threat: i for i, threat in enumerate(_threats(entry))}
    budgets = {seed: (threat, _filed(ledger)) for seed, (threat, ledger) in entry.budgets.items()}
    spent = {canonical(ledger): ledger for _, ledger in budgets.values()}
    counted = {ledger: i for i, ledger in enumerate(spent)}
    kept = (*board.columns, *board.nulls.values(), *entry.own_metrics)
    slack = {seed: as_filed(lower) for seed, lower in entry.slack.items()}
    return {
        "seeds": list(entry.seeds),
        "values": {
            metric: [values.get(metric) for values in entry.seeds.values()]
            for metric in kept
            if any(metric in values for values in entry.seeds.values())
        },
        "budgets": {seed: [place[threat], counted[canonical(ledger)]] for seed, (threat, ledger) in budgets.items()},
        "ledgers": list(spent.values()),
        "gaps": [[gap.seed, gap.status, gap.reason] for gap in entry.gaps],
        "devices": list(entry.devices),
        **({"own_metrics": list(entry.own_metrics)} if entry.own_metrics else {}),
        **({"found_by": list(entry.found_by), "slack": slack} if entry.found_by else {}),
        **({"identity": entry.identity} if entry.identity else {}),
        **({"trials": entry.trials} if entry.trials else {}),
    }


def _filed(ledger: Mapping[str, float]) -> dict[str, float]:
    return {name: as_filed(value) for name, value in ledger.items()}


def to_csv(board: Board, listed: Sequence[BoardRow]) -> str:
    """Return the text of a board's file."""
    lines = rows(board, listed)
    columns = columns_of(board, listed)
    empty = _row(board, columns, BoardRow(("",) * len(KEY), {}), dict.fromkeys(_ranked_by(board), Standing()))
    header = [*empty, *(["found_by", "worst_slack"] if any("found_by" in row for row in lines) else [])]
    header += ["settings", "trials"] if any("settings" in row for row in lines) else []
    return as_csv([header, *([row.get(name) for name in header] for row in lines)])


def read(text: str) -> list[BoardRow]:
    """Read the rows of a file, as far as a merge needs them."""
    listed = []
    for cells in csv.DictReader(io.StringIO(text, newline="")):
        row = {name: csv_text(cell) for name, cell in cells.items()}
        if row["defense"] == UNIFORM:
            continue  # it is made anew from the rows of its block
        kept = json.loads(row["seeds"])
        threats = [canonical(threat) for threat in json.loads(row["threat"])]
        # earlier files repeat the threat model, or what was spent, for every seed
        budgets = {
            int(seed): (
                at if isinstance(at, str) else threats[at],
                ledger if isinstance(ledger, dict) else kept["ledgers"][ledger],
            )
            for seed, (at, ledger) in kept["budgets"].items()
        }
        listed.append(
            BoardRow(
                tuple(row[name] for name in KEY),
                _by_seed(kept),
                tuple(Gap(*gap) for gap in kept["gaps"]),
                tuple(flag for flag in row["flags"].split("; ") if flag),
                budgets,
                tuple(row["run"].split()),
                tuple(row["commit"].split()),
                tuple(kept["devices"]),
                tuple(kept.get("own_metrics", ())),
                tuple(kept.get("found_by", ())),
                {int(seed): value for seed, value in kept.get("slack", {}).items()},
                kept.get("identity", {}),
                kept.get("trials", 0),
            )
        )
    return listed


def _by_seed(kept: Mapping[str, Any]) -> dict[int, dict[str, float]]:
    """Return the values of a row by seed and metric; earlier files list them so."""
    if "seeds" not in kept:
        return {int(seed): values for seed, values in kept["values"].items()}
    return {
        seed: {metric: values[i] for metric, values in kept["values"].items() if values[i] is not None}
        for i, seed in enumerate(kept["seeds"])
    }


def write_leaderboards(results: Results, folder: Path) -> list[Path]:
    """Write the three files of one run; a board without rows is a file with a header."""
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        return _write({board: entries(board, results) for board in BOARDS}, folder)


def add(run: str | os.PathLike[str], folder: str | os.PathLike[str], write: bool = True) -> list[Path]:
    """Merge a run into the leaderboards of a folder; raises, and writes nothing, when like would not meet like.

    A folder is read under its lock, since another process may be replacing its files. Without ``write`` everything is
    checked and nothing is written.
    """
    results, target = Results.read(run), Path(folder)
    if results.names("suite", kind="attack") and not any(entries(board, results) for board in BOARDS):
        raise ReportError(
            f"{run} holds only {', '.join(results.suites)}, where each defense has a budget of its own; leaderboards "
            "rank rows of one budget, so run a suite such as node"
        )
    added = {board: entries(board, results) for board in BOARDS}
    if not target.is_dir():
        for board, listed in added.items():
            merged([], listed, board)  # what is refused leaves no folder behind
        if not write:
            return []
        target.mkdir(parents=True, exist_ok=True)
    with locked(target):
        together = _together(added, target)
        return _write(together, target) if write else []


def _together(added: Mapping[Board, list[BoardRow]], folder: Path) -> dict[Board, list[BoardRow]]:
    """Return the rows of a folder's files merged with others."""
    together = {}
    for board, listed in added.items():
        path = folder / f"{board.name}.csv"
        text = read_board(path)
        try:
            known = read(text) if text is not None else []
        except (AttributeError, KeyError, ValueError, TypeError, csv.Error):
            raise ReportError(f"{path} is not a leaderboard of fgai-bench; choose another folder") from None
        together[board] = merged(known, listed, board)
    return together


def _write(boards: Mapping[Board, list[BoardRow]], folder: Path) -> list[Path]:
    return write_boards(folder, {f"{board.name}.csv": to_csv(board, listed) for board, listed in boards.items()})
