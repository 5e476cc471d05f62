"""Imports point one way: a module may import the layers below its own, and the exceptions are spelled out here.

Every arrow counts, wherever it is written: at the top, inside a function, for types only, or as a string that names one
of our modules (lazy names, declared entries, ``import_module``).
"""

from __future__ import annotations

import ast
import graphlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import fgai_bench

PACKAGE = "fgai_bench"

LAYERS = (  # from the bottom; units of one layer do not know each other
    {"registry", "options", "seeds", "bounded", "escaping", "deprecated", "baselines"},
    {"fast", "plugins"},
    {"data"},
    {"models"},
    {"metrics", "losses"},
    {"defenses", "attacks"},
    {"explainers", "certificates"},
    {"tasks"},
    {"suites"},
    {"records"},
    {"zoo"},
    {"run"},
    {"tuning"},
    {"statistics"},
    {"leaderboard"},
    {"report"},
    {"card"},
    {"api"},
    {"testing"},
    {"cli"},
)
LAYER_OF = {unit: layer for layer, units in enumerate(LAYERS) for unit in units}
SIBLINGS = {
    ("losses", "metrics"),  # both select top-k edges, by one rule
}
REGISTRIES = {"ATTACKS", "DATASETS", "DEFENSES", "EXPLAINERS", "METRICS", "MODELS", "SUITES"}


@dataclass(frozen=True)
class Arrow:
    """One import: who imports, which of our modules, and which name out of it (empty when the module itself)."""

    importer: str
    module: str
    name: str = ""


def unit(module: str) -> str:
    """The part of the package that a module belongs to.

    >>> unit("fgai_bench.models.gat"), unit("fgai_bench")
    ('models', '')
    """
    return [*module.split("."), ""][1]


def modules(root: Path) -> dict[str, Path]:
    """Every module under the package folder ``root`` by its dotted name."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def arrows(root: Path) -> list[Arrow]:
    """Every import inside the package, with names of the package itself followed to the module that owns them."""
    known = modules(root)
    owner = {
        arrow.name: arrow.module for arrow in _written_in(PACKAGE, known[PACKAGE], known) if arrow.module != PACKAGE
    }
    found = [arrow for name, path in known.items() if name != PACKAGE for arrow in _written_in(name, path, known)]
    return [Arrow(a.importer, owner[a.name], a.name) if a.module == PACKAGE and a.name in owner else a for a in found]


def _written_in(importer: str, path: Path, known: dict[str, Path]) -> Iterator[Arrow]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (Arrow(importer, alias.name) for alias in node.names if _ours(alias.name))
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(importer, path, node)
            for alias in node.names if _ours(module) else ():
                submodule = f"{module}.{alias.name}"
                yield Arrow(importer, submodule) if submodule in known else Arrow(importer, module, alias.name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            target = re.fullmatch(rf"({PACKAGE}(?:\.\w+)+)(?::(\w+))?", node.value)
            if target and target[1] in known:
                yield Arrow(importer, target[1], target[2] or "")


def _absolute(importer: str, path: Path, node: ast.ImportFrom) -> str:
    """The dotted name after ``from``, with leading dots resolved against the importer's package."""
    if not node.level:
        return node.module or ""
    package = importer.split(".") if path.name == "__init__.py" else importer.split(".")[:-1]
    return ".".join([*package[: len(package) - node.level + 1], *([node.module] if node.module else [])])


def _ours(module: str) -> bool:
    return module.split(".")[0] == PACKAGE


def objection(arrow: Arrow) -> str | None:
    """Why an arrow may not be; None when it may."""
    if arrow.importer == f"{PACKAGE}.deprecated":
        return None  # a table of names that moved, each looked up when it is asked for
    source, target = unit(arrow.importer), unit(arrow.module)
    if source not in LAYER_OF or (target and target not in LAYER_OF):
        return "has no layer yet"
    if source == target or (source, target) in SIBLINGS:
        return None
    if not target:
        return None if arrow.name == "__version__" or source == "cli" else "goes through the package's front door"
    if LAYER_OF[target] == LAYER_OF[source]:
        return "goes sideways"
    if LAYER_OF[target] > LAYER_OF[source]:
        return "goes upwards"
    readers = {"statistics", "leaderboard", "report"}
    read = LAYERS[0] | readers | {"records", "suites"}
    if (
        source in readers
        and target not in read
        and arrow.name not in REGISTRIES
        and "eligibility" not in arrow.importer
    ):
        return "reaches past the records and the registries"
    return None


def circles(root: Path) -> list[list[str]]:
    """Files that import each other, directly or by way of others.

    What a package offers at its front door (``__init__``) is found inside it when asked for, so an arrow from a package
    to a module of its own is no dependency; neither is a path that a catalogue lists for later.
    """
    graph: dict[str, set[str]] = {name: set() for name in modules(root)}
    for arrow in arrows(root):
        inside = arrow.module == arrow.importer or arrow.module.startswith(f"{arrow.importer}.")
        listed = arrow.importer.endswith(".catalogue") and unit(arrow.importer) == unit(arrow.module)
        if arrow.module in graph and not inside and not listed and arrow.importer != f"{PACKAGE}.deprecated":
            graph[arrow.importer].add(arrow.module)
    sorter = graphlib.TopologicalSorter(graph)
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        return [error.args[1]]
    return []


def objections(root: Path) -> list[str]:
    """One line per forbidden arrow under the package folder ``root``."""
    judged = [(arrow, objection(arrow)) for arrow in arrows(root)]
    return sorted({f"{a.importer} -> {a.module} {a.name}".strip() + f" {reason}" for a, reason in judged if reason})


def test_every_arrow_points_down() -> None:
    assert objections(Path(fgai_bench.__file__).parent) == []


def test_no_file_imports_itself_by_way_of_others() -> None:
    assert circles(Path(fgai_bench.__file__).parent) == []


def test_the_walk_sees_the_real_package() -> None:
    found = arrows(Path(fgai_bench.__file__).parent)
    assert Arrow("fgai_bench.models.catalogue", "fgai_bench.registry", "Registry") in found
    assert Arrow("fgai_bench.data.catalogue", "fgai_bench.data.readers.npz", "read") in found  # declared as a string
    assert Arrow("fgai_bench.cli.run", "fgai_bench.run.resume", "run") in found  # inside a function


FRONT = "from fgai_bench.run import run\n__version__ = '0'\n"

ALLOWED = {
    "models/gat.py": "from fgai_bench.data import load_dataset\nfrom fgai_bench.models import gat\nimport torch",
    "losses.py": "from fgai_bench.metrics.stability import topk_mask",
    "run/execute.py": "from fgai_bench import __version__\nfrom .plan import plan\nfrom fgai_bench import tasks",
    "report/tables.py": "from fgai_bench.records.store import Store\nfrom fgai_bench.metrics import METRICS",
    "cli/run.py": "import fgai_bench\nfrom fgai_bench.report import tables",
}

FORBIDDEN = {
    "data/splits.py": ("from fgai_bench.models.gat import GAT", "upwards"),
    "data/laplacian/encodings.py": ("def f():\n    import fgai_bench.metrics.stability", "upwards"),
    "models/gat.py": ("if TYPE_CHECKING:\n    from ..tasks import node", "upwards"),
    "defenses/fgai.py": ("from fgai_bench.attacks import injection", "sideways"),
    "metrics/stability.py": ("from fgai_bench.losses import tvd", "sideways"),
    "attacks/injection.py": ("importlib.import_module('fgai_bench.tasks.node')", "upwards"),
    "tasks/node.py": ("from fgai_bench import run", "upwards"),
    "tasks/definition1.py": ("import fgai_bench as fb", "front door"),
    "report/tables.py": ("from fgai_bench.run.plan import plan", "past the records"),
    "records/store.py": ("from fgai_bench.run.plan import Step", "upwards"),
    "report/page.py": ("from fgai_bench.models import build_model", "past the records"),
    "plans.py": ("import fgai_bench.data", "no layer"),
}


def _tree(root: Path, sources: dict[str, str]) -> Path:
    """A package of that shape with empty modules, except for ``sources``."""
    package = root / PACKAGE
    for path in {*ALLOWED, *FORBIDDEN, "records/store.py", "run/plan.py", "tasks/node.py"}:
        (package / path).parent.mkdir(parents=True, exist_ok=True)
        (package / path).touch()
        ((package / path).parent / "__init__.py").touch()
    (package / "__init__.py").write_text(FRONT)
    for path, source in sources.items():
        (package / path).write_text(source)
    return package


def test_a_tree_of_allowed_arrows_has_no_objection(tmp_path: Path) -> None:
    assert objections(_tree(tmp_path, ALLOWED)) == []


@pytest.mark.parametrize("path", FORBIDDEN)
def test_each_forbidden_arrow_is_seen(tmp_path: Path, path: str) -> None:
    source, reason = FORBIDDEN[path]
    (seen,) = objections(_tree(tmp_path, {path: source}))
    assert reason in seen
    assert seen.startswith(f"{PACKAGE}.{path.removesuffix('.py').replace('/', '.')} -> {PACKAGE}")


def test_a_circle_is_seen_wherever_its_arrows_are_written(tmp_path: Path) -> None:
    sources = {
        "records/store.py": "def f():\n    from fgai_bench.records.frames import records",
        "records/frames.py": "if TYPE_CHECKING:\n    from fgai_bench.records.store import Store",
    }
    (circle,) = circles(_tree(tmp_path, sources))
    assert set(circle) == {"fgai_bench.records.store", "fgai_bench.records.frames"}


def test_a_folder_holds_at_most_twenty_files() -> None:
    root = Path(fgai_bench.__file__).parent
    folders = [root, *(path for path in root.rglob("*") if path.is_dir() and path.name != "__pycache__")]
    crowded = {str(f.relative_to(root.parent)): len([p for p in f.iterdir() if p.is_file()]) for f in folders}
    assert {name: files for name, files in crowded.items() if files > 20} == {}
