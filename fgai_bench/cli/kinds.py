"""List the kinds of registered things (datasets, models, ...) and find the registry of a kind."""

from __future__ import annotations

from typing import Any

from fgai_bench.registry import Registry, registry_path

KINDS: Registry[Registry[Any]] = Registry("kind")
for _kind in ("datasets", "models", "defenses", "attacks", "explainers", "metrics", "suites", "tasks"):
    KINDS.declare(_kind, registry_path(_kind))
CHECKED = tuple(kind for kind in KINDS if kind != "tasks")
"""The kinds whose entries have a contract that ``fgai-bench check`` can test."""


def kind_named(name: str) -> str:
    """Return the kind that ``name`` means, in singular or plural.

    >>> kind_named("model"), kind_named("models")
    ('models', 'models')
    >>> kind_named("modles")
    Traceback (most recent call last):
    ...
    fgai_bench.registry.RegistryError: unknown kind 'modles'; the nearest names are: models, ...
    """
    plural = name if name in KINDS else f"{name}s"
    return plural if plural in KINDS else KINDS.entry(name).name


def kinds_holding(name: str) -> list[str]:
    """Return the kinds with a contract in which ``name`` is registered; raise if there is none, with similar names."""
    holding = [kind for kind in CHECKED if name in KINDS[kind]]
    if not holding:
        every: Registry[Any] = Registry("name")
        for known in dict.fromkeys(known for kind in CHECKED for known in KINDS[kind]):
            every.declare(known, known)
        every.entry(name)
    return holding
