"""Find the folder ``baselines``, which travels with the package: papers as data, and settings chosen by search."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path

PACKAGE = "fgai_bench.baselines"


def shipped_baselines() -> Traversable:
    """Return the folder of baselines: the installed package, else the folder beside ours in a bare checkout."""
    spec = find_spec(PACKAGE)
    # A folder without __init__.py is what an update of an older checkout leaves behind, not the package.
    if spec is None or spec.origin is None:
        return Path(__file__).parents[1] / "baselines"
    return resources.files(PACKAGE)
