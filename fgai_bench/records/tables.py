"""Tables of a store that is open: its file is checked first, and every step is verified when it is read.

Come here for how a store is opened and read; :mod:`fgai_bench.records.store` gives the records their meaning.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from fgai_bench.records.artifacts import Artifacts, DamagedArtifact
from fgai_bench.records.canonical import sha256
from fgai_bench.records.errors import EmptyStore, StoreError
from fgai_bench.records.exported import MANIFEST, open_export
from fgai_bench.records.rows import COLUMNS, PART_COLUMNS, parsed_step, step_checksum
from fgai_bench.records.schema import APPLICATION, MIGRATIONS, PARTS, defined, objects, version

FILE = "store.sqlite"
SEAL = ".sha256"  # ends the name of the file that holds the hash of a store
WAIT = 30.0  # seconds that a reader waits for a commit, and a commit for readers
TOGETHER = 1000  # steps that are read in one transaction: few enough to let a writer in between
# What a reader stumbles over in records that have their checksum but were not written by this package.
SHAPE_ERRORS = (KeyError, IndexError, TypeError, AttributeError, ValueError, RecursionError)


class Tables:
    """The tables of a run folder, or of one that was exported, and the artifacts beside them."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.path = self.folder / FILE
        self.artifacts = Artifacts(self.folder / "artifacts")
        self.sealed = False
        self._whole: set[tuple[str, str]] = set()  # steps, with their checksums, that were found as they were written
        with self._sqlite_errors():
            if is_export(self.folder):
                self.path = self.folder / MANIFEST
                self._connection, self.artifacts = open_export(self.folder)
                return
            if not self.path.is_file():
                raise StoreError(
                    f"{self.folder} is not a run: it has no {FILE}; `fgai-bench run --out {self.folder}` makes one"
                )
            self._connection = self._connect()
            try:
                self._check_file()
            except BaseException:
                self._connection.close()
                raise

    def _connect(self) -> sqlite3.Connection:
        # A reader may have to roll back what a killed writer left, so it asks for write access and then gives it up.
        mode = "rw" if os.access(self.path, os.W_OK) and os.access(self.folder, os.W_OK) else "ro"
        connection = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode={mode}", uri=True, timeout=WAIT)
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _check_file(self) -> None:
        """Raise :class:`StoreError` if the file is damaged, newer than this package, or not a store."""
        self.sealed = is_sealed(self.path)
        if not self.sealed:
            self._check_pages()
        schema, application = version(self._connection), self._value("PRAGMA application_id")
        if schema > len(MIGRATIONS):
            raise StoreError(
                f"{self.path} has schema version {schema}, made by a newer fgai-bench; this one reads up to "
                f"{len(MIGRATIONS)}, so upgrade fgai-bench to read it"
            )
        if application != APPLICATION and (schema or self._value("SELECT count(*) FROM sqlite_master")):
            raise StoreError(f"{self.path} is not a store of fgai-bench; choose another folder")
        for kind, name, _ in sorted(objects(self._connection) ^ defined(schema)):
            raise StoreError(f"{self.path} is not a store of fgai-bench: its {kind} {name} is not one of ours")
        if not schema:
            self._meet_empty()

    def _check_pages(self) -> None:
        """Raise :class:`StoreError` if SQLite finds its file damaged, or shorter or longer than it should be."""
        self._connection.execute("BEGIN")  # nobody writes while the file is looked at
        findings = [row[0] for row in self._connection.execute("PRAGMA integrity_check(1)")]
        size = self._value("PRAGMA page_count") * self._value("PRAGMA page_size")
        if findings == ["ok"] and self.path.stat().st_size != size:
            findings = [f"it has {self.path.stat().st_size} bytes where {size} are due"]
        self._connection.execute("COMMIT")
        if findings != ["ok"]:
            raise StoreError(f"{self.path} is damaged ({findings[0]}); move {self.folder} away and run again")

    def _meet_empty(self) -> None:
        """Raise :class:`EmptyStore`: there is nothing to read."""
        raise EmptyStore(
            f"{self.folder} holds no records: its run ended before it wrote one; `fgai-bench run --out {self.folder}` "
            "starts it again"
        )

    def close(self) -> None:
        """Close the connection to the file, and to the artifacts of an export."""
        self._connection.close()
        self.artifacts.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @cached_property
    def environments(self) -> dict[str, dict[str, Any]]:
        """Return the environments in which steps ran, by hash, without those that were changed."""
        with self._sqlite_errors(), self._shape_errors():
            rows = self._connection.execute("SELECT hash, content FROM environments").fetchall()
            return {hash: dict(json.loads(content)) for hash, content in rows if sha256(content.encode()) == hash}

    def _parsed(self, content: dict[str, Any], checksum: str) -> dict[str, Any]:
        """Return a step with its JSON parsed; raise :class:`StoreError` if it is not what was written."""
        named = f"{self.path} is damaged: "
        try:
            if (
                (content["hash"], checksum) not in self._whole
                and not self.sealed
                and step_checksum(content) != checksum
            ):
                raise StoreError(
                    f"{named}the records of step {content['hash'][:12]} have changed; run again to redo it"
                )
            if content["environment"] not in self.environments:
                raise StoreError(f"{named}where step {content['hash'][:12]} ran has changed; run again to redo it")
            self._whole.add((content["hash"], checksum))
            return parsed_step(content)
        except StoreError:
            raise
        except SHAPE_ERRORS as error:
            raise StoreError(
                f"{named}the records of step {content['hash']!s:.12} are none ({error}); run again"
            ) from error

    def _content(self, hash: str) -> tuple[dict[str, Any], str]:
        """Return everything recorded about a step as plain data, and the checksum that was recorded with it."""
        with self._sqlite_errors():
            found = self._between(hash, hash)
        if not found:
            raise StoreError(f"{self.path} is damaged: it has lost the step {hash[:12]}; run again to redo it")
        return found[0]

    def _contents(self) -> Iterator[tuple[dict[str, Any], str]]:
        """Yield what :meth:`_content` returns for every step, in the order of their hashes."""
        last = ""
        query = "SELECT hash FROM steps WHERE hash > ? ORDER BY hash LIMIT ?"
        while True:
            with self._sqlite_errors(), self._snapshot():
                hashes = [row[0] for row in self._connection.execute(query, (last, TOGETHER))]
                found = self._between(hashes[0], hashes[-1]) if hashes else []
            if not found:
                return
            yield from found
            last = hashes[-1]

    def _between(self, first: str, last: str) -> list[tuple[dict[str, Any], str]]:
        """Return the content and the checksum of the steps whose hashes lie between two, in their order."""
        with self._snapshot():
            rows = self._connection.execute(
                f"SELECT {', '.join(COLUMNS)}, checksum FROM steps WHERE hash BETWEEN ? AND ? ORDER BY hash",
                (first, last),
            ).fetchall()
            contents: dict[str, dict[str, Any]] = {
                row[0]: {**dict(zip(COLUMNS, row, strict=False)), **{part: [] for part in PARTS}} for row in rows
            }
            for part in PARTS:
                names = PART_COLUMNS[part]
                query = f"SELECT step, {', '.join(names)} FROM {part} WHERE step BETWEEN ? AND ? ORDER BY 1, 2, 3"
                for step, *values in self._connection.execute(query, (first, last)):
                    if step in contents:
                        contents[step][part].append(dict(zip(names, values, strict=True)))
        return [(contents[row[0]], row[-1]) for row in rows]

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator[None]:
        """Let all queries of the block see the same state of the file."""
        if self._connection.in_transaction:
            yield
            return
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    def _value(self, query: str) -> Any:
        """Return the single value that a query gives."""
        return self._connection.execute(query).fetchone()[0]

    @contextlib.contextmanager
    def _sqlite_errors(self) -> Iterator[None]:
        """Turn an error of SQLite in the block into a :class:`StoreError` with one sentence for the person."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise StoreError(f"{self.path} cannot be used: {error}") from None
        except (sqlite3.DatabaseError, UnicodeDecodeError, OverflowError) as error:
            raise StoreError(f"{self.path} is damaged ({error}); move {self.folder} away and run again") from None

    @contextlib.contextmanager
    def _shape_errors(self) -> Iterator[None]:
        """Turn what a reader stumbles over in records that are none into a :class:`StoreError` with one sentence."""
        try:
            yield
        except (StoreError, DamagedArtifact):
            raise
        except SHAPE_ERRORS as error:
            cause = f"{type(error).__name__}: {error}"
            raise StoreError(f"{self.path} is damaged: its records are not those of fgai-bench ({cause})") from error


def seal(path: Path) -> None:
    """Write the hash of a store that is closed beside it, as ``sha256sum`` does: it need not be checked row by row."""
    with contextlib.suppress(OSError):  # a store without a seal is as good, and slower to read
        path.with_suffix(SEAL).write_text(f"{_digest(path)}  {path.name}\n")


def is_sealed(path: Path) -> bool:
    """Tell whether a store is, bit by bit, as its last writer left it."""
    try:
        return path.with_suffix(SEAL).read_text().split() == [_digest(path), path.name]
    except (OSError, UnicodeDecodeError):
        return False


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def is_export(folder: Path) -> bool:
    """Tell whether a folder holds exported records instead of the store of a run."""
    return (folder / MANIFEST).is_file() and not (folder / FILE).is_file()
