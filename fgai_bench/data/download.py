"""Download and verify the missing raw files of a dataset, or build them from a downloaded archive."""

import http.client
import os
import shutil
import tempfile
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

from fgai_bench.data.dataset import Dataset, RawFile
from fgai_bench.data.errors import DataError, MissingDataError
from fgai_bench.registry import object_at

SILENT_SECONDS = 30.0  # after which a server that sends nothing is given up


def fetch_files(dataset: Dataset, root: Path) -> None:
    """Download the missing files of ``dataset``; raise with their names and their folder if that is impossible.

    Files are fetched into a temporary folder, verified there, and appear under their names only when complete.
    ``$FGAI_BENCH_OFFLINE`` forbids downloads.
    """
    known = dataset.archive is not None or all(file.url for file in dataset.files)
    if os.environ.get("FGAI_BENCH_OFFLINE") or not known:
        raise MissingDataError(missing_sentence(dataset, root))
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="fgai-bench-") as temporary:
            folder = Path(temporary)
            if dataset.archive:
                fetched = _from_archive(dataset, root, folder)
            else:
                missing = enumerate(dataset.missing(root))
                fetched = {file: _transfer(dataset, file, folder / str(number)) for number, file in missing}
            for file, path in fetched.items():
                _verify(dataset, file, path)
                _put(path, dataset.path(file, root))
    except DataError:
        raise
    except (OSError, ValueError, http.client.HTTPException, zipfile.BadZipFile) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise MissingDataError(missing_sentence(dataset, root, f"the download failed: {reason}")) from error


def _put(path: Path, target: Path) -> None:
    """Copy a file so that it appears under its name only when complete, also from another file system."""
    target.parent.mkdir(parents=True, exist_ok=True)
    staged = target.with_name(f".{target.name}-{os.getpid()}")
    shutil.copyfile(path, staged)
    os.replace(staged, target)


def missing_sentence(dataset: Dataset, root: Path, reason: str = "") -> str:
    """Return one sentence: which files are missing, where they belong, and which dataset could replace this one."""
    names = ", ".join(file.path for file in dataset.missing(root))
    why = f" ({reason})" if reason else ""
    instead = f", or use {dataset.stand_in}" if dataset.stand_in else ""
    return f"{dataset.name} needs {names} under {root}{why}; put it there or set FGAI_BENCH_DATA{instead}"


def _transfer(dataset: Dataset, file: RawFile, target: Path) -> Path:
    """Download ``file`` to ``target`` and verify it."""
    request = urllib.request.Request(file.url, headers={"User-Agent": "fgai-bench"})
    try:
        with urllib.request.urlopen(request, timeout=SILENT_SECONDS) as response, target.open("wb") as stream:
            shutil.copyfileobj(response, stream)
    except urllib.error.HTTPError as error:
        error.close()  # it holds the connection
        raise
    _verify(dataset, file, target)
    return target


def _from_archive(dataset: Dataset, root: Path, folder: Path) -> dict[RawFile, Path]:
    """Download and unpack the archive; return the files that lie in it, or what the dataset builds from them.

    OGB's zip has one folder (``arxiv/``) with the content of the dataset's own (``ogbn_arxiv/``).
    """
    archive = dataset.archive
    assert archive is not None
    with zipfile.ZipFile(_transfer(dataset, archive, folder / "archive.zip")) as packed:
        packed.extractall(folder / "unpacked")
    inside = folder / "unpacked" / Path(archive.path).stem
    if dataset.builder:
        (file,) = dataset.files
        object_at(dataset.builder)(dataset.name, inside, folder / "built.npz")
        return {file: folder / "built.npz"}
    return {file: inside / file.path.partition("/")[2] for file in dataset.missing(root)}


def _verify(dataset: Dataset, file: RawFile, path: Path) -> None:
    from fgai_bench.data.checksum import file_sha256, require_checksum
    from fgai_bench.data.readers.npz import read_arrays

    if file.keys:
        read_arrays(dataset.name, file, path)
    else:
        require_checksum(dataset.name, file, path, file_sha256(path))
