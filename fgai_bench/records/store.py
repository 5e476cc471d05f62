"""The store of a run: one SQLite file with every record, and the artifacts beside it; exports are read here too.

One process writes, in transactions; any number may read. A step, with everything that was recorded about it, is one
JSON text with one SHA-256; so is each place of the plan. SQLite checks its own pages when the file is opened. So no
flipped bit and no missing end of the file goes unnoticed.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from fgai_bench.records.artifacts import Artifacts, DamagedArtifact, MissingArtifact
from fgai_bench.records.canonical import canonical, sha256
from fgai_bench.records.errors import EmptyStore, StoreError
from fgai_bench.records.export_format import MANIFEST, ExportTables
from fgai_bench.records.flags import BELOW_FLOOR, derived_flags
from fgai_bench.records.frames import curves, provenance, records
from fgai_bench.records.result import RecordedStep, Result, encoded_step, result_of, storable

if TYPE_CHECKING:
    import pandas as pd

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
TABLES = {" ".join(part.split()) for part in SCHEMA.split(";") if "CREATE" in part}  # no view or trigger, which run SQL
# A rollback journal keeps the store one file that can be copied; FULL makes a commit survive a power cut.
WRITING, READING = ("journal_mode = DELETE", "synchronous = FULL"), ("query_only = ON",)
WAIT_SECONDS = 30.0  # for a commit of the writer, and of the writer for readers
BATCH = 1000  # steps that are read in one transaction: few enough to let the writer in between
DRAWN_ROLES = ("attention", "history")  # roles of the artifacts that figures are drawn from; they are small
HEADER = ("hash", "kind", "trial", "status", "started", "environment", "config")
SHOWN = ("metrics", "suite_seeds", "trials", "score", "trust")  # of a place: no part of its identity


class StoreReader:
    """The records of a run folder or of an export, to read. It needs neither torch nor the suite.

    Damaged records are never returned: a file that SQLite cannot read, or a record that does not have its hash, raises
    :class:`StoreError`.
    """

    _writable = False

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._tables: RunTables | ExportTables
        if is_export(self.folder):
            self._tables = ExportTables(self.folder)
        else:
            self._tables = RunTables(self.folder, self._writable)
        self.path, self.artifacts = self._tables.path, self._tables.artifacts

    def close(self) -> None:
        self._tables.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def records(self) -> pd.DataFrame:
        """Return one row per step and metric and place in a suite; see :mod:`fgai_bench.records.frames`."""
        return records(self.members(), self.by_hash())

    def curves(self) -> pd.DataFrame:
        """Return one row per point of every curve, with the labels of its step."""
        return curves(self.members(), self.by_hash())

    def provenance(self) -> pd.DataFrame:
        """Return one row per step: its configuration, where and when it ran, on which data."""
        return provenance(self.by_hash())

    def by_hash(self) -> dict[str, dict[str, Any]]:
        """Return :meth:`steps` by their hashes."""
        return {step["hash"]: step for step in self.steps()}

    def statuses(self) -> dict[str, str]:
        """Return the status of every recorded step, by the hash of the step."""
        return self._tables.statuses()

    def ready(self) -> set[str]:
        """Return the hashes of the steps that have values."""
        return {hash for hash, status in self.statuses().items() if status == "ok"}

    def headers(self) -> dict[str, dict[str, Any]]:
        """Return the :data:`HEADER` of every recorded step, by hash, without its values."""
        return {step["hash"]: {key: step[key] for key in HEADER} for step in self.steps()}

    def members(self) -> list[dict[str, Any]]:
        """Return the places of all planned steps, run or not, in the order of the plan; a place has its latest plan."""
        return self._tables.members()

    def steps(self) -> Iterator[dict[str, Any]]:
        """Yield every recorded step with all that belongs to it, verified, in the order of their hashes."""
        return self._tables.steps()

    def step(self, hash: str) -> dict[str, Any]:
        """Return one recorded step, as :func:`fgai_bench.records.result.encoded_step` lists its parts."""
        return self._tables.step(hash)

    def result(self, hash: str) -> Result:
        """Return the result of a step as it was recorded, without the content of its artifacts."""
        return result_of(self.step(hash))

    def artifact(self, hash: str, role: str) -> bytes:
        """Return the content of an artifact of a step, verified."""
        for row in self.step(hash)["artifacts"]:
            if row["role"] == role:
                return self.artifacts.read(row["sha256"])
        raise MissingArtifact(f"the step {hash[:12]} has no artifact {role!r}")

    def below_floors(self) -> dict[str, str]:
        """Return the attacks below a recorded floor of their budget, by hash, with the sentence."""
        ready = self.ready()
        kinds = {member["step"]: member["kind"] for member in self.members() if member["step"] in ready}
        if "certify" not in kinds.values():
            return {}  # without a floor, no step is read
        flags = derived_flags(self.step(hash) for hash, kind in kinds.items() if kind in ("attack", "certify"))
        return {hash: flag for hash, found in flags.items() for flag in found if flag.startswith(BELOW_FLOOR)}

    def damaged(self) -> dict[str, str]:
        """Return what is wrong, by step, for every step whose records or artifacts are not what was written.

        An artifact that is not there is no damage: the record stands without it.
        """
        problems: dict[str, str] = {}
        holders: dict[str, list[str]] = {}  # artifact to the steps that name it
        for hash in self.statuses():
            try:
                for row in self.step(hash)["artifacts"]:
                    holders.setdefault(row["sha256"], []).append(hash)
            except StoreError as error:
                problems[hash] = str(error)
        for name in filter(self.artifacts.holds, holders):
            try:
                self.artifacts.read(name)
            except DamagedArtifact as error:
                problems |= dict.fromkeys(holders[name], str(error))
        return problems


class Store(StoreReader):
    """The store of the one process that writes."""

    _writable = True
    _tables: RunTables

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        path = Path(folder)
        if is_export(path):
            raise StoreError(
                f"{path} holds exported records, which can be read but not gone on with; use its run folder"
            )
        path.mkdir(parents=True, exist_ok=True)
        (path / FILE).touch()
        super().__init__(path)

    def record(self, step: RecordedStep, result: Result, elsewhere: Iterable[Mapping[str, Any]] = ()) -> None:
        """Write the result of a step: its artifacts first, then its record in one transaction.

        ``elsewhere`` are artifacts that are not at hand, as another store has recorded them.
        """
        result = storable(result)
        held = [
            {"role": role, "sha256": self.artifacts.write(content), "bytes": len(content)}
            for role, content in sorted(result.artifacts.items())
        ]
        content = encoded_step(step, result, [*held, *elsewhere])
        cells = (step.hash, result.status, content)
        with self.transaction() as execute:
            execute("INSERT OR REPLACE INTO steps VALUES (?, ?, ?, ?)", (*cells, checksum(*cells)))

    def place(self, members: Iterable[Mapping[str, Any]]) -> None:
        """Write where the steps of a plan stand in its suites; a place that is known gets the step of this plan."""
        known = {place: (position, content) for place, position, content, _ in self._tables.member_rows()}
        following = count(max((position for position, _ in known.values()), default=-1) + 1)
        with self.transaction() as execute:
            for member in members:
                place, content = place_of(member), canonical(member)
                if place not in known or known[place][1] != content:
                    known[place] = known[place][0] if place in known else next(following), content
                    cells = (place, *known[place])
                    execute("INSERT OR REPLACE INTO members VALUES (?, ?, ?, ?)", (*cells, checksum(*cells)))

    def forget(self, hashes: Iterable[str]) -> None:
        """Delete steps, so that they are run again."""
        with self.transaction() as execute:
            for hash in hashes:
                execute("DELETE FROM steps WHERE hash = ?", (hash,))

    def repair(self) -> list[str]:
        """Drop damaged records and files that no record names; return one sentence for each damaged step."""
        damaged = self.damaged()
        self.forget(damaged)
        sentences = list(damaged.values())
        rows = self._tables.member_rows()
        if changed := [cells[0] for *cells, written in rows if checksum(*cells) != written]:
            with self.transaction() as execute:
                for place in changed:
                    execute("DELETE FROM members WHERE place = ?", (place,))
            sentences.append(
                f"{self.path} was damaged: {len(changed)} places of its plan are lost; run the suites of this folder "
                "again to write them anew"
            )
        self.artifacts.remove_all_but(row["sha256"] for step in self.steps() for row in step["artifacts"])
        return sentences

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Yield a function that executes SQL; everything it writes is kept, or nothing if the block raises."""
        connection = self._tables.connection
        with self._tables.sqlite_errors(), connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection.execute


class RunTables:
    """The records of a run folder, read from its SQLite file; if ``writable``, a file without tables gets them."""

    def __init__(self, folder: Path, writable: bool = False) -> None:
        self.folder, self.path = folder, folder / FILE
        self.artifacts = Artifacts(folder / "artifacts")
        if not self.path.is_file():
            raise StoreError(f"{folder} is not a run: it has no {FILE}; `fgai-bench run --out {folder}` makes one")
        with self.sqlite_errors():
            # A reader may have to roll back what a killed writer left: it asks for write access and then gives it up.
            may_write = os.access(self.path, os.W_OK) and os.access(folder, os.W_OK)
            uri = f"{self.path.absolute().as_uri()}?mode={'rw' if writable or may_write else 'ro'}"
            self.connection = sqlite3.connect(uri, uri=True, timeout=WAIT_SECONDS, isolation_level=None)
            try:
                for pragma in WRITING if writable else READING:
                    self.connection.execute(f"PRAGMA {pragma}")
                if self._check_file():
                    return
                if not writable:
                    raise EmptyStore(
                        f"{folder} holds no records: its run ended before it wrote one; "
                        f"`fgai-bench run --out {folder}` starts it again"
                    )
                self.connection.executescript(SCHEMA)
            except BaseException:
                self.connection.close()
                raise

    def _check_file(self) -> bool:
        """Tell whether the file has tables; raise :class:`StoreError` if it is damaged or no store of this version."""
        self.connection.execute("BEGIN")  # nobody writes while the file is checked
        version, application = self._value("PRAGMA user_version"), self._value("PRAGMA application_id")
        tables = {" ".join(sql.split()) for (sql,) in self.connection.execute("SELECT sql FROM sqlite_master") if sql}
        if (application, version) == (APPLICATION, VERSION) and not tables <= TABLES:
            raise StoreError(f"{self.path} has views or tables that no store has; move {self.folder} away")
        finding = self._value("PRAGMA integrity_check(1)")
        size, due = self.path.stat().st_size, self._value("PRAGMA page_count") * self._value("PRAGMA page_size")
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

    def close(self) -> None:
        self.connection.close()

    def statuses(self) -> dict[str, str]:
        with self.sqlite_errors():
            return dict(self.connection.execute("SELECT hash, status FROM steps ORDER BY hash").fetchall())

    def steps(self) -> Iterator[dict[str, Any]]:
        last, query = "", "SELECT * FROM steps WHERE hash > ? ORDER BY hash LIMIT ?"
        while True:
            with self.sqlite_errors():
                rows = self.connection.execute(query, (last, BATCH)).fetchall()
            if not rows:
                return
            yield from map(self.verified, rows)
            last = rows[-1][0]

    def step(self, hash: str) -> dict[str, Any]:
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
        rows = self.member_rows()
        if any(checksum(*cells) != written for *cells, written in rows):
            raise StoreError(f"{self.path} is damaged: a label of its plan has changed; run again to write it anew")
        return [json.loads(content) for _, _, content, _ in rows]

    def member_rows(self) -> list[tuple[Any, ...]]:
        """Return the rows of all places as they lie in the file."""
        with self.sqlite_errors():
            return self.connection.execute("SELECT * FROM members ORDER BY position, place").fetchall()

    def _value(self, query: str) -> Any:
        return self.connection.execute(query).fetchone()[0]

    @contextmanager
    def sqlite_errors(self) -> Iterator[None]:
        """Turn an error of SQLite in the block into a :class:`StoreError` with one sentence for the person."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise StoreError(f"{self.path} cannot be used: {error}") from None
        except (sqlite3.DatabaseError, UnicodeDecodeError, OverflowError) as error:
            raise StoreError(f"{self.path} is damaged ({error}); move {self.folder} away and run again") from None


def checksum(*cells: object) -> str:
    return hashlib.sha256("\n".join(map(str, cells)).encode("utf-8", "surrogatepass")).hexdigest()


def place_of(member: Mapping[str, Any]) -> str:
    """Return the identity of a place: everything about it but the step that stands there and what is shown of it."""
    return sha256({**{key: value for key, value in member.items() if key not in SHOWN}, "step": ""})


def is_export(folder: Path) -> bool:
    """Tell whether a folder holds exported records instead of the store of a run."""
    return (folder / MANIFEST).is_file() and not (folder / FILE).is_file()
