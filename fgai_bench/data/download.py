"""Download and verify the missing raw files of a dataset, or build them from a downloaded archive."""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import io
import os
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from fgai_bench.data.dataset import Dataset, RawFile
from fgai_bench.data.errors import DataError, MissingDataError
from fgai_bench.data.transfer import TransferError, transferred

TEMPORARY = ".fgai-bench-download-"  # how the name of a download under way begins
STALE_SECONDS = 60.0  # after which a download that nobody holds the lock of has been killed


def fetch_files(dataset: Dataset, root: Path) -> None:
    """Download the missing files of ``dataset``; raise with their names and their folder if that is impossible.

    Everything is fetched into a temporary folder beside its destination and moved once its checksum is right, so that
    an interrupted download leaves nothing behind; what a killed one left is removed by the next.
    ``$FGAI_BENCH_OFFLINE`` forbids downloads.
    """
    known = dataset.archive is not None or all(file.url for file in dataset.files)
    if os.environ.get("FGAI_BENCH_OFFLINE") or not known:
        raise MissingDataError(missing_sentence(dataset, root))
    try:
        root.mkdir(parents=True, exist_ok=True)
        remove_stale(root)
        with _temporary(root) as folder:
            fetched = _from_archive(dataset, root, folder) if dataset.archive else _one_by_one(dataset, root, folder)
            for file, path in fetched.items():
                _verify(dataset, file, path)
                target = dataset.path(file, root)
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(path, target)
    except DataError:
        raise
    except (TransferError, OSError, zipfile.BadZipFile) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise MissingDataError(missing_sentence(dataset, root, f"the download failed: {reason}")) from error


def missing_sentence(dataset: Dataset, root: Path, reason: str = "") -> str:
    """Return one sentence: which files are missing, where they belong, and which dataset could replace this one."""
    names = ", ".join(file.path for file in dataset.missing(root))
    why = f" ({reason})" if reason else ""
    instead = f", or use {dataset.stand_in}" if dataset.stand_in else ""
    return f"{dataset.name} needs {names} under {root}{why}; put it there or set FGAI_BENCH_DATA{instead}"


def remove_stale(root: Path) -> None:
    """Remove the temporary folders of downloads that were killed: nobody holds their lock, and they are not new."""
    for folder in root.glob(f"{TEMPORARY}*"):
        with contextlib.suppress(OSError):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if time.time() - os.stat(folder).st_mtime > STALE_SECONDS:
                    shutil.rmtree(folder)
            finally:
                os.close(handle)


@contextlib.contextmanager
def _temporary(root: Path) -> Iterator[Path]:
    """Make a temporary folder whose lock is held as long as it is in use."""
    with tempfile.TemporaryDirectory(dir=root, prefix=TEMPORARY, ignore_cleanup_errors=True) as folder:
        handle = os.open(folder, os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield Path(folder)
        finally:
            os.close(handle)


def _one_by_one(dataset: Dataset, root: Path, folder: Path) -> dict[RawFile, Path]:
    return {
        file: transferred(file.addresses, folder / f"{number}-{Path(file.path).name}", partial(_verify, dataset, file))
        for number, file in enumerate(dataset.missing(root))
    }


def _from_archive(dataset: Dataset, root: Path, folder: Path) -> dict[RawFile, Path]:
    """Download and unpack the archive; return the files that lie in it, or what the dataset builds from them.

    OGB's zip has one folder (``arxiv/``) with the content of the dataset's own (``ogbn_arxiv/``).
    """
    archive = dataset.archive
    assert archive is not None
    path = transferred(archive.addresses, folder / "archive.zip", partial(_verify, dataset, archive))
    with zipfile.ZipFile(path) as packed:
        packed.extractall(folder / "unpacked")
    inside = folder / "unpacked" / Path(archive.path).stem
    if dataset.builder:
        module, _, function = dataset.builder.partition(":")
        (file,) = dataset.files
        getattr(importlib.import_module(module), function)(dataset.name, inside, folder / "built.npz")
        return {file: folder / "built.npz"}
    return {file: inside / file.path.partition("/")[2] for file in dataset.missing(root)}


def _verify(dataset: Dataset, file: RawFile, path: Path) -> None:
    from fgai_bench.data.checksum import file_sha256, require_checksum
    from fgai_bench.data.readers.npz import read_arrays

    if file.keys:
        read_arrays(dataset.name, file, path)
    else:
        require_checksum(dataset.name, file, path, file_sha256(path))


@contextlib.contextmanager
def quiet_ogb() -> Iterator[None]:
    """Import and call OGB without its output, and without the thread in which it asks the network for its version."""
    silence, hidden = io.StringIO(), "outdated" not in sys.modules
    if hidden:
        sys.modules["outdated"] = None  # type: ignore[assignment]  # makes OGB's optional import of it fail
    try:
        with contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
            yield
    finally:
        if hidden:
            del sys.modules["outdated"]
