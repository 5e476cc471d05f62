"""The files of leaderboards: written whole or not at all, by one process at a time, with a checksum beside them.

``leaderboards.sha256`` has a line per file, as ``sha256sum`` writes and checks it. While files are being replaced it
names both the old and the new content, so that a writer killed at any moment leaves a folder that can be read.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fgai_bench.statistics.errors import ReportError

SUMS = "leaderboards.sha256"
PATIENCE = 60.0  # seconds to wait for another writer, who needs a few


@contextmanager
def locked(folder: Path, patience: float = PATIENCE) -> Iterator[None]:
    """Hold the lock of a folder, which the operating system releases when its holder dies; no file is made for it."""
    handle, deadline = os.open(folder, os.O_RDONLY), time.monotonic() + patience
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ReportError(f"{folder} is being written by another process; try again later") from None
                time.sleep(0.05)
        yield
    finally:
        os.close(handle)


def read_board(path: Path) -> str | None:
    """Return the text of a file, or None where there is none; raise if it is not what was last written.

    A folder without checksums, as earlier versions wrote it, is taken as it is.
    """
    if not path.is_file():
        return None
    content = path.read_bytes()
    known = _sums(path.parent)
    if known is not None and (hashlib.sha256(content).hexdigest(), path.name) not in known:
        raise ReportError(
            f"{path} is not what was last written: its checksum is not in {SUMS}; put the file back as it was, because "
            "values that were edited by hand are not ranked"
        )
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise ReportError(f"{path} is not a leaderboard of fgai-bench; choose another folder") from None


def write_boards(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Replace the named files and their checksums; hold the lock of the folder around this."""
    contents = {name: text.encode("utf-8", "backslashreplace") for name, text in texts.items()}
    new = {(hashlib.sha256(content).hexdigest(), name) for name, content in contents.items()}
    others = {line for line in _sums(folder) or () if line[1] not in contents}
    before = {_line(folder / name) for name in contents if (folder / name).is_file()}
    for name, content in contents.items():
        _part(folder, name).write_bytes(content)
    _replace(folder, SUMS, _written(new | others | before))
    for name in contents:
        os.replace(_part(folder, name), folder / name)
    _replace(folder, SUMS, _written(new | others))
    return [folder / name for name in contents]


def _part(folder: Path, name: str) -> Path:
    return folder / f"{name}.part"


def _replace(folder: Path, name: str, content: bytes) -> None:
    _part(folder, name).write_bytes(content)
    os.replace(_part(folder, name), folder / name)


def _line(path: Path) -> tuple[str, str]:
    return hashlib.sha256(path.read_bytes()).hexdigest(), path.name


def _written(lines: set[tuple[str, str]]) -> bytes:
    return "".join(f"{digest}  {name}\n" for digest, name in sorted(lines, key=lambda line: line[::-1])).encode()


def _sums(folder: Path) -> set[tuple[str, str]] | None:
    """Return the checksums of a folder with the names of their files; None where it has no such file."""
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return None
    return {(digest, name) for digest, _, name in (line.partition("  ") for line in lines)}
