"""An installed package with an entry point for every kind: listed, checked, run, recorded and reported like ours."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from fgai_bench.records.store import StoreReader

PACKAGE = Path(__file__).parents[1] / "installed_package"
KINDS = {
    "defenses": ("gentle", "needs-inner, needs-teacher, node"),
    "attacks": ("faint", "control, injection"),
    "models": ("small-gat", "attention, differentiable"),
    "datasets": ("two-rings", "node"),
    "metrics": ("largest-shift", "distance, inputs:weights, symmetric"),
    "explainers": ("in-edges", ""),
    "suites": ("gentle-suite", ""),
}
pytestmark = pytest.mark.slow
QUICK = (
    *("run", "--suite", "quick", "--models", "gat", "--defenses", "vanilla", "--attacks", "injection", "--seeds", "1"),
    *("--set", "training.epochs=1", "--executor", "inline", "--device", "cpu", "--out", "quick"),
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package as an installer leaves it: its modules and its metadata."""
    folder = tmp_path_factory.mktemp("installed")
    shutil.copytree(PACKAGE, folder / "source")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", folder / "site", folder / "source"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


class Person:
    """Somebody at a command line, with the package installed or not."""

    def __init__(self, folder: Path, site: Path) -> None:
        self.folder, self.site = folder, site

    def types(self, *arguments: str, installed: bool = True) -> str:
        """One command; everything that it said."""
        return self.session([arguments], installed)[0]

    def session(self, lines: Sequence[Sequence[str]], installed: bool = True) -> list[str]:
        """Several commands in one process, which starts once; each must succeed. What each of them said."""
        code = (
            "import sys; from fgai_bench.cli import main\n"
            f"for line in {[list(line) for line in lines]!r}:\n"
            "    code = main(line); print('\\0', end=''); sys.stdout.flush()\n"
            "    if code: sys.exit(f'{line} ends with {code}')\n"
        )
        environment = {**os.environ, "PYTHONPATH": str(self.site) if installed else ""}
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.split("\0")[:-1]


@pytest.fixture(scope="module")
def person(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Person:
    return Person(tmp_path_factory.mktemp("work"), site)


def reported(out: str) -> list[list[str]]:
    """The commands that read a run."""
    report = ["report", "mine", "--out", out, "--format", "markdown,csv,html,png,latex"]
    return [report, ["claims", "mine"], ["compare", "mine", "--to", "paper"], ["status", "mine"]]


@pytest.fixture(scope="module")
def said(person: Person) -> list[str]:
    """What every entry is listed as, how it keeps its contract, and its suite, carried out and reported."""
    lines = [["ls", kind] for kind in KINDS] + [["check", name] for name, _ in KINDS.values()]
    carried_out = ["run", "--suite", "gentle-suite", "--jobs", "1", "--device", "cpu", "--out", "mine"]
    return person.session([*lines, carried_out, *reported("report-True")])


@pytest.fixture(scope="module")
def run(person: Person, said: list[str]) -> Path:
    """The package's own suite, carried out."""
    assert "failed" not in said[2 * len(KINDS)]
    return person.folder / "mine"


def test_every_entry_is_listed_with_its_tags_and_its_package(said: list[str]) -> None:
    for (kind, (name, tags)), listed in zip(KINDS.items(), said[: len(KINDS)], strict=True):
        (line,) = [line for line in listed.splitlines() if line.split()[:1] == [name]]
        assert tags in line
        # A decorator knows the module that it stands in, an entry point its package.
        assert ("gentle_bench.entries 2.5" if kind == "models" else "gentle-bench 2.5") in line


def test_every_entry_keeps_its_contract(said: list[str]) -> None:
    for checked in said[len(KINDS) : 2 * len(KINDS)]:
        assert "passed" in checked
        assert "failed" not in checked


def test_the_suite_measures_its_metrics_beside_the_built_in_ones(run: Path) -> None:
    with StoreReader(run) as store:
        records = store.records()
        configs = [step["config"] for step in store.steps()]
    measured = records[(records["family"] == "measure") & (records["metric"] != "")]
    assert {"f1", "g_jsd", "largest-shift", "seconds", "explainer_topk_overlap", "g_tvd"} <= set(measured["metric"])
    assert (records[records["kind"] == "explain"]["metric"] != "").all()
    shifts = measured[measured["metric"] == "largest-shift"]
    assert len(shifts) == 2 * 2 * 2 * 2  # models, defenses, attacks, seeds
    assert (shifts["status"] == "ok").all()
    assert shifts["value"].between(0, 1).all()
    seconds = measured[measured["metric"] == "seconds"]
    assert set(seconds["kind"]) == {"clean", "attack"}
    trained = [config for config in configs if config["kind"] == "train"]
    assert {config["defense"]["version"] for config in trained if config["defense"]["name"] == "gentle"} == {"7"}
    assert {config["dataset"]["version"] for config in trained} == {"4"}
    assert all(config["teacher"] and config["inner"] for config in trained if config["defense"]["name"] == "gentle")
    assert not any("metrics" in config for config in configs)


def test_the_graph_keeps_its_own_masks_as_the_split(run: Path) -> None:
    with StoreReader(run) as store:
        facts = [step["facts"] for step in store.steps() if step["kind"] == "train"]
    parts = {(fact["train_nodes"], fact["val_nodes"], fact["test_nodes"], fact["split_hash"]) for fact in facts}
    assert [part[:3] for part in parts] == [(20, 10, 9)]


def test_the_version_of_the_package_is_recorded(run: Path) -> None:
    with StoreReader(run) as store:
        where = {
            json.dumps(environment.get("plugins", {}))
            for environment in (step["environment"] for step in store.steps())
        }
    assert any("2.5" in plugins and "gentle" in plugins for plugins in where)


@pytest.mark.parametrize("installed", [True, False])
def test_the_report_has_the_metric_with_and_without_the_package(installed: bool, run: Path, person: Person) -> None:
    out = f"report-{installed}"
    if not installed:
        person.session(reported(out), installed=False)
    folder = person.folder / out
    tables = {path.stem for path in (folder / "tables").glob("*.md")}
    assert {"table1", "table2", "metrics", "explanations"} <= tables
    assert "largest-shift↓" in (folder / "tables" / "metrics.md").read_text()
    rows = list(csv.DictReader((folder / "leaderboard_node_full.csv").read_text().splitlines()))
    assert {row["defense"] for row in rows} == {"vanilla", "gentle", "uniform-attention"}
    assert all(float(row["largest-shift_mean"]) >= 0 for row in rows if row["defense"] != "uniform-attention")
    page = (folder / "page.html").read_text()
    assert '"key":"largest-shift"' in page
    assert "| in-edges |" in (folder / "tables" / "explanations.md").read_text()


def test_the_report_is_the_same_with_and_without_the_package(run: Path, person: Person) -> None:
    contents = []
    for installed in (True, False):
        folder = person.folder / f"report-{installed}"
        if not folder.is_dir():
            pytest.skip("the reports are made by the test before")
        contents.append({path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()})
    assert contents[0] == contents[1]


def test_an_export_keeps_the_metric(run: Path, person: Person) -> None:
    person.types("records", "export", "mine", "--out", "exported", installed=False)
    with StoreReader(person.folder / "exported") as store:
        assert "largest-shift" in set(store.records()["metric"])


@pytest.mark.slow
def test_a_finished_run_stays_finished_when_the_package_and_its_metric_come(person: Person) -> None:
    person.types(*QUICK, installed=False)
    again, with_metric = person.session([QUICK, [*QUICK, "--set", "metrics=[f1, roc_auc, largest-shift]"]])
    assert again.startswith("0 steps executed")
    assert "2 steps executed" in with_metric  # a metric that is added computes only itself: one attack of each task
    assert with_metric.count("] measure ") == 2
