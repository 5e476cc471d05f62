"""Changed code is a new step, and only where it can change the result."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fgai_bench

# Plans a suite from a copy of the package, changes one file of the copy after the other, and says what became new.
SCRIPT = """
import json, sys
from pathlib import Path
import fgai_bench
from fgai_bench.run.step_code import forget
from fgai_bench.run.plan import plan
from fgai_bench.suites import resolve
root, suite, edits = Path(fgai_bench.__file__).parent, *map(json.loads, sys.argv[1:])
assert str(root).startswith(sys.path[1]), root
suites = resolve(suite)
before, said = plan(suites).steps, {}
for name, (file, old, new) in edits.items():
    text = (root / file).read_text()
    assert old in text, (file, old)
    (root / file).write_text(text.replace(old, new, 1))
    forget()
    after = plan(suites).steps
    redone = [step for hash, step in after.items() if hash not in before]
    said[name] = sorted({f"{step.kind} {step.config['defense']['name']}" for step in redone})
    (root / file).write_text(text)
print(json.dumps(said))
"""
EDITS = {
    "a comment": ("models/gat.py", "from __future__", "# a comment\nfrom __future__"),
    "a model": ("models/gat.py", "\n\nclass ", "\nNEW = 1\n\n\nclass "),
    "a defense": ("defenses/adversarial_training.py", "\n\nclass ", "\nNEW = 1\n\n\nclass "),
    "a metric": ("metrics/stability.py", "\n\ndef ", "\nNEW = 1\n\n\ndef "),
    "how splits are drawn": ("data/splits.py", "\n\n@dataclass", "\nNEW = 1\n\n\n@dataclass"),
}
SUITE = {
    "name": "tiny",
    "datasets": ["csbm-1e3"],
    "models": ["gat"],
    "defenses": ["vanilla", "at", "fgai"],
    "seeds": 1,
    "attacks": ["injection"],
}
EVERYTHING = [f"{kind} {name}" for kind in ("attack", "clean", "train") for name in ("at", "fgai", "vanilla")]
MEASURED = [step for step in EVERYTHING if not step.startswith("train")]


@pytest.fixture(scope="module")
def redone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What each edit of a module makes new in the plan of the tiny suite."""
    root = tmp_path_factory.mktemp("copy")
    shutil.copytree(Path(fgai_bench.__file__).parent, root / "fgai_bench", ignore=shutil.ignore_patterns("__pycache__"))
    script = root / "edits.py"
    script.write_text(f"import sys; sys.path.insert(1, {str(root)!r})\n{SCRIPT}")
    line = [sys.executable, "-P", str(script), json.dumps(SUITE), json.dumps(EDITS)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, env={"PYTHONPATH": str(root)})
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        ("a comment", []),
        ("a model", EVERYTHING),
        ("a defense", ["attack at", "clean at", "train at"]),
        ("a metric", MEASURED),
        ("how splits are drawn", EVERYTHING),
    ],
)
def test_an_edited_module_makes_new_what_it_decides(edit: str, expected: list[str], redone: dict[str, Any]) -> None:
    assert redone[edit] == expected
