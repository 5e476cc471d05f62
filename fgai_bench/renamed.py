"""Names that moved since the first release: old paths that its documentation named go on working, with a warning."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

MOVED = {
    "fgai_bench.attacks.threat:settle": "fgai_bench.attacks.result:finish_attack",
    "fgai_bench.attacks.threat:Attacked": "fgai_bench.attacks.result:Attacked",
    "fgai_bench.tasks:EXPLAINERS": "fgai_bench.explainers:EXPLAINERS",
    "fgai_bench.runner:StoreReader": "fgai_bench.store:StoreReader",
}


def moved(module: str, name: str) -> Any:
    """Return what ``module.name`` of the first release is now, with a deprecation warning; else raise as Python does.

    >>> moved("fgai_bench.tasks", "nothing")
    Traceback (most recent call last):
    ...
    AttributeError: module 'fgai_bench.tasks' has no attribute 'nothing'
    """
    path = MOVED.get(f"{module}:{name}")
    if path is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    owner, _, attribute = path.partition(":")
    warnings.warn(f"{module}.{name} is now {owner}.{attribute}", DeprecationWarning, stacklevel=3)
    return getattr(importlib.import_module(owner), attribute)
