"""The zoo: models and attacked graphs of a run, loaded by name, are those that were recorded; files are verified."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import torch as tensors
from torch import nn
from torch_geometric.nn import GCNConv

import fgai_bench as fb
from fgai_bench.cli import main
from fgai_bench.models.base import ModelError
from fgai_bench.records.canonical import canonical
from fgai_bench.records.errors import RequestError, StoreError
from fgai_bench.records.export import export
from fgai_bench.records.packing import META
from fgai_bench.records.store import StoreReader
from fgai_bench.zoo import PLACE, downloaded
from tests.records.test_forged import packed, reseal, rows_of
from tests.run.conftest import reference, tiny

__all__ = ["reference", "tiny"]

PAGE = Path(__file__).parents[1] / "docs" / "running.md"


@pytest.fixture(scope="module")
def zoo(reference: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export of the tiny run with its graphs and models, as it would be released."""
    folder = tmp_path_factory.mktemp("zoo") / "records"
    export([reference], folder, extras=("graphs", "models"))
    return folder


def released(zoo: Path) -> tuple[str, str]:
    """Return the address and the checksum that a release would declare."""
    return zoo.as_uri(), hashlib.sha256((zoo / "manifest.json").read_bytes()).hexdigest()


MEASURE = """
import json, sys
import fgai_bench as fb
from fgai_bench.metrics import micro_f1
from fgai_bench.zoo import downloaded
from pathlib import Path

folder = downloaded(sys.argv[1], sys.argv[2], Path("cache"))
scores = {}
for name in json.loads(sys.argv[3]):
    model = fb.load_model(name, seed=0, source=folder)
    clean, attacked = fb.load_dataset("csbm-1e3", seed=0), fb.load_attacked(name, 0, "injection", source=folder)
    test = attacked.test_mask
    known = test[: clean.num_nodes]
    on_clean = micro_f1(model(clean).logits.argmax(1)[known], clean.y[known])
    on_attacked = micro_f1(model(attacked).logits.argmax(1)[test], attacked.y[test])
    scores[name] = [on_clean, model.recorded["f1"], on_attacked, attacked.recorded["f1"]]
print(json.dumps(scores))
"""


def test_a_clean_environment_reproduces_the_recorded_scores_from_a_released_zoo(zoo: Path, tmp_path: Path) -> None:
    names = ["csbm-1e3/gat/vanilla", "csbm-1e3/gat/fgai"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *released(zoo), json.dumps(names)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for clean, recorded_clean, attacked, recorded_attacked in json.loads(done.stdout).values():
        assert clean == recorded_clean
        assert attacked == recorded_attacked


def test_names_seeds_and_attacks_that_are_not_there_are_answered_with_what_is(zoo: Path) -> None:
    with pytest.raises(RequestError, match="the nearest names are: csbm-1e3/gat/fgai"):
        fb.load_model("csbm-1e3/gat/fgia", source=zoo)
    with pytest.raises(RequestError, match="is there with seed 0, 1, not 7"):
        fb.load_model("csbm-1e3/gat/fgai", seed=7, source=zoo)
    with pytest.raises(RequestError, match=r"has no attack 'worst'; recorded are .*injection"):
        fb.load_attacked("csbm-1e3/gat/fgai", source=zoo)
    suite_said = fb.load_model("tiny/csbm-1e3/gat/fgai", source=zoo)
    assert suite_said.recorded == fb.load_model("csbm-1e3/gat/fgai", source=zoo).recorded


def test_the_zoo_is_found_in_a_named_folder_and_listed(
    zoo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(PLACE, str(zoo))
    recorded = fb.load_model("csbm-1e3/gat/vanilla").recorded["f1"]
    assert main(["ls", "zoo"]) == 0
    said = capsys.readouterr().out
    assert "csbm-1e3/gat/vanilla" in said
    assert f"{recorded:.3f}" in said


def test_a_mirror_serves_a_zoo_that_was_not_released(
    zoo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PLACE, zoo.as_uri())
    recorded = fb.load_model("csbm-1e3/gat/vanilla", data_root=str(tmp_path)).recorded
    assert recorded == fb.load_model("csbm-1e3/gat/vanilla", source=zoo).recorded


def test_a_model_is_loaded_without_decoding_the_records_of_others(zoo: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(zoo, tmp_path / "records"))
    header, *rows = rows_of(folder, "metrics")
    names = {row[0] for row in rows}
    with StoreReader(zoo) as store:
        trained = {m["step"][:12] for m in store.members() if m["label"] == "vanilla"}
    value = header.index("value")
    for row in rows:
        row[value] = row[value] if row[0] in trained else "no number"
    assert trained & names
    assert names - trained
    reseal(folder, {"metrics.csv.xz": packed([header, *rows])})
    recorded = fb.load_model("csbm-1e3/gat/vanilla", source=folder).recorded
    assert recorded == fb.load_model("csbm-1e3/gat/vanilla", source=zoo).recorded
    with pytest.raises(StoreError, match="no number"), StoreReader(folder) as store:
        list(store.steps())


@pytest.mark.slow
def test_a_checkout_has_the_models_of_its_committed_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PLACE, raising=False)
    model = fb.load_model("amazon-photo/gat/fgai-tuned", seed=0)
    assert model.recorded["f1"] == pytest.approx(0.92, abs=0.01)


def test_a_release_that_is_not_what_was_declared_is_refused(zoo: Path, tmp_path: Path) -> None:
    address, checksum = released(zoo)
    with pytest.raises(RequestError, match="is not the one that was released"):
        downloaded(address, "0" * 64, tmp_path / "a")
    with pytest.raises(RequestError, match="cannot be fetched"):
        downloaded((tmp_path / "nowhere").as_uri(), checksum, tmp_path / "b")
    with pytest.raises(RequestError, match="give `source`, or set FGAI_BENCH_ZOO, to results/records of a checkout"):
        downloaded("", "", tmp_path / "c")
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    for path in zoo.iterdir():
        content = path.read_bytes()
        (mirror / path.name).write_bytes(content[:-1] + b"?" if path.name == "models.zip" else content)
    with pytest.raises(RequestError, match=r"models\.zip has changed"):
        downloaded(mirror.as_uri(), checksum, tmp_path / "d")
    assert not [*tmp_path.glob("[abd]/*")]  # nothing half fetched is left


def test_a_zoo_that_another_process_has_fetched_meanwhile_is_taken(
    zoo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def second(part: Path, folder: Path) -> None:
        shutil.copytree(zoo, folder)
        part.rename(folder)

    monkeypatch.setattr(os, "replace", second)
    folder = downloaded(*released(zoo), tmp_path)
    assert list(tmp_path.iterdir()) == [folder]
    assert (folder / "manifest.json").read_bytes() == (zoo / "manifest.json").read_bytes()


def test_a_saved_model_is_loaded_with_the_same_outputs(tmp_path: Path) -> None:
    data = fb.load_dataset("cora")
    model = fb.build_model("gatv2", data, hidden=4).eval()
    again = fb.load(fb.save(model, tmp_path / "model.safetensors"))
    assert torch.equal(again(data).logits, model(data).logits)


def test_a_network_of_ones_own_is_saved_and_loaded_into_another(tmp_path: Path) -> None:
    networks = [nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)) for _ in range(2)]
    path = fb.save(networks[0], tmp_path / "mine.safetensors")
    loaded = fb.load(path, networks[1])
    assert loaded is networks[1]
    assert torch.equal(loaded[1].weight, networks[0][1].weight)
    with pytest.raises(ModelError, match="give your network"):
        fb.load(path)
    with pytest.raises(ModelError, match="do not fit the network"):
        fb.load(path, nn.Linear(3, 4))
    wrapped = fb.wrap(GATNetwork())
    assert set(tensors.load(fb.save(wrapped, path).read_bytes())) == set(wrapped.module.state_dict())


class GATNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        from torch_geometric.nn import GATConv

        self.conv, self.out = GATConv(3, 4), GCNConv(4, 2)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return self.out(self.conv(x, edge_index), edge_index)


@pytest.mark.parametrize("path", ["fgai_bench.cli.__main__:main", "os:system", "fgai_bench.models.gat:np"])
def test_a_file_imports_nothing_but_models(path: str, tmp_path: Path) -> None:
    file = tmp_path / "evil.safetensors"
    file.write_bytes(tensors.save({"x": torch.zeros(1)}, {META: canonical({"class": path, "config": {}})}))
    with pytest.raises(ModelError):
        fb.load(file)
    file.write_bytes(b"\x80\x04K\x01.")  # a pickle
    with pytest.raises(ModelError, match="not a safetensors file"):
        fb.load(file)


def test_the_recipe_for_mlflow_logs_every_recorded_step(
    reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow", reason="the recipe is tried against a real MLflow where it is installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    names: dict[str, object] = {}
    exec(
        next(code for code in PAGE.read_text().split("```python\n") if code.startswith("# file")).split("```")[0], names
    )
    names["to_mlflow"](reference)  # type: ignore[operator]
    logged = mlflow.search_runs(experiment_names=["fgai-bench"])
    attacked = logged[(logged["params.kind"] == "attack") & (logged["params.label"] == "fgai")]
    recorded = fb.Run(reference).records().query("kind == 'attack' and label == 'fgai' and metric == 'f1'")
    assert sorted(attacked["metrics.f1"]) == pytest.approx(sorted(recorded["value"]))
