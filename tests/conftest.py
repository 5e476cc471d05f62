"""What every test shares: a bounded number of threads, the folder of real datasets, and what a marker needs to run."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# The same examples on every run of the continuous integration; anywhere else new ones are looked for.
settings.register_profile("ci", derandomize=True, deadline=None)
if os.environ.get("CI"):
    settings.load_profile("ci")

# Read by torch when it is first imported, here and in the processes that tests start: two workers share two cores.
os.environ["OMP_NUM_THREADS"] = "1"

# Synthetic stores that the tests of statistics, leaderboards and reports share.
pytest_plugins = ["tests.report_fixtures"]

# Users' packages, which register their entries when they are imported: only tests that play their user may do that.
collect_ignore = ["installed_package", "plugin_package"]

REPOSITORY = Path(__file__).parents[1]


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def _has_browser() -> bool:
    return importlib.util.find_spec("selenium") is not None and shutil.which("chromedriver") is not None


NEEDS: dict[str, tuple[Callable[[], bool], str]] = {
    "gpu": (_has_cuda, "no CUDA device"),
    "ray": (lambda: importlib.util.find_spec("ray") is not None, "the extra `ray` is not installed"),
    "page": (_has_browser, "the extra `page` or chromedriver is not installed"),
}


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip, with the reason, a test whose marker names something that this machine lacks."""
    for marker, (available, reason) in NEEDS.items():
        if item.get_closest_marker(marker) and not available():
            pytest.skip(reason)


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of the real datasets' raw files."""
    named = os.environ.get("FGAI_BENCH_DATA")
    root = Path(named) if named else REPOSITORY.parent / "shared" / "data"
    if not root.is_dir():
        pytest.skip(f"no real datasets: {root} is not a folder; set FGAI_BENCH_DATA")
    return root
