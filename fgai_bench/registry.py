"""Registries: how datasets, models, defenses, attacks, metrics and suites are found by name.

An entry is either *declared* (built-in: metadata now, the object's module imported on first use) or *registered* with
the decorator (a user's code). Both carry the same metadata, so listing names never imports what they stand for.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

T = TypeVar("T")
Direction = Literal["higher", "lower", "none"]


class RegistryError(ValueError):
    """A name that is taken, or that nobody registered; the message says what is possible."""


@dataclass(frozen=True)
class Entry(Generic[T]):
    """One name of a registry and everything that is known about it without loading it.

    Attributes:
        name: what the user types.
        target: ``"module:attribute"`` of the object, or the object itself.
        summary: one line for ``fgai-bench ls``.
        paper: link to the work it comes from.
        version: changes when results change; part of every content hash.
        tags: typed capabilities; contract checks and the runner select by them.
        direction: for metrics, which way is better.
        range: for metrics, the closed interval of possible values.
        origin: who registered it.
    """

    name: str
    target: Any
    summary: str = ""
    paper: str = ""
    version: str = "1"
    tags: frozenset[str] = frozenset()
    direction: Direction = "none"
    range: tuple[float, float] | None = None
    origin: str = "fgai_bench"

    def load(self) -> T:
        """Import the target if it is a path, and return the object."""
        if not isinstance(self.target, str):
            return self.target
        module, _, attribute = self.target.partition(":")
        return getattr(importlib.import_module(module), attribute)


@dataclass
class Registry(Generic[T]):
    """Names of one kind of thing.

    >>> shapes = Registry("shape")
    >>> @shapes.register("square", summary="four equal sides", tags=("convex",))
    ... def square(side): return side * side
    >>> shapes["square"](3)
    9
    >>> shapes["sqare"]
    Traceback (most recent call last):
    ...
    fgai_bench.registry.RegistryError: unknown shape 'sqare'; the nearest names are: square
    """

    kind: str
    group: str = ""
    _entries: dict[str, Entry[T]] = field(default_factory=dict, repr=False)
    _entry_points_read: bool = field(default=False, repr=False)

    def declare(self, name: str, target: str, **metadata: Any) -> None:
        """Add a built-in entry by the path ``"module:attribute"`` of its object, without importing it."""
        self._add(Entry(name=name, target=target, **_tagged(metadata)))

    def register(self, name: str, **metadata: Any) -> Callable[[T], T]:
        """Return a decorator that adds the decorated object under ``name``; metadata as in :class:`Entry`."""

        def add(obj: T) -> T:
            summary = metadata.pop("summary", (getattr(obj, "__doc__", None) or "").strip().split("\n")[0])
            origin = metadata.pop("origin", getattr(obj, "__module__", "unknown"))
            self._add(Entry(name=name, target=obj, summary=summary, origin=origin, **_tagged(metadata)))
            return obj

        return add

    def entry(self, name: str) -> Entry[T]:
        """The entry of ``name`` with its metadata, or a :class:`RegistryError` that lists the three nearest names."""
        self._read_entry_points()
        if name not in self._entries:
            near = difflib.get_close_matches(name, self._entries, n=3, cutoff=0.0) or sorted(self._entries)[:3]
            raise RegistryError(f"unknown {self.kind} {name!r}; the nearest names are: {', '.join(near) or 'none'}")
        return self._entries[name]

    def names(self, *tags: str) -> list[str]:
        """All names in order of registration; with ``tags``, only those whose entry carries every one of them."""
        self._read_entry_points()
        return [name for name, entry in self._entries.items() if entry.tags.issuperset(tags)]

    def __getitem__(self, name: str) -> T:
        return self.entry(name).load()

    def __contains__(self, name: object) -> bool:
        self._read_entry_points()
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def _add(self, entry: Entry[T]) -> None:
        first = self._entries.get(entry.name)
        if first is not None:
            raise RegistryError(
                f"{self.kind} {entry.name!r} is already registered by {first.origin}; {entry.origin} needs another name"
            )
        self._entries[entry.name] = entry

    def _read_entry_points(self) -> None:
        """Add what installed packages offer under this registry's group; a name of ours cannot be taken over."""
        if self._entry_points_read or not self.group:
            return
        self._entry_points_read = True
        for point in importlib.metadata.entry_points(group=self.group):
            origin = point.dist.name if point.dist is not None else point.module
            self._add(Entry(name=point.name, target=f"{point.module}:{point.attr}", origin=origin))


def load_plugins(modules: Iterable[str]) -> None:
    """Import each module so that its ``@register`` decorators run (``--plugin`` of the command line)."""
    for module in modules:
        try:
            importlib.import_module(module)
        except (ImportError, SyntaxError) as error:
            raise RegistryError(f"plugin {module!r} cannot be imported: {error}") from error


def _tagged(metadata: dict[str, Any]) -> dict[str, Any]:
    return {**metadata, "tags": frozenset(metadata.get("tags", ()))}
