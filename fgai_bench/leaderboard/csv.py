"""Leaderboards as CSV files: one for people, one for machines, and a checksum of every file beside them.

``leaderboard_node.csv`` has the ranked rows under the standard attack, in at most twelve columns.
``leaderboard_node_full.csv`` has a row per (suite, dataset, model, defense, attack) with everything that is known of
it; ``row`` is the same in both.
``leaderboards.sha256`` has a line per file, as ``sha256sum`` writes and checks it.
"""

import fcntl
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from fgai_bench.leaderboard.rows import (
    BOARDS,
    STANDARD,
    TOLD,
    Board,
    BoardKey,
    BoardRow,
    entries,
    lowered,
    null_rows,
    ranked,
)
from fgai_bench.records.export_format import sha256_of_file
from fgai_bench.records.files import write_files
from fgai_bench.records.frames import LEDGER
from fgai_bench.records.result import AGAIN, REPORTED, trust_of
from fgai_bench.statistics.cells import UNIFORM, Cell, scale_of
from fgai_bench.statistics.intervals import centre_interval, mean
from fgai_bench.statistics.labels import CORRECTNESS, STATUS, ordered
from fgai_bench.statistics.numbers import as_csv, as_filed, counted, written
from fgai_bench.statistics.ranking import Standing
from fgai_bench.statistics.results import Better, Results
from fgai_bench.suites.schema import RELEASED, TUNED

SUMS, FULL = "leaderboards.sha256", "_full"
NOT_MEASURED = "not measured"
BEATS_UNIFORM = {-1: "yes", 1: "no", 0: "open", None: None}  # by the side of the divergence: less is better
Row = dict[str, Any]


def rows(board: Board, listed: Iterable[BoardRow]) -> list[Row]:
    """Return the rows for machines, ranked within their suite, dataset, model and attack; g-JSD has its own rank."""
    every = lowered(board, list(listed))
    standing = {metric: ranked(every, metric, better) for metric, better in _ranked_by(board).items()}
    columns = tuple(dict.fromkeys([*board.columns, *sorted({name for row in every for name in row.own_metrics})]))
    return [
        _row(board, columns, entry, {metric: standing[metric].get(entry.key, Standing()) for metric in standing})
        for entry in sorted([*every, *null_rows(board, every)], key=_uniform_last)
    ]


def _uniform_last(entry: BoardRow) -> tuple[Any, ...]:
    """Sort by suite, task, dataset, model, defense, attack; uniform attention last, reported rows after all."""
    return (trust_of(entry.trust) == REPORTED, *entry.key[:4], entry.key.defense == UNIFORM, entry.key[4:])


def _ranked_by(board: Board) -> dict[str, Better]:
    return {board.score: board.better, **({"g_jsd": "lower"} if "g_jsd" in board.metrics else {})}


def _row(board: Board, columns: Sequence[str], entry: BoardRow, standing: Mapping[str, Standing]) -> Row:
    cell = entry.cell(board.score)
    row: Row = {"row": str(entry.key), **entry.key._asdict()}
    row |= {"trust": trust_of(entry.trust), "measured_again": entry.trust.count(AGAIN)}
    row |= {"status": cell.status, "reason": cell.reason, "n": len(cell.values)}
    if entry.key.defense == UNIFORM:
        row |= {"status": "null", "reason": "attention 1/(d+1) on the same graphs", "n": len(entry.seeds)}
    settings = "tuned" if entry.trials else "released" if entry.key.defense.endswith(RELEASED) else "published"
    row |= {"settings": settings, "trials": entry.trials or None}
    row |= {("rank" if name == board.score else f"rank_{name}"): place.rank for name, place in standing.items()}
    if board.nulls:
        row["beats_uniform"] = BEATS_UNIFORM[entry.cell("g_jsd").side_of_null]
    row["two_groups"] = "yes" if cell.in_two_groups else None
    for metric in columns:
        cell = entry.cell(metric)
        bounds = centre_interval(cell.values, scale_of(metric)) or (math.nan, math.nan)
        by_seed = " ".join(str(as_filed(cell.values.get(seed, math.nan))) for seed in entry.seeds)
        centres = (cell.mean, cell.std, cell.median, *bounds, by_seed if cell.values else None)
        row |= _named(metric, ("_mean", "_std", "_median", "_low", "_high", "_values"), centres)
    for metric, null in board.nulls.items():
        cell = entry.cell(metric)
        row[null] = median(cell.null.values()) if cell.null else None
        row |= _named(f"{metric}_vs_uniform", ("", "_low", "_high"), _relative(cell))
    row |= {"found_by": ", ".join(entry.found_by), "worst_slack": mean(list(entry.slack.values()))}
    row["flags"] = "; ".join(entry.flags)
    for name in LEDGER:
        row[f"ledger_{name}"] = max((spent[name] for _, spent in entry.budgets.values() if name in spent), default=None)
    threats = dict.fromkeys(threat for threat, _ in entry.budgets.values())  # nearly always a single one
    row["threat"] = json.dumps([json.loads(threat) for threat in threats], sort_keys=True)
    row |= {"run": " ".join(entry.runs), "commit": " ".join(entry.versions), "device": "; ".join(entry.devices)}
    row["seeds"] = " ".join(map(str, entry.seeds))
    row["steps"] = " ".join(entry.steps.get(seed, "-") for seed in entry.seeds)
    return row


def _named(start: str, endings: Iterable[str], values: Iterable[Any]) -> Row:
    return {start + ending: value for ending, value in zip(endings, values, strict=True)}


def _relative(cell: Cell) -> tuple[float, float, float]:
    """Return a cell against the uniform attention: the difference on the metric's scale, with its interval."""
    relative = cell.relative
    if relative is None:
        return math.nan, math.nan, math.nan
    return relative.difference_on_scale, *(relative.bounds_on_scale or (math.nan, math.nan))


def for_people(board: Board, full: Sequence[Row]) -> list[list[Any]]:
    """Return the header and the rows of the file for people: those under the standard attack, best first.

    Gaps and reported rows stand there without a rank, and so does a block in which nothing could be ranked. What other
    attacks left stands in the full file only.
    """
    ranked_blocks = {_block(row) for row in full if row["rank"] is not None}
    shown = [
        row
        for row in full
        if row["status"] != "null" and (board.alone or row["attack"] == STANDARD)
        if row["rank"] is not None
        or row["status"] != "ok"
        or row["trust"] == REPORTED
        or _block(row) not in ranked_blocks
    ]
    places = {key: ordered(row[key] for row in shown) for key in ("suite", "dataset", "model")}
    sign = -1 if board.better == "higher" else 1

    def order(row: Row) -> tuple[Any, ...]:
        where = (places[key].index(row[key]) for key in places)
        score = sign * row[f"{board.score}_median"] if row["n"] else math.inf
        return row["trust"] == REPORTED, *where, row["attack"], row["rank"] or math.inf, score

    shown.sort(key=order)
    columns = _columns(board)
    lines = [["rank", "suite", "graph", "model", "defense", *columns, "seeds, settings, flags", "row"]]
    for row in shown:
        names = (row["suite"], row["dataset"], row["model"], row["defense"].removesuffix(TUNED).removesuffix(RELEASED))
        values = (write(row) for write in columns.values())
        lines.append([row["rank"], *names, *values, _remarks(row), row["row"]])
    return lines


def _block(row: Row) -> tuple[str, ...]:
    return row["suite"], row["dataset"], row["model"], row["attack"]


def _columns(board: Board) -> dict[str, Any]:
    """Return the columns of values for people, each with how it is written."""
    if board.alone:
        return {"train (s) [low, high]": lambda row: _between(row, board.score)} | {
            name.replace("_seconds", " (s)").replace("_peak_mib", " (MiB)"): lambda row, name=name: _median(row, name)
            for name in board.metrics[:4]
        }
    return {
        f"clean {board.score}": lambda row: _median(row, f"{board.score}_clean"),
        "worst [low, high]": lambda row: _between(row, board.score),
        "floor": lambda row: _median(row, f"certified_{board.score}"),
        "g-JSD (uniform)": _beside_uniform,
        "explanation correctness": _correctness,
    }


def _median(row: Row, metric: str) -> str:
    value = row.get(f"{metric}_median", math.nan)
    return written(value) if value == value else NOT_MEASURED


def _between(row: Row, metric: str) -> str:
    low, high = row[f"{metric}_low"], row[f"{metric}_high"]
    value = STATUS.get(row["status"], "") if row["n"] == 0 else _median(row, metric)
    return f"{value} [{written(low)}, {written(high)}]" if low == low else value


def _beside_uniform(row: Row) -> str:
    value, null = row["g_jsd_median"], row["g_jsd_uniform"]
    if value != value:
        return NOT_MEASURED
    return written(value, style="scientific") + (f" ({written(null, style='scientific')})" if null is not None else "")


def _correctness(row: Row) -> str:
    measured = ((name, row.get(f"{name}_median", math.nan)) for name in CORRECTNESS)
    name, value = next(((name, value) for name, value in measured if value == value), ("", math.nan))
    told = " (reported)" if TOLD.format(name=name) in row["flags"].split("; ") else ""
    return f"{written(value)} {'AUROC' if 'auroc' in name else 'rank corr.'}{told}" if name else NOT_MEASURED


def _remarks(row: Row) -> str:
    settings = row["settings"] + (f" with {row['trials']} trials" if row["trials"] else "")
    status = "" if row["status"] == "ok" else f"{row['status']}: {row['reason']}"
    trust = AGAIN if row["trust"] == AGAIN else ""
    return "; ".join(filter(None, (counted(row["n"], "seed"), settings, trust, status, row["flags"])))


def to_csv(board: Board, listed: Sequence[BoardRow]) -> dict[str, str]:
    """Return the texts of a board's two files, by the ending of their name."""
    full = rows(board, listed)
    nothing = BoardRow(BoardKey(*[""] * len(BoardKey._fields)), {})
    empty = _row(board, board.columns, nothing, dict.fromkeys(_ranked_by(board), Standing()))
    header = list(full[0] if full else empty)
    return {
        "": as_csv(for_people(board, full)),
        FULL: as_csv([header, *([row[name] for name in header] for row in full)]),
    }


def write_leaderboards(results: Results, folder: Path) -> list[Path]:
    """Write the files of one run; a board without rows is a file with a header, unless it is optional."""
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        return write_boards(folder, results)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which the operating system releases when its holder dies; no file is made for it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)  # waits for another writer, who needs a few seconds
        yield
    finally:
        os.close(handle)


def write_boards(folder: Path, results: Results, prefix: str = "") -> list[Path]:
    """Replace the files of boards and their checksums; hold the lock of the folder around this."""
    texts = {
        f"{prefix}{board.name}{ending}.csv": text
        for board in BOARDS
        if (listed := entries(board, results)) or not board.optional
        for ending, text in to_csv(board, listed).items()
    }
    paths = write_files(folder, texts)
    write_files(folder, {SUMS: "".join(f"{sha256_of_file(path)}  {path.name}\n" for path in sorted(paths))})
    return paths
