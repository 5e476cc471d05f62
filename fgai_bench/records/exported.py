"""Format of exported records: the files of an export, how they are packed, and how they are verified and read.

============================  =====================================================================================
``TABLE.csv.xz``              a table of the store, see :mod:`fgai_bench.records.schema`; numbers in full precision;
                              of places no hashes, which follow from the rest (earlier formats repeat them);
                              a step has its whole hash in ``steps``, and elsewhere so many digits of it as tell it
                              from the others, see :func:`short_names` (earlier formats repeat it)
``artifacts.zip``             the small artifacts that figures are drawn from
``graphs.zip``                on request: the attacked graphs, as differences from the clean ones
``models.zip``                on request: the trained models; else they stay with their run
``DATASHEET.md``              for people: what the export holds, how it was made, what it lacks, how to read it
``manifest.json``             sha256, size and rows of every file, counts by suite and status, versions, own sha256
============================  =====================================================================================

The files hold what reports need of a run, are small enough to commit, and are checked when read. A reader gets the
same tables back, in memory. Equal records have equal bytes, and nothing is ever unpickled.
"""

from __future__ import annotations

import csv
import io
import json
import lzma
import math
import sqlite3
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fgai_bench.records.artifacts import Artifacts, DamagedArtifact, MissingArtifact
from fgai_bench.records.canonical import sha256
from fgai_bench.records.compressed import SUFFIXES, compressed, unpacker
from fgai_bench.records.names import titles
from fgai_bench.records.rows import member_row
from fgai_bench.records.schema import MIGRATIONS, PARTS, migrate

MANIFEST = "manifest.json"
SHEET = "DATASHEET.md"
PACK = "artifacts.zip"
PACKS = {"graphs": ("graphs.zip", "attacked"), "models": ("models.zip", "model")}  # on request: file, role of artifacts
FORMAT = max(SUFFIXES)
TABLES = ("steps", *PARTS, "environments", "members")
PLACES = ("position", "content")  # the columns of places in a file; their hashes follow from these
SHORTEST, LONGEST = 12, 64  # hexadecimal digits of a step's hash where it is referred to; more where two share these
NUMBERS = {"value", "started", "seconds", "position", "bytes"}
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date that a zip can hold: the same bytes on every day
MIB = 2**20
LARGEST_MANIFEST, LARGEST_FILE = 256 * MIB, 1024 * MIB  # as they lie on the disk
LARGEST_TABLE, LARGEST_ARTIFACT, LARGEST_PACK = 1024 * MIB, 256 * MIB, 1024 * MIB  # unpacked, so that no bomb is
# What a manifest must say, and of what type; it may say more.
SAID: dict[str, type] = {
    "format": int, "schema": int, "package": str, "pieces": int, "steps": int, "superseded": list, "suites": dict,
    "files": dict,
}  # fmt: skip
# What unpacking raises where a file has its hash but is not what its name says.
UNPACKING = (
    OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, csv.Error, UnicodeDecodeError,
    NotImplementedError,
)  # fmt: skip


class DamagedExport(ValueError):
    """Exported records that are not what was written; the message names the file."""


class Packed(Artifacts):
    """The artifacts of an export; those that are not in it stayed with their run on purpose.

    Graphs and models, which may be large, are read one by one when they are asked for.

    Args:
        folder: of the export.
        packs: the zip files, with the content of those that have been read.
    """

    def __init__(self, folder: Path, packs: Mapping[Path, bytes | None]) -> None:
        super().__init__(folder)
        self._packs: dict[str, zipfile.ZipFile] = {}
        self._sizes: dict[str, int] = {}
        for path, content in packs.items():
            try:
                opened = zipfile.ZipFile(path if content is None else io.BytesIO(content))
            except UNPACKING as error:
                if content is None:
                    continue  # what is not there is said when it is asked for
                raise DamagedExport(f"{path} cannot be unpacked ({error}); export the records again") from None
            sizes = {info.filename: info.file_size for info in opened.infolist()}
            total = sum(sizes.values())
            if max(sizes.values(), default=0) > LARGEST_ARTIFACT or (content is not None and total > LARGEST_PACK):
                opened.close()
                raise DamagedExport(f"{path} would unpack to {total / MIB:.0f} MiB; not read")
            self._packs |= dict.fromkeys(sizes, opened)
            self._sizes |= sizes

    def due(self, name: str) -> bool:
        """Tell whether the artifact is part of the export."""
        return name in self._packs

    def read(self, name: str) -> bytes:
        """Return the content with this hash, verified, or raise :class:`DamagedArtifact`."""
        if name not in self._packs:
            raise MissingArtifact(f"{self.folder} has no {name[:12]}: it stayed with its run; export with --with")
        try:
            with self._packs[name].open(name) as stream:
                content = stream.read(self._sizes[name])
        except UNPACKING:
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
    tables = {table: file_of(table, manifest["format"]) for table in TABLES}
    names = (*tables.values(), PACK)
    missing = [name for name in names if name not in manifest["files"]]
    if missing:
        raise DamagedExport(f"{folder / MANIFEST} does not list {missing[0]}; export the records again")
    files = {name: _verified_content(folder / name, manifest["files"][name]) for name in names}
    if SHEET in manifest["files"]:  # earlier exports have none
        _verified_content(folder / SHEET, manifest["files"][SHEET])
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection, MIGRATIONS[: manifest["schema"]])
    steps: dict[str, str] = {}
    for table, name in tables.items():
        path = folder / name
        with _unpacking(path):
            rows = _fill_table(connection, table, path, files[path.name], steps)
        steps = steps or whole_names(connection)  # the first table is that of the steps
        if rows != manifest["files"][path.name].get("rows", rows):
            raise DamagedExport(f"{path} has {rows} rows where {MANIFEST} counts others; export the records again")
    migrate(connection)
    connection.execute("PRAGMA query_only = ON")
    _check_counts(connection, manifest, folder)
    large = {folder / file: None for file, _ in PACKS.values() if file in manifest["files"]}
    return connection, Packed(folder, {folder / PACK: files[PACK], **large})


def entries_of(path: Path) -> int:
    """Return how many artifacts a zip of an export holds."""
    with zipfile.ZipFile(path) as opened:
        return len(opened.namelist())


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of an export, or raise :class:`DamagedExport` if it is not as it was written."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(_read(path, LARGEST_MANIFEST))
        whole = manifest.pop("sha256") == sha256(manifest) and _is_manifest(manifest)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        whole = False
    if not whole:
        raise DamagedExport(f"{path} is not as it was exported; restore it or export the records again")
    if manifest["format"] > FORMAT or manifest["schema"] > len(MIGRATIONS):
        raise DamagedExport(
            f"{path} was written by the newer fgai-bench {manifest['package']}; upgrade fgai-bench to read it"
        )
    return dict(manifest)


def _is_manifest(manifest: Mapping[str, Any]) -> bool:
    """Tell whether a manifest says what every reader asks of it."""
    return (
        all(type(manifest.get(key)) is kind for key, kind in SAID.items())
        and min(manifest["format"], manifest["schema"]) >= 1
        and all(
            isinstance(about, dict) and isinstance(about.get("sha256"), str) for about in manifest["files"].values()
        )
        and all(isinstance(counts, dict) for counts in manifest["suites"].values())
        and all(isinstance(entry, dict) for entry in manifest["superseded"])
        and all(isinstance(hash, str) for hash in manifest.get("orphans", ()))
    )


def _check_counts(connection: sqlite3.Connection, manifest: Mapping[str, Any], folder: Path) -> None:
    """Raise :class:`DamagedExport` if the steps of a suite are not as many as the manifest counts."""
    try:
        members = [json.loads(content) for (content,) in connection.execute("SELECT content FROM members")]
        named = titles(members)
        places = {(named[member["suite"]], member["step"]) for member in members}
        counted = {suite: sum(counts.values()) for suite, counts in manifest["suites"].items()}
    except (ValueError, TypeError, KeyError, RecursionError):
        raise DamagedExport(
            f"{folder / file_of('members', manifest['format'])} has a place that is none; export the records again"
        ) from None
    (steps,) = connection.execute("SELECT count(*) FROM steps").fetchone()
    if Counter(suite for suite, _ in places) != counted or steps != manifest["steps"]:
        raise DamagedExport(f"{folder / MANIFEST} counts other steps than its tables hold; export the records again")


def _verified_content(path: Path, about: Mapping[str, Any]) -> bytes:
    """Return the content of a file, or raise :class:`DamagedExport` if its sha256 is not that of the manifest."""
    content = _read(path, LARGEST_FILE)
    if sha256(content) != about["sha256"]:
        raise DamagedExport(
            f"{path} has changed since it was exported: {MANIFEST} has another sha256 for it; restore it or export the "
            "records again"
        )
    return content


def _read(path: Path, largest: int) -> bytes:
    """Return the content of a file of at most ``largest`` bytes."""
    if not path.is_file():
        raise DamagedExport(f"{path} is missing; restore it or export the records again")
    if path.stat().st_size > largest:
        raise DamagedExport(f"{path} is larger than {largest / MIB:.0f} MiB, which no export is; not read")
    return path.read_bytes()


@contextmanager
def _unpacking(path: Path) -> Iterator[None]:
    """Turn what unpacking stumbles over into a :class:`DamagedExport` with one sentence."""
    try:
        yield
    except UNPACKING as error:
        raise DamagedExport(f"{path} cannot be unpacked ({error}); export the records again") from None


class _Bounded(io.RawIOBase):
    """A stream that refuses to give more than a number of bytes, so that a small file cannot fill the memory."""

    def __init__(self, read: Callable[[int], bytes], path: Path, largest: int) -> None:
        super().__init__()
        self._read, self._path, self._left = read, path, largest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._read(len(buffer))
        self._left -= len(content)
        if self._left < 0:
            raise DamagedExport(f"{self._path} would unpack to more than {LARGEST_TABLE / MIB:.0f} MiB; not read")
        buffer[: len(content)] = content
        return len(content)


def short_names(hashes: Iterable[str]) -> dict[str, str]:
    """Return what the steps with these hashes are called in all tables but their own.

    >>> short_names(["0123456789abcdef", "0123456789ab0000", "fedcba9876543210"])
    {'0123456789abcdef': '0123456789abc', '0123456789ab0000': '0123456789ab0', 'fedcba9876543210': 'fedcba9876543'}
    """
    whole, size = list(hashes), SHORTEST
    while size < LONGEST and len({hash[:size] for hash in whole}) < len({*whole}):
        size += 1
    return {hash: hash[:size] for hash in whole}


def whole_names(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the hash of each step of a database by its short name."""
    hashes = (hash for (hash,) in connection.execute("SELECT hash FROM steps"))
    return {short: hash for hash, short in short_names(hashes).items()}


def _fill_table(
    connection: sqlite3.Connection, table: str, path: Path, content: bytes, steps: Mapping[str, str]
) -> int:
    """Insert the rows of a file, whose columns must be those of the table, and return their number."""
    stored = [column[0] for column in connection.execute(f"SELECT * FROM {table} LIMIT 0").description]
    with _long_fields():
        stream = io.BufferedReader(_Bounded(unpacker(path, content), path, LARGEST_TABLE), MIB)
        rows = csv.reader(io.TextIOWrapper(stream, encoding="utf-8", newline=""), strict=True)
        header = next(rows, None)
        columns = columns_of(table, stored, header or ())
        numeric = [i for i, name in enumerate(columns) if name in NUMBERS]
        if header != columns:
            raise DamagedExport(f"{path} must have the columns {', '.join(columns)}; export the records again")
        count = 0

        def values() -> Iterator[list[Any]]:
            nonlocal count
            for row in rows:
                count += 1
                if len(row) != len(columns):
                    raise DamagedExport(f"row {count} of {path} has {len(row)} fields; export the records again")
                typed: list[Any] = row
                for i in numeric:
                    typed[i] = number(row[i], path)
                yield completed(table, typed, path, steps)

        connection.execute("BEGIN")
        connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(stored))})", values())
        connection.execute("COMMIT")
    return count


def columns_of(table: str, stored: Sequence[str], header: Sequence[str]) -> list[str]:
    """Return the columns that the file of a table must have: all of them, or of places those that tell the rest."""
    return list(PLACES if table == "members" and len(header) == len(PLACES) else stored)


def completed(table: str, row: list[Any], path: Path, steps: Mapping[str, str]) -> list[Any]:
    """Return the row of a table, with whole hashes, from that of its file; ``steps`` are their hashes by short name."""
    if table in PARTS:
        row[0] = steps.get(row[0], row[0])
    if table != "members" or len(row) != len(PLACES):
        return row
    try:
        position, content = row
        member = json.loads(content)
        return list(member_row({**member, "step": steps.get(member["step"], member["step"])}, int(position)).values())
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise DamagedExport(f"{path} has a place that is none; export the records again") from None


@contextmanager
def _long_fields() -> Iterator[None]:
    """Let the fields of a CSV be as long as its file: a curve of 8,000 points exceeds Python's own limit."""
    earlier = csv.field_size_limit(LARGEST_TABLE)
    try:
        yield
    finally:
        csv.field_size_limit(earlier)


def number(text: str, path: Path) -> float | str | None:
    """Return a number as the store keeps it: None where the text is empty, the text where the number is not finite.

    >>> [number(text, Path()) for text in ("0.1", "nan", "")]
    [0.1, 'nan', None]
    """
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        raise DamagedExport(f"{path} has {text[:40]!r} where a number is due; export the records again") from None
    return value if math.isfinite(value) else text


def file_of(table: str, format: int = FORMAT) -> str:
    """Return the name of a table's file in an export of a format.

    >>> file_of("steps"), file_of("steps", 1)
    ('steps.csv.xz', 'steps.csv.gz')
    """
    return f"{table}{SUFFIXES[format]}"


def packed_table(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Return rows as compressed CSV without a date: the same rows have the same bytes."""
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return compressed(out.getvalue().encode())


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
