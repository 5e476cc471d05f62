"""Verifying: rows measured again from an export are what was recorded, and a flipped bit names its row.

Breaking: an attacked graph from anyone lowers a row if it is valid and stronger.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import torch as tensors

from fgai_bench.bounded import MIB
from fgai_bench.cli import main
from fgai_bench.data import load_dataset
from fgai_bench.leaderboard.rows import BOARDS, entries, lowered
from fgai_bench.records.canonical import canonical
from fgai_bench.records.errors import RequestError
from fgai_bench.records.export import export
from fgai_bench.records.packing import META, changed_graph, clean_of, graph_digest
from fgai_bench.records.store import Store, StoreReader
from fgai_bench.records.verify import RecordedRow, verify
from fgai_bench.run.plan import Step
from fgai_bench.run.resume import run
from fgai_bench.statistics.results import Results


@pytest.fixture(scope="session")
def published(reference: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export of the tiny run with its graphs and models."""
    folder = tmp_path_factory.mktemp("published") / "records"
    said: list[str] = []
    export([reference], folder, extras=("graphs", "models"), say=said.append)
    assert [sentence.partition(",")[0] for sentence in said] == ["8 graphs", "6 models"]
    assert all("MB before compression, go to" in sentence for sentence in said)
    return folder


@pytest.fixture
def records(published: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(published, tmp_path / "records"))


@pytest.fixture
def folder(reference: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(reference, tmp_path / "run"))


def flip(path: Path, position: float = 0.5) -> None:
    content = bytearray(path.read_bytes())
    content[int(len(content) * position)] ^= 1
    path.write_bytes(bytes(content))


def test_every_row_of_an_export_is_measured_again_to_the_bit(
    published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(published)]) == 0
    said = capsys.readouterr().out
    assert "24 rows looked at, 24 of them where results are the same to the bit; 0 rows or files" in said


def test_some_rows_of_a_run_folder_can_be_chosen(reference: Path) -> None:
    done = verify(reference, rows=5)
    assert (done.checked, done.findings) == (5, [])


def test_an_export_without_models_has_nothing_to_measure(reference: Path, tmp_path: Path) -> None:
    export([reference], tmp_path / "bare")
    with pytest.raises(RequestError, match="export it with `--with graphs,models`"):
        verify(tmp_path / "bare")
    with pytest.raises(RequestError, match="--with 'weights' is not possible; possible are graphs, models"):
        export([reference], tmp_path / "no", extras=("weights",))
    with pytest.raises(
        RequestError, match="the runs hold none of the models; export them from the run folder that does"
    ):
        export([tmp_path / "bare"], tmp_path / "no", extras=("models",))


def test_models_of_some_seeds_travel_with_the_records_of_all(reference: Path, tmp_path: Path) -> None:
    """As for a study too large to publish every model of: all records, and what `verify` needs of the first seed."""
    part, whole, said = tmp_path / "part", tmp_path / "whole", []
    assert (
        main(["records", "export", str(reference), "--out", str(part), "--seeds", "1", "--with", "graphs,models"]) == 0
    )
    export([reference], tmp_path / "bare")
    manifest = export([tmp_path / "bare", part], whole, extras=("graphs", "models"), say=said.append)
    assert manifest["suites"] == {"tiny": {"ok": 24}}
    assert [sentence.partition("; ")[2] for sentence in said] == [f"{n} more are not held by the runs" for n in (4, 3)]
    done = verify(whole)
    assert (done.checked, done.left_out, done.findings) == (12, 12, [])
    assert verify(whole, rows=10).checked == 10  # of those that can be measured, not of the first ten


@pytest.mark.parametrize(("file", "kinds"), [("models.zip", {"train", "clean", "attack"}), ("graphs.zip", {"attack"})])
def test_a_flipped_bit_of_a_model_or_graph_names_the_rows(
    file: str, kinds: set[str], records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flip(records / file)
    assert main(["verify", str(records)]) == 1
    said = capsys.readouterr().out
    assert f"{file} has changed since it was exported" in said
    rows = re.findall(r"^ ?([0-9a-f]{12}) +tiny (train|clean|attack) ", said, re.MULTILINE)
    assert rows
    assert {kind for _, kind in rows} <= kinds


@pytest.mark.parametrize("file", ["metrics.csv.xz", "members.csv.xz", "artifacts.zip", "DATASHEET.md", "manifest.json"])
def test_a_flipped_bit_of_any_other_file_names_the_file(
    file: str, records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flip(records / file)
    assert main(["verify", str(records)]) == 1
    said = capsys.readouterr().out
    assert f"{file} {'is not as it was' if file == 'manifest.json' else 'has changed since it was'} exported" in said
    assert "0 rows looked at; 1 rows or files are not as recorded" in said


def rewritten(folder: Path, kind: str, change: Callable[[Any], Any]) -> str:
    """Record a step of a run again with a change, checksums and all; return its hash."""
    store = Store(folder)
    step = next(step for step in store.steps() if step["kind"] == kind)
    artifacts = {row["role"]: store.artifacts.read(row["sha256"]) for row in step["artifacts"]}
    result = replace(store.result(step["hash"]), artifacts=artifacts)
    result = replace(result, **change(result))
    store.record(Step(step["hash"], kind, step["config"], {}, step["trial"]), result)
    store.close()
    return str(step["hash"])


@pytest.mark.parametrize(
    ("kind", "change", "said"),
    [
        ("clean", lambda r: {"metrics": {**r.metrics, "f1": r.metrics["f1"] + 1e-9}}, "f1 is recorded as"),
        ("attack", lambda r: {"metrics": {**r.metrics, "g_jsd": r.metrics["g_jsd"] * 0.99}}, "g_jsd is recorded as"),
        (
            "attack",
            lambda r: {"ledger": {**r.ledger, "edges": 20.0}},
            "its ledger has edges 20, and its attacked graph",
        ),
        ("train", lambda r: {"facts": {**r.facts, "checksum": "other"}}, "the graph here is not the recorded one"),
    ],
)
def test_a_forged_record_with_valid_checksums_differs(
    kind: str, change: Callable[[Any], Any], said: str, folder: Path
) -> None:
    forged = rewritten(folder, kind, change)
    done = verify(folder)
    assert [(finding.row, finding.sentence.startswith(said)) for finding in done.findings] == [(forged[:12], True)]


def test_a_run_started_from_an_export_trains_nothing(
    published: Path, tiny: dict[str, Any], reference: Path, tmp_path: Path, content: Any
) -> None:
    line = ["records", "import", str(published), "--out", str(tmp_path / "run")]
    assert main(line) == 0
    assert content(tmp_path / "run") == content(reference)
    assert run(tiny, tmp_path / "run", executor="inline", device="cpu").executed == 0
    assert main(line) == 2  # the folder is no longer new


def test_with_models_alone_a_run_goes_on_without_a_training(
    reference: Path, tiny: dict[str, Any], tmp_path: Path, content: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    export([reference], tmp_path / "records", extras=("models",))
    assert main(["records", "import", str(tmp_path / "records"), "--out", str(tmp_path / "run")]) == 0
    assert "exported without their model or graph" in capsys.readouterr().out
    assert content(tmp_path / "run") == content(reference)
    assert run(tiny, tmp_path / "run", executor="inline", device="cpu").executed == 0
    before = {path.name for path in (tmp_path / "run" / "artifacts").iterdir()}
    run({**tiny, "certificates": ["reach"]}, tmp_path / "run", executor="inline", device="cpu")
    assert {path.name for path in (tmp_path / "run" / "artifacts").iterdir()} == before  # models were there already


def attack_row(folder: Path, label: str = "vanilla", attack: str = "random-injection") -> str:
    with StoreReader(folder) as store:
        members = [m for m in store.members() if (m["label"], m["attack_label"], m["seed"]) == (label, attack, 0)]
    return str(members[0]["step"])


def stronger(folder: Path, row: str) -> dict[str, torch.Tensor]:
    """A graph inside the row's budget that leaves less: the best of many random ones."""
    with StoreReader(folder) as store:
        victim = RecordedRow(store, store.step(row))
        parts = tensors.load(store.artifact(row, "attacked"))
        problem, model = victim.problem, victim.model
    best = dict(parts)
    lowest = 1.0
    for seed in range(40):
        noise = torch.rand(parts["features"].shape, generator=torch.Generator().manual_seed(seed))
        tried = {**parts, "features": torch.sign(noise - 0.5)}
        out = problem.output(model, changed_graph(problem.data, tried))
        right = float((out.logits[problem.split.test].argmax(1) == problem.data.y[problem.split.test]).float().mean())
        if right < lowest:
            lowest, best = right, tried
    return best


def written(folder: Path, row: str, parts: dict[str, torch.Tensor], path: Path, clean: str | None = None) -> Path:
    with StoreReader(folder) as store:
        named = clean_of(store.artifact(row, "attacked"))
    whole = {name: part.contiguous() for name, part in parts.items()}
    path.write_bytes(tensors.save(whole, {META: canonical({"clean": named if clean is None else clean})}))
    return path


def test_a_stronger_valid_graph_lowers_the_row(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = attack_row(folder)
    graph = written(folder, row, stronger(folder, row), tmp_path / "mine.safetensors")
    line = ["break", str(folder), row[:12], "--attacked", str(graph), "--by", "Ada L."]
    assert main(line) == 0
    said = capsys.readouterr().out
    assert "became" in said
    assert "found by Ada L." in said
    records = StoreReader(folder).records()
    scores = records.query("metric == 'f1' and kind == 'attack' and label == 'vanilla' and seed == 0")
    by_label = scores.set_index("attack_label")["value"]
    assert by_label["submitted by Ada L."] < by_label["injection"]
    assert by_label["submitted by Ada L."] < by_label["random-injection"]
    assert verify(folder).findings == []  # the submitted row can be measured again like any other
    assert main(line) == 1  # the same graph again is not stronger
    assert "not stronger" in capsys.readouterr().out


def test_a_worst_case_is_lowered_under_the_name_of_who_found_it(folder: Path, tmp_path: Path) -> None:
    row = attack_row(folder)
    store = Store(folder)  # the recorded control takes the part of the standard attack
    store.place([{**member, "attack_label": "worst"} for member in store.members() if member["step"] == row])
    store.close()
    graph = written(folder, row, stronger(folder, row), tmp_path / "mine.safetensors")
    assert main(["break", str(folder), row, "--attacked", str(graph), "--by", "Ada"]) == 0
    board = lowered(BOARDS[0], entries(BOARDS[0], Results.read(folder)))
    worst = next(entry for entry in board if entry.key[4:] == ("vanilla", "worst"))
    assert worst.found_by[-1] == "submitted by Ada"


def over_budget(parts: dict[str, torch.Tensor], nodes: int) -> dict[str, torch.Tensor]:
    more = torch.cat([parts["features"], parts["features"][:1]])
    target, new = int(parts["edges"][1, parts["edges"][0] >= nodes][0]), nodes + len(parts["features"])
    edges = torch.cat([parts["edges"], torch.tensor([[new, target], [target, new]])], dim=1)
    return {**parts, "features": more, "edges": edges}


BAD: dict[str, tuple[Callable[[dict[str, torch.Tensor], int], dict[str, torch.Tensor]], str]] = {
    "over budget": (over_budget, "the attack spent nodes = 6, but its threat model allows 5"),
    "outside the range": (lambda p, n: {**p, "features": p["features"] * 0 + 1.5}, "outside [-1, 1]"),
    "removed edges": (lambda p, n: {**p, "removed": torch.tensor([[0], [1]])}, "the original edges stay"),
    "NaN": (lambda p, n: {**p, "features": p["features"] * float("nan")}, "features has a value that is NaN"),
    "one direction": (lambda p, n: {**p, "edges": p["edges"][:, :1]}, "must stand once in both directions"),
    "no such node": (lambda p, n: {**p, "edges": p["edges"] + 10**6}, "names a node that is not there"),
    "changed features": (
        lambda p, n: {**p, "changed": torch.tensor([0]), "changed_features": torch.ones(1, p["features"].shape[1])},
        "the attack spent changed_nodes = 1",
    ),
    "an unknown tensor": (lambda p, n: {**p, "labels": torch.tensor([0])}, "the file has a tensor 'labels'"),
    "another shape": (lambda p, n: {**p, "features": p["features"][:, :3]}, "features 64 columns"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_graph_that_the_attacker_may_not_make_is_refused(
    name: str, reference: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, said = BAD[name]
    row = attack_row(reference)
    with StoreReader(reference) as store:
        parts, nodes = tensors.load(store.artifact(row, "attacked")), store.step(row)["facts"]["nodes"]
    graph = written(reference, row, change(parts, nodes), tmp_path / "bad.safetensors")
    assert main(["break", str(reference), row[:12], "--attacked", str(graph), "--by", "Eve"]) == 2
    assert said in capsys.readouterr().err


def test_a_graph_of_another_dataset_is_refused(
    reference: Path, published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = attack_row(reference)
    with StoreReader(reference) as store:
        parts = tensors.load(store.artifact(row, "attacked"))
    for other in (graph_digest(load_dataset("cora")), ""):
        graph = written(reference, row, parts, tmp_path / "other.safetensors", clean=other)
        assert main(["break", str(reference), row, "--attacked", str(graph), "--by", "Eve"]) == 2
        assert "a difference from another clean graph than the row's" in capsys.readouterr().err
    (tmp_path / "text").write_text("no graph")
    wrong = {
        (str(reference), row, str(tmp_path / "text"), "Eve"): "is no safetensors file",
        (str(reference), row, str(tmp_path / "nothing"), "Eve"): "cannot be read",
        (str(reference), "ffff", str(graph), "Eve"): "no recorded attack begins with it",
        (str(reference), row, str(graph), " "): "--by needs the name",
        (str(published), row, str(graph), "Eve"): "is an export; `fgai-bench records import",
    }
    for (folder, name, file, by), said in wrong.items():
        assert main(["break", folder, name, "--attacked", file, "--by", by]) == 2
        assert said in capsys.readouterr().err


def test_the_page_says_how_to_make_such_a_file(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "verifying.md").read_text()
    script = page.split("```python\n")[1].split("```")[0]
    row = attack_row(folder)
    monkeypatch.chdir(tmp_path)
    exec(script.replace("runs/quick", str(folder)).replace("4bea5b60623d", row[:12]), {})
    line = ["break", str(folder), row[:12], "--attacked", "mine.safetensors", "--by", "Ada"]
    assert main(line) in (0, 1)  # valid, whether stronger or not


@pytest.mark.parametrize(
    ("size", "said"), [(None, "it is no regular file"), (4 * MIB, "more than the 1.0 MiB that it can need")]
)
def test_a_graph_is_read_in_bounded_memory(
    size: int | None, said: str, reference: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Five nodes of 64 features need a few kB; a device would never end."""
    graph = Path("/dev/zero") if size is None else tmp_path / "large.safetensors"
    if size is not None:
        graph.write_bytes(bytes(size))
    assert main(["break", str(reference), attack_row(reference), "--attacked", str(graph), "--by", "Eve"]) == 2
    assert said in capsys.readouterr().err
