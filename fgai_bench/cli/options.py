"""Options and arguments that several commands share, declared once; and how texts of the command line are read."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated

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


def listed(text: str | None) -> list[str] | None:
    """Split a comma-separated option such as ``"gat, gt"`` into a list; return None when the option was not given.

    >>> listed("gat, gt"), listed(None)
    (['gat', 'gt'], None)
    """
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise typer.BadParameter(f"{text!r} names nothing; write names separated by commas, or leave the option out")
    return names


def seeds_of(text: str | None) -> int | list[int] | None:
    """Parse ``--seeds``: ``"5"`` is a number of seeds, ``"0,3"`` are the seeds themselves.

    >>> seeds_of("5"), seeds_of("0,3")
    (5, [0, 3])
    """
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",") if part.strip()] if "," in text else int(text)
    except ValueError:
        raise typer.BadParameter(f"--seeds is a number (5) or a list of them (0,3,4), not {text!r}") from None


NamesOption = Annotated[str | None, typer.Option(help="Names separated by commas; else the suite's.")]
SuiteOption = Annotated[str, typer.Option(help="A suite's name (`fgai-bench ls suites`) or the path of a YAML file.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, as in attack.steps=50.")
]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
JobsOption = Annotated[int | None, typer.Option(help="Steps at a time; else one per processor, or one on a GPU.")]
ExecutorOption = Annotated[str, typer.Option(help="local (worker processes), inline or ray.")]
AddressOption = Annotated[str | None, typer.Option(help="Address of a Ray cluster; else one is started here.")]
RetryOption = Annotated[bool, typer.Option("--retry-failed", help="Run again what has failed.")]
RootOption = Annotated[
    Path | None,
    typer.Option(
        "--data-root",
        metavar="FOLDER",
        help="Where raw files lie; else $FGAI_BENCH_DATA, else your data folder.",
        parser=folder_of,
    ),
]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or exported records.", parser=path_of)]
OutOption = Annotated[Path | None, typer.Option(help="Where to write; else RUN/report.", parser=folder_of)]
FolderOption = Annotated[Path | None, typer.Option(help="The run folder; else runs/SUITE.", parser=folder_of)]
