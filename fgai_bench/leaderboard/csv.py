"""Leaderboards as CSV files: how rows are written, with a checksum of every file beside them.

A file has one row per (dataset, model, defense, attack), with the values of all seeds. ``leaderboards.sha256`` has a
line per file, as ``sha256sum`` writes and checks it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fgai_bench.leaderboard.rows import BOARDS, Board, BoardKey, BoardRow, entries, lowered, null_rows, ranked
from fgai_bench.records.canonical import canonical
from fgai_bench.records.frames import LEDGER
from fgai_bench.records.result import AGAIN, REPORTED, trust_of
from fgai_bench.statistics.cells import UNIFORM, Cell, scale_of
from fgai_bench.statistics.intervals import centre_interval, mean
from fgai_bench.statistics.numbers import as_csv, as_filed
from fgai_bench.statistics.ranking import Standing
from fgai_bench.statistics.results import Better, Results
from fgai_bench.suites.schema import RELEASED

SUMS = "leaderboards.sha256"


def rows(board: Board, listed: Iterable[BoardRow]) -> list[dict[str, Any]]:
    """Return the rows of the file, ranked within their suite, dataset, model and attack; g-JSD has its own rank."""
    every = lowered(board, list(listed))
    standing = {metric: ranked(every, metric, better) for metric, better in _ranked_by(board).items()}
    columns = columns_of(board, every)
    return [
        _row(board, columns, entry, {metric: standing[metric].get(entry.key, Standing()) for metric in standing})
        for entry in sorted([*every, *null_rows(board, every)], key=_uniform_last)
    ]


def _uniform_last(entry: BoardRow) -> tuple[Any, ...]:
    """Sort by suite, task, dataset, model, defense, attack; uniform attention last, reported rows after all."""
    return (trust_of(entry.trust) == REPORTED, *entry.key[:4], entry.key.defense == UNIFORM, entry.key[4:])


def columns_of(board: Board, listed: Iterable[BoardRow]) -> tuple[str, ...]:
    """Return the metrics of a file: the board's own, then those that suites of its rows name."""
    return tuple(dict.fromkeys([*board.columns, *sorted({name for row in listed for name in row.own_metrics})]))


def _ranked_by(board: Board) -> dict[str, Better]:
    return {board.score: board.better, **({"g_jsd": "lower"} if "g_jsd" in board.metrics else {})}


def _row(board: Board, columns: Sequence[str], entry: BoardRow, standing: Mapping[str, Standing]) -> dict[str, Any]:
    row: dict[str, Any] = entry.key._asdict()
    cell = entry.cell(board.score)
    row |= {"trust": trust_of(entry.trust), "measured_again": entry.trust.count(AGAIN)}
    row |= {"status": cell.status, "reason": cell.reason, "n": len(cell.values)}
    if entry.key.defense == UNIFORM:
        row |= {"status": "null", "reason": "attention 1/(d+1) on the same graphs", "n": len(entry.seeds)}
    row |= {("rank" if name == board.score else f"rank_{name}"): place.rank for name, place in standing.items()}
    if board.nulls:
        row["beats_uniform"] = {True: "yes", False: "no", None: None}[standing["g_jsd"].beats_null]
    row["two_groups"] = "yes" if cell.in_two_groups else None
    for metric in columns:
        cell = entry.cell(metric)
        bounds = centre_interval(cell.values, scale_of(metric)) or (math.nan, math.nan)
        centres = (cell.mean, cell.std, cell.median, *bounds)
        row |= _named(metric, ("_mean", "_std", "_median", "_low", "_high"), centres)
    for metric in board.nulls:
        row |= _named(f"{metric}_vs_uniform", ("", "_low", "_high"), _relative(entry.cell(metric)))
    if entry.found_by:
        row["found_by"] = ", ".join(entry.found_by)
        row["worst_slack"] = mean(list(entry.slack.values()))
    if entry.trials:
        row |= {"settings": "tuned", "trials": entry.trials}
    elif entry.key.defense.endswith(RELEASED):
        row["settings"] = "released"
    row["flags"] = "; ".join(entry.flags)
    for name in LEDGER:
        row[f"ledger_{name}"] = max((spent[name] for _, spent in entry.budgets.values() if name in spent), default=None)
    row |= {"threat": json.dumps([json.loads(threat) for threat in _threats(entry)], sort_keys=True)}
    row |= {"run": " ".join(entry.runs), "commit": " ".join(entry.versions), "device": "; ".join(entry.devices)}
    row["seeds"] = json.dumps(_kept(board, entry), sort_keys=True, separators=(",", ":"))
    return row


def _named(start: str, endings: Iterable[str], values: Iterable[float]) -> dict[str, float]:
    return {start + ending: value for ending, value in zip(endings, values, strict=True)}


def _relative(cell: Cell) -> tuple[float, float, float]:
    """Return a cell against the uniform attention: the difference on the metric's scale, with its interval."""
    relative = cell.relative
    if relative is None:
        return math.nan, math.nan, math.nan
    return relative.difference_on_scale, *(relative.bounds_on_scale or (math.nan, math.nan))


def _threats(entry: BoardRow) -> list[str]:
    """Return the threat models that a row was attacked under, each once: nearly always a single one."""
    return list(dict.fromkeys(threat for threat, _ in entry.budgets.values()))


def _kept(board: Board, entry: BoardRow) -> dict[str, Any]:
    """Return everything that a row is computed from: values, budgets and gaps of the seeds.

    A metric lists its values in the order of ``seeds``, with None where it has none. A budget is a pair of positions:
    of its threat model in the row's ``threat``, and of what was spent in ``ledgers``. Seeds nearly always share both.
    """
    position = {threat: i for i, threat in enumerate(_threats(entry))}
    budgets = {
        seed: (threat, {name: as_filed(value) for name, value in ledger.items()})
        for seed, (threat, ledger) in entry.budgets.items()
    }
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
        "budgets": {seed: [position[threat], counted[canonical(ledger)]] for seed, (threat, ledger) in budgets.items()},
        "ledgers": list(spent.values()),
        "gaps": [[gap.seed, gap.status, gap.reason] for gap in entry.gaps],
        "devices": list(entry.devices),
        **({"own_metrics": list(entry.own_metrics)} if entry.own_metrics else {}),
        **({"found_by": list(entry.found_by), "slack": slack} if entry.found_by else {}),
        **({"identity": entry.identity} if entry.identity else {}),
        **({"trials": entry.trials} if entry.trials else {}),
    }


def to_csv(board: Board, listed: Sequence[BoardRow]) -> str:
    """Return the text of a board's file."""
    lines = rows(board, listed)
    nothing = BoardRow(BoardKey(*[""] * len(BoardKey._fields)), {})
    empty = _row(board, columns_of(board, listed), nothing, dict.fromkeys(_ranked_by(board), Standing()))
    header = [*empty, *(["found_by", "worst_slack"] if any("found_by" in row for row in lines) else [])]
    header += ["settings", "trials"] if any("settings" in row for row in lines) else []
    return as_csv([header, *([row.get(name) for name in header] for row in lines)])


def write_leaderboards(results: Results, folder: Path) -> list[Path]:
    """Write the files of one run; a board without rows is a file with a header, unless it is optional."""
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        return write_boards(folder, {board: entries(board, results) for board in BOARDS})


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which the operating system releases when its holder dies; no file is made for it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)  # waits for another writer, who needs a few seconds
        yield
    finally:
        os.close(handle)


def write_boards(folder: Path, boards: Mapping[Board, Sequence[BoardRow]], prefix: str = "") -> list[Path]:
    """Replace the files of boards and their checksums; hold the lock of the folder around this."""
    contents = {
        f"{prefix}{board.name}.csv": to_csv(board, listed).encode("utf-8", "backslashreplace")
        for board, listed in boards.items()
        if listed or not board.optional
    }
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(contents.items()))
    for name, content in (*contents.items(), (SUMS, sums.encode())):
        (folder / f"{name}.part").write_bytes(content)
        os.replace(folder / f"{name}.part", folder / name)
    return [folder / name for name in contents]
