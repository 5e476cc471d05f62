"""Format of exported records: the files of an export, and how they are verified and read.

============================  =====================================================================================
``TABLE.csv.xz``              the records, as tables of CSV with numbers in full precision; a step has its whole hash in
                              ``steps``, and elsewhere so many digits as tell it from the others
``artifacts.zip``             the small artifacts that figures are drawn from
``graphs.zip``                on request: the attacked graphs, as differences from the clean ones
``models.zip``                on request: the trained models; else they stay with their run
``DATASHEET.md``              for people: what the export holds, how it was made, what it lacks, how to read it
``manifest.json``             sha256 and size of every file, counts by suite and status, versions, own sha256
============================  =====================================================================================

The files hold what reports need of a run and are small enough to commit. Each is held against its sha256 in the
manifest before it is read. Equal records have equal bytes, and nothing is ever unpickled. Formats 2 to 4 have the same
tables with more columns (checksums, hashes of places) or with whole hashes, so one reader serves all of them.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import lzma
import math
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fgai_bench.records.artifacts import Artifacts, DamagedArtifact, MissingArtifact
from fgai_bench.records.canonical import sha256
from fgai_bench.records.errors import StoreError

MANIFEST = "manifest.json"
SHEET = "DATASHEET.md"
PACK = "artifacts.zip"
PACKS = {"graphs": ("graphs.zip", "attacked"), "models": ("models.zip", "model")}  # on request: file, role of artifacts
OLDEST, FORMAT = 2, 5  # formats that are read; the last one is written
PARTS = {  # tables of what belongs to a step
    "metrics": ("step", "name", "family", "value", "reason"),
    "curves": ("step", "name", "x", "y"),
    "ledgers": ("step", "name", "value"),
    "flags": ("step", "position", "reason"),
    "artifacts": ("step", "role", "sha256", "bytes"),
}
COLUMNS: dict[str, tuple[str, ...]] = {
    "steps": (
        "hash", "kind", "trial", "config", "status", "reason", "detail", "facts", "environment", "started", "seconds",
    ),
    **PARTS,
    "environments": ("hash", "content"),
    "members": ("position", "content"),
}  # fmt: skip
SHORTEST, LONGEST = 12, 64  # hexadecimal digits of a step's hash where it is referred to; more where two share these
MIB = 2**20
WINDOW = 128 * MIB  # that unpacking may hold at once, whatever a file says that it needs
LARGEST = 1024 * MIB  # a file, also unpacked: a small file that unpacks to more is refused before it fills the memory
# What a reader may meet in a file that has its hash but is not what its name says.
UNREADABLE = (
    OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, csv.Error, NotImplementedError, KeyError,
    IndexError, TypeError, AttributeError, ValueError, RecursionError,
)  # fmt: skip


class DamagedExport(StoreError):
    """Exported records that are not what was written; the message names the file."""


class ExportTables:
    """The records of an export, verified and read into memory when it is opened.

    Of graphs and models each is verified when it is read.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / MANIFEST
        manifest = read_manifest(folder)
        names = {table: file_of(table) for table in COLUMNS}
        for name in (*names.values(), PACK):
            if name not in manifest["files"]:
                raise DamagedExport(f"{self.path} does not list {name}; export the records again")
        listed = [name for name in manifest["files"] if name in {*names.values(), PACK, SHEET}]
        files = {name: _verified_content(folder / name, manifest["files"][name]["sha256"]) for name in listed}
        tables = {table: _rows(folder / name, COLUMNS[table], files[name]) for table, name in names.items()}
        with _reading(folder / names["steps"]):
            environments = {row["hash"]: json.loads(row["content"]) for row in tables["environments"]}
            self._steps = {row["hash"]: _step(row, environments) for row in tables["steps"]}
        whole = {short: hash for hash, short in short_names(self._steps).items()}
        for part in PARTS:
            with _reading(folder / names[part]):
                for row in tables[part]:
                    step = row.pop("step")
                    self._steps[whole.get(step, step)][part].append(row)
        with _reading(folder / names["members"]):
            places = sorted(tables["members"], key=lambda row: row["position"])
            members = [json.loads(row["content"]) for row in places]
            self._members = [{**member, "step": whole.get(member["step"], member["step"])} for member in members]
        large = {folder / file: None for file, _ in PACKS.values() if file in manifest["files"]}
        self.artifacts = PackedArtifacts(folder, {folder / PACK: files[PACK], **large})

    def close(self) -> None:
        """Close the zip files."""
        self.artifacts.close()

    def statuses(self) -> dict[str, str]:
        """Return the status of every step, by hash."""
        return {hash: step["status"] for hash, step in self._steps.items()}

    def steps(self) -> Iterator[dict[str, Any]]:
        """Yield every step in the order of their hashes."""
        return iter(self._steps.values())

    def step(self, hash: str) -> dict[str, Any]:
        """Return one step."""
        if hash not in self._steps:
            raise StoreError(f"{self.path.parent} has no records of step {hash[:12]}")
        return self._steps[hash]

    def members(self) -> list[dict[str, Any]]:
        """Return the places of all planned steps in the order of the plan."""
        return self._members


class PackedArtifacts(Artifacts):
    """The artifacts of an export; those that are not in it stayed with their run on purpose.

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
                pack = zipfile.ZipFile(path if content is None else io.BytesIO(content))
            except UNREADABLE as error:
                if content is None:
                    continue  # what it should hold is missing when it is asked for
                raise DamagedExport(f"{path} cannot be read ({error}); export the records again") from None
            self._sizes |= {info.filename: info.file_size for info in pack.infolist()}
            self._packs |= dict.fromkeys(pack.namelist(), pack)

    def due(self, name: str) -> bool:
        """Tell whether the artifact is part of the export."""
        return name in self._packs

    def read(self, name: str) -> bytes:
        """Return the content with this hash, verified, or raise :class:`DamagedArtifact`."""
        if name not in self._packs:
            raise MissingArtifact(f"{self.folder} has no {name[:12]}: it stayed with its run; export with --with")
        if self._sizes[name] > LARGEST:
            raise DamagedArtifact(
                f"the artifact {name[:12]} in {self.folder} would unpack to more than 1 GiB; not read"
            )
        try:
            with self._packs[name].open(name) as stream:
                content = stream.read(self._sizes[name])
        except UNREADABLE:
            content = b""
        if sha256(content) != name:
            raise DamagedArtifact(f"the artifact {name[:12]} in {self.folder} is damaged")
        return content

    def close(self) -> None:
        """Close the files."""
        for pack in set(self._packs.values()):
            pack.close()


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of an export, or raise :class:`DamagedExport` if it is not as it was written."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_bytes())
        whole = manifest.pop("sha256") == sha256(manifest)
        newer, known = manifest["format"] > FORMAT, manifest["format"] >= OLDEST
    except UNREADABLE:
        whole = False
    if not whole:
        raise DamagedExport(f"{path} is not as it was exported; restore it or export the records again")
    if newer or not known:
        age, advice = ("newer", "upgrade fgai-bench") if newer else ("older", "use that version")
        raise DamagedExport(f"{path} was written by the {age} fgai-bench {manifest['package']}; {advice} to read it")
    return dict(manifest)


def changed_files(folder: Path) -> dict[str, str]:
    """Return a sentence for each file of an export that is not what was written, by the name of the file."""
    try:
        manifest = read_manifest(folder)
    except DamagedExport as error:
        return {MANIFEST: str(error)}
    sentences = {}
    for name, about in manifest["files"].items():
        path = folder / name
        if not path.is_file():
            sentences[name] = f"{path} is missing"
        elif sha256_of_file(path) != about["sha256"]:
            sentences[name] = f"{path} has changed since it was exported"
    return sentences


def sha256_of_file(path: Path) -> str:
    """Return the SHA-256 of a file, read in pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _verified_content(path: Path, digest: str) -> bytes:
    """Return the content of a file, or raise :class:`DamagedExport` if its sha256 is not that of the manifest."""
    if not path.is_file():
        raise DamagedExport(f"{path} is missing; restore it or export the records again")
    if path.stat().st_size > LARGEST:
        raise DamagedExport(f"{path} is larger than 1 GiB, which no export is; not read")
    content = path.read_bytes()
    if sha256(content) != digest:
        raise DamagedExport(
            f"{path} has changed since it was exported: {MANIFEST} has another sha256 for it; restore it or export the "
            "records again"
        )
    return content


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn what reading a file stumbles over into a :class:`DamagedExport` with one sentence."""
    try:
        yield
    except DamagedExport:
        raise
    except UNREADABLE as error:
        cause = f"{type(error).__name__}: {error}"
        raise DamagedExport(f"{path} cannot be read ({cause}); export the records again") from None


def _rows(path: Path, columns: tuple[str, ...], content: bytes) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table with these columns; the file may have more columns, in another order."""
    with _reading(path), _long_fields():
        unpacking = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=WINDOW)
        unpacked = unpacking.decompress(content, LARGEST)
        if not unpacking.eof:
            raise DamagedExport(f"{path} ends too early, or would unpack to more than {LARGEST / MIB:.0f} MiB")
        rows = csv.reader(io.StringIO(unpacked.decode(), newline=""), strict=True)
        header = next(rows, [])
        if missing := set(columns).difference(header):
            raise DamagedExport(f"{path} has no column {min(missing)}; export the records again")
        chosen = [(column, header.index(column), TYPES.get(column, str)) for column in columns]
        for row in rows:
            yield {column: convert(row[index]) for column, index, convert in chosen}


def _step(row: dict[str, Any], environments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a step from its row, still without what belongs to it."""
    return {**row, "environment": environments[row["environment"]], **{part: [] for part in PARTS}}


def number(cell: str) -> float | str | None:
    """Return a measured number as a store keeps it: None where there is none, and its name where it is not finite.

    >>> [number(cell) for cell in ("0.1", "nan", "")]
    [0.1, 'nan', None]
    """
    return (value if math.isfinite(value := float(cell)) else cell) if cell else None


# What the cells of a column stand for; texts if it is not listed.
TYPES: dict[str, Callable[[str], Any]] = {
    "value": number,
    "started": float,
    "seconds": float,
    "position": int,
    "bytes": int,
    **dict.fromkeys(("config", "facts", "x", "y"), json.loads),
}


@contextmanager
def _long_fields() -> Iterator[None]:
    """Let the fields of a CSV be as long as its file: a curve of 8,000 points exceeds Python's own limit."""
    earlier = csv.field_size_limit(LARGEST)
    try:
        yield
    finally:
        csv.field_size_limit(earlier)


def short_names(hashes: Iterable[str]) -> dict[str, str]:
    """Return what the steps with these hashes are called in all tables but their own.

    >>> short_names(["0123456789abcdef", "0123456789ab0000", "fedcba9876543210"])
    {'0123456789abcdef': '0123456789abc', '0123456789ab0000': '0123456789ab0', 'fedcba9876543210': 'fedcba9876543'}
    """
    whole, size = list(hashes), SHORTEST
    while size < LONGEST and len({hash[:size] for hash in whole}) < len({*whole}):
        size += 1
    return {hash: hash[:size] for hash in whole}


def file_of(table: str) -> str:
    """Return the name of a table's file in an export."""
    return f"{table}.csv.xz"
