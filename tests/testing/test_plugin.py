"""A twenty-line package adds a defense and an attack: both are listed, checked, and run like everybody else's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import fgai_bench as fb
from fgai_bench.attacks import ThreatModel
from fgai_bench.cli import main
from fgai_bench.defenses import Training
from fgai_bench.models import build_model
from fgai_bench.plugins import load_plugins
from fgai_bench.tasks.node_classification import NodeProblem

PACKAGE = Path(__file__).parents[1] / "plugin_package"
NOISY = """
import torch
import fgai_bench as fb
from fgai_bench.defenses.vanilla import Vanilla

@fb.DEFENSES.register("noisy")
class Noisy(Vanilla):
    def fit(self, *args, **kwargs):
        torch.rand(1)
        return super().fit(*args, **kwargs)
"""


@pytest.fixture(autouse=True)
def own_registries(monkeypatch):
    """What a test registers is gone after it."""
    for registry in (fb.DEFENSES, fb.ATTACKS):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    yield
    sys.modules.pop("my_plugin", None)


def test_it_is_about_twenty_lines():
    assert sum(bool(line.strip()) for line in (PACKAGE / "my_plugin.py").read_text().splitlines()) <= 22


def test_both_are_listed(monkeypatch, capsys):
    monkeypatch.chdir(PACKAGE)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(PACKAGE)])
    assert main(["--plugin", "my_plugin", "ls"]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert "half the hidden width" in rows["narrow"]
    assert "injected nodes that look like random targets" in rows["copycat"]


def test_both_run_and_are_measured(monkeypatch):
    monkeypatch.syspath_prepend(PACKAGE)
    load_plugins(["my_plugin"])
    problem = NodeProblem.prepare("cora", seed=0)
    model = build_model("gat", problem.data.x.shape[1], problem.num_outputs)
    trained = fb.DEFENSES["narrow"]().fit(model, problem.training_data, problem.split, training=Training(epochs=20))
    threat = ThreatModel(nodes=5, edges_per_node=10, feature_low=0.0)
    attacked = fb.ATTACKS["copycat"]()(trained, problem.data, problem.targets, threat=threat)
    found = problem.attacked(trained, attacked)
    assert trained.config["hidden"] == 4
    assert (attacked.ledger.nodes, attacked.ledger.edges, attacked.ledger.largest_feature) == (5, 50, 1.0)
    assert problem.clean(trained).metrics["f1"] > 0.5
    assert found.metrics["g_jsd"] > 0.0


@pytest.mark.parametrize("name", ["narrow", "copycat"])
def test_both_keep_their_contract(name, monkeypatch, capsys):
    monkeypatch.syspath_prepend(PACKAGE)
    assert main(["check", name, "--plugin", "my_plugin"]) == 0
    said = capsys.readouterr().out
    assert "check_no_side_effects" in said
    assert "failed" not in said


def test_an_entry_that_breaks_its_contract_fails_the_command(tmp_path, monkeypatch, capsys):
    (tmp_path / "my_plugin.py").write_text(NOISY)
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["--plugin", "my_plugin", "check", "noisy"]) == 1
    said = capsys.readouterr().out
    (row,) = [line for line in said.splitlines() if "failed" in line]
    assert row.split()[:2] == ["check_no_side_effects", "failed"]
    assert not any("check_" in line and "skipped" in line for line in said.splitlines())


def test_an_error_in_a_plugin_is_told_with_its_file_and_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "my_plugin.py").write_text(NOISY.replace("torch.rand(1)", "torch.rand('one')"))
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["--plugin", "my_plugin", "check", "noisy"]) == 1
    said = "".join(capsys.readouterr().out.split())
    assert f"({tmp_path}/my_plugin.py,line9)" in said
