"""A twenty-line package adds a defense and an attack: both are listed, checked, and run like everybody else's."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "plugin_package"
RUN = """
import json, my_plugin, torch
import fgai_bench as fb
from fgai_bench.attacks import ThreatModel
from fgai_bench.defenses import Training
from fgai_bench.models import build_model
from fgai_bench.tasks.node_classification import NodeProblem

problem = NodeProblem.prepare("cora", seed=0)
model = build_model("gat", problem.data.x.shape[1], problem.num_outputs)
trained = fb.DEFENSES["narrow"]().fit(model, problem.training_data, problem.split, training=Training(epochs=25))
threat = ThreatModel(nodes=5, edges_per_node=10, feature_low=0.0)
attacked = fb.ATTACKS["copycat"]()(trained, problem.data, problem.targets, threat=threat)
found = problem.attacked(trained, attacked)
clean = problem.clean(trained).metrics["f1"]
print(json.dumps([trained.config["hidden"], attacked.ledger.edges, clean, found.metrics["f1"], found.metrics["g_jsd"]]))
"""


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "fgai_bench.cli", "--plugin", "my_plugin", *arguments]
    return subprocess.run(line, cwd=PACKAGE, capture_output=True, text=True, timeout=300)


def test_it_is_about_twenty_lines():
    source = Path(importlib.util.spec_from_file_location("my_plugin", PACKAGE / "my_plugin.py").origin).read_text()
    assert sum(bool(line.strip()) for line in source.splitlines()) <= 22


def test_both_are_listed():
    done = command("ls")
    assert done.returncode == 0
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert "half the hidden width" in rows["narrow"]
    assert "injected nodes that look like random targets" in rows["copycat"]


def test_both_run_and_are_measured():
    done = subprocess.run([sys.executable, "-c", RUN], cwd=PACKAGE, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    hidden, edges, clean, attacked, g_jsd = json.loads(done.stdout)
    assert (hidden, edges) == (4, 50)
    assert clean > 0.5
    assert 0.0 <= attacked <= 1.0
    assert g_jsd > 0.0


def test_both_keep_their_contract():
    for name in ("narrow", "copycat"):
        done = command("check", name)
        assert done.returncode == 0, done.stdout
        assert "check_global_rng_untouched" in done.stdout
        assert "failed" not in done.stdout


def test_an_entry_that_breaks_its_contract_fails_the_command(tmp_path):
    (tmp_path / "my_plugin.py").write_text(
        "import torch, fgai_bench as fb\n"
        "from fgai_bench.defenses.vanilla import Vanilla\n"
        "@fb.DEFENSES.register('noisy')\n"
        "class Noisy(Vanilla):\n"
        "    def fit(self, *args, **kwargs):\n"
        "        torch.rand(1)\n"
        "        return super().fit(*args, **kwargs)\n"
    )
    line = [sys.executable, "-m", "fgai_bench.cli", "check", "noisy", "--plugin", "my_plugin"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    (row,) = [line for line in done.stdout.splitlines() if "failed" in line]
    assert row.split()[:2] == ["check_global_rng_untouched", "failed"]
