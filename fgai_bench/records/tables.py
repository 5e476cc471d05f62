"""The SQLite file of a run: its tables, how it is opened and checked, and how rows are verified when they are read.

A step, with everything that was recorded about it, is one JSON text with one SHA-256; so is each place of the plan.
SQLite checks its own pages when the file is opened. So no flipped bit and no missing end of the file goes unnoticed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fgai_bench.records.artifacts import Artifacts
from fgai_bench.records.errors import EmptyStore, StoreError

FILE = "store.sqlite"
APPLICATION = 0x46474149  # "FGAI", in the header of every store
VERSION = 2  # of the tables below, in the header too
SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE steps (
    hash TEXT PRIMARY KEY, status TEXT NOT NULL, content TEXT NOT NULL, checksum TEXT NOT NULL
);
CREATE TABLE members (
    place TEXT PRIMARY KEY, position INTEGER NOT NULL, content TEXT NOT NULL, checksum TEXT NOT NULL
);
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
COMMIT;
"""
WAIT_SECONDS = 30.0  # for a commit of the writer, and of the writer for readers
BATCH = 1000  # steps that are read in one transaction: few enough to let the writer in between


def checksum(*cells: object) -> str:
    """Return the SHA-256 over the other cells of a row."""
    return hashlib.sha256("\n".join(map(str, cells)).encode("utf-8", "surrogatepass")).hexdigest()


class RunTables:
    """The records of a run folder, read from its SQLite file.

    Args:
        folder: the run folder.
        writable: for the one process that writes; a file without tables gets them.
    """

    def __init__(self, folder: Path, writable: bool = False) -> None:
        self.folder, self.path = folder, folder / FILE
        self.artifacts = Artifacts(folder / "artifacts")
        if not self.path.is_file():
            raise StoreError(f"{folder} is not a run: it has no {FILE}; `fgai-bench run --out {folder}` makes one")
        with self.sqlite_errors():
            self.connection = self._writing() if writable else self._reading()
            try:
                if self._check_file():
                    return
                if not writable:
                    raise EmptyStore(
                        f"{folder} holds no records: its run ended before it wrote one; "
                        f"`fgai-bench run --out {folder}` starts it again"
                    )
                self._create_tables()
            except BaseException:
                self.connection.close()
                raise

    def _writing(self) -> sqlite3.Connection:
        # A rollback journal keeps the store one file that can be copied; FULL makes a commit survive a power cut.
        connection = sqlite3.connect(self.path, timeout=WAIT_SECONDS, isolation_level=None)
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def _reading(self) -> sqlite3.Connection:
        # A reader may have to roll back what a killed writer left, so it asks for write access and then gives it up.
        mode = "rw" if os.access(self.path, os.W_OK) and os.access(self.folder, os.W_OK) else "ro"
        uri = f"{self.path.absolute().as_uri()}?mode={mode}"
        connection = sqlite3.connect(uri, uri=True, timeout=WAIT_SECONDS, isolation_level=None)
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _check_file(self) -> bool:
        """Tell whether the file has tables; raise :class:`StoreError` if it is damaged or no store of this version."""
        self.connection.execute("BEGIN")  # nobody writes while the file is checked
        finding = self._value("PRAGMA integrity_check(1)")
        size, due = self.path.stat().st_size, self._value("PRAGMA page_count") * self._value("PRAGMA page_size")
        version, application = self._value("PRAGMA user_version"), self._value("PRAGMA application_id")
        tables = self._value("SELECT count(*) FROM sqlite_master")
        self.connection.execute("COMMIT")
        if finding == "ok" and size != due:
            finding = f"it has {size} bytes where {due} are due"
        if finding != "ok":
            raise StoreError(f"{self.path} is damaged ({finding}); move {self.folder} away and run again")
        if tables and application != APPLICATION:
            raise StoreError(f"{self.path} is not a store of fgai-bench; choose another folder")
        if tables and version != VERSION:
            age, advice = ("an older", "use that one") if version < VERSION else ("a newer", "upgrade fgai-bench")
            raise StoreError(
                f"{self.path} is a store of version {version}, made by {age} fgai-bench; this one reads version "
                f"{VERSION}, so {advice}"
            )
        return bool(tables)

    def _create_tables(self) -> None:
        """Create the tables in one transaction: on a full disk the file stays empty and can be tried again."""
        try:
            self.connection.executescript(SCHEMA)
        except sqlite3.Error:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Close the connection to the file."""
        self.connection.close()

    def statuses(self) -> dict[str, str]:
        """Return the status of every recorded step, by the hash of the step."""
        with self.sqlite_errors():
            return dict(self.connection.execute("SELECT hash, status FROM steps ORDER BY hash").fetchall())

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the rows of all steps as they lie in the file, in the order of their hashes."""
        last, query = "", "SELECT * FROM steps WHERE hash > ? ORDER BY hash LIMIT ?"
        while True:
            with self.sqlite_errors():
                rows = self.connection.execute(query, (last, BATCH)).fetchall()
            if not rows:
                return
            yield from rows
            last = rows[-1][0]

    def steps(self) -> Iterator[dict[str, Any]]:
        """Yield every recorded step, verified, in the order of their hashes."""
        return map(self.verified, self.rows())

    def step(self, hash: str) -> dict[str, Any]:
        """Return one recorded step, verified."""
        with self.sqlite_errors():
            row = self.connection.execute("SELECT * FROM steps WHERE hash = ?", (hash,)).fetchone()
        if row is None:
            raise StoreError(f"{self.path} has no records of step {hash[:12]}; run again to make them")
        return self.verified(row)

    def verified(self, row: tuple[str, ...]) -> dict[str, Any]:
        """Return the step of a row; raise :class:`StoreError` if the row is not what was written."""
        *cells, written = row
        if checksum(*cells) != written:
            raise StoreError(
                f"{self.path} is damaged: the records of step {row[0]!s:.12} have changed; run again to redo it"
            )
        return dict(json.loads(cells[-1]))

    def members(self) -> list[dict[str, Any]]:
        """Return the places of all planned steps in the order of the plan."""
        rows = self.member_rows()
        if any(checksum(*cells) != written for *cells, written in rows):
            raise StoreError(f"{self.path} is damaged: a label of its plan has changed; run again to write it anew")
        return [json.loads(content) for _, _, content, _ in rows]

    def member_rows(self) -> list[tuple[Any, ...]]:
        """Return the rows of all places as they lie in the file."""
        with self.sqlite_errors():
            return self.connection.execute("SELECT * FROM members ORDER BY position, place").fetchall()

    def _value(self, query: str) -> Any:
        """Return the single value that a query gives."""
        return self.connection.execute(query).fetchone()[0]

    @contextlib.contextmanager
    def sqlite_errors(self) -> Iterator[None]:
        """Turn an error of SQLite in the block into a :class:`StoreError` with one sentence for the person."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise StoreError(f"{self.path} cannot be used: {error}") from None
        except (sqlite3.DatabaseError, UnicodeDecodeError, OverflowError) as error:
            raise StoreError(f"{self.path} is damaged ({error}); move {self.folder} away and run again") from None
