"""Registries: declared, decorated and installed entries, and what they say when something is wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import fgai_bench
from fgai_bench.attacks import Attack
from fgai_bench.deprecated import MODULES, NAMES
from fgai_bench.plugins import load_plugins
from fgai_bench.registry import Entry, Registry, RegistryError, object_at, registry_path


@pytest.fixture
def shapes() -> Registry[object]:
    registry: Registry[object] = Registry("shape")
    for name in ("square", "circle", "triangle", "hexagon"):
        registry.declare(
            name, f"math:{'pi' if name == 'circle' else 'tau'}", tags=("round",) if name == "circle" else ()
        )
    return registry


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder on ``sys.path``; modules imported from it are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def install(site: Path, distribution: str, group: str, points: dict[str, str]) -> None:
    """What an installer leaves behind: a dist-info folder with metadata and entry points."""
    info = site / f"{distribution.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    lines = "".join(f"{name} = {target}\n" for name, target in points.items())
    (info / "entry_points.txt").write_text(f"[{group}]\n{lines}")


def test_declared_entry_is_imported_on_first_use(shapes: Registry[object], site: Path) -> None:
    (site / "late_shape.py").write_text("area = 42\n")
    shapes.declare("late", "late_shape:area")
    assert "late" in shapes
    assert "late_shape" not in sys.modules
    assert shapes["late"] == 42


def test_decorator_keeps_the_object_and_takes_its_metadata(shapes: Registry[object]) -> None:
    @shapes.register("cube", version="2", tags=["solid"], paper="https://example.org")
    def cube() -> None:
        """Six equal faces.

        And more text.
        """

    entry = shapes.entry("cube")
    assert shapes["cube"] is cube
    assert (entry.summary, entry.version, entry.origin) == ("Six equal faces.", "2", __name__)
    assert entry.tags == {"solid"}


def test_duplicate_name_says_who_was_first(shapes: Registry[object]) -> None:
    with pytest.raises(
        RegistryError, match=r"shape 'square' is already registered by fgai_bench; .*test_registry needs"
    ):
        shapes.register("square")(test_duplicate_name_says_who_was_first)


def test_unknown_name_lists_the_three_nearest(shapes: Registry[object]) -> None:
    with pytest.raises(RegistryError) as caught:
        shapes["sqare"]
    message = str(caught.value)
    listed = message.partition("nearest names are: ")[2].split(", ")
    assert message.startswith("unknown shape 'sqare'")
    assert (len(listed), listed[0]) == (3, "square")
    assert "\n" not in message


def test_empty_registry_says_so() -> None:
    with pytest.raises(RegistryError, match="nearest names are: none"):
        Registry[object]("shape")["square"]


def test_names_keep_their_order_and_select_by_tags(shapes: Registry[object]) -> None:
    assert list(shapes) == shapes.names() == ["square", "circle", "triangle", "hexagon"]
    assert shapes.names("round") == ["circle"]
    assert shapes.names("round", "solid") == []
    assert len(shapes) == 4


def test_error_is_a_value_error() -> None:
    assert issubclass(RegistryError, ValueError)


def test_installed_package_adds_an_entry(site: Path) -> None:
    (site / "other_shapes.py").write_text("class Oval:\n    sides = 0\n")
    install(site, "other-shapes", "test_bench.shapes", {"oval": "other_shapes:Oval"})
    registry: Registry[object] = Registry("shape", "test_bench.shapes")
    assert registry.names() == ["oval"]
    assert "other_shapes" not in sys.modules
    assert (registry.entry("oval").origin, registry.entry("oval").origin_version) == ("other-shapes", "1.0")
    assert registry["oval"].sides == 0  # type: ignore[attr-defined]


def test_what_a_class_says_of_itself_arrives_by_any_way(site: Path) -> None:
    body = "class Oval:\n    'A long circle.'\n    tags = ('round',)\n    version = '3'\n    paper = 'https://example.org'\n"
    (site / "own_shapes.py").write_text(body)
    install(site, "own-shapes", "test_bench.own", {"oval": "own_shapes:Oval"})
    installed: Registry[object] = Registry("shape", "test_bench.own")
    decorated: Registry[object] = Registry("shape")
    decorated.register("oval")(installed["oval"])
    for registry in (installed, decorated):
        entry = registry.entry("oval")
        assert (entry.summary, entry.tags, entry.version) == ("A long circle.", {"round"}, "3")
        assert entry.paper == "https://example.org"


def test_an_entry_point_may_name_a_module_whose_decorators_register(site: Path) -> None:
    (site / "many_shapes.py").write_text(
        "import test_bench_registry\n"
        "@test_bench_registry.SHAPES.register('oval')\n"
        "class Oval: ...\n"
        "@test_bench_registry.SHAPES.register('disc')\n"
        "class Disc: ...\n"
    )
    (site / "test_bench_registry.py").write_text(
        "from fgai_bench.registry import Registry\nSHAPES = Registry('shape', 'test_bench.many')\n"
    )
    points = {"all of them": "many_shapes", "oval": "many_shapes:Oval"}  # named twice, registered once
    install(site, "many-shapes", "test_bench.many", points)
    import test_bench_registry

    assert set(test_bench_registry.SHAPES.names()) == {"oval", "disc"}
    assert test_bench_registry.SHAPES["oval"] is sys.modules["many_shapes"].Oval


def test_a_package_that_cannot_be_loaded_is_named_where_it_is_missed(site: Path) -> None:
    (site / "poor_shapes.py").write_text("import no_such_dependency\n")
    install(site, "poor-shapes", "test_bench.poor", {"oval": "poor_shapes:Oval", "more": "poor_shapes"})
    registry: Registry[object] = Registry("shape", "test_bench.poor")
    assert registry.names() == ["oval"]
    with pytest.raises(RegistryError, match="shape 'oval' of poor-shapes cannot be loaded: No module named"):
        registry["oval"]
    with pytest.raises(RegistryError, match=r"unknown shape 'disc'; .*poor-shapes cannot be loaded: No module named"):
        registry["disc"]


@pytest.mark.parametrize(
    ("registry", "thing", "reason"),
    [
        ("ATTACKS", lambda model: model, "and not a subclass of fgai_bench.attacks.Attack"),
        ("ATTACKS", type("Idle", (Attack,), {}), "it implements none of the methods search, __call__"),
        ("DEFENSES", type("Fitless", (), {}), "not a subclass of fgai_bench.defenses.Defense"),
        ("DEFENSES", 3, "it is 3 and not a subclass"),
        ("MODELS", type("Plain", (), {}), "not a subclass of fgai_bench.models.AttentionModel"),
        ("EXPLAINERS", type("Mute", (), {}), "not a subclass of fgai_bench.explainers.Explainer"),
        ("METRICS", lambda a, b: 0.0, "it does not say what it takes; declare inputs= one of output, outputs"),
        ("METRICS", "g_jsd", "it is 'g_jsd' and not a function"),
        ("DATASETS", 7, "neither a Dataset nor a function of the data root nor a PyG Data"),
        ("SUITES", {"datasets": ["cora"], "modles": ["gat"]}, "unknown key 'modles'; did you mean 'models'"),
        ("SUITES", 5, "neither a Suite nor a mapping nor the path of a YAML file"),
    ],
)
def test_what_is_not_of_its_kind_is_refused_at_registration(registry: str, thing: object, reason: str) -> None:
    names = list(getattr(fgai_bench, registry))
    with pytest.raises(RegistryError, match=f"^'odd' of .* cannot be an? .*{reason}") as caught:
        getattr(fgai_bench, registry).register("odd")(thing)
    assert "\n" not in str(caught.value)
    assert list(getattr(fgai_bench, registry)) == names


@pytest.mark.parametrize("kind", ["models", "defenses", "attacks", "explainers", "tasks"])
def test_what_is_read_from_the_source_is_what_the_class_says(kind: str) -> None:
    registry = object_at(registry_path(kind))
    for name in registry:
        entry, target = registry.entry(name), registry[name]
        assert (entry.summary, entry.paper, entry.version) == (target.summary, target.paper, target.version), name
        assert entry.tags == frozenset(target.tags), name
        assert entry.summary, name


@pytest.mark.parametrize("path", sorted(NAMES))
def test_names_that_moved_go_on_working_with_a_warning(path: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"{path.replace(':', '.')} is now {NAMES[path].replace(':', '.')}"):
        old = object_at(path)
    assert old is object_at(NAMES[path])


OLD_NAMES = {
    "fgai_bench.attacks.threat": "ThreatModel",
    "fgai_bench.runner": "run",
    "fgai_bench.runner.breaking": "row_named",
    "fgai_bench.runner.runs": "Run",
    "fgai_bench.runner.verify": "verify",
    "fgai_bench.spaces": "LogRange",
    "fgai_bench.store": "StoreReader",
    "fgai_bench.store.packing": "pack_attacked",
    "fgai_bench.store.sqlite": "StoreReader",
}


@pytest.mark.parametrize("module", sorted(MODULES))
def test_modules_that_moved_are_found_by_their_old_paths(module: str) -> None:
    name = OLD_NAMES[module]
    with pytest.warns(DeprecationWarning, match=f"{module}.{name} is now {MODULES[module]}.{name}"):
        old = object_at(f"{module}:{name}")
    assert old is object_at(f"{MODULES[module]}:{name}")


def test_installed_package_cannot_take_a_name(site: Path) -> None:
    install(site, "bold-shapes", "test_bench.shapes", {"square": "bold_shapes:Square"})
    registry: Registry[object] = Registry("shape", "test_bench.shapes")
    registry.declare("square", "math:pi")
    with pytest.raises(RegistryError, match="'square' is already registered by fgai_bench; bold-shapes needs another"):
        registry.names()


def test_plugin_runs_its_decorators(site: Path) -> None:
    (site / "registering_plugin.py").write_text(
        "from fgai_bench.registry import Registry\n"
        "SHAPES = Registry('shape')\n"
        "@SHAPES.register('star')\n"
        "def star(): ...\n"
    )
    load_plugins(["registering_plugin"])
    assert sys.modules["registering_plugin"].SHAPES.names() == ["star"]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (None, "No module named"),
        ("import no_such_dependency", "no_such_dependency"),
        ("def broken(:", "invalid syntax"),
    ],
)
def test_plugin_that_cannot_be_imported_is_one_sentence(site: Path, source: str | None, reason: str) -> None:
    if source is not None:
        (site / "poor_plugin.py").write_text(source)
    with pytest.raises(RegistryError, match=f"plugin 'poor_plugin' cannot be imported: .*{reason}") as caught:
        load_plugins(["poor_plugin"])
    assert "\n" not in str(caught.value)


def test_entry_of_an_object_needs_no_import() -> None:
    thing = object()
    assert Entry("thing", thing).load() is thing
