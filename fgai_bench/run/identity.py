"""What identifies a step beside its configuration: a hash of what its code computes, wherever that code stands.

A fingerprint covers the definitions that a step uses, found by following names from its entries. Comments, docstrings,
types, imports and names of modules do not count, so moving or renaming a file changes nothing. Of a task, only those
methods count whose names the step uses. Followed are the rooms that compute, and the files of a plugin.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import linecache
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from fgai_bench.attacks import ATTACKS
from fgai_bench.data import DATASETS
from fgai_bench.defenses import DEFENSES
from fgai_bench.explainers import EXPLAINERS
from fgai_bench.metrics import METRICS
from fgai_bench.models import MODELS
from fgai_bench.registry import Registry, RegistryError
from fgai_bench.tasks import TASKS

PACKAGE = Path(__file__).parents[1]
ROOMS = "data fast models metrics losses.py attacks certificates defenses explainers tasks seeds.py"
TRAINED: dict[str, Registry[Any]] = {"dataset": DATASETS, "model": MODELS, "defense": DEFENSES, "inner": ATTACKS}
MEASURED: dict[str, Registry[Any]] = {
    "attack": ATTACKS,
    "validation": ATTACKS,
    "explainer": EXPLAINERS,
    "metric": METRICS,
}
ENTRIES: dict[str, Registry[Any]] = {**TRAINED, **MEASURED}
NOT_COMPUTED = {"annotation", "returns", "ctx", "kind", "type_comment", "type_params"}  # fields of a syntax tree
ONLY_SHOWN = {"summary", "paper", "cost", "register", "metric"}  # what an entry tells, decorators that register it
Key = tuple[Path, str]  # file and name of a definition; "Class.method" is a method, "Class." all else in a class


class Read(NamedTuple):
    """What a definition computes, as text, and the names and attributes that it uses."""

    text: str
    names: set[str]
    attributes: set[str]


def code_of(kind: str, config: Mapping[str, Any]) -> dict[str, str]:
    """Return the fingerprints of the code that decides a step, by part.

    >>> sorted(code_of("attack", {"task": {"name": "node"}, "attack": {"name": "injection"}}))
    ['attack injection', 'measure attack node']
    """
    training, task = kind in ("train", "validate"), config["task"]["name"]
    named = {part: config[part] for part in ENTRIES if config.get(part) and (training or part not in TRAINED)}
    names = [(part, entry.get("name") or entry["attack"]) for part, entry in named.items() if not entry.get("by")]
    code = {f"{part} {name}": _code_of_entry(part, name) for part, name in names}
    return {**code, f"{'task' if training else 'measure'} {kind} {task}": _code_of_work(kind, task)}


def is_present(kind: str, config: Mapping[str, Any]) -> bool | None:
    """Tell whether a recorded step was made by the code that is here; None without the plugin that it needs."""
    try:
        return bool(config.get("code") == code_of(kind, config))
    except (RegistryError, KeyError):
        return None


@cache
def _code_of_entry(part: str, name: str) -> str:
    target = ENTRIES[part].entry(name).target
    return fingerprint([target, "fgai_bench.data.load:load_dataset"] if part == "dataset" else [target])


@cache
def _code_of_work(kind: str, task: str) -> str:
    metrics = [METRICS.entry(name) for name in METRICS if kind not in ("train", "validate", "measure", "audit")]
    counted = [entry.target for entry in metrics if entry.ours]
    return fingerprint([f"fgai_bench.run.execute:{kind}", *counted], used=TASKS.entry(task).target)


def fingerprint(roots: Iterable[Any], used: Any = None) -> str:
    """Return the hash of registered objects or paths ``"module:name"``, and of all definitions that they use.

    Of the class ``used`` and its bases, only those methods count whose names something uses.
    """
    waiting, sides = [_defined(root) for root in roots], [_defined(used)] if used else []
    offered = _offered(frozenset(path for key in [*waiting, *sides] for path in _beside(key[0])))
    for path, name in sides:
        bases = [ast.unparse(base) for node in _file(path)[0].get(name, []) for base in getattr(node, "bases", ())]
        sides += [key for base in bases for key in _meant(path, base, offered)]
    waiting += [(path, f"{name}.") for path, name in sides]
    methods = [(path, name) for path, owner in sides for name in _file(path)[0] if name.startswith(f"{owner}.")]
    reached, known = dict[Key, Read](), {"__init__", "__post_init__"}
    while waiting:
        key = waiting.pop()
        if key not in reached and key not in sides:
            reached[key] = _read(*key)
            known |= reached[key].attributes
            waiting += [other for name in reached[key].names for other in _meant(key[0], name, offered)]
            waiting += [method for method in methods if method[1].rpartition(".")[2] in known]
    return hashlib.sha256(repr(sorted(read.text for read in reached.values())).encode()).hexdigest()[:16]


def _meant(path: Path, name: str, offered: Mapping[str, list[Key]]) -> list[Key]:
    """Return the definitions that a name, or the attribute of a name, stands for in a file."""
    nodes, imports = _file(path)
    head, _, attribute = name.partition(".")
    if head in nodes:
        return [(path, head)]
    module, original = imports.get(head, ("", ""))
    known = offered.get(attribute or original, [])
    exact = [key for key in known if key[0].stem == (original if attribute else module)]
    return exact if exact or attribute else known


@cache
def _read(path: Path, name: str) -> Read:
    """Return what the statements of a definition compute, alike in every version of Python."""
    nodes, imports = _file(path)
    names, attributes = set(), set()

    def written(node: Any) -> Any:
        if isinstance(node, list):
            return [written(part) for part in node if not _computes_nothing(part)]
        if not isinstance(node, ast.AST):
            return node
        if isinstance(node, ast.Name):
            names.add(node.id)
            return imports.get(node.id, ("", node.id))[1]
        if isinstance(node, ast.Attribute):
            attributes.add(node.attr)
            names.update({f"{node.value.id}.{node.attr}"} if isinstance(node.value, ast.Name) else ())
        fields = [value for field, value in ast.iter_fields(node) if field not in NOT_COMPUTED]
        return [type(node).__name__, *map(written, fields)]

    return Read(repr(written(nodes.get(name, []))), names, attributes)


def _computes_nothing(node: Any) -> bool:
    """Tell whether a piece of code is an import, a docstring, a text of an entry, or a decorator that registers it."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", getattr(node, "func", None))
    shown = getattr(target, "id", getattr(target, "attr", "")) in ONLY_SHOWN
    named = isinstance(node, ast.Call | ast.Assign | ast.AnnAssign)
    return isinstance(node, ast.Import | ast.ImportFrom) or (named and shown)


@cache
def _file(path: Path) -> tuple[dict[str, list[Any]], dict[str, tuple[str, str]]]:
    """Return the statements of a file by the name they bind, and module and name of all that it imports."""
    text = path.read_bytes() if path.is_file() else "".join(linecache.getlines(str(path)))  # of a notebook
    tree, imports = ast.parse(text), dict[str, tuple[str, str]]()
    nodes: dict[str, list[Any]] = {}
    for node in ast.walk(tree):
        for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
            module, _, name = f"{getattr(node, 'module', '') or ''}.{alias.name}".rpartition(".")
            imports[alias.asname or alias.name.partition(".")[0]] = (module.rpartition(".")[2], name)
    for statement in tree.body:
        names = {
            part.id for part in ast.walk(statement) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
        }
        if isinstance(statement, ast.ClassDef | ast.FunctionDef):
            names = {statement.name}
        if isinstance(statement, ast.ClassDef):
            for part in statement.body:
                nodes.setdefault(f"{statement.name}.{getattr(part, 'name', '')}", []).append(part)
        for name in names:
            nodes.setdefault(name, []).append(statement)
    return nodes, imports


@cache
def _offered(plugin: frozenset[Path]) -> dict[str, list[Key]]:
    """Return where the names are defined that our rooms and the files of a plugin offer."""
    ours = [
        path for room in ROOMS.split() for path in [PACKAGE / room, *(PACKAGE / room).rglob("*.py")] if path.is_file()
    ]
    offered: dict[str, list[Key]] = {}
    for path in [*ours, *plugin]:
        for name in _file(path)[0]:
            offered.setdefault(name, []).append((path, name))
    return offered


def _beside(path: Path) -> list[Path]:
    """Return the loaded files of the package or the folder that a plugin's file lies in; none for our own files."""
    folder, modules = path.parent, [] if PACKAGE in path.parents else [*sys.modules.values()]
    while (folder.parent / "__init__.py").is_file():
        folder = folder.parent
    loaded = [getattr(module, "__file__", None) or "" for module in modules]
    below = [Path(name) for name in loaded if name.startswith(f"{folder}/") and name.endswith(".py")]
    return [file for file in below if not {PACKAGE.name, "site-packages"} & {*file.relative_to(folder).parts}]


def _defined(target: Any) -> Key:
    """Return where a registered object is defined: its file and its outermost name there."""
    target = getattr(target, "reader", getattr(target, "function", target))
    if isinstance(target, str):
        module, _, name = target.partition(":")
        spec = importlib.util.find_spec(module)
        return Path(spec.origin if spec and spec.origin else module), name
    kind = target if isinstance(target, type) or inspect.isroutine(target) else type(target)
    try:
        return Path(inspect.getfile(kind)), kind.__qualname__.partition(".")[0]
    except TypeError:  # a class from a notebook has no file
        return Path(), kind.__qualname__
