"""Registries: declared, decorated and installed entries, and what they say when something is wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fgai_bench.registry import Entry, Registry, RegistryError, load_plugins


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
    assert registry.entry("oval").origin == "other-shapes"
    assert "other_shapes" not in sys.modules
    assert registry["oval"].sides == 0  # type: ignore[attr-defined]


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
