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
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fgai_bench.records.artifacts import DamagedArtifact, MissingArtifact
from fgai_bench.records.canonical import canonical, sha256
from fgai_bench.records.errors import StoreError
from fgai_bench.records.frames import Told, curves, provenance, records, told
from fgai_bench.records.garbage import few_collections
from fgai_bench.records.result import Result, storable
from fgai_bench.records.rows import (
    MEMBER_COLUMNS,
    member_checksum,
    member_row,
    parsed_member,
    place_of,
    result_rows,
    step_checksum,
)
from fgai_bench.records.schema import PARTS, migrate
from fgai_bench.records.tables import FILE, SEAL, WAIT, Tables, is_export, seal

if TYPE_CHECKING:
    import pandas as pd

REPORTED = ("attention", "history")  # roles of the artifacts that figures are drawn from; they are small

# Of a configuration: what names a seed, a step that it builds on or the size of a search, and no code.
DIFFERING = (
    "seed",
    "trained",
    "teacher",
    "attacked",
    "other",
    "effects",
    "crafted_on",
    "surrogate",
    "threat",
    "training",
)


class StoreReader(Tables):
    """A store to read from: that of a run folder, or one that was exported. It needs neither torch nor the suite.

    Damaged records are never returned: a file that SQLite cannot read, or a step whose content does not have its
    checksum, raises :class:`StoreError`.
    """

    def records(self) -> pd.DataFrame:
        """Return one row per step and metric and place in a suite; see :mod:`fgai_bench.records.frames`."""
        with self._shape_errors():
            return records(self.members(), self._by_hash(), self.environments)

    def curves(self) -> pd.DataFrame:
        """Return one row per point of every curve, with the labels of its step."""
        with self._shape_errors():
            return curves(self.members(), self._by_hash())

    def provenance(self) -> pd.DataFrame:
        """Return one row per step: its configuration, where and when it ran, on which data."""
        with self._shape_errors():
            return provenance(self._by_hash(), self.environments)

    def everything(self) -> tuple[list[Told], pd.DataFrame, pd.DataFrame]:
        """Return :func:`told` of all places, :meth:`curves` and :meth:`provenance`, for which a step is read once."""
        with self._shape_errors(), few_collections():
            members, steps, where = self.members(), self._by_hash(), self.environments
            return list(told(members, steps, where)), curves(members, steps), provenance(steps, where)

    def _by_hash(self) -> dict[str, dict[str, Any]]:
        return {step["hash"]: step for step in self.steps()}

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

    def code_headers(self) -> dict[str, dict[str, Any]]:
        """Return the :meth:`headers` of every recorded step, by hash, as far as its code is concerned.

        What differs from seed to seed is left out of the configurations, and equal ones are one object: a store of many
        steps has few.
        """
        names = ("kind", "trial", "status", "started")
        removed = ", ".join(f"'$.{key}'" for key in DIFFERING)
        with self._sqlite_errors(), self._shape_errors():
            query = f"SELECT hash, {', '.join(names)}, json_remove(config, {removed}) FROM steps"
            parsed = cache(json.loads)
            return {
                hash: {**dict(zip(names, values, strict=True)), "config": parsed(config)}
                for hash, *values, config in self._connection.execute(query)
            }

    def members(self) -> list[dict[str, Any]]:
        """Return the places of all planned steps, run or not, in the order of the plan; a place has its latest plan."""
        with self._sqlite_errors(), self._shape_errors():
            rows = self._connection.execute(
                f"SELECT {', '.join(MEMBER_COLUMNS)} FROM members ORDER BY position, place"
            ).fetchall()
            if not self.sealed and any(member_checksum(*row[:-1]) != row[-1] for row in rows):
                raise StoreError(f"{self.path} is damaged: a label of its plan has changed; run again to write it anew")
            if missing := _gaps([row[1] for row in rows]):
                raise StoreError(f"{self.path} is damaged: {missing} places of its plan are missing; run again")
            return [parsed_member(content) for _, _, content, _ in rows]

    def places(self) -> list[dict[str, Any]]:
        """Return of all planned places what counting them needs of :meth:`members`: step, suite, seed, suite_seeds."""
        if not self.sealed:
            return self.members()
        names = ("suite", "step", "seed", "suite_seeds")
        read = ", ".join(f"json_extract(content, '$.{name}')" for name in names)
        with self._sqlite_errors(), self._shape_errors():
            rows = self._connection.execute(f"SELECT position, {read} FROM members ORDER BY position, place").fetchall()
            if {(*map(type, row[1:4]),) for row in rows} - {(str, str, int)} or _gaps([row[0] for row in rows]):
                raise ValueError("it has a place that is none")
            return [dict(zip(names, row[1:], strict=True)) for row in rows]

    def steps(self) -> Iterator[dict[str, Any]]:
        """Yield every recorded step with all that belongs to it, verified, in the order of their hashes."""
        for content, checksum in self._contents():
            yield self._parsed(content, checksum)

    def step(self, hash: str) -> dict[str, Any]:
        """Return one recorded step: its columns, ``metrics``, ``curves``, ``ledgers``, ``flags`` and ``artifacts``."""
        return self._parsed(*self._content(hash))

    def content(self, hash: str) -> dict[str, Any]:
        """Return one recorded step as its tables have it, verified."""
        content, checksum = self._content(hash)
        self._parsed(content, checksum)
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
        problems: dict[str, str] = {}
        named: dict[str, list[str]] = {}  # artifact to the steps that name it
        with self._sqlite_errors():
            rows = self._connection.execute("SELECT step, sha256 FROM artifacts").fetchall() if self.sealed else ()
        for step, name in rows:
            named.setdefault(name, []).append(step)
        for content, checksum in () if self.sealed else self._contents():
            try:
                self._parsed(content, checksum)
            except StoreError as error:
                problems[content["hash"]] = str(error)
            else:
                for row in content["artifacts"]:
                    named.setdefault(row["sha256"], []).append(content["hash"])
        for name in filter(self.artifacts.due, named):
            try:
                self.artifacts.read(name)
            except DamagedArtifact as error:
                problems |= dict.fromkeys(named[name], str(error))
        return problems


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

    def close(self) -> None:
        """Close the connection and seal the file, if it was written to."""
        super().close()
        if not self.sealed:
            seal(self.path)

    def _meet_empty(self) -> None:
        """Accept a file without tables: they are about to be made."""

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
        result = storable(result)
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
            for part, rows in result_rows(result, names).items():
                for row in rows:
                    self._insert(part, {"step": hash, **row})
            self._insert("steps", {**head, "checksum": ""})
            content, _ = self._content(hash)
            self._connection.execute("UPDATE steps SET checksum = ? WHERE hash = ?", (step_checksum(content), hash))
        if head["environment"] not in self.environments:
            del self.environments

    def place(self, members: Iterable[Mapping[str, Any]]) -> None:
        """Write where the steps of a plan stand in its suites; a place that is known gets the step of this plan."""
        with self.transaction():
            rows = self._connection.execute("SELECT place, position, content FROM members").fetchall()
            known = {place: (position, content) for place, position, content in rows}
            unchanged = {content for _, _, content in rows}
            for member in members:
                if canonical(member) in unchanged:
                    continue
                following = len(known)  # positions have no gaps: repair closes them
                place = place_of(member)
                position, earlier = known.get(place, (following, ""))
                unchanged.discard(earlier)
                row = member_row(member, position)
                known[place] = (position, row["content"])
                self._connection.execute("INSERT OR REPLACE INTO members VALUES (?, ?, ?, ?)", tuple(row.values()))

    def forget(self, hashes: Iterable[str]) -> None:
        """Delete steps, so that they are run again."""
        with self.transaction():
            self._delete(hashes)

    def repair(self) -> list[str]:
        """Drop damaged records and files that no record names; return one sentence for each damaged step."""
        damaged, whole = self.damaged(), self.sealed
        self.forget(damaged)
        sentences = list(damaged.values())
        with self.transaction():
            if not whole and (lost := self._repair_members()):
                sentences.append(
                    f"{self.path} was damaged: {lost} places of its plan are lost; run the suites of this folder again "
                    "to write them anew"
                )
            for (hash,) in self._connection.execute("SELECT hash FROM environments").fetchall():
                if hash not in self.environments:
                    self._connection.execute("DELETE FROM environments WHERE hash = ?", (hash,))
        named = [row[0] for row in self._connection.execute("SELECT sha256 FROM artifacts")]
        self.artifacts.remove_all_but(named)
        return sentences

    def _repair_members(self) -> int:
        """Drop places that have changed and close the gaps that they and missing ones leave; return their number."""
        query = f"SELECT {', '.join(MEMBER_COLUMNS)} FROM members ORDER BY position, place"
        rows = self._connection.execute(query).fetchall()
        whole = [row for row in rows if member_checksum(*row[:-1]) == row[-1]]
        lost = len(rows) - len(whole) + _gaps([row[1] for row in rows])
        if lost:
            self._connection.execute("DELETE FROM members")
            for position, (place, _, content, _) in enumerate(whole):
                row = (place, position, content, member_checksum(place, position, content))
                self._connection.execute("INSERT INTO members VALUES (?, ?, ?, ?)", row)
        return lost

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block as one transaction: everything it writes is kept, or nothing if it raises."""
        with self._sqlite_errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._unseal()
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def _unseal(self) -> None:
        """Remove the seal before the first change: a writer that is killed leaves none."""
        if self.sealed:
            self.path.with_suffix(SEAL).unlink(missing_ok=True)
            self.sealed = False

    def _delete(self, hashes: Iterable[str]) -> None:
        for hash in hashes:
            self._connection.execute("DELETE FROM steps WHERE hash = ?", (hash,))
            for part in PARTS:
                self._connection.execute(f"DELETE FROM {part} WHERE step = ?", (hash,))

    def _insert(self, table: str, row: Mapping[str, Any]) -> None:
        marks = ", ".join("?" * len(row))
        line = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})"
        self._connection.execute(line, tuple(row.values()))


def _gaps(positions: list[int]) -> int:
    """Return how many places are missing in an ordered plan, whose positions count from zero.

    >>> _gaps([0, 1, 4, 5])
    2
    """
    return max(positions, default=-1) + 1 - len(set(positions))
