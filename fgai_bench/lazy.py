"""Lazy packages: public names that import their module on first use, so that ``--help`` never waits for torch."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any


def lazy_names(package: str, where: Mapping[str, str]) -> Callable[[str], Any]:
    """A module ``__getattr__`` for ``package`` that finds each name of ``where`` in the submodule it maps to."""

    def __getattr__(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(where[name]), name)

    return __getattr__


def keep_name(package: str, name: str) -> None:
    """Let ``package.name`` be the object of that name in its submodule of that name, and never the submodule itself.

    Python binds a submodule to its package when it is imported, over a lazy name that is spelled like it.
    """

    class Package(ModuleType):
        pass

    def named(self: ModuleType) -> Any:
        return getattr(importlib.import_module(f"{package}.{name}"), name)

    setattr(Package, name, property(named, lambda self, submodule: None))
    sys.modules[package].__class__ = Package
