"""Give access to the suites in the package as attributes: ``shipped.quick`` is the suite in ``quick.yaml``."""

from __future__ import annotations

from pathlib import Path

from fgai_bench.suites.read import load_file
from fgai_bench.suites.schema import Suite


def __getattr__(name: str) -> Suite:
    path = Path(__file__).with_name(f"{name}.yaml")
    if not path.is_file():
        raise AttributeError(f"no suite {name!r} travels with the package")
    return load_file(path)
