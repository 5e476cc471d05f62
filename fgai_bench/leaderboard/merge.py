"""Add a run to the leaderboards of a folder: its records join those of the folder, and the files are written anew.

A board is written from records and from nothing else: ``FOLDER/records`` is the export that holds them. What may not be
put together (:mod:`fgai_bench.records.merge`), was made by other code, or is not what it says when it is measured
again (:mod:`fgai_bench.leaderboard.trust`), is refused, and nothing is written. Boards with a suite that is not
registered are private: their files are called so.
"""

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from fgai_bench.leaderboard.csv import locked, write_boards
from fgai_bench.leaderboard.rows import BOARDS
from fgai_bench.leaderboard.trust import Known, Trust, judged
from fgai_bench.records.export import export, replace_folder
from fgai_bench.records.export_format import PACKS
from fgai_bench.records.merge import MergeError, made_by_other_code
from fgai_bench.records.store import StoreReader, is_export
from fgai_bench.statistics.cells import UNEQUAL
from fgai_bench.statistics.results import ReportError, Results

RECORDS, PRIVATE = "records", "private_"


def add(
    run: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    write: bool = True,
    trust: Trust = "sample",
    data_root: str | None = None,
    say: Callable[[str], object] = lambda sentence: None,
    private: bool = False,
) -> list[Path]:
    """Add a run, or exported records, to the leaderboards of a folder; return the files of the leaderboards.

    Without ``write`` everything is checked and nothing written. ``trust`` says how much of the run is measured again
    (:func:`fgai_bench.leaderboard.trust.judged`), and ``say`` receives how long that takes. The suites of a ``private``
    board need not be registered.
    """
    target, prefix = Path(folder), PRIVATE if private else ""
    if any((target / f"{'' if private else PRIVATE}{board.name}.csv").exists() for board in BOARDS):
        other = "public" if private else "private"
        raise ReportError(f"{target} is a {other} board; choose another folder with --to")
    if not is_export(target / RECORDS) and any((target / f"{prefix}{board.name}.csv").exists() for board in BOARDS):
        raise ReportError(f"{target} has leaderboards without their records; choose another folder with --to")
    if not write:
        with tempfile.TemporaryDirectory() as temporary:
            _export(target / RECORDS, Path(run), Path(temporary) / RECORDS, trust, data_root, say)
        return []
    made = not target.exists()
    target.mkdir(parents=True, exist_ok=True)
    try:
        with locked(target):
            with replace_folder(target / RECORDS) as new:
                _export(target / RECORDS, Path(run), new, trust, data_root, say)
            return write_boards(target, Results.read(target / RECORDS), prefix)
    except BaseException:
        if made:  # what is refused leaves no folder behind
            with suppress(OSError):
                target.rmdir()
        raise


def _refuse_unequal_budgets(store: StoreReader) -> None:
    """Raise if every attack of a run has a budget of its own."""
    attacks = [member for member in store.members() if member["kind"] == "attack"]
    if attacks and all(UNEQUAL in member["flags"] for member in attacks):
        suites = ", ".join(dict.fromkeys(member["suite"] for member in attacks))
        raise ReportError(
            f"{store.folder} holds only {suites}, where each defense has a budget of its own; leaderboards rank rows "
            "of one budget, so run a suite such as node"
        )


def _export(
    known: Path, run: Path, out: Path, trust: Trust, data_root: str | None, say: Callable[[str], object]
) -> None:
    """Write the records of both, with the models and graphs that they hold; raise if they do not fit together."""
    sources = [known, run] if is_export(known) else [run]
    extras = [name for name, (file, _) in PACKS.items() if any((source / file).is_file() for source in sources)]
    held = Known()
    if is_export(known):
        with StoreReader(known) as store:
            held = Known.of(store)
    with StoreReader(run) as store:
        _refuse_unequal_budgets(store)
        labels, measured = judged(store, held, trust, data_root, say)
    try:
        export(sources, out, extras=extras, trust={**held.steps, **labels}, measured=measured)
    except MergeError as error:
        raise ReportError(str(error)) from None
    with StoreReader(out) as store:
        others = made_by_other_code(store.members(), store.headers())
    if others:
        raise ReportError(
            f"{len(others)} steps of {run} or of the leaderboard were made by other code or settings than the rest of "
            "their suite; such rows are not put together, so name a new folder with --to"
        )
