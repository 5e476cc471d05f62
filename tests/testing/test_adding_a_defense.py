"""docs/adding-a-defense.md works when pasted: its files are saved and its code blocks are run in order."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

import fgai_bench as fb
from fgai_bench.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "adding-a-defense.md"
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
FILES = {re.match(r"# file: (\S+)", code)[1]: code for kind, code in BLOCKS if code.startswith("# file:")}
SCRIPTS = [code for kind, code in BLOCKS if kind == "python" and not code.startswith("# file:")]
COMMANDS = [line for kind, code in BLOCKS if kind == "bash" for line in code.splitlines()]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The working directory, with the page's files as a reader would have saved them; nothing stays registered."""
    for name, code in FILES.items():
        (tmp_path / name).write_text(code)
        monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
    for registry in (fb.DEFENSES, fb.ATTACKS):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_has_what_these_tests_look_for():
    assert set(FILES) == {"my_defense.py", "my_objective.py", "my_attack.py"}
    assert len(SCRIPTS) == 1
    assert {shlex.split(line)[0] for line in COMMANDS} == {"fgai-bench"}


def test_the_script_measures_the_new_defense_under_the_new_attack(capsys):
    exec(compile(SCRIPTS[0], "page", "exec"), {})
    said = capsys.readouterr().out
    assert said.startswith("Ledger(nodes=20, edges=400, largest_feature=1.0,")
    assert float(said.split()[-1]) > 0


@pytest.mark.parametrize("line", [*COMMANDS, "fgai-bench --plugin my_objective check calm"])
def test_the_command_succeeds(line, capsys, folder):
    assert main(shlex.split(line)[1:]) == 0
    said = capsys.readouterr().out
    if "check" in line:
        assert "passed" in said
        assert "failed" not in said
    if "run" in line:
        assert (folder / "runs" / "mine").is_dir()
        assert "wide" in said
