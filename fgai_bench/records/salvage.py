"""Read an export that may be damaged, as far as it can be read, so that what is damaged can be named.

Every other reader refuses such an export as a whole. Here rows that cannot be read are left out, and each step is then
held against its own checksum.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from fgai_bench.records.compressed import SUFFIXES, salvaged
from fgai_bench.records.exported import (
    MANIFEST,
    NUMBERS,
    PACK,
    PACKS,
    TABLES,
    DamagedExport,
    Packed,
    columns_of,
    completed,
    file_of,
    number,
    read_manifest,
    whole_names,
)
from fgai_bench.records.schema import migrate
from fgai_bench.records.store import StoreReader


class Salvaged(StoreReader):
    """What can be read of an export; each step is verified when it is asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / MANIFEST
        self.sealed, self._whole = False, set()  # nothing is taken on trust
        self._connection = sqlite3.connect(":memory:", isolation_level=None)
        migrate(self._connection)
        steps: dict[str, str] = {}
        for table in TABLES:
            columns = [column[0] for column in self._connection.execute(f"SELECT * FROM {table} LIMIT 0").description]
            marks = ", ".join("?" * len(columns))
            files = dict.fromkeys(folder / file_of(table, format) for format in SUFFIXES)
            for row in chain(*(_rows(table, file, columns, steps) for file in files)):
                with suppress(sqlite3.Error):
                    self._connection.execute(f"INSERT INTO {table} VALUES ({marks})", row)
            steps = steps or whole_names(self._connection)
        packs = [folder / PACK, *(folder / file for file, _ in PACKS.values())]
        self.artifacts = Packed(folder, dict.fromkeys(packs))

    def members(self) -> list[dict[str, Any]]:
        """Return the places that can be read."""
        rows = self._connection.execute("SELECT content FROM members ORDER BY position, place").fetchall()
        return [json.loads(content) for (content,) in rows]


def changed_files(folder: Path) -> list[str]:
    """Return a sentence for each file of an export that is not what was written; the manifest, if it is that."""
    try:
        manifest = read_manifest(folder)
    except DamagedExport as error:
        return [str(error)]
    sentences = []
    for name, about in manifest["files"].items():
        path = folder / name
        if not path.is_file():
            sentences.append(f"{path} is missing")
        elif hashlib.sha256(path.read_bytes()).hexdigest() != about["sha256"]:
            sentences.append(f"{path} has changed since it was exported")
    return sentences


def _rows(table: str, path: Path, stored: list[str], steps: Mapping[str, str]) -> Iterator[list[Any]]:
    """Yield the rows of a table that can be read."""
    reader = csv.reader(io.StringIO(salvaged(path), newline=""))
    try:
        header = next(reader, None)
        if header is None:
            return
        columns = columns_of(table, stored, header)
        for row in reader:
            try:
                values = [number(v, path) if name in NUMBERS else v for v, name in zip(row, columns, strict=True)]
                yield completed(table, values, path, steps)
            except ValueError:
                continue
    except csv.Error:
        return
