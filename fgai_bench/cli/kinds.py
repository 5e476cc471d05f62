"""The kinds of things that have names: each kind leads to the registry of its names."""

from __future__ import annotations

from typing import Any

from fgai_bench.registry import Registry

KINDS: Registry[Registry[Any]] = Registry("kind")
for _kind in ("datasets", "models", "defenses", "attacks", "metrics", "suites"):
    KINDS.declare(_kind, f"fgai_bench:{_kind.upper()}")


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
    """The kinds in which ``name`` is registered; a name that no kind holds is an error that lists the nearest."""
    holding = [kind for kind in KINDS if name in KINDS[kind]]
    if not holding:
        every: Registry[Any] = Registry("name")
        for known in dict.fromkeys(known for kind in KINDS for known in KINDS[kind]):
            every.declare(known, known)
        every.entry(name)
    return holding
