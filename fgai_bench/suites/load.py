"""Load a suite from a name, a path or plain data, and follow its ``include``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fgai_bench.suites.catalogue import SUITES
from fgai_bench.suites.errors import SuiteError
from fgai_bench.suites.read import is_path, load_file, validated
from fgai_bench.suites.schema import Suite


def load_suite(which: str | os.PathLike[str] | Suite | Mapping[str, Any]) -> Suite:
    """Return the suite with a registered name, at the path of a YAML file, or given as plain data.

    >>> load_suite("quick").datasets
    ('cora',)
    """
    if isinstance(which, Suite):
        return which
    if isinstance(which, Mapping):
        return validated(dict(which), "the suite")
    if is_path(which):
        if not os.path.exists(which):
            raise SuiteError(f"there is no suite file {which}; names of suites are: {', '.join(SUITES)}")
        return load_file(Path(which))
    return SUITES[os.fspath(which)]


def grids(suite: Suite, above: tuple[str, ...] = ()) -> tuple[Suite, ...]:
    """Return the suites with a grid of their own that ``suite`` consists of, in order, each once."""
    if suite.name in above:
        raise SuiteError(f"the suite {suite.name!r} includes itself, by way of {' -> '.join(above)}")
    if not suite.include:
        return (suite,)
    included = [part for name in suite.include for part in grids(load_suite(name), (*above, suite.name))]
    return tuple({part.name: part for part in included}.values())
