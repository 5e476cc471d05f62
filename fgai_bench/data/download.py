"""Download and verify the missing raw files of a dataset, through PyG's and OGB's own downloaders."""

from __future__ import annotations

import contextlib
import io
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fgai_bench.data.dataset import Dataset, RawFile
from fgai_bench.data.errors import DataError, MissingDataError

TIMEOUT_SECONDS = 30.0


def fetch_files(dataset: Dataset, root: Path) -> None:
    """Download the missing files of ``dataset``; raise with their names and their folder if that is impossible.

    Everything is fetched into a temporary folder beside its destination and moved once its checksum is right, so that
    an interrupted download leaves nothing behind. ``$FGAI_BENCH_OFFLINE`` forbids downloads.
    """
    if os.environ.get("FGAI_BENCH_OFFLINE") or not (dataset.archive or all(file.url for file in dataset.files)):
        raise MissingDataError(missing_sentence(dataset, root))
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=root, prefix=".download-") as folder, _connection_timeout():
            fetched = _fetch_archive(dataset, root, folder) if dataset.archive else _fetch(dataset, root, folder)
            for file, path in fetched.items():
                _install(dataset, file, path, dataset.path(file, root))
    except DataError:
        raise
    except Exception as error:  # downloaders raise whatever their transport raises
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise MissingDataError(missing_sentence(dataset, root, f"the download failed: {reason}")) from error


def missing_sentence(dataset: Dataset, root: Path, reason: str = "") -> str:
    """Return one sentence: which files are missing, where they belong, and which dataset could replace this one."""
    names = ", ".join(file.path for file in dataset.missing(root))
    why = f" ({reason})" if reason else ""
    instead = f", or use {dataset.stand_in}" if dataset.stand_in else ""
    return f"{dataset.name} needs {names} under {root}{why}; put it there or set FGAI_BENCH_DATA{instead}"


def _fetch(dataset: Dataset, root: Path, folder: str) -> dict[RawFile, Path]:
    from torch_geometric.data import download_url

    return {file: Path(download_url(file.url, folder, log=False)) for file in dataset.missing(root)}


def _fetch_archive(dataset: Dataset, root: Path, folder: str) -> dict[RawFile, Path]:
    """Download OGB's zip, whose one folder (``arxiv/``) has the content of the dataset's own (``ogbn_arxiv/``).

    OGB's dataset class would ask on standard input before a big download or an update; its downloader does not ask.
    """
    with quiet_ogb():
        from ogb.utils.url import download_url, extract_zip

        archive = download_url(dataset.archive, folder, log=False)
        extract_zip(archive, folder, log=False)
    inside = Path(archive).with_suffix("")
    return {file: inside / file.path.partition("/")[2] for file in dataset.missing(root)}


def _install(dataset: Dataset, file: RawFile, source: Path, target: Path) -> None:
    from fgai_bench.data.checksum import file_sha256, require_checksum
    from fgai_bench.data.npz import read_arrays

    if file.keys:
        read_arrays(dataset.name, file, source)
    else:
        require_checksum(dataset.name, file, source, file_sha256(source))
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(source, target)


@contextlib.contextmanager
def _connection_timeout() -> Iterator[None]:
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT_SECONDS)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


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
