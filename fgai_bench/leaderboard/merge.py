"""Add a run to the leaderboards of a folder: its records join those of the folder, and the files are written anew.

A board is written from records and from nothing else: ``FOLDER/records`` is the export that holds them. What may not be
put together (:mod:`fgai_bench.records.merge`), or was made by other code, is refused, and nothing is written.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from fgai_bench.leaderboard.csv import locked, write_boards
from fgai_bench.leaderboard.rows import BOARDS, entries
from fgai_bench.records.export import export, replace_folder
from fgai_bench.records.export_format import PACKS
from fgai_bench.records.merge import MergeError, made_by_other_code
from fgai_bench.records.store import StoreReader, is_export
from fgai_bench.statistics.results import ReportError, Results

RECORDS = "records"


def add(run: str | os.PathLike[str], folder: str | os.PathLike[str], write: bool = True) -> list[Path]:
    """Add a run, or exported records, to the leaderboards of a folder; without ``write`` it is only checked.

    Returns the files of the leaderboards.
    """
    _refuse_unequal_budgets(Path(run))
    target = Path(folder)
    if not is_export(target / RECORDS) and any((target / f"{board.name}.csv").exists() for board in BOARDS):
        raise ReportError(f"{target} has leaderboards without their records; choose another folder with --to")
    if not write:
        with tempfile.TemporaryDirectory() as temporary:
            _export(target / RECORDS, Path(run), Path(temporary) / RECORDS)
        return []
    made = not target.exists()
    target.mkdir(parents=True, exist_ok=True)
    try:
        with locked(target):
            with replace_folder(target / RECORDS) as new:
                _export(target / RECORDS, Path(run), new)
            results = Results.read(target / RECORDS)
            return write_boards(target, {board: entries(board, results) for board in BOARDS})
    except ReportError:
        if made:  # what is refused leaves no folder behind
            with suppress(OSError):
                target.rmdir()
        raise


def _refuse_unequal_budgets(run: Path) -> None:
    """Raise if a run holds attacks and no row for a leaderboard."""
    results = Results.read(run)
    if results.names("suite", kind="attack") and not any(entries(board, results) for board in BOARDS):
        raise ReportError(
            f"{run} holds only {', '.join(results.suites)}, where each defense has a budget of its own; leaderboards "
            "rank rows of one budget, so run a suite such as node"
        )


def _export(known: Path, run: Path, out: Path) -> None:
    """Write the records of both, with the models and graphs that they hold; raise if they do not fit together."""
    sources = [known, run] if is_export(known) else [run]
    extras = [name for name, (file, _) in PACKS.items() if any((source / file).is_file() for source in sources)]
    try:
        export(sources, out, extras=extras)
    except MergeError as error:
        raise ReportError(str(error)) from None
    with StoreReader(out) as store:
        others = made_by_other_code(store.members(), store.headers())
    if others:
        raise ReportError(
            f"{len(others)} steps of {run} or of the leaderboard were made by other code than the rest of their suite; "
            "such rows are not put together, so name a new folder with --to"
        )
