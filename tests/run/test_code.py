"""Code that computes something else is a new step; code that only stands elsewhere, or reads better, is not."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fgai_bench
from fgai_bench.run import identity
from fgai_bench.run.identity import fingerprint

SUITE = {
    "name": "tiny",
    "datasets": ["csbm-1e3"],
    "models": ["gat"],
    "defenses": ["vanilla", "at", "fgai", "own"],
    "seeds": 1,
    "attacks": ["injection"],
}
PLUGIN = {
    "own_defense.py": '''"""A defense of somebody else."""
import fgai_bench as fb
from fgai_bench.defenses.vanilla import Vanilla
from own_helpers import first


@fb.DEFENSES.register("own", summary="a defense")
class Own(Vanilla):
    """Train calmly."""

    def calm(self, x: int) -> int:
        return first(x)
''',
    "own_helpers.py": "from own_constants import second\n\n\ndef first(x):\n    return second(x)\n",
    "own_constants.py": "RATE = 3\n\n\ndef second(x):\n    # a comment\n    return RATE * x\n",
}
# Plans the suite from a copy of the package, makes one edit of the copy after the other, and says what became new.
SCRIPT = """
import ast, functools, json, sys
from pathlib import Path
root, suite, edits = Path(sys.argv[1]), *map(json.loads, sys.argv[2:])
sys.path[:0] = [str(root)]
ast.parse = functools.cache(ast.parse)  # of the files that an edit leaves as they are
import fgai_bench, own_defense
from fgai_bench.run import identity
from fgai_bench.run.plan import plan
from fgai_bench.suites import resolve
assert Path(fgai_bench.__file__).is_relative_to(root), fgai_bench.__file__
suites = resolve(suite)

def planned():
    for function in vars(identity).values():
        getattr(function, "cache_clear", lambda: None)()
    return plan(suites).steps

before, new = planned(), {}
for name, changes in edits.items():
    contents = {file: (root / file).read_text() for file, _, _ in changes}
    for file, old, text in changes:
        content = (root / file).read_text()
        assert old in content, (file, old)
        (root / file).write_text(content.replace(old, text, 1))
    redone = [step for hash, step in planned().items() if hash not in before]
    new[name] = sorted({f"{step.kind} {step.config['defense']['name']}" for step in redone})
    for file, content in contents.items():
        (root / file).write_text(content)
print(json.dumps([sorted(before), new]))
"""
DEFENSES = ("at", "fgai", "own", "vanilla")
EVERYTHING = [f"{kind} {name}" for kind in ("attack", "clean", "train") for name in DEFENSES]
MEASURED = [step for step in EVERYTHING if not step.startswith("train")]
AT = ["attack at", "clean at", "train at"]
OWN = ["attack own", "clean own", "train own"]
F = "fgai_bench/"
SAME = {  # edits after which the code computes what it did: file, what stands there, what it becomes
    "a comment": (F + "models/gat.py", "from __future__", "# a comment\nfrom __future__"),
    "a docstring": (F + "models/gat.py", '"""Graph Attention Network;', '"""A network;'),
    "a summary": (F + "models/gat.py", 'summary = "', 'summary = "The '),
    "an import": (F + "models/gat.py", "import math\n", "import math\nimport os\n"),
    "a type": (F + "models/gat.py", "heads: int = 1", "heads: float = 1"),
    "an unused constant": (F + "models/gat.py", "\n\nclass ", "\nNEW = 1\n\n\nclass "),
    "a plugin's comment": ("own_constants.py", "# a comment", "# a word"),
    "a plugin's docstring": ("own_defense.py", "Train calmly", "Train"),
    "a plugin's types": ("own_defense.py", "x: int", "x: float"),
    "a plugin's summary": ("own_defense.py", "a defense", "some defense"),
}
OTHER = {  # edits after which it computes something else, and the steps that are new then
    "a layer": (F + "models/gat.py", "math.sqrt(6 /", "math.sqrt(7 /", EVERYTHING),
    "the attention core": (F + "models/kernels/segments.py", "def attend_add", "@no\ndef attend_add", EVERYTHING),
    "a default of AT": (F + "defenses/adversarial_training.py", "weight: float = 0.1", "weight: float = 0.2", AT),
    "a metric": (F + "metrics/stability.py", "    return ", "    _ = 1\n    return ", MEASURED),
    "how splits are drawn": (F + "data/splits.py", "    return ", "    _ = 1\n    return ", EVERYTHING),
    "a constant of a plugin, three calls deep": ("own_constants.py", "RATE = 3", "RATE = 4", OWN),
}
Edits = dict[str, list[tuple[str, str, str]]]


def planned(root: Path, edits: Edits) -> tuple[list[str], dict[str, list[str]]]:
    """Return the hashes of all steps of the suite, and the steps that each edit makes new."""
    line = [sys.executable, "-P", "-c", SCRIPT, str(root), json.dumps(SUITE), json.dumps(edits)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    hashes, new = json.loads(done.stdout)
    return hashes, new


def copied(root: Path) -> Path:
    """Copy the package and the plugin."""
    source = Path(fgai_bench.__file__).parent
    shutil.copytree(source, root / "fgai_bench", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in PLUGIN.items():
        (root / name).write_text(text)
    return root


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], dict[str, list[str]]]:
    edits: Edits = {name: [(file, old, new)] for name, (file, old, new, _) in OTHER.items()}
    return planned(copied(tmp_path_factory.mktemp("copy")), {**edits, "same": [*SAME.values()]})


@pytest.mark.parametrize("edit", OTHER)
def test_other_code_is_a_new_step_where_it_decides(edit: str, original: tuple[list[str], dict[str, list[str]]]) -> None:
    assert original[1][edit] == OTHER[edit][3]


def test_code_that_computes_the_same_is_the_same_step(original: tuple[list[str], dict[str, list[str]]]) -> None:
    assert original[1]["same"] == []


def test_moved_and_renamed_files_change_no_hash(tmp_path: Path, original: tuple[list[str], object]) -> None:
    """A layer's core moves to another room, a defense and a plugin's module get other names."""
    root = copied(tmp_path)
    moves = {
        "fgai_bench/models/kernels/segments.py": "fgai_bench/fast/attention_core.py",
        "fgai_bench/defenses/adversarial_training.py": "fgai_bench/defenses/hardening.py",
        "own_constants.py": "own_numbers.py",
    }
    for old, new in moves.items():
        (root / old).rename(root / new)
    names = {
        old.removesuffix(".py").replace("/", "."): new.removesuffix(".py").replace("/", ".")
        for old, new in moves.items()
    }
    for path in root.rglob("*.py"):
        text = path.read_text()
        for old, new in names.items():
            text = text.replace(old, new)
        path.write_text(text.replace('"adversarial_training:', '"hardening:'))
    assert planned(root, {})[0] == original[0]


def test_code_without_a_file_is_known_by_its_name_alone() -> None:
    space: dict[str, object] = {"__name__": "no_such_module"}
    exec("class Reader:\n    pass", space)
    assert fingerprint([space["Reader"]]) == fingerprint([space["Reader"]])


def test_an_object_made_inside_a_function_counts_with_that_function() -> None:
    def reader(root: object) -> object:
        return root

    def other(root: object) -> object:
        return root, root

    assert fingerprint([reader]) == fingerprint([other]) != fingerprint([copied])


TASK = {
    "own_base.py": "class Base:\n    def split(self):\n        return 1\n\n    def score(self):\n        return 2\n",
    "own_task.py": "import own_base\n\nclass Own(own_base.Base):\n  pass\n\ndef step(task):\n  return task.split()\n",
}


@pytest.mark.parametrize(("edit", "counts"), [("return 1", True), ("return 2", False)])
def test_of_a_plugin_task_the_methods_count_that_a_step_uses(
    edit: str, counts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    prints = []
    for text in (edit, f"{edit}0"):
        for name, source in TASK.items():
            (tmp_path / name).write_text(source.replace(edit, text))
            monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
        module = importlib.import_module("own_task")
        for function in vars(identity).values():
            getattr(function, "cache_clear", lambda: None)()
        prints.append(fingerprint([module.step], used=module.Own))
    assert (prints[0] != prints[1]) is counts
