"""Old import paths: modules that README or docs once named go on working for one release, with a warning.

Importing ``fgai_bench`` puts :class:`OldPaths` before Python's own finders: folders that an updated checkout still has,
with nothing but bytecode in them, would be found as empty packages.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MODULES = {
    "fgai_bench.attacks.threat": "fgai_bench.attacks.budget",
    "fgai_bench.runner": "fgai_bench.run",
    "fgai_bench.runner.breaking": "fgai_bench.records.submit",
    "fgai_bench.runner.runs": "fgai_bench.run.resume",
    "fgai_bench.runner.verify": "fgai_bench.records.verify",
    "fgai_bench.spaces": "fgai_bench.options",
    "fgai_bench.store": "fgai_bench.records",
    "fgai_bench.store.packing": "fgai_bench.records.packing",
    "fgai_bench.store.sqlite": "fgai_bench.records.store",
}
# Names that are no longer in the module that replaced theirs.
NAMES = {
    "fgai_bench.attacks.threat:Attacked": "fgai_bench.attacks.base:Attacked",
    "fgai_bench.runner:StoreReader": "fgai_bench.records:StoreReader",
    "fgai_bench.runner.verify:Row": "fgai_bench.records.verify:RecordedRow",
}


class OldModule(ModuleType):
    """A module that looks every name up where it is now."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        owner, _, attribute = NAMES.get(f"{self.__name__}:{name}", f"{MODULES[self.__name__]}:{name}").partition(":")
        warnings.warn(f"{self.__name__}.{name} is now {owner}.{attribute}", DeprecationWarning, stacklevel=2)
        return getattr(importlib.import_module(owner), attribute)


class OldPaths(MetaPathFinder, Loader):
    """Find modules by the paths of earlier releases."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=f"{name}." in " ".join(MODULES)) if name in MODULES else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return OldModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: names are looked up when they are asked for."""
