"""Read paths from the command line, so that one that cannot be used is answered with a sentence."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import typer

LONGEST_NAME, LONGEST_PATH = 255, 4095  # bytes, as common file systems have it


def path_of(text: str | Path) -> Path:
    """Return a path that can exist; raise if it is empty, too long, or holds a NUL.

    >>> path_of("runs/quick").name
    'quick'
    """
    written = os.fsencode(text)
    if not written:
        raise typer.BadParameter("a path is needed, not an empty text")
    if b"\0" in written:
        raise typer.BadParameter(f"{str(text)!r} holds a NUL, which no path has")
    if len(written) > LONGEST_PATH or any(len(part) > LONGEST_NAME for part in written.split(b"/")):
        raise typer.BadParameter(
            f"{str(text)[:40]}... is too long; a path has at most {LONGEST_PATH} bytes, a name {LONGEST_NAME}"
        )
    return Path(text)


def folder_of(text: str | Path) -> Path:
    """Return the path of a folder that exists or can be made; raise if a file, or a file system, stands in its way."""
    folder = path_of(text)
    nearest = next(part for part in (folder, *folder.absolute().parents) if part.exists())
    if not nearest.is_dir():
        raise typer.BadParameter(f"{nearest} is a file; name a folder")
    if not folder.exists() and not _takes_folders(nearest):
        raise typer.BadParameter(f"no folder can be made in {nearest}; name another")
    return folder


def _takes_folders(place: Path) -> bool:
    """Tell whether folders can be made in a place, unlike in /proc; what is merely forbidden shows when tried."""
    try:
        with tempfile.TemporaryDirectory(dir=place):
            return True
    except FileNotFoundError:
        return False
    except OSError:
        return True
