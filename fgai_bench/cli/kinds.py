"""The kinds of things that have names: each kind leads to the registry of its names."""

from __future__ import annotations

from typing import Any

from fgai_bench.registry import Registry, registry_path

KINDS: Registry[Registry[Any]] = Registry("kind")
for _kind in ("datasets", "models", "defenses", "attacks", "explainers", "metrics", "suites", "tasks"):
    KINDS.declare(_kind, registry_path(_kind))
CHECKED = tuple(kind for kind in KINDS if kind != "tasks")
"""The kinds whose entries have a contract."""


def kind_named(name: str) -> str:
    """The kind that ``name`` means, in singular or plural.

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
    """Return the kinds with a contract that hold ``name``; an unknown name is an error that lists the nearest."""
    holding = [kind for kind in CHECKED if name in KINDS[kind]]
    if not holding:
        every: Registry[Any] = Registry("name")
        for known in dict.fromkeys(known for kind in CHECKED for known in KINDS[kind]):
            every.declare(known, known)
        every.entry(name)
    return holding
