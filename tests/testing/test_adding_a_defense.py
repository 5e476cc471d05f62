"""docs/adding-a-defense.md works when pasted: its files are saved and its code blocks are run in order."""

from __future__ import annotations

import re
import shlex
import sys
import warnings
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
    for name in dir(fb):
        if name.isupper():
            monkeypatch.setattr(getattr(fb, name), "_entries", dict(getattr(fb, name)._entries))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_has_what_these_tests_look_for():
    kinds = ("attack", "dataset", "defense", "explainer", "metric", "objective", "suite")
    assert set(FILES) == {f"my_{kind}.py" for kind in kinds}
    assert len(SCRIPTS) == 1
    assert {shlex.split(line)[0] for line in COMMANDS} == {"fgai-bench"}


def test_the_script_measures_the_new_defense_under_the_new_attack(capsys):
    exec(compile(SCRIPTS[0], "page", "exec"), {})
    said = capsys.readouterr().out
    assert said.startswith("Ledger(nodes=20, edges=400, largest_feature=1.0,")
    assert float(said.split()[-1]) > 0


ALONE = [line for line in COMMANDS if "runs/own" not in line]


@pytest.mark.parametrize("line", [*ALONE, "fgai-bench --plugin my_objective check calm"])
def test_the_command_succeeds(line, capsys, folder):
    assert main(shlex.split(line)[1:]) == 0
    said = capsys.readouterr().out
    if "check" in line:
        assert "passed" in said
        assert "failed" not in said
    if " run " in line:
        assert (folder / line.split()[-1]).is_dir()
        assert "wide" in said


def test_the_suite_of_the_page_gives_a_report_with_the_metric_as_a_column(capsys, folder):
    run, report = [line for line in COMMANDS if "runs/own" in line]
    assert main(shlex.split(run)[1:]) == main(shlex.split(report)[1:]) == 0
    table = (folder / "runs/own/report/tables/metrics.md").read_text()
    assert "worst_node_tvd↓" in table
    board = (folder / "runs/own/report/leaderboard_node.csv").read_text().splitlines()
    assert "worst_node_tvd_mean" in board[0]


OLD_ATTACK = """
import torch

import fgai_bench as fb
from fgai_bench.attacks.injection import injected_edges, with_injected
from fgai_bench.attacks.threat import settle


@fb.ATTACKS.register("loud", summary="every injected feature at a random end of its range", tags=("injection",))
class Loud:
    def __call__(self, model, data, targets, *, threat, seed=0, readout=None):
        draw = torch.rand(threat.nodes, data.x.shape[1], generator=torch.Generator().manual_seed(seed))
        features = torch.where(draw < 0.5, threat.feature_low, threat.feature_high)
        edges = injected_edges(data.x.shape[0], targets, threat, seed)
        return settle(data, with_injected(data, features, edges), threat)
"""
OLD_DEFENSE = """
import copy

import fgai_bench as fb
from fgai_bench.defenses.training import NodeSupervision, Training, optimise


@fb.DEFENSES.register("calm", summary="small logits", tags=("node", "link"))
class Calm:
    def __init__(self, weight: float = 0.01) -> None:
        self.weight = weight

    def fit(
        self, model, data, split, seed=0, *, supervision=None, teacher=None, inner=None, training=None, progress=None
    ):
        student = copy.deepcopy(model)  # the given model stays as it is
        task = supervision or NodeSupervision(data, split)

        def terms(epoch):
            out = student(data)
            return {"prediction": task.loss(out), "calm": self.weight * out.logits.square().mean()}

        return optimise(
            student, terms, training or Training(), seed, score=lambda: task.score(student(data)), progress=progress
        )
"""


@pytest.mark.parametrize(("source", "name"), [(OLD_ATTACK, "loud"), (OLD_DEFENSE, "calm")])
def test_what_the_page_of_the_first_release_said_goes_on_working(source, name, folder, capsys, monkeypatch):
    (folder / "old_plugin.py").write_text(source)
    monkeypatch.delitem(sys.modules, "old_plugin", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        assert main(["check", name, "--plugin", "old_plugin"]) == 0
    assert "passed" in capsys.readouterr().out
