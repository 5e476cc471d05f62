"""The store of a run: read its records, or those of an export, and write new ones.

One process writes, in transactions; any number may read. :mod:`fgai_bench.records.tables` has the file of a run, and
:mod:`fgai_bench.records.exported` the files of an export.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from fgai_bench.records.artifacts import DamagedArtifact, MissingArtifact
from fgai_bench.records.canonical import canonical, sha256
from fgai_bench.records.errors import StoreError
from fgai_bench.records.exported import MANIFEST, ExportTables
from fgai_bench.records.frames import PlacedStep, curves, placed_steps, provenance, records
from fgai_bench.records.result import Result, encoded_step, result_of, storable
from fgai_bench.records.tables import FILE, RunTables, checksum

if TYPE_CHECKING:
    import pandas as pd

DRAWN_ROLES = ("attention", "history")  # roles of the artifacts that figures are drawn from; they are small
HEADER = ("hash", "kind", "trial", "status", "started", "environment", "config")
SHOWN = ("metrics", "suite_seeds", "trials")  # of a place: what is shown of it, which is not part of its identity


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
        """Close the files."""
        self._tables.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def records(self) -> pd.DataFrame:
        """Return one row per step and metric and place in a suite; see :mod:`fgai_bench.records.frames`."""
        return records(self.members(), self._by_hash())

    def curves(self) -> pd.DataFrame:
        """Return one row per point of every curve, with the labels of its step."""
        return curves(self.members(), self._by_hash())

    def provenance(self) -> pd.DataFrame:
        """Return one row per step: its configuration, where and when it ran, on which data."""
        return provenance(self._by_hash())

    def everything(self) -> tuple[list[PlacedStep], pd.DataFrame, pd.DataFrame]:
        """Return the recorded steps at their places, :meth:`curves` and :meth:`provenance`, reading each step once."""
        members, steps = self.members(), self._by_hash()
        return list(placed_steps(members, steps)), curves(members, steps), provenance(steps)

    def _by_hash(self) -> dict[str, dict[str, Any]]:
        return {step["hash"]: step for step in self.steps()}

    def statuses(self) -> dict[str, str]:
        """Return the status of every recorded step, by the hash of the step."""
        return self._tables.statuses()

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
        raise DamagedArtifact(f"the step {hash[:12]} has no artifact {role!r}")

    def reported(self) -> dict[tuple[str, str], bytes]:
        """Return the content of the artifacts that figures are drawn from, by step and role, if they are here."""
        contents = {}
        for step in self.steps():
            for row in step["artifacts"]:
                if row["role"] in DRAWN_ROLES:
                    with suppress(MissingArtifact):
                        contents[step["hash"], row["role"]] = self.artifacts.read(row["sha256"])
        return contents

    def damaged(self) -> dict[str, str]:
        """Return what is wrong, by step, for every step whose records or artifacts are not what was written."""
        problems: dict[str, str] = {}
        holders: dict[str, list[str]] = {}  # artifact to the steps that name it
        for hash, step in self._verified_steps(problems):
            for row in step["artifacts"]:
                holders.setdefault(row["sha256"], []).append(hash)
        for name in filter(self.artifacts.due, holders):
            try:
                self.artifacts.read(name)
            except DamagedArtifact as error:
                problems |= dict.fromkeys(holders[name], str(error))
        return problems

    def _verified_steps(self, problems: dict[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the steps that are whole, by hash; put what is wrong with the others into ``problems``."""
        if isinstance(self._tables, ExportTables):  # verified as a whole when it was opened
            yield from self._by_hash().items()
            return
        for row in self._tables.rows():
            try:
                yield row[0], self._tables.verified(row)
            except StoreError as error:
                problems[row[0]] = str(error)


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


@dataclass(frozen=True)
class RecordedStep:
    """A step outside of any plan, such as one that is copied from another store."""

    hash: str
    kind: str
    trial: str
    config: Mapping[str, Any]


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

    def record(self, step: Recordable, result: Result) -> None:
        """Write the result of a step: its artifacts first, then its record in one transaction."""
        result = storable(result)
        names = {role: self.artifacts.write(content) for role, content in sorted(result.artifacts.items())}
        content = encoded_step(step.hash, step.kind, step.trial, step.config, result, names)
        cells = (step.hash, result.status, content)
        with self.transaction() as execute:
            execute("INSERT OR REPLACE INTO steps VALUES (?, ?, ?, ?)", (*cells, checksum(*cells)))

    def place(self, members: Iterable[Mapping[str, Any]]) -> None:
        """Write where the steps of a plan stand in its suites; a place that is known gets the step of this plan."""
        known = {place: (position, content) for place, position, content, _ in self._tables.member_rows()}
        unchanged = {content for _, content in known.values()}
        following = max((position for position, _ in known.values()), default=-1) + 1
        with self.transaction() as execute:
            for member in members:
                content = canonical(member)
                if content in unchanged:
                    continue
                place = place_of(member)
                position, earlier = known.get(place, (following, ""))
                unchanged.discard(earlier)
                following = max(following, position + 1)
                known[place] = position, content
                cells = (place, position, content)
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
        sentences = [*damaged.values(), *self._repaired_members()]
        self.artifacts.remove_all_but(row["sha256"] for step in self.steps() for row in step["artifacts"])
        return sentences

    def _repaired_members(self) -> Iterator[str]:
        """Drop places that have changed; yield a sentence if there were any."""
        rows = self._tables.member_rows()
        changed = [cells[0] for *cells, written in rows if checksum(*cells) != written]
        if changed:
            with self.transaction() as execute:
                for place in changed:
                    execute("DELETE FROM members WHERE place = ?", (place,))
            yield (
                f"{self.path} was damaged: {len(changed)} places of its plan are lost; run the suites of this folder "
                "again to write them anew"
            )

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Yield a function that executes SQL; everything it writes is kept, or nothing if the block raises."""
        connection = self._tables.connection
        with self._tables.sqlite_errors():
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection.execute
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")


def place_of(member: Mapping[str, Any]) -> str:
    """Return the identity of a place: everything about it but the step that stands there and what is shown of it."""
    return sha256({**{key: value for key, value in member.items() if key not in SHOWN}, "step": ""})


def is_export(folder: Path) -> bool:
    """Tell whether a folder holds exported records instead of the store of a run."""
    return (folder / MANIFEST).is_file() and not (folder / FILE).is_file()
