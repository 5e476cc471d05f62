"""What decides a result decides its identity: changed data and changed code are computed anew and never mixed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from fgai_bench.cli import main
from fgai_bench.data import DATASETS, content_sha256
from fgai_bench.records.merge import made_by_other_code
from fgai_bench.records.store import Store, StoreReader
from fgai_bench.run.plan import Step, plan
from fgai_bench.run.progress import Observer
from fgai_bench.run.resume import run
from fgai_bench.statistics.results import Results
from fgai_bench.suites import resolve

SMALL = {
    "name": "small",
    "datasets": ["own-graph"],
    "models": ["gat"],
    "defenses": ["vanilla"],
    "seeds": 1,
    "attacks": ["random-injection"],
    "training": {"epochs": 1},
    "threat": {"nodes": 2, "edges_per_node": 2},
}


class Notes(Observer):
    """Keeps what a run says."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def said(self, sentence: str) -> None:
        self.sentences.append(sentence)


def graph(nodes: int, seed: int = 0) -> Data:
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, nodes, (2, 4 * nodes), generator=generator)
    return Data(x=torch.rand(nodes, 8, generator=generator), edge_index=edges, y=torch.arange(nodes) % 3)


@pytest.fixture
def registered() -> Iterator[Any]:
    """Registers a graph under the name ``own-graph``, in the place of an earlier one."""

    def register(data: Data) -> None:
        DATASETS._entries.pop("own-graph", None)
        DATASETS.register("own-graph")(data)

    yield register
    DATASETS._entries.pop("own-graph", None)


def test_a_registered_graph_that_changed_is_computed_anew(registered: Any, tmp_path: Path) -> None:
    registered(graph(200))
    first = run(SMALL, tmp_path / "run", executor="inline", device="cpu")
    assert first.executed == 3
    assert run(SMALL, tmp_path / "run", executor="inline", device="cpu").executed == 0
    registered(graph(220))
    notes = Notes()
    again = run(SMALL, tmp_path / "run", executor="inline", device="cpu", observer=notes)
    assert again.executed == 3
    kept = "they stay in the store and are not mixed with the new ones"
    assert f"3 recorded steps were made on data that has changed since; {kept}" in notes.sentences
    assert set(again.provenance().set_index("hash").loc[again.records()["step"].unique()]["data_nodes"]) == {220}
    assert len(again.provenance()) == 6  # nothing is lost


@pytest.mark.parametrize("what", ["x", "edge_index", "y", "train_mask"])
def test_every_part_of_an_own_graph_counts(what: str, registered: Any) -> None:
    digests = []
    for change in (False, True):
        data = graph(30)
        data.train_mask, data.val_mask, data.test_mask = (torch.arange(30) % 3 == part for part in range(3))
        if change:
            data[what] = {"y": (data.y + 1) % 3, "edge_index": (data.edge_index + 1) % 30}.get(what, data[what].flip(0))
        registered(data)
        digests.append(content_sha256("own-graph"))
    assert digests[0] != digests[1]


def test_catalogued_data_are_known_without_being_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FGAI_BENCH_DATA", str(tmp_path))
    steps = plan(resolve("node", datasets=["coauthor-cs"], seeds=1)).steps
    sources = {json.dumps(step.config["dataset"]["source"]) for step in steps.values()}
    assert len(sources) == 1
    assert "11b8eadd0a99" in sources.pop()
    assert list(tmp_path.iterdir()) == []


PLUGIN = """
from fgai_bench.defenses import DEFENSES
from fgai_bench.defenses.vanilla import Vanilla

RATE = 0.01

@DEFENSES.register("own-defense")
class OwnDefense(Vanilla):
    "A defense."
    rate = RATE
"""


@pytest.mark.slow
def test_an_edited_plugin_is_run_again_and_the_old_records_stay(tmp_path: Path) -> None:
    plugin, suite = tmp_path / "own_plugin.py", tmp_path / "small.yaml"
    content = {**SMALL, "datasets": ["csbm-1e3"], "defenses": ["vanilla", "own-defense"]}
    suite.write_text(json.dumps(content))
    line = [sys.executable, "-m", "fgai_bench.cli", "--plugin", str(plugin), "run", "--suite", str(suite)]
    line += ["--out", str(tmp_path / "run"), "--executor", "inline", "--device", "cpu"]
    said = []
    for text in (PLUGIN, PLUGIN.replace("0.01", "0.02")):
        plugin.write_text(text)
        done = subprocess.run(line, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert "6 steps executed" in said[0]
    assert "3 steps executed" in said[1]
    assert "3 recorded steps were made by other code; they stay in the store and are not mixed" in said[1]


def test_records_of_other_code_are_shown_as_such_and_not_mixed(
    reference: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two seeds the second is made by code that differs in the attack: a table must not average the two."""
    folder = Path(shutil.copytree(reference, tmp_path / "run"))
    store = Store(folder)
    changed = []
    for step in list(store.steps()):
        if step["kind"] == "attack" and step["config"]["seed"] == 0:
            part = f"attack {step['config']['attack']['name']}"
            config = {**step["config"], "code": {**step["config"]["code"], part: "earlier"}}
            artifacts = {row["role"]: store.artifacts.read(row["sha256"]) for row in step["artifacts"]}
            result = replace(store.result(step["hash"]), artifacts=artifacts, started=1.0)
            store.record(Step(step["hash"], "attack", config, {}, step["trial"]), result)
            changed.append(step["hash"])
    store.close()
    results = Results.read(folder)
    assert results.other_code == set(changed)
    for _, seeds in results.select(kind="attack"):
        assert [step.status for _, step in sorted(seeds.items())] == ["missing", "ok"]
    sentence = f"{len(changed)} recorded steps were made by other code than the rest and are not mixed with it"
    for command in (["status", str(folder)], ["report", str(folder), "--only", "table2", "--format", "markdown"]):
        main(command)
        assert sentence in capsys.readouterr().out


def test_a_changed_suite_says_so_everywhere(
    tiny: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, name = tmp_path / "run", "tiny, changed: training.epochs=1, seeds=1"
    run(tiny, folder, executor="inline", device="cpu", assignments=["training.epochs=1"], defenses=["vanilla"], seeds=1)
    main(["status", str(folder)])
    assert f" {name} " in capsys.readouterr().out
    assert main(["report", str(folder), "--format", "markdown,html,latex"]) == 0
    assert f"{name} is another experiment than the suite as it is declared" in capsys.readouterr().out
    report = folder / "report"
    assert f"Suite {name}" in (report / "tables" / "table2.md").read_text()
    for file in ("page.html", "index.md"):
        assert name in (report / file).read_text()
    assert main(["records", "export", str(folder), "--out", str(tmp_path / "records")]) == 0
    assert list(json.loads((tmp_path / "records" / "manifest.json").read_text())["suites"]) == [name]
    assert main(["leaderboard", "add", str(folder), "--to", str(tmp_path / "boards")]) == 2
    assert f"{name} is not the suite as it is declared" in capsys.readouterr().err
    assert not (tmp_path / "boards").exists()


def test_a_part_of_a_suite_is_no_change_and_more_is_measured_without_one(tiny: dict[str, Any]) -> None:
    part = resolve(tiny, models=["gat"], defenses=["at"], assignments=["sanity=true", "time_limit=9"])
    assert [suite.title for suite in part] == ["tiny"]
    assert resolve(tiny, assignments=["attack.steps=5", "at.weight=1"])[0].title == (
        "tiny, changed: threat.steps=5, at.weight=1"
    )


def test_earlier_records_without_fingerprints_go_on_being_read(reference: Path) -> None:
    with StoreReader(reference) as store:
        members, headers = store.members(), store.headers()
    assert all("code" in header["config"] for header in headers.values())
    earlier = {
        step: {**header, "config": {key: value for key, value in header["config"].items() if key != "code"}}
        for step, header in headers.items()
    }
    assert made_by_other_code(members, earlier) == set()
