"""Registries: how datasets, models, defenses, attacks, explainers, metrics and suites are found by name.

What an entry says of itself (summary, paper, version, tags, ...) stands once, as attributes of the object that is
registered. So it is the same entry whether a decorator, an entry point of an installed package or ``--plugin`` brings
it. Built-in entries are named by the path of their object, and their attributes are read from the source: listing names
imports neither torch nor what the names stand for.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

T = TypeVar("T")
Direction = Literal["higher", "lower", "none"]
Scale = Literal["identity", "log", "logit"]
OURS = "fgai_bench"


class RegistryError(ValueError):
    """Raised when a name is taken or unknown, or an object is not of the registry's kind."""


@dataclass(frozen=True)
class Entry(Generic[T]):
    """One name of a registry and everything that is known about it.

    Attributes:
        name: what the user types.
        target: ``"module:attribute"`` of the object, or the object itself.
        summary: one line for ``fgai-bench ls``.
        paper: link to the work it comes from.
        version: part of every content hash; changes when results do for a reason that is not in the code.
        tags: typed capabilities; contract checks and the runner select by them.
        direction: for metrics, which way is better.
        range: for metrics, the closed interval of possible values.
        scale: for metrics, where errors are symmetric: as it is, of its logarithm, of its logit.
        cost: what it takes, for forecasts; the base class of each kind says in which words. No part of a hash.
        origin: the package or module that registered it.
        origin_version: of that package, where it has one.
        unread: its object has not been looked at, so only name and target are known.
    """

    name: str
    target: Any
    summary: str = ""
    paper: str = ""
    version: str = "1"
    tags: frozenset[str] = frozenset()
    direction: Direction = "none"
    range: tuple[float, float] | None = None
    scale: Scale = "identity"
    cost: Mapping[str, float] = field(default_factory=dict, hash=False)
    origin: str = OURS
    origin_version: str = ""
    unread: bool = False

    @classmethod
    def of(cls, name: str, target: Any, attributes: Mapping[str, Any], **where: str) -> Entry[T]:
        """Make the entry of an object from the attributes that it declares."""
        known: dict[str, Any] = {key: attributes[key] for key in METADATA if attributes.get(key) is not None}
        return cls(name, target, **{**known, "tags": frozenset(known.get("tags", ())), **where})

    @property
    def ours(self) -> bool:
        """Tell whether the entry is built in."""
        return self.origin == OURS

    def load(self) -> T:
        """Import the target if it is a path, and return the object."""
        return object_at(self.target) if isinstance(self.target, str) else self.target


METADATA = ("summary", "paper", "version", "tags", "direction", "range", "scale", "cost")
"""What an object may declare about itself; the fields of :class:`Entry` of the same names."""


@dataclass
class Registry(Generic[T]):
    """Names of one kind of thing.

    Args:
        kind: what the things are, in singular.
        group: of the entry points of installed packages: ``name = module:object``, or a module with many decorators.
        admit: ``"module:Class"``, the base class of all entries; or ``"module:function"`` of ``(obj, name)``, which
            returns what to keep, or raises a ``TypeError`` that says why.

    >>> shapes = Registry("shape")
    >>> @shapes.register("square", summary="four equal sides", tags=("convex",))
    ... def square(side): return side * side
    >>> square = shapes["square"]
    >>> square(3), shapes.entry("square").summary
    (9, 'four equal sides')
    >>> shapes["sqare"]
    Traceback (most recent call last):
    ...
    fgai_bench.registry.RegistryError: unknown shape 'sqare'; the nearest names are: square
    """

    origins: ClassVar[list[str]] = []  # of what was added to any registry, in order
    kind: str
    group: str = ""
    admit: str = ""
    _entries: dict[str, Entry[T]] = field(default_factory=dict, repr=False)
    _broken: list[str] = field(default_factory=list, repr=False)
    _entry_points_read: bool = field(default=False, repr=False)

    def declare(self, name: str, target: str, **metadata: Any) -> None:
        """Add a built-in entry by the path ``"module:attribute"`` of its object, without importing it.

        Without ``metadata`` the object's own attributes are read from its source when the entry is looked at.
        """
        self._add(replace(Entry.of(name, target, metadata), unread=not metadata))

    def register(self, name: str, **metadata: Any) -> Callable[[T], T]:
        """Return a decorator that adds the decorated object under ``name``; ``metadata`` becomes attributes of it."""

        def add(obj: T) -> T:
            unknown = sorted(metadata.keys() - {*METADATA, "inputs", "origin", "score"})
            if unknown:
                raise RegistryError(
                    f"{self.kind} {name!r} cannot declare {unknown[0]!r}; possible: {', '.join(METADATA)}"
                )
            origin = metadata.pop("origin", getattr(obj, "__module__", "unknown"))
            for key, value in metadata.items():
                setattr(obj, key, value)
            self.add(name, obj, origin=origin)
            return obj

        return add

    def add(self, name: str, obj: Any, origin: str = "unknown", origin_version: str = "") -> None:
        """Add an object that declares its metadata itself."""
        Registry.origins.append(origin)
        self._add(self._entry_of(name, obj, origin, origin_version))

    def entry(self, name: str) -> Entry[T]:
        """Return the entry of ``name``, or raise a :class:`RegistryError` that lists the three nearest names."""
        self._read_entry_points()
        if name not in self._entries:
            near = difflib.get_close_matches(name, self._entries, n=3, cutoff=0.0) or sorted(self._entries)[:3]
            broken = f" ({'; '.join(self._broken)})" if self._broken else ""
            raise RegistryError(
                f"unknown {self.kind} {name!r}; the nearest names are: {', '.join(near) or 'none'}{broken}"
            )
        if self._entries[name].unread:
            self._entries[name] = self._read(self._entries[name])
        return self._entries[name]

    def names(self, *tags: str) -> list[str]:
        """Return all names in order of registration; with ``tags``, those whose entry carries every one of them."""
        self._read_entry_points()
        return [name for name in self._entries if not tags or self.entry(name).tags.issuperset(tags)]

    def name_of(self, obj: Any) -> str:
        """Return the name under which an object is registered, or else its own."""
        paths = {_path_of(entry.target): name for name, entry in self._entries.items()}
        return paths.get(_path_of(obj), obj.__name__)

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
        if (first := self._entries.get(entry.name)) is not None:
            path, same = _path_of(first.target), _path_of(first.target) == _path_of(entry.target)
            if OURS not in (first.origin, entry.origin) and path is not None and same:
                return  # an entry point of a module whose decorator has registered the very same object
            raise RegistryError(
                f"{self.kind} {entry.name!r} is already registered by {first.origin}; {entry.origin} needs another name"
            )
        self._entries[entry.name] = entry

    def _read(self, entry: Entry[T]) -> Entry[T]:
        """Return the entry with the metadata that its object declares; ours are read without importing them."""
        if entry.ours:
            return Entry.of(entry.name, entry.target, declared_attributes(entry.target))
        try:
            obj = entry.load()
        except Exception as error:
            raise RegistryError(
                f"{self.kind} {entry.name!r} of {entry.origin} cannot be loaded: {on_one_line(error)}"
            ) from error
        return self._entry_of(entry.name, obj, entry.origin, entry.origin_version)

    def _entry_of(self, name: str, obj: Any, origin: str, origin_version: str = "") -> Entry[T]:
        """Return the entry of an object, or one sentence that says why it is not of this kind."""
        if self.admit:
            admit = object_at(self.admit)
            try:
                obj = checked_subclass(obj, admit) if isinstance(admit, type) else admit(obj, name)
            except TypeError as reason:
                article = "an" if self.kind[0] in "aeiou" else "a"
                raise RegistryError(f"{name!r} of {origin} cannot be {article} {self.kind}: {reason}") from None
        attributes = {key: getattr(obj, key, None) for key in METADATA}
        attributes["summary"] = attributes["summary"] or (getattr(obj, "__doc__", None) or "").strip().split("\n")[0]
        top = origin.partition(".")[0]
        origin_version = origin_version or str(getattr(sys.modules.get(top), "__version__", None) or "")
        where = {"origin": origin, "origin_version": origin_version or distribution_version(top)}
        return Entry.of(name, obj, attributes, **where)

    def _read_entry_points(self) -> None:
        """Add the entries of installed packages under this registry's group; they cannot replace a name of ours."""
        if self._entry_points_read or not self.group:
            return
        self._entry_points_read = True
        for point in importlib.metadata.entry_points(group=self.group):
            origin = point.dist.name if point.dist is not None else point.module
            if point.attr:
                version = point.dist.version if point.dist is not None else ""
                target = f"{point.module}:{point.attr}"
                self._add(Entry(point.name, target, origin=origin, origin_version=version, unread=True))
            else:
                try:
                    importlib.import_module(point.module)
                except Exception as error:
                    self._broken.append(f"{origin} cannot be loaded: {on_one_line(error)}")


def _path_of(target: Any) -> str | None:
    if isinstance(target, str):
        return target
    target = getattr(target, "reader", getattr(target, "function", target))
    return f"{target.__module__}:{target.__qualname__}" if hasattr(target, "__qualname__") else None


def object_at(path: str) -> Any:
    """Import the object at ``"module:attribute"``."""
    module, _, attribute = path.partition(":")
    target = importlib.import_module(module)
    for part in attribute.split("."):
        target = getattr(target, part)
    return target


def registry_path(kind: str) -> str:
    """Return where the registry of a kind, in plural, is found.

    >>> registry_path("models"), registry_path("datasets")
    ('fgai_bench.models:MODELS', 'fgai_bench.data:DATASETS')
    """
    return f"{OURS}.{'data' if kind == 'datasets' else kind}:{kind.upper()}"


def declared_attributes(path: str) -> dict[str, Any]:
    """Read the metadata that the class at ``"module:Class"`` declares in its body, without importing its module.

    >>> declared_attributes("fgai_bench.models.gat:GAT")["tags"]
    ('attention', 'differentiable')
    """
    module, _, name = path.partition(":")
    for node in _parsed(module).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            assigned = [statement for statement in node.body if isinstance(statement, ast.Assign | ast.AnnAssign)]
            return {
                target.id: ast.literal_eval(statement.value)
                for statement in assigned
                for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
                if isinstance(target, ast.Name) and target.id in METADATA and statement.value is not None
            }
    return {}


@cache
def _parsed(module: str) -> ast.Module:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return ast.Module([], [])
    return ast.parse(Path(spec.origin).read_text(encoding="utf-8"))


def distribution_version(name: str) -> str:
    """Return the installed version, read from metadata without an import; empty if the package is not installed."""
    try:
        return importlib.metadata.version(name)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return ""


def on_one_line(error: BaseException) -> str:
    """Return an error's message without line breaks, after the name of its class unless it was a failed import."""
    text = " ".join(str(error).split())
    named = f"{type(error).__name__}: {text}".rstrip(": ")
    return text if text and isinstance(error, ImportError | SyntaxError) else named


def checked_subclass(obj: Any, base: Any) -> Any:
    """Return a subclass of ``base`` that implements one of its ``entry_methods``, where it has any."""
    methods = getattr(base, "entry_methods", ())
    path = f"{base.__module__.rpartition('.')[0]}.{base.__name__}"
    if not (isinstance(obj, type) and issubclass(obj, base)):
        raise TypeError(f"it is {obj!r:.60} and not a subclass of {path}")
    if methods and all(getattr(obj, method) is getattr(base, method) for method in methods):
        raise TypeError(f"it implements none of the methods {', '.join(methods)} of {path}")
    return obj
