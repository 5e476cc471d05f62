"""Where data lies: raw files under the data root, what we derive from them under the cache root."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

APP = "fgai-bench"


def data_root(root: str | os.PathLike[str] | None = None) -> Path:
    """The folder of raw files: ``root`` if given, else ``$FGAI_BENCH_DATA``, else the user's data folder.

    >>> data_root("graphs").name
    'graphs'
    """
    return Path(root or os.environ.get("FGAI_BENCH_DATA") or platformdirs.user_data_dir(APP)).expanduser().absolute()


def cache_root() -> Path:
    """The folder of derived files: ``$FGAI_BENCH_CACHE``, else the user's cache folder. Deleting it loses only time."""
    return Path(os.environ.get("FGAI_BENCH_CACHE") or platformdirs.user_cache_dir(APP)).expanduser().absolute()
