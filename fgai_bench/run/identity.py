"""Fingerprints of code: a hash over what modules compute, so that nobody has to remember to count up a version.

A fingerprint covers a module and everything that it imports inside its own package, as syntax trees without docstrings,
comments, what is only shown (``summary``, ``paper``) and the decorator that only remembers results (``remembered``).
Of this package only the parts that can change a number are followed. Lists of names are not (``catalogue``): what a
name stands for is looked up, and has a fingerprint of its own.
Nothing is imported, and each file is read once per process.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

OURS = "fgai_bench"
COUNTED = {
    *("data", "models", "metrics", "losses", "defenses", "attacks", "explainers", "tasks", "definition1"),
    *("seeds", "cuda_graphs", "sums"),
}
# Where files lie and how they get there: what is read from them is checked.
UNCOUNTED = {f"{OURS}.data.{name}" for name in ("download", "roots", "cache", "verify", "errors")}
# Modules that counted later than others: as they were then they add nothing, so that older records stay what they are.
AS_THEY_WERE = {
    (f"{OURS}.sums.ordered", "638bc3956fbfc2641db8ecbf6be874f3db07a378136bf69c8ee42e31870b8543"),
    (f"{OURS}.sums.triton_product", "1b6d7182aad6d47ea8b51f01e1a7ac8f2fb6488717191ed7373097ee1e554314"),
    (f"{OURS}.defenses.low_rank", "4e4e8fec6aeae598e1aa27581175f135956d63725d61ea378f2e567b3f5e5441"),
}
# Modules changed so that nothing that had a value has another one: as they are now they count as they did before.
SAME_VALUES = {
    (
        f"{OURS}.defenses.base",  # epochs whose recording did not converge are done again
        "2cfe4d0935604e6f64caddc5a05f9c89fe1b390ac587d6fca22fdb1d8cddb2cd",
    ): "934d519f4ec5dbc3f7f5fabc21b2c6ba965cab1ec8a612c78892cddd100b768b",
    (
        f"{OURS}.data.laplacian_grown",  # where a matrix cannot be factored it goes on
        "9a257d7a3bd8cd0cce5f1a67dd7cd32a365afcd314ce5ade19583c09e3cfac5c",
    ): "a4268637376759682367768472f5ad525db142e0a49f6bbab2489b5ed5ffd64e",
    (
        f"{OURS}.defenses.gnnguard",  # the form by edges, which says so by its version; search; recording
        "618d2c8d1b2f0ccf259e45ebdf731a1ff75850150dc6040d25b42e785f1c7ebb",
    ): "3a620237775f88d6c00c92e8e9193fb5c3904749f21d19f2fab1d1080dbc28fb",
    (
        f"{OURS}.defenses.deeprobust",  # GNN-SVD, which says so by its version; search; recording
        "bc6bc9bfadf4571eb703b5685e821da7b4aa5efba99c71f4a190917b94dfadd9",
    ): "9d4f0052bd19867612777b9bd68f4998b52e12f809d5e60cd15962fc76e335de",
    (
        f"{OURS}.defenses.similarity",  # by sparse products; a defense that uses their sums says so by its version
        "67f75f5b9f26418964df33ad5236f231667354ac8157dacce794554d4842f2b4",
    ): "3941e5be71e507adde2715f7585607fda47d1357c6780914b8bb494dbdd4d5f9",
    (
        f"{OURS}.defenses.gcn",  # sums of GCN-Jaccard, which says so by its version; recording
        "19123805fb97cdadf5eec3c0f12371d06425846be72715f9de06987aafc18b41",
    ): "6ac34326dd19e810d29b1d1997825f731908c1e7cad33208837064585fbf83d8",
    (
        f"{OURS}.defenses.plain_gcn",  # the same sums, called by their name; recording
        "0493a8e01bee3a79769e737cc1eb59fb4a426df9cbbd468e3637f32df30c2aee",
    ): "f27126d9422d497fc1f75113e410ef630e30a633451a82f1095095f64f42152d",
    (
        f"{OURS}.attacks.worst",  # a graph that is looked at again is not made again
        "68ab665d6a7e3709167010e6f5a06c7a34de33353a52ff44be6f23f9491330dc",
    ): "8fe078adeabc0f618382505367ad413ec3e40bbd6dd8a68fe35d0809f960fb88",
    (
        f"{OURS}.attacks.learned_placement",  # a readout of a row for each target; the best member alone
        "33337d79fc97d73e5a0f83879f40bd3b5001c20de0ee39159c8a752403bb115b",
    ): "f9092754ee82a19d185a3fca5b25b19ef730e477b4781a62dd8f3c30defdfc4f",
}
# Modules that those used before; they still count, so that the fingerprint of what has not changed stays what it is.
USED_BEFORE = {f"{OURS}.defenses.gcn": (f"{OURS}.models.segments",)}
SHOWN = {"summary", "paper"}
REMEMBERING = "remembered"
# Fields of syntax trees that compute nothing: types of functions, and what depends on the version of Python.
EVERYWHERE = frozenset(("ctx", "kind", "type_comment", "type_ignores", "type_params"))
UNWRITTEN = {
    ast.FunctionDef: EVERYWHERE | {"returns"},
    ast.AsyncFunctionDef: EVERYWHERE | {"returns"},
    ast.arg: EVERYWHERE | {"annotation"},
}
HERE = Path(__file__).parents[2]
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Part:
    """A module of which some definitions do not count: those that are dropped, and what only they use."""

    module: str
    dropped: frozenset[str] = frozenset()


def fingerprint(parts: Iterable[str | Part], stop: frozenset[str] = frozenset()) -> str:
    """Return the fingerprint of modules, by name, and of all that they import; ``stop`` names modules to leave out.

    >>> fingerprint(["fgai_bench.models.gat"]) == fingerprint(["fgai_bench.models.gat"])
    True
    >>> fingerprint(["fgai_bench.models.gat"]) == fingerprint(["fgai_bench.models.gt"])
    False
    """
    whole = (part if isinstance(part, Part) else Part(part) for part in parts)
    return _closure(tuple(sorted(whole, key=lambda part: (part.module, sorted(part.dropped)))), stop)


def forget_files() -> None:
    """Forget what was read, as after files have changed under a process that goes on."""
    for cached in (_closure, _read, _file_under, _offered, listed):
        cached.cache_clear()


@cache
def listed(module: str, name: str) -> Mapping[str, str]:
    """Return a mapping of texts to names that a module of ours writes out, without importing it.

    >>> listed("fgai_bench.run.execute", "STEPS")["train"]
    'train'
    """
    path = _path(module)
    for node in ast.parse(path.read_bytes()).body if path else ():
        value = getattr(node, "value", None)
        if name in _Line("", node).bound and isinstance(value, ast.Dict):
            pairs = zip(value.keys, value.values, strict=True)
            return {str(k.value): v.id for k, v in pairs if isinstance(k, ast.Constant) and isinstance(v, ast.Name)}
    raise KeyError(f"{module} has no mapping {name}")


def modules_of(target: Any) -> list[str]:
    """Return the modules that a registered object is defined in: its own, and those of the classes it derives from.

    >>> modules_of("fgai_bench.models.gat:GAT")
    ['fgai_bench.models.gat']
    """
    if isinstance(target, str):
        return [target.partition(":")[0]]
    target = getattr(target, "reader", getattr(target, "function", target))
    if isinstance(target, str):
        return modules_of(target)
    kind = target if isinstance(target, type) or inspect.isroutine(target) else type(target)
    kinds = kind.__mro__ if isinstance(kind, type) else (kind,)
    names = [str(each.__module__) for each in kinds if each.__module__ != "builtins"]
    return list(dict.fromkeys(name for name in names if name == names[0] or _is_near(name, names[0])))


def written_in_no_file(target: Any) -> str:
    """Return the source of an object that no file holds, such as one from a notebook; else an empty text."""
    if isinstance(target, str) or all(_path(name) for name in modules_of(target)):
        return ""
    target = getattr(target, "reader", getattr(target, "function", target))
    try:
        return inspect.getsource(target if inspect.isroutine(target) or isinstance(target, type) else type(target))
    except (OSError, TypeError):
        return UNKNOWN


def _is_near(module: str, other: str) -> bool:
    """Tell whether a module is ours, or in the same package as another."""
    return module.partition(".")[0] in (OURS, other.partition(".")[0])


@cache
def _closure(parts: tuple[Part, ...], stop: frozenset[str]) -> str:
    dropped = {part.module: part.dropped for part in parts}
    shared = frozenset(name for names in dropped.values() for name in names)
    hashes: dict[str, str] = {}
    waiting = list(dropped)
    while waiting:
        module = waiting.pop()
        if module in hashes or module in stop or (_path(module) is None and module not in dropped):
            continue
        # A base class of a task has the same methods as the task, so what is dropped there is dropped here.
        names = dropped.get(module, shared if module.startswith(f"{OURS}.tasks.") else frozenset())
        found, imported = _read(module, names)
        hashes[module] = SAME_VALUES.get((module, found), found)
        waiting += [*imported, *(USED_BEFORE.get(module, ()) if hashes[module] != found else ())]
    hashes = dict(hashes.items() - AS_THEY_WERE)
    return hashlib.sha256(repr(sorted(hashes.items())).encode()).hexdigest()[:16]


@cache
def _read(module: str, dropped: frozenset[str]) -> tuple[str, tuple[str, ...]]:
    """Return the hash of a module without what is dropped, and the modules that the rest of it imports."""
    path = _path(module)
    if path is None:
        return UNKNOWN, ()
    written = _kept(_written(_computing(ast.parse(path.read_bytes()), module)), dropped)
    used = {name for line in written for name in line.used}
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    sources = sorted({source for line in written for name, source in line.imports(package) if name in used})
    content = [[line.scope, line.text] for line in written if line.text], sources
    imported = {name for source in sources for name in source if _counts(name, module)}
    return hashlib.sha256(repr(content).encode()).hexdigest(), tuple(sorted(imported))


def _path(module: str) -> Path | None:
    """Return the file of a module: ours by its place, that of a plugin as it was loaded; None if there is none."""
    if module.partition(".")[0] == OURS:
        return _file_under(HERE, module)
    loaded = getattr(sys.modules.get(module), "__file__", None)
    return Path(loaded) if loaded and loaded.endswith(".py") else None


@cache
def _file_under(root: Path, module: str) -> Path | None:
    stem = root.joinpath(*module.split("."))
    return next((path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file()), None)


def _counts(module: str, importer: str) -> bool:
    """Tell whether an imported module is followed: counted parts of this package, and what lies beside a plugin."""
    top, _, rest = module.partition(".")
    if top == OURS:
        return rest.partition(".")[0] in COUNTED and not rest.endswith("catalogue") and module not in UNCOUNTED
    first, path = importer.partition(".")[0], _path(module)
    if first == OURS or path is None:
        return False
    own = _path(importer)
    installed = {"site-packages", "dist-packages"}
    return first == top or (own is not None and own.parent == path.parent and not installed & set(path.parts))


@dataclass
class _Line:
    """One definition or statement of a module or of a class in it: what it says, binds, uses and imports."""

    scope: str
    node: ast.stmt
    text: str = ""
    used: set[str] = field(default_factory=set)
    imported: list[ast.Import | ast.ImportFrom] = field(default_factory=list)

    @property
    def bound(self) -> list[str]:
        """Return the names that it binds."""
        if isinstance(self.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return [self.node.name]
        if isinstance(self.node, ast.Assign | ast.AnnAssign):
            targets = self.node.targets if isinstance(self.node, ast.Assign) else [self.node.target]
            return [target.id for target in targets if isinstance(target, ast.Name)]
        return []

    @property
    def is_private(self) -> bool:
        """Tell whether it binds private names and no others, so that nobody needs it if nothing here uses it."""
        return bool(self.bound) and all(name.startswith("_") and not name.startswith("__") for name in self.bound)

    def imports(self, package: str) -> Iterator[tuple[str, tuple[str, str]]]:
        """Yield the names that it imports, each with its module and the place where the name may be a module."""
        for node in self.imported:
            above, source = package.split("."), ""
            if isinstance(node, ast.ImportFrom):
                parent = ".".join(above[: len(above) - node.level + 1]) if node.level else ""
                source = ".".join(filter(None, (parent, node.module)))
            for alias in node.names:
                owner = _offered(source).get(alias.name, source) if source else alias.name
                yield alias.asname or alias.name.split(".")[0], (owner, f"{source}.{alias.name}".lstrip("."))


def _computing(tree: ast.Module, module: str) -> ast.Module:
    """Return a module without our own decorator that remembers results, which changes none of them."""
    if module.partition(".")[0] == OURS:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                node.decorator_list = [d for d in node.decorator_list if getattr(d, "id", "") != REMEMBERING]
    return tree


def _written(tree: ast.Module) -> list[_Line]:
    """Return the statements of a module, those of its classes one by one, without texts that compute nothing."""
    lines = []
    for node in tree.body:
        inside = node.body if isinstance(node, ast.ClassDef) else []
        lines.append(_Line("", node))
        lines += [_Line(node.name, member) for member in inside]  # type: ignore[attr-defined]
    for line in lines:
        text: list[str] = []
        _write(line.node, text, line, whole=not isinstance(line.node, ast.ClassDef) or bool(line.scope))
        line.text = " ".join(text)
    return [line for line in lines if (line.text or line.imported) and not (line.scope and SHOWN & set(line.bound))]


def _write(node: ast.AST, text: list[str], line: _Line, whole: bool = True) -> None:
    """Write a node as text that is the same in every version of Python; gather what it uses and imports."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        line.imported.append(node)
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return  # a docstring
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        line.used.add(node.id)
    elif isinstance(node, ast.Attribute):
        line.used.add(node.attr)
    text.append(type(node).__name__)
    for name in node._fields:
        value = getattr(node, name, None)
        if name in UNWRITTEN.get(type(node), EVERYWHERE) or (name == "body" and not whole):
            continue
        if isinstance(value, list):
            text.append("[")
            for each in value:
                _write(each, text, line) if isinstance(each, ast.AST) else text.append(repr(each))
            text.append("]")
        elif isinstance(value, ast.AST):
            _write(value, text, line)
        elif value is not None or isinstance(node, ast.Constant):
            text.append(repr(value))


def _kept(lines: list[_Line], dropped: frozenset[str]) -> list[_Line]:
    """Return the lines without definitions of dropped names, and without private ones that only they used."""
    kept = [line for line in lines if not dropped.intersection(line.bound)]
    while True:
        used = {name for line in kept for name in line.used}
        needed = [line for line in kept if not line.is_private or used.intersection(line.bound)]
        if len(needed) == len(kept):
            return kept
        kept = needed


@cache
def _offered(package: str) -> Mapping[str, str]:
    """Return the names that a package of ours offers lazily, each with the module that it is defined in."""
    stub = HERE.joinpath(*package.split("."), "__init__.pyi")
    if not package.startswith(OURS) or not stub.is_file():
        return {}
    lines = [node for node in ast.parse(stub.read_text(encoding="utf-8")).body if isinstance(node, ast.ImportFrom)]
    return {alias.name: f"{package}.{node.module}" for node in lines for alias in node.names}
