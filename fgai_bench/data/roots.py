"""Find the folders of data: the data root for raw files, the cache root for derived files."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

APP = "fgai-bench"


def data_root(root: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of raw files: ``root`` if given, else ``$FGAI_BENCH_DATA``, else the user's data folder.

    >>> data_root("graphs").name
    'graphs'
    """
    return Path(root or os.environ.get("FGAI_BENCH_DATA") or platformdirs.user_data_dir(APP)).expanduser().absolute()


def cache_root() -> Path:
    """Return the folder of derived files: ``$FGAI_BENCH_CACHE``, else the user's cache folder; it can be deleted."""
    return Path(os.environ.get("FGAI_BENCH_CACHE") or platformdirs.user_cache_dir(APP)).expanduser().absolute()
