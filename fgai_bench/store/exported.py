"""Format of exported records: the files of an export, how they are packed, and how they are verified and read.

============================  =====================================================================================
``TABLE.csv.gz``              a table of the store, see :mod:`fgai_bench.store.schema`; numbers in full precision
``artifacts.zip``             the small artifacts that figures are drawn from
``graphs.zip``                on request: the attacked graphs, as differences from the clean ones
``models.zip``                on request: the trained models; else they stay with their run
``manifest.json``             sha256, size and rows of every file, counts by suite and status, versions, own sha256
============================  =====================================================================================

The files hold what reports need of a run, are small enough to commit, and are checked when read. A reader gets the
same tables back, in memory. Equal records have equal bytes, and nothing is ever unpickled.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import sqlite3
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fgai_bench.store.artifacts import Artifacts, DamagedArtifact, MissingArtifact
from fgai_bench.store.canonical import sha256
from fgai_bench.store.schema import MIGRATIONS, PARTS, migrate

MANIFEST = "manifest.json"
PACK = "artifacts.zip"
PACKS = {"graphs": ("graphs.zip", "attacked"), "models": ("models.zip", "model")}  # on request: file, role of artifacts
FORMAT = 1
TABLES = ("steps", *PARTS, "environments", "members")
NUMBERS = {"value", "started", "seconds", "position", "bytes"}
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date that a zip can hold: the same bytes on every day


class DamagedExport(ValueError):
    """Exported records that are not what was written; the message names the file."""


class Packed(Artifacts):
    """The artifacts of an export; those that are not in it stayed with their run on purpose.

    Graphs and models, which may be large, are read one by one when they are asked for.
    """

    def __init__(self, folder: Path, packs: Iterable[io.BytesIO | Path]) -> None:
        super().__init__(folder)
        self._packs: dict[str, zipfile.ZipFile] = {}
        for pack in packs:
            with suppress(zipfile.BadZipFile, OSError):  # what is not there is said when it is asked for
                opened = zipfile.ZipFile(pack)
                self._packs |= dict.fromkeys(opened.namelist(), opened)

    def due(self, name: str) -> bool:
        """Tell whether the artifact is part of the export."""
        return name in self._packs

    def read(self, name: str) -> bytes:
        """Return the content with this hash, verified, or raise :class:`DamagedArtifact`."""
        if name not in self._packs:
            raise MissingArtifact(f"{self.folder} has no {name[:12]}: it stayed with its run; export with --with")
        try:
            content = self._packs[name].read(name)
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError):
            content = b""
        if sha256(content) != name:
            raise DamagedArtifact(f"the artifact {name[:12]} in {self.folder} is damaged")
        return content

    def close(self) -> None:
        """Close the files."""
        for pack in set(self._packs.values()):
            pack.close()


def open_export(folder: Path) -> tuple[sqlite3.Connection, Packed]:
    """Return the tables of an export as a database in memory, and its artifacts; every file is verified first.

    Of graphs and models each is verified when it is read.
    """
    manifest = read_manifest(folder)
    large = [file for file, _ in PACKS.values() if file in manifest["files"]]
    small = {name: about for name, about in manifest["files"].items() if name not in large}
    files = {name: _verified_content(folder / name, about) for name, about in small.items()}
    missing = [name for name in (*map(file_of, TABLES), PACK) if name not in files]
    if missing:
        raise DamagedExport(f"{folder / MANIFEST} does not list {missing[0]}; export the records again")
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection, MIGRATIONS[: manifest["schema"]])
    for table in TABLES:
        _fill_table(connection, table, gzip.decompress(files[file_of(table)]).decode())
    migrate(connection)
    connection.execute("PRAGMA query_only = ON")
    return connection, Packed(folder, [io.BytesIO(files[PACK]), *(folder / name for name in large)])


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of an export, or raise :class:`DamagedExport` if it is not as it was written."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_bytes())
        whole = manifest.pop("sha256") == sha256(manifest)
    except (ValueError, KeyError, AttributeError):
        whole = False
    if not whole:
        raise DamagedExport(f"{path} is not as it was exported; restore it or export the records again")
    if manifest["format"] > FORMAT or manifest["schema"] > len(MIGRATIONS):
        raise DamagedExport(
            f"{path} was written by the newer fgai-bench {manifest['package']}; upgrade fgai-bench to read it"
        )
    return manifest


def _verified_content(path: Path, about: Mapping[str, Any]) -> bytes:
    """Return the content of a file, or raise :class:`DamagedExport` if its sha256 is not that of the manifest."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DamagedExport(f"{path} is missing; restore it or export the records again") from None
    if sha256(content) != about["sha256"]:
        raise DamagedExport(
            f"{path} has changed since it was exported: {MANIFEST} has another sha256 for it; restore it or export the "
            "records again"
        )
    return content


def _fill_table(connection: sqlite3.Connection, table: str, text: str) -> None:
    """Insert the rows of a file; its columns must be those of the table."""
    columns = [column[0] for column in connection.execute(f"SELECT * FROM {table} LIMIT 0").description]
    rows = csv.reader(io.StringIO(text, newline=""))
    if next(rows, None) != columns:
        raise DamagedExport(f"{file_of(table)} must have the columns {', '.join(columns)}; export the records again")
    numeric = [name in NUMBERS for name in columns]
    parsed = ([number(v) if is_number else v for v, is_number in zip(row, numeric, strict=True)] for row in rows)
    connection.execute("BEGIN")
    connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})", parsed)
    connection.execute("COMMIT")


def number(text: str) -> float | str | None:
    """Return a number as the store keeps it: None where the text is empty, the text where the number is not finite.

    >>> number("0.1"), number("nan"), number("")
    (0.1, 'nan', None)
    """
    if not text:
        return None
    value = float(text)
    return value if math.isfinite(value) else text


def file_of(table: str) -> str:
    """Return the name of a table's file.

    >>> file_of("steps")
    'steps.csv.gz'
    """
    return f"{table}.csv.gz"


def packed_table(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Return rows as compressed CSV without a date: the same rows have the same bytes."""
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return gzip.compress(out.getvalue().encode(), compresslevel=9, mtime=0)


def packed_artifacts(contents: Mapping[str, bytes]) -> bytes:
    """Return artifacts, given by hash, as one zip; the same artifacts have the same bytes."""
    out = io.BytesIO()
    write_pack(out, sorted(contents.items()))
    return out.getvalue()


def write_pack(out: io.BytesIO | Path, contents: Iterable[tuple[str, bytes]]) -> None:
    """Write artifacts, given by hash in order, as one zip, one after the other."""
    with zipfile.ZipFile(out, "w") as pack:
        for name, content in contents:
            info = zipfile.ZipInfo(name, EPOCH)
            info.compress_type, info.create_system = zipfile.ZIP_DEFLATED, 3
            pack.writestr(info, content, compresslevel=9)
