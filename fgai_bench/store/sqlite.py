"""Readers and the writer of a store: one SQLite file with every record of a run, and the artifacts beside it.

One process writes, in transactions; any number may read. Each step carries a checksum over everything recorded about
it, so that a flipped bit is noticed when it is read, by SQLite's own check or by ours.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fgai_bench.store.artifacts import Artifacts, DamagedArtifact, MissingArtifact
from fgai_bench.store.canonical import canonical, sha256
from fgai_bench.store.errors import StoreError
from fgai_bench.store.exported import MANIFEST, open_export
from fgai_bench.store.records import curves, provenance, records
from fgai_bench.store.result import Result
from fgai_bench.store.schema import APPLICATION, MIGRATIONS, PARTS, migrate, version

if TYPE_CHECKING:
    import pandas as pd

FILE = "store.sqlite"
COLUMNS = (
    "hash",
    "kind",
    "trial",
    "config",
    "status",
    "reason",
    "detail",
    "facts",
    "environment",
    "started",
    "seconds",
)
MEMBER_COLUMNS = ("place", "position", "content", "checksum")
REPORTED = ("attention", "history")  # roles of the artifacts that figures are drawn from; they are small
WAIT = 30.0  # seconds that a reader waits for a commit, and a commit for readers


class StoreReader:
    """A store to read from: that of a run folder, or one that was exported. It needs neither torch nor the suite.

    Damaged records are never returned: a file that SQLite cannot read, or a step whose content does not have its
    checksum, raises :class:`StoreError`.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.path = self.folder / FILE
        self.artifacts = Artifacts(self.folder / "artifacts")
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
            self._check_file()

    def _connect(self) -> sqlite3.Connection:
        # A reader may have to roll back what a killed writer left, so it asks for write access and then gives it up.
        mode = "rw" if os.access(self.path, os.W_OK) and os.access(self.folder, os.W_OK) else "ro"
        connection = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode={mode}", uri=True, timeout=WAIT)
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _check_file(self) -> None:
        """Raise :class:`StoreError` if the file is damaged, newer than this package, or not a store."""
        self._connection.execute("BEGIN")  # nobody writes while the file is looked at
        findings = [row[0] for row in self._connection.execute("PRAGMA integrity_check(1)")]
        size = self._value("PRAGMA page_count") * self._value("PRAGMA page_size")
        if findings == ["ok"] and self.path.stat().st_size != size:
            findings = [f"it has {self.path.stat().st_size} bytes where {size} are due"]
        self._connection.execute("COMMIT")
        if findings != ["ok"]:
            raise StoreError(f"{self.path} is damaged ({findings[0]}); move it away and run again")
        schema, application = version(self._connection), self._value("PRAGMA application_id")
        if schema > len(MIGRATIONS):
            raise StoreError(
                f"{self.path} has schema version {schema}, made by a newer fgai-bench; this one reads up to "
                f"{len(MIGRATIONS)}, so upgrade fgai-bench to read it"
            )
        if application != APPLICATION and (schema or self._value("SELECT count(*) FROM sqlite_master")):
            raise StoreError(f"{self.path} is not a store of fgai-bench; choose another folder")

    def close(self) -> None:
        """Close the connection to the file, and to the artifacts of an export."""
        self._connection.close()
        self.artifacts.close()

    def __enter__(self) -> StoreReader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def records(self) -> pd.DataFrame:
        """Return one row per step and metric and place in a suite; see :mod:`fgai_bench.store.records`."""
        return records(self)

    def curves(self) -> pd.DataFrame:
        """Return one row per point of every curve, with the labels of its step."""
        return curves(self)

    def provenance(self) -> pd.DataFrame:
        """Return one row per step: its configuration, where and when it ran, on which data."""
        return provenance(self)

    def statuses(self) -> dict[str, str]:
        """Return the status of every recorded step, by the hash of the step."""
        with self._sqlite_errors():
            return dict(self._connection.execute("SELECT hash, status FROM steps"))

    def headers(self) -> dict[str, dict[str, Any]]:
        """Return kind, trial, status, start and configuration of every recorded step, by hash, without its values."""
        names = ("kind", "trial", "status", "started", "environment", "config")
        with self._sqlite_errors():
            rows = self._connection.execute(f"SELECT hash, {', '.join(names)} FROM steps").fetchall()
        return {
            hash: {**dict(zip(names, values, strict=True)), "config": json.loads(values[-1])} for hash, *values in rows
        }

    def members(self) -> list[dict[str, Any]]:
        """Return the places of all planned steps, run or not, in the order of the plan; a place has its latest plan."""
        with self._sqlite_errors():
            rows = self._connection.execute(
                f"SELECT {', '.join(MEMBER_COLUMNS)} FROM members ORDER BY position, place"
            ).fetchall()
        if any(_member_checksum(*row[:-1]) != row[-1] for row in rows):
            raise StoreError(f"{self.path} is damaged: a label of its plan has changed; run again to write it anew")
        return [json.loads(content) for _, _, content, _ in rows]

    @cached_property
    def environments(self) -> dict[str, dict[str, Any]]:
        """Return the environments in which steps ran, by hash, without those that were changed."""
        with self._sqlite_errors():
            rows = self._connection.execute("SELECT hash, content FROM environments").fetchall()
        return {hash: json.loads(content) for hash, content in rows if sha256(content.encode()) == hash}

    def steps(self) -> Iterator[dict[str, Any]]:
        """Yield every recorded step with all that belongs to it, verified, in the order of their hashes."""
        with self._sqlite_errors():
            hashes = [row[0] for row in self._connection.execute("SELECT hash FROM steps ORDER BY hash")]
        for hash in hashes:
            yield self.step(hash)

    def step(self, hash: str) -> dict[str, Any]:
        """Return one recorded step: its columns, ``metrics``, ``curves``, ``ledgers``, ``flags`` and ``artifacts``."""
        content = self.content(hash)
        return {**content, "config": json.loads(content["config"]), "facts": json.loads(content["facts"])}

    def content(self, hash: str) -> dict[str, Any]:
        """Return one recorded step as its tables have it, verified."""
        with self._sqlite_errors():
            content, checksum = self._content(hash)
        if content is None or sha256(content) != checksum:
            raise StoreError(
                f"{self.path} is damaged: the records of step {hash[:12]} have changed; run again to redo it"
            )
        if content["environment"] not in self.environments:
            raise StoreError(f"{self.path} is damaged: where step {hash[:12]} ran has changed; run again to redo it")
        return content

    def result(self, hash: str) -> Result:
        """Return the result of a step as it was recorded, without the content of its artifacts."""
        step = self.step(hash)
        measured = [row for row in step["metrics"] if row["value"] is not None]
        values = {
            family: {row["name"]: float(row["value"]) for row in measured if row["family"] == family}
            for family in ("measure", "cost")
        }
        return Result(
            step["status"],
            step["reason"],
            step["detail"],
            metrics=values["measure"],
            cost=values["cost"],
            not_applicable={row["name"]: row["reason"] for row in step["metrics"] if row["value"] is None},
            curves={row["name"]: (json.loads(row["x"]), json.loads(row["y"])) for row in step["curves"]},
            ledger={row["name"]: float(row["value"]) for row in step["ledgers"]},
            flags=tuple(row["reason"] for row in step["flags"]),
            facts=step["facts"],
            environment=self.environments[step["environment"]],
            started=step["started"],
            seconds=step["seconds"],
        )

    def artifact(self, hash: str, role: str) -> bytes:
        """Return the content of an artifact of a step, verified."""
        with self._sqlite_errors():
            row = self._connection.execute(
                "SELECT sha256 FROM artifacts WHERE step = ? AND role = ?", (hash, role)
            ).fetchone()
        if row is None:
            raise DamagedArtifact(f"the step {hash[:12]} has no artifact {role!r}")
        return self.artifacts.read(row[0])

    def reported(self) -> dict[tuple[str, str], bytes]:
        """Return the content of the artifacts that figures are drawn from, by step and role, if they are here."""
        marks = ", ".join("?" * len(REPORTED))
        with self._sqlite_errors():
            query = f"SELECT step, role, sha256 FROM artifacts WHERE role IN ({marks}) ORDER BY step, role"
            rows = self._connection.execute(query, REPORTED).fetchall()
        contents = {}
        for step, role, name in rows:
            with suppress(MissingArtifact):
                contents[step, role] = self.artifacts.read(name)
        return contents

    def damaged(self) -> dict[str, str]:
        """Return what is wrong, by step, for every step whose records or artifacts are not what was written."""
        problems = {}
        with self._sqlite_errors():
            hashes = [row[0] for row in self._connection.execute("SELECT hash FROM steps")]
        for hash in hashes:
            try:
                names = [row["sha256"] for row in self.step(hash)["artifacts"]]
                for name in filter(self.artifacts.due, names):
                    self.artifacts.read(name)
            except (StoreError, DamagedArtifact) as error:
                problems[hash] = str(error)
        return problems

    def _content(self, hash: str) -> tuple[dict[str, Any] | None, str]:
        """Return everything recorded about a step as plain data, and the checksum that was recorded with it."""
        row = self._connection.execute(
            f"SELECT {', '.join(COLUMNS)}, checksum FROM steps WHERE hash = ?", (hash,)
        ).fetchone()
        if row is None:
            return None, ""
        content = dict(zip(COLUMNS, row, strict=False))
        for part in PARTS:
            cursor = self._connection.execute(f"SELECT * FROM {part} WHERE step = ? ORDER BY 1, 2, 3", (hash,))
            names = [column[0] for column in cursor.description]
            content[part] = [dict(zip(names[1:], values[1:], strict=True)) for values in cursor]
        return content, row[-1]

    def _value(self, query: str) -> Any:
        """Return the single value that a query gives."""
        return self._connection.execute(query).fetchone()[0]

    @contextmanager
    def _sqlite_errors(self) -> Iterator[None]:
        """Turn an error of SQLite in the block into a :class:`StoreError` with one sentence for the person."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise StoreError(f"{self.path} cannot be used: {error}") from None
        except (sqlite3.DatabaseError, UnicodeDecodeError, OverflowError) as error:
            raise StoreError(f"{self.path} is damaged ({error}); move it away and run again") from None


class Recordable(Protocol):
    """A step of a plan, as far as the store is concerned."""

    @property
    def hash(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def trial(self) -> str: ...
    @property
    def config(self) -> Mapping[str, Any]: ...


class Store(StoreReader):
    """The store of the one process that writes."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        path = Path(folder)
        if is_export(path):
            raise StoreError(
                f"{path} holds exported records, which can be read but not gone on with; use its run folder"
            )
        path.mkdir(parents=True, exist_ok=True)
        (path / FILE).touch()
        super().__init__(path)
        with self._sqlite_errors():
            migrate(self._connection)

    def _connect(self) -> sqlite3.Connection:
        # A rollback journal keeps the store one file that can be copied; FULL makes a commit survive a power cut.
        connection = sqlite3.connect(self.path, timeout=WAIT, isolation_level=None)
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def record(self, step: Recordable, result: Result) -> None:
        """Write the result of a step: its artifacts first, then every row in one transaction."""
        self._record(step.hash, step.kind, step.trial, step.config, result)

    def _record(self, hash: str, kind: str, trial: str, config: Mapping[str, Any], result: Result) -> None:
        names = {role: self.artifacts.write(content) for role, content in sorted(result.artifacts.items())}
        environment = canonical(result.environment)
        head = {
            "hash": hash,
            "kind": kind,
            "trial": trial,
            "config": canonical(config),
            "status": result.status,
            "reason": result.reason,
            "detail": result.detail,
            "facts": canonical(result.facts),
            "environment": sha256(environment.encode()),
            "started": result.started,
            "seconds": result.seconds,
        }
        with self.transaction():
            self._delete([hash])
            self._connection.execute(
                "INSERT OR IGNORE INTO environments VALUES (?, ?)", (head["environment"], environment)
            )
            for part, rows in _rows(result, names).items():
                for row in rows:
                    self._insert(part, {"step": hash, **row})
            self._insert("steps", {**head, "checksum": ""})
            content, _ = self._content(hash)
            self._connection.execute("UPDATE steps SET checksum = ? WHERE hash = ?", (sha256(content), hash))
        self.__dict__.pop("environments", None)

    def place(self, members: Iterable[Mapping[str, Any]]) -> None:
        """Write where the steps of a plan stand in its suites; a place that is known gets the step of this plan."""
        with self.transaction():
            known = dict(self._connection.execute("SELECT place, position FROM members"))
            for member in members:
                row = member_row(member, known.setdefault(place_of(member), len(known)))
                self._connection.execute("INSERT OR REPLACE INTO members VALUES (?, ?, ?, ?)", tuple(row.values()))

    def forget(self, hashes: Iterable[str]) -> None:
        """Delete steps, so that they are run again."""
        with self.transaction():
            self._delete(hashes)

    def repair(self) -> list[str]:
        """Drop damaged records and files that no record names; return one sentence for each damaged step."""
        damaged = self.damaged()
        self.forget(damaged)
        with self.transaction():
            for *row, checksum in self._connection.execute(
                f"SELECT {', '.join(MEMBER_COLUMNS)} FROM members"
            ).fetchall():
                if _member_checksum(*row) != checksum:
                    self._connection.execute("DELETE FROM members WHERE place = ?", row[:1])
            for (hash,) in self._connection.execute("SELECT hash FROM environments").fetchall():
                if hash not in self.environments:
                    self._connection.execute("DELETE FROM environments WHERE hash = ?", (hash,))
        named = [row[0] for row in self._connection.execute("SELECT sha256 FROM artifacts")]
        self.artifacts.remove_all_but(named)
        return list(damaged.values())

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block as one transaction: everything it writes is kept, or nothing if it raises."""
        with self._sqlite_errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def _delete(self, hashes: Iterable[str]) -> None:
        for hash in hashes:
            self._connection.execute("DELETE FROM steps WHERE hash = ?", (hash,))
            for part in PARTS:
                self._connection.execute(f"DELETE FROM {part} WHERE step = ?", (hash,))

    def _insert(self, table: str, row: Mapping[str, Any]) -> None:
        marks = ", ".join("?" * len(row))
        line = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})"
        self._connection.execute(line, tuple(row.values()))


def _rows(result: Result, artifacts: Mapping[str, str]) -> dict[str, list[dict[str, Any]]]:
    """Return a result as rows of the tables that belong to a step, by table."""
    measured = [("measure", result.metrics), ("cost", result.cost)]
    metrics: list[dict[str, Any]] = [
        {"name": name, "family": family, "value": _number(value), "reason": ""}
        for family, values in measured
        for name, value in values.items()
    ]
    metrics += [
        {"name": name, "family": "measure", "value": None, "reason": reason}
        for name, reason in result.not_applicable.items()
    ]
    return {
        "metrics": metrics,
        "curves": [
            {"name": n, "x": json.dumps(list(x)), "y": json.dumps(list(y))} for n, (x, y) in result.curves.items()
        ],
        "ledgers": [{"name": name, "value": _number(value)} for name, value in result.ledger.items()],
        "flags": [{"position": position, "reason": reason} for position, reason in enumerate(result.flags)],
        "artifacts": [
            {"role": role, "sha256": name, "bytes": len(result.artifacts[role])} for role, name in artifacts.items()
        ],
    }


def _number(value: float) -> float | str:
    """Return a number as SQLite keeps it: one that is not finite as its name, since SQLite has no NaN."""
    return value if value - value == 0 else str(value)


def is_export(folder: Path) -> bool:
    """Tell whether a folder holds exported records instead of the store of a run."""
    return (folder / MANIFEST).is_file() and not (folder / FILE).is_file()


def place_of(member: Mapping[str, Any]) -> str:
    """Return the identity of a place: everything about it but the step that stands there and what is shown of it."""
    shown = ("metrics", "suite_seeds")
    return sha256({**{key: value for key, value in member.items() if key not in shown}, "step": ""})


def member_row(member: Mapping[str, Any], position: int) -> dict[str, Any]:
    """Return a place as a row of its table."""
    place, content = place_of(member), canonical(member)
    return dict(
        zip(MEMBER_COLUMNS, (place, position, content, _member_checksum(place, position, content)), strict=True)
    )


def _member_checksum(place: str, position: int, content: str) -> str:
    """Return the checksum of a row of the table of places."""
    return sha256([place, position, content])
