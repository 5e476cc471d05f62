"""What identifies a step beside its configuration: a hash of what its code computes, wherever that code stands.

A fingerprint covers the definitions that a step uses, found by following names from its entries through the rooms that
compute and through the files of a plugin. Comments, docstrings, types, imports and names of files do not count.
"""

import ast
import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fgai_bench.attacks import ATTACKS
from fgai_bench.metrics import METRICS
from fgai_bench.records.canonical import sha256
from fgai_bench.records.provenance import REGISTRIES
from fgai_bench.registry import RegistryError

PACKAGE = Path(__file__).parents[1]
ROOMS = "data fast models metrics losses.py attacks certificates defenses explainers tasks seeds.py"
OURS = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] in ROOMS.split()]
ENTRIES = {**REGISTRIES, "inner": ATTACKS, "validation": ATTACKS}
TRAININGS = ("train", "validate")
TRAINED = ("dataset", "model", "defense", "inner")  # other steps have the hash of their training instead
ONLY_SHOWN = re.compile(r"(summary|paper|cost)(:| =)|metric\(|[\w.]*\bregister\(")  # what an entry tells about itself
NOT_DUMPED = re.compile(r", \w+=\[\]|\w+=\[\](, )?|(, )?ctx=\w+\(\)")  # by some versions of Python
Key = tuple[Path, str]  # the file of a definition, and its name there


def code_of(kind: str, config: Mapping[str, Any]) -> dict[str, str]:
    """Return the fingerprints of the code that decides a step: of its entries, and of what it executes."""
    used = {part: config[part] for part in ENTRIES if config.get(part) and (kind in TRAININGS or part not in TRAINED)}
    names = {part: entry.get("name") or entry["attack"] for part, entry in used.items() if not entry.get("by")}
    return {part: _code_of(part, name) for part, name in {**names, "step": kind}.items()}


@cache
def _code_of(part: str, name: str) -> str:
    metrics = [METRICS.entry(metric) for metric in METRICS if part == "step" and name not in TRAININGS]
    root = f"fgai_bench.run.execute:{name}" if part == "step" else ENTRIES[part].entry(name).target
    return fingerprint(root, *(metric.target for metric in metrics if metric.ours))


def is_present(kind: str, config: Mapping[str, Any]) -> bool | None:
    """Tell whether a recorded step was made by the code that is here; None without the plugin that it needs."""
    try:
        return bool(config.get("code") == code_of(kind, config))
    except (RegistryError, KeyError):
        return None


def fingerprint(*roots: Any) -> str:
    """Return the hash of registered objects or paths ``"module:name"`` of ours, and of all definitions they use."""
    waiting, texts = [_defined(root) for root in roots], dict[Key, str]()
    files = {*OURS, *(file for path, _ in waiting for file in _plugin_files(path))}
    offered = [(file, _file(file)[0].keys()) for file in files]
    while waiting:
        path, name = key = waiting.pop()
        if key not in texts:
            texts[key], own, imported = _read(path, name)
            waiting += [(path, used) for used in own]
            waiting += [(file, used) for file, names in offered for used in names & imported]
    return sha256(sorted(texts.values()))[:16]


def _defined(target: Any) -> Key:
    """Return the file of a registered object, empty for one of a notebook, and its outermost name there."""
    target = getattr(target, "reader", getattr(target, "function", target))
    if isinstance(target, str):
        module, _, name = target.partition(":")
        return PACKAGE.parent / f"{module.replace('.', '/')}.py", name
    kind = target if hasattr(target, "__qualname__") else type(target)
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return Path(file or ""), kind.__qualname__.partition(".")[0]


def _plugin_files(path: Path) -> list[Path]:
    """Return the loaded files of the package or the folder that a plugin's file lies in; none for our own files."""
    modules = [*sys.modules.values()] if path.is_file() and PACKAGE not in path.parents else []
    folder = path.parent
    while (folder.parent / "__init__.py").is_file():
        folder = folder.parent
    below = [file for module in modules if folder in (file := Path(getattr(module, "__file__", None) or "")).parents]
    return [file for file in below if not {PACKAGE.name, "site-packages"} & {*file.relative_to(folder).parts}]


@cache
def _file(path: Path) -> tuple[dict[str, list[ast.stmt]], dict[str, str]]:
    """Return the statements of a file by the names that they bind, and what it imports: a name, or "library.name"."""
    tree = ast.parse(path.read_bytes() if path.suffix == ".py" else b"")
    bound, imports = dict[str, list[ast.stmt]](), dict[str, str]()
    for node in ast.walk(tree):
        for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
            module = getattr(node, "module", None) or alias.name
            library = "" if PACKAGE not in path.parents or module.startswith(PACKAGE.name) else f"{module}."
            imports[alias.asname or alias.name.partition(".")[0]] = library + alias.name.rpartition(".")[2]
    for statement in tree.body:
        nodes = [] if isinstance(statement, ast.ClassDef | ast.FunctionDef) else ast.walk(statement)
        stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        for name in stored or {getattr(statement, "name", "")}:
            bound.setdefault(name, []).append(statement)
    return bound, imports


@cache
def _read(path: Path, name: str) -> tuple[str, set[str], set[str]]:
    """Return what a definition computes, and the names that it uses: of its own file, and imported ones."""
    bound, imports = _file(path)
    definition = ast.Module(bound.get(name, []), [])
    for node in [*ast.walk(definition)]:
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "type_params"):
                setattr(node, field, [])
            elif isinstance(value, list):
                value[:] = [part for part in value if not _computes_nothing(part, node)]
    names = [node for node in ast.walk(definition) if isinstance(node, ast.Name | ast.Attribute)]
    dotted = [ast.unparse(node).split(".") for node in names]
    imported = {imports[head] for head, *_ in dotted if head in imports}
    attributes = {parts[-1] for parts in dotted if "." not in imports.get(parts[0], ".")}
    text = f"{NOT_DUMPED.sub('', ast.dump(definition))} {sorted(imported)}"
    return text, {head for head, *_ in dotted} & bound.keys(), imported | attributes


def _computes_nothing(part: Any, whole: ast.AST) -> bool:
    """Tell whether a part is an import, a docstring, a text that an entry shows, or a decorator that registers it."""
    told = isinstance(part, ast.Assign | ast.AnnAssign) and isinstance(whole, ast.ClassDef)
    if told or part in getattr(whole, "decorator_list", ()):
        return bool(ONLY_SHOWN.match(ast.unparse(part)))
    docstring = isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)
    return docstring or isinstance(part, ast.Import | ast.ImportFrom)
