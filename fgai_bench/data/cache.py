"""Cache derived arrays on disk; a file that is damaged or of other origin is rebuilt."""

from __future__ import annotations

import contextlib
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import platformdirs
from numpy.typing import NDArray

from fgai_bench.data.dataset import APP

Arrays = dict[str, NDArray[np.generic]]


def cache_root() -> Path:
    """Return the folder of derived files: ``$FGAI_BENCH_CACHE``, else the user's cache folder; it can be deleted."""
    return Path(os.environ.get("FGAI_BENCH_CACHE") or platformdirs.user_cache_dir(APP)).expanduser().absolute()


def cached_arrays(kind: str, key: str, build: Callable[[], Arrays]) -> Arrays:
    """Return the arrays of ``build()``, from the cache if it holds them.

    ``key`` is the checksum of the source of the arrays: it is part of the file's name and of its content, so that a
    file of other origin is rebuilt, as is a truncated or damaged one (every member of the archive carries a CRC).
    The file appears under its name only when complete. When ``build`` raises, the cache stays as it was; when the
    cache cannot be written, the arrays are returned all the same.
    """
    path = cache_root() / f"{kind}-{key}.npz"
    arrays = _read(path, key)
    if arrays is None:
        arrays = build()
        with contextlib.suppress(OSError):
            _write(path, key, arrays)
    return arrays


def _read(path: Path, key: str) -> Arrays | None:
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, TypeError, AttributeError):
        return None
    return arrays if str(arrays.pop("key", "")) == key else None


def _write(path: Path, key: str, arrays: Arrays) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem[:40]}-", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as stream:
            np.savez(stream, key=np.array(key), **arrays)  # type: ignore[arg-type]
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
