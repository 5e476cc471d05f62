"""What decides a result decides its identity: changed data and changed code are computed anew and never mixed.

Code that only stands elsewhere, or reads better, is the same code.
"""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from fgai_bench.cli import main
from fgai_bench.data import DATASETS, content_sha256
from fgai_bench.defenses import DEFENSES
from fgai_bench.records.merge import made_by_other_code
from fgai_bench.records.store import Store, StoreReader
from fgai_bench.run import identity
from fgai_bench.run.identity import _file, fingerprint
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


def test_changed_data_and_changed_code_are_computed_anew(
    registered: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    monkeypatch.setattr(identity, "_code_of", lambda part, name: f"edited {part}" if name == "vanilla" else "")
    assert run(SMALL, tmp_path / "run", executor="inline", device="cpu", observer=notes).executed == 3
    assert f"3 recorded steps were made by other code; {kept}" in notes.sentences
    assert len(again.provenance()) == 9  # nothing is lost


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
    "own_helpers.py": "from own_constants import second\n\ndef first(x):\n    return second(x)\n",
    "own_constants.py": "RATE = 3\n\ndef second(x):\n    # a comment\n    return RATE * x\n",
    "own_base.py": "class Base:\n    def split(self):\n        return 1\n",
    "own_task.py": "import own_base\n\nclass Task(own_base.Base):\n    pass\n",
}
GAT, METRICS, OTHER_RETURN = "models/gat.py", "metrics/stability.py", ("    return ", "    0 + 1\n    return ")
SAME = [  # edits after which the code computes what it did: file, what stands there, what it becomes
    (GAT, "from typing", "# a comment\nfrom typing"),
    (GAT, '"""Graph Attention Network;', '"""A network;'),
    (GAT, 'summary = "', 'summary = "The '),
    (GAT, "import Tensor\n", "import Tensor\nimport os\n"),
    (GAT, "edges: SortedEdges", "edges: object"),
    (GAT, "\n\nclass ", "\nUNUSED = 1\n\n\nclass "),
    (METRICS, "g_tvd with no attack", "without an attack"),
    ("../own_constants.py", "# a comment", "# a word"),
    ("../own_defense.py", "Train calmly", "Train"),
    ("../own_defense.py", "x: int", "x: float"),
    ("../own_defense.py", "a defense", "some defense"),
]
AT_AND_METRIC = [("defenses/adversarial_training.py", "default=0.1", "default=0.2"), (METRICS, *OTHER_RETURN)]
LAYER_AND_PLUGIN = [
    (GAT, "+ self.bias", "- self.bias"),
    ("../own_constants.py", "RATE = 3", "RATE = 4"),  # three calls deep
    ("../own_base.py", "return 1", "return 2"),  # in the base of a task
]
CORE_AND_SPLITS = [
    ("models/kernels/segments.py", "def attend_add", "@no\ndef attend_add"),
    ("data/splits.py", *OTHER_RETURN),
]
CHANGES = [  # edits that are made together, and the parts that compute something else then
    (SAME, set()),
    (AT_AND_METRIC, {"at", "attack"}),
    (LAYER_AND_PLUGIN, {"gat", "own", "own task"}),
    (CORE_AND_SPLITS, {"gat", "node", "own", "vanilla", "at"}),
]
MOVES = {  # a layer's core moves to another room, a defense and a plugin's module get other names
    "fgai_bench/models/kernels/segments": "fgai_bench/fast/attention_core",
    "fgai_bench/defenses/adversarial_training": "fgai_bench/defenses/hardening",
    "own_constants": "own_numbers",
}
PARTS = {"gat": "model", "vanilla": "defense", "injection": "attack", "node": "task", "train": "step", "attack": "step"}


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Copies the code that is followed and a plugin, and lets fingerprints read the copy."""
    for path in [*identity.OURS, Path(identity.__file__).with_name("execute.py")]:
        target = tmp_path / path.relative_to(identity.PACKAGE.parent)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    for name, text in PLUGIN.items():
        (tmp_path / name).write_text(text)
    read = cache(lambda path, time: _file.__wrapped__(path))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(identity, "_file", lambda path: read(path, path.stat().st_mtime_ns))
    monkeypatch.setattr(identity, "PACKAGE", tmp_path / identity.PACKAGE.name)
    yield identity.PACKAGE
    forget()


def forget() -> None:
    """Forget the fingerprints, and the plugin."""
    for cached in (identity._code_of, identity._read):
        cached.cache_clear()
    for name in [name for name in sys.modules if name.startswith("own_")]:
        del sys.modules[name]


def prints(package: Path, monkeypatch: pytest.MonkeyPatch, at: str = "adversarial_training") -> dict[str, str]:
    """Return the fingerprints of entries and steps, ours and the plugin's, as the files are now."""
    forget()
    monkeypatch.setattr(identity, "OURS", [path for path in package.rglob("*.py") if path.name != "execute.py"])
    defense, task = importlib.import_module("own_defense").Own, importlib.import_module("own_task").Task
    DEFENSES._entries.pop("own")
    roots = {"own": defense, "own task": task, "at": f"fgai_bench.defenses.{at}:AdversarialTraining"}
    found = {name: identity._code_of(part, name) for name, part in PARTS.items()}
    return found | {name: fingerprint(root) for name, root in roots.items()}


def test_other_code_is_what_computes_something_else_and_not_what_stands_elsewhere(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = prints(copied, monkeypatch)
    for edits, others in CHANGES:
        texts = {file: (copied / file).read_text() for file, _, _ in edits}
        for file, old, new in edits:
            text = (copied / file).read_text()
            assert old in text, (file, old)
            (copied / file).write_text(text.replace(old, new, 1))
        after = prints(copied, monkeypatch)
        assert {name for name in before if after[name] != before[name]} == others, edits
        for file, text in texts.items():
            (copied / file).write_text(text)
    for old, new in MOVES.items():
        (copied.parent / f"{old}.py").rename(copied.parent / f"{new}.py")
    for path in copied.parent.rglob("*.py"):
        text = before_text = path.read_text()
        for old, new in MOVES.items():
            text = text.replace(old.replace("/", "."), new.replace("/", "."))
        if text != before_text:
            path.write_text(text)
    assert prints(copied, monkeypatch, at="hardening") == before


def test_an_edited_entry_makes_its_own_steps_new_and_no_others(
    tiny: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    suites, known = resolve(tiny, defenses=["vanilla", "at"]), identity._code_of
    before = plan(suites).steps
    monkeypatch.setattr(identity, "_code_of", lambda part, name: "edited" if name == "at" else known(part, name))
    redone = [step for hash, step in plan(suites).steps.items() if hash not in before]
    assert {step.config["defense"]["name"] for step in redone} == {"at"}
    assert {step.kind for step in redone} == {"train", "clean", "attack"}
    assert len(redone) == len(before) / 2


def test_code_of_a_notebook_or_of_a_function_is_known_by_name_or_by_that_function() -> None:
    space: dict[str, Any] = {"__name__": "no_such_module"}
    exec("class Reader:\n    pass", space)
    assert fingerprint(space["Reader"]) == fingerprint(space["Reader"])
    inner, other = (lambda root: root), (lambda root: (root, root))
    assert fingerprint(inner) == fingerprint(other) != fingerprint(forget)


def test_records_of_other_code_are_shown_as_such_and_not_mixed(
    reference: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two seeds the second is made by code that differs in the attack: a table must not average the two."""
    folder = Path(shutil.copytree(reference, tmp_path / "run"))
    store = Store(folder)
    changed = []
    for step in list(store.steps()):
        if step["kind"] == "attack" and step["config"]["seed"] == 0:
            config = {**step["config"], "code": {**step["config"]["code"], "attack": "earlier"}}
            artifacts = {row["role"]: store.artifacts.read(row["sha256"]) for row in step["artifacts"]}
            result = replace(store.result(step["hash"]), artifacts=artifacts, started=1.0)
            store.record(Step(step["hash"], "attack", config, {}, step["trial"]), result)
            changed.append(step["hash"])
    store.close()
    results = Results.read(folder)
    assert results.other_code == set(changed)
    for _, seeds in results.select(kind="attack"):
        assert [step.status for _, step in sorted(seeds.items())] == ["missing", "ok"]
    sentence = (
        f"{len(changed)} recorded steps were made by other code or settings than the rest and are not mixed with it"
    )
    for command in (["status", str(folder)], ["report", str(folder), "--only", "table2", "--format", "markdown"]):
        main(command)
        assert sentence in capsys.readouterr().out


def test_seeds_of_different_settings_are_not_mixed(
    tiny: dict[str, Any], reference: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two seeds the first is run again after the suite's file was changed: a table must not average the two."""
    folder, notes = Path(shutil.copytree(reference, tmp_path / "run")), Notes()
    changed = {**tiny, "training": {"epochs": 2}, "defenses": ["vanilla"]}
    run(changed, folder, executor="inline", device="cpu", seeds=1, observer=notes)
    kept = "they stay in the store and are not mixed with the new ones"
    assert notes.sentences == [f"4 recorded steps were made with other settings; {kept}"]
    results = Results.read(folder)
    for place, seeds in results.select(label="vanilla"):
        assert [seeds[seed].status for seed in (0, 1)] == ["ok", "missing"], place
    assert len(results.other_code) == 4
    main(["status", str(folder)])
    said = "4 recorded steps were made by other code or settings than the rest and are not mixed with it"
    assert said in capsys.readouterr().out


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
