"""Fingerprints of code: they follow what is computed and nothing else, through everything that is imported."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fgai_bench.data import extend
from fgai_bench.defenses import base
from fgai_bench.run.identity import SAME_VALUES, Part, fingerprint, forget_files, modules_of, written_in_no_file

ENTRY = '''"""A method."""
from .helper import scale

class Method:
    """What it is."""

    summary = "a method"

    def fit(self, x):  # a comment
        """Fit it."""
        from . import late
        return scale(x) + late.SHIFT

    def measure(self, x):
        return self._ruler(x)

    def _ruler(self, x):
        from .ruler import length
        return length(x)
'''
FILES = {
    "__init__": "",
    "entry": ENTRY,
    "helper": "import math\n\ndef scale(x):\n    return 2 * x\n",
    "late": "SHIFT = 3\n",
    "ruler": "def length(x):\n    return len(x)\n",
    "stranger": "SHIFT = 4\n",
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's package, imported; its files may be changed."""
    folder = tmp_path / "user_package"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    for name in FILES:
        importlib.import_module(f"user_package.{name}" if name != "__init__" else "user_package")
    forget_files()
    yield folder
    for name in [name for name in sys.modules if name.startswith("user_package")]:
        del sys.modules[name]
    forget_files()


@pytest.fixture
def changed(package: Path) -> Callable[..., bool]:
    """Tells whether the fingerprint changes when one text in one file of the package becomes another."""

    def after(file: str, old: str, new: str, part: str | Part = "user_package.entry") -> bool:
        forget_files()
        before = fingerprint([part])
        text = (package / f"{file}.py").read_text()
        assert old in text or not old
        (package / f"{file}.py").write_text(text.replace(old, new, 1) if old else text + new)
        forget_files()
        return fingerprint([part]) != before

    return after


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("entry", "  # a comment", ""),
        ("entry", '"""Fit it."""', '"""Fit it well."""'),
        ("entry", '"""A method."""', ""),
        ("entry", '"a method"', '"the method"'),
        ("entry", "def fit(self, x):", "def fit(self, x: int) -> int:"),
        ("helper", "    return 2 * x\n", "\n    return (2 * x)  # twice\n"),
        ("helper", "import math\n", "import math\nimport os\n"),
        ("stranger", "4", "5"),
    ],
)
def test_what_computes_the_same_has_the_same_fingerprint(
    file: str, old: str, new: str, changed: Callable[..., bool]
) -> None:
    assert not changed(file, old, new)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("entry", "scale(x) + late.SHIFT", "scale(x) - late.SHIFT"),
        ("helper", "2 * x", "3 * x"),
        ("helper", "def scale", "from fgai_bench.fast.cached_results import remembered\n\n@remembered\ndef scale"),
        ("late", "3", "3.5"),
        ("ruler", "len(x)", "len(x) + 1"),
        ("entry", "    def measure", "    tags = ('new',)\n\n    def measure"),
    ],
)
def test_what_computes_something_else_has_another(file: str, old: str, new: str, changed: Callable[..., bool]) -> None:
    assert changed(file, old, new)


def test_what_is_dropped_does_not_count_nor_does_what_only_it_used(changed: Callable[..., bool]) -> None:
    part = Part("user_package.entry", frozenset({"measure"}))
    assert not changed("ruler", "len(x)", "len(x) + 1", part)
    assert not changed("entry", "return length(x)", "return length(x) + 1", part)
    assert changed("helper", "2 * x", "3 * x", part)


def test_our_own_functions_may_be_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = Path(extend.__file__)
    text = file.read_text()
    assert "@remembered" in text
    copy = tmp_path / "fgai_bench" / "data" / file.name
    copy.parent.mkdir(parents=True)
    monkeypatch.setattr("fgai_bench.run.identity.HERE", tmp_path)
    found = []
    for old, new in (("", ""), ("@remembered", "#"), ("@remembered", "@torch.no_grad()")):
        copy.write_text(text.replace(old, new, 1) if old else text)
        forget_files()
        found.append(fingerprint(["fgai_bench.data.extend"]))
    forget_files()
    assert found[0] == found[1] != found[2]


def test_ordered_sums_count_from_the_first_change_on(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_files()
    before = fingerprint(["fgai_bench.models.features"])
    monkeypatch.setattr("fgai_bench.run.identity.AS_THEY_WERE", set())  # as if they were no longer what they were
    forget_files()
    assert fingerprint(["fgai_bench.models.features"]) != before
    forget_files()


def test_a_module_that_gives_the_same_values_counts_as_before_until_it_changes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Path(base.__file__)
    text = file.read_text()
    copy = tmp_path / "fgai_bench" / "defenses" / file.name
    copy.parent.mkdir(parents=True)
    monkeypatch.setattr("fgai_bench.run.identity.HERE", tmp_path)
    found = []
    for version in (text, text.replace("except UnconvergedError", "except ValueError")):
        for same in (SAME_VALUES, {}):
            monkeypatch.setattr("fgai_bench.run.identity.SAME_VALUES", same)
            copy.write_text(version)
            forget_files()
            found.append(fingerprint(["fgai_bench.defenses.base"]))
    forget_files()
    assert found[0] != found[1]  # it counts as it did before
    assert found[2] == found[3] != found[0]  # nobody has said that of what it is now


def test_an_object_is_found_in_its_own_module_and_those_of_its_bases() -> None:
    from fgai_bench.models import MODELS

    found = modules_of(MODELS["gat"])
    assert found[0] == "fgai_bench.models.gat"
    assert "fgai_bench.models.base" in found
    assert not [name for name in found if name.startswith("torch")]


def test_what_no_file_holds_is_known_by_its_source_or_not_at_all() -> None:
    space: dict[str, object] = {"__name__": "no_such_module"}
    exec("def reader(root):\n    return root", space)
    assert written_in_no_file(space["reader"]) == "unknown"
    assert written_in_no_file("fgai_bench.models.gat:GAT") == ""
