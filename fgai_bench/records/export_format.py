"""Format of exported records: the files of an export, and how they are verified and read.

============================  =====================================================================================
``TABLE.csv.xz``              the records, as tables of CSV with numbers in full precision; a step has its whole hash in
                              ``steps``, and elsewhere its first digits
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

import csv
import hashlib
import json
import lzma
import math
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from fgai_bench.bounded import MIB, UnreadableFile, open_bounded, read_bounded
from fgai_bench.records import artifacts
from fgai_bench.records.artifacts import Artifacts, DamagedArtifact, MissingArtifact
from fgai_bench.records.canonical import sha256
from fgai_bench.records.errors import StoreError

MANIFEST = "manifest.json"
SHEET = "DATASHEET.md"
PACK = "artifacts.zip"
PACKS = {"graphs": ("graphs.zip", "attacked"), "models": ("models.zip", "model")}  # on request: file, role of artifacts
LARGE_FILES = tuple(file for file, _ in PACKS.values())  # of which each artifact is verified when it is read
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
SHORT = 12  # hexadecimal digits of a step's hash where it is referred to
WINDOW = 128 * MIB  # that unpacking may hold at once, whatever a file says that it needs
LARGEST = 1024 * MIB  # an unpacked table: a small one that unpacks to more is refused before it fills the memory
LARGEST_ZIP = 64 * 1024 * MIB  # read piece by piece
MOST_ROWS = 10_000_000  # of a table: a small file may unpack to more short rows than the memory holds
ADVICE = "restore it or export the records again"
csv.field_size_limit(2**31 - 1)  # a curve of 8,000 points exceeds Python's own limit


class DamagedExport(StoreError):
    """Exported records that are not what was written; the message names the file."""


class ExportTables:
    """The records of an export. All files are verified when it is opened; a table is read when it is first needed.

    Reading a table only splits it into lines. A step is decoded when it is asked for, once.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / MANIFEST
        if changed := changed_files(folder, but=LARGE_FILES):
            raise DamagedExport(next(iter(changed.values())))
        self._tables: dict[str, _Table] = {}
        self._decoded: dict[str, dict[str, Any]] = {}
        self.artifacts = PackedArtifacts(folder)

    def close(self) -> None:
        self.artifacts.close()

    def statuses(self) -> dict[str, str]:
        steps = self._table("steps")
        with _reading(steps.path):
            hash, status = map(steps.header.index, ("hash", "status"))
            return {row[hash]: row[status] for row in csv.reader(steps.lines, strict=True)}

    def steps(self) -> Iterator[dict[str, Any]]:
        return map(self.step, self._names)

    def step(self, hash: str) -> dict[str, Any]:
        if hash not in self._names:
            raise StoreError(f"{self.folder} has no records of step {hash[:12]}")
        if hash not in self._decoded:
            rows = self._table("steps").rows_of(hash)
            with _reading(self.folder):
                (step,) = rows
                step["environment"] = self._environments[step["environment"]]
            self._decoded[hash] = step | {part: self._table(part).rows_of(self._names[hash], hash) for part in PARTS}
        return self._decoded[hash]

    def members(self) -> list[dict[str, Any]]:
        return self._members

    @cached_property
    def _members(self) -> list[dict[str, Any]]:
        whole = {name: hash for hash, name in self._names.items()}
        table = self._table("members")
        places = sorted(table.rows(table.lines), key=lambda row: row["position"])
        with _reading(self.folder):
            members = [json.loads(row["content"]) for row in places]
            return [{**member, "step": whole.get(member["step"], member["step"])} for member in members]

    @cached_property
    def _environments(self) -> dict[str, Any]:
        table = self._table("environments")
        with _reading(table.path):
            return {row["hash"]: json.loads(row["content"]) for row in table.rows(table.lines)}

    @cached_property
    def _names(self) -> dict[str, str]:
        """What the other tables call each step, by its hash."""
        return short_names(self._table("steps").lines_of)

    def _table(self, name: str) -> "_Table":
        if name not in self._tables:
            table = self._tables[name] = _Table(self.folder / file_of(name), COLUMNS[name])
            if name in PARTS and (unknown := table.lines_of.keys() - {*self._names, *self._names.values()}):
                raise DamagedExport(f"{table.path} names a step {min(unknown)!r} that the export does not hold")
        return self._tables[name]


class _Table:
    """A table as the text of its rows; the file may have more columns, in another order."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.path, self.columns = path, columns
        self.lines: list[str] = []
        with _reading(path):
            unpacking = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=WINDOW)
            content = unpacking.decompress(read_bounded(path, LARGEST), LARGEST)
            if not unpacking.eof:
                raise ValueError(f"it ends too early, or would unpack to more than {LARGEST / MIB:.0f} MiB")
            if content.count(b"\n") > MOST_ROWS:
                raise ValueError(f"a table has at most {MOST_ROWS:,} rows")
            row: list[str] = []
            quoted = False  # whether a cell in quotes goes on in the next line
            for line in content.decode().removesuffix("\n").split("\n"):
                row.append(line)
                quoted ^= line.count('"') % 2 == 1
                if not quoted:
                    self.lines.append("\n".join(row))
                    row = []
            if row:
                raise ValueError("it ends inside a cell")
            (self.header,) = csv.reader(self.lines[:1], strict=True)
            del self.lines[0]

    @cached_property
    def lines_of(self) -> dict[str, list[str]]:
        """Return the lines by their first column, which names the step."""
        lines: dict[str, list[str]] = {}
        with _reading(self.path):
            place = self.header.index(self.columns[0])
            for line in self.lines:
                name = next(csv.reader([line], strict=True))[place] if place else line.partition(",")[0]
                lines.setdefault(name, []).append(line)
        return lines

    @cached_property
    def _readers(self) -> list[tuple[str, int, Callable[[str], Any]]]:
        """Return the columns that are read, with their place and type; a part does not repeat its step."""
        with _reading(self.path):
            return [(c, self.header.index(c), TYPES.get(c, str)) for c in self.columns if c != "step"]

    def rows_of(self, *names: str) -> list[dict[str, Any]]:
        """Return the rows of a step, by whichever of its names the table uses."""
        return self.rows([line for name in set(names) for line in self.lines_of.get(name, ())])

    def rows(self, lines: Sequence[str]) -> list[dict[str, Any]]:
        with _reading(self.path):
            return [
                {column: convert(row[place]) for column, place, convert in self._readers}
                for row in csv.reader(lines, strict=True)
            ]


class PackedArtifacts(Artifacts):
    """The artifacts of an export, in its zip files; those that are not in it stayed with their run on purpose."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._packs: dict[str, zipfile.ZipFile] = {}
        self._opened = ExitStack()
        for name in (PACK, *LARGE_FILES):
            try:
                stream = self._opened.enter_context(open_bounded(folder / name, LARGEST_ZIP))
                pack = self._opened.enter_context(zipfile.ZipFile(stream))
            except (OSError, UnreadableFile, zipfile.BadZipFile, NotImplementedError) as error:
                if name in LARGE_FILES:
                    continue  # not exported, or damaged: what it should hold is missing when it is asked for
                self.close()
                raise DamagedExport(f"{folder / name} cannot be read ({error}); {ADVICE}") from None
            self._packs |= dict.fromkeys(pack.namelist(), pack)

    def holds(self, name: str) -> bool:
        return name in self._packs

    def read(self, name: str) -> bytes:
        if name not in self._packs:
            raise MissingArtifact(f"{self.folder} has no {name[:12]}: it stayed with its run; export with --with")
        if self._packs[name].getinfo(name).file_size > artifacts.LARGEST:
            most = f"{artifacts.LARGEST / MIB:.0f} MiB"
            raise DamagedArtifact(f"the artifact {name[:12]} in {self.folder} would unpack to more than {most}")
        try:
            content = self._packs[name].read(name)
        except Exception:  # whatever a damaged zip makes its reader raise
            content = b""
        if sha256(content) != name:
            raise DamagedArtifact(f"the artifact {name[:12]} in {self.folder} is damaged")
        return content

    def close(self) -> None:
        self._opened.close()


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of an export, or raise :class:`DamagedExport` if it is not as it was written."""
    path = folder / MANIFEST
    try:
        manifest: dict[str, Any] = json.loads(read_bounded(path, LARGEST))
        whole = manifest.pop("sha256") == sha256(manifest)
        whole &= {*map(file_of, COLUMNS), PACK} <= manifest["files"].keys()
        newer, known = manifest["format"] > FORMAT, manifest["format"] >= OLDEST
    except Exception:  # it may hold anything
        whole = False
    if not whole:
        raise DamagedExport(f"{path} is not as it was exported; {ADVICE}")
    if newer or not known:
        age, advice = ("newer", "upgrade fgai-bench") if newer else ("older", "use that version")
        raise DamagedExport(f"{path} was written by the {age} fgai-bench {manifest['package']}; {advice} to read it")
    return manifest


def changed_files(folder: Path, but: Collection[str] = ()) -> dict[str, str]:
    """Return a sentence for each file of an export, ``but`` some, that is not what was written, by its name."""
    try:
        manifest = read_manifest(folder)
    except DamagedExport as error:
        return {MANIFEST: str(error)}
    sentences = {}
    for name, about in manifest["files"].items():
        path = folder / name
        if name not in but and not path.is_file():
            sentences[name] = f"{path} is missing; {ADVICE}"
        elif name not in but and sha256_of_file(path) != about["sha256"]:
            sentences[name] = f"{path} has changed since it was exported; {ADVICE}"
    return sentences


def sha256_of_file(path: Path) -> str:
    """Return the SHA-256 of a file, read in pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn what reading a file stumbles over into a :class:`DamagedExport` with one sentence."""
    try:
        yield
    except Exception as error:  # a file that has its hash may still hold anything
        raise DamagedExport(f"{path} cannot be read ({type(error).__name__}: {error}); {ADVICE}") from None


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


def short_names(hashes: Iterable[str]) -> dict[str, str]:
    """Return what steps are called in all tables but their own: the first digits, or all where two begin alike."""
    whole = list(hashes)
    alike = len({hash[:SHORT] for hash in whole}) < len(whole)
    return {hash: hash if alike else hash[:SHORT] for hash in whole}


def file_of(table: str) -> str:
    return f"{table}.csv.xz"
