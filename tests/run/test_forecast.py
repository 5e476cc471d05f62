"""Forecasts: memory beside what was measured on a GPU, and an `oom` before the training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fgai_bench.data import DATASETS, load_dataset
from fgai_bench.defenses import out_of_memory
from fgai_bench.run.forecast import MEMORY_TOLERANCE, MIB, Shape, Size, memory_of
from fgai_bench.run.resume import planned, run

ARXIV = {"hidden": 128, "heads": [4, 2]}
# Peaks in MiB of 200 epochs on an H200, from the records of the suites `cost`, `node` and `scale`.
MEASURED = {
    ("gat", "amazon-photo"): {"vanilla": 160, "ln": 159, "at": 205, "fgai": 235, "fgai-attention": 165},
    ("gat", "coauthor-physics"): {"vanilla": 246, "ln": 246, "at": 339, "fgai": 361},
    ("gat", "arxiv-topology"): {"vanilla": 2792, "ln": 3776, "at": 5351, "fgai": 5779},
    ("gat", "csbm-products"): {"vanilla": 25010, "fgai": 45068},
    ("gt", "amazon-photo"): {"vanilla": 249, "ln": 250, "at": 399, "fgai": 403, "fgai-attention": 349},
    ("gt", "amazon-cs"): {"vanilla": 403, "ln": 403, "at": 679, "fgai": 692, "fgai-attention": 591},
    ("gt", "coauthor-cs"): {"vanilla": 403, "ln": 403, "at": 666, "fgai": 681, "fgai-attention": 629},
    ("gt", "coauthor-physics"): {"vanilla": 667, "ln": 670, "at": 1170, "fgai": 1189, "fgai-attention": 1090},
}


@pytest.mark.parametrize(("model", "dataset"), MEASURED)
def test_memory_is_within_a_quarter_of_what_was_measured(model: str, dataset: str) -> None:
    size = Size.declared(DATASETS[dataset])
    assert size is not None
    shape = Shape.of(model, ARXIV if dataset == "arxiv-topology" else {}, size.outputs)
    assert shape is not None
    for defense, peak in MEASURED[model, dataset].items():
        ratio = (shape.training_bytes(size, defense) or 0) / MIB / peak
        assert 1 / MEMORY_TOLERANCE < ratio < MEMORY_TOLERANCE, defense


def test_the_declared_size_is_that_of_the_graph() -> None:
    graph, size = load_dataset("cora", sparse=True), Size.declared(DATASETS["cora"])
    assert size is not None
    assert (size.nodes, size.links, size.features) == (graph.num_nodes, graph.num_edges + graph.num_nodes, 1433)
    assert size.sparse
    assert size.stored == pytest.approx(graph.x.values().numel(), rel=0.05)


def test_nothing_is_said_about_what_is_not_known() -> None:
    steps = planned("quick", "cpu", defenses=["gnn-svd"]).steps.values()
    (config,) = [s.config for s in steps if s.kind == "train" and s.config["task"]["name"] == "node"]
    assert memory_of(config) is None


def test_a_training_that_cannot_fit_is_an_oom_before_it_begins(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(out_of_memory, "available_bytes", lambda device: 50 * MIB)
    done = run({**tiny, "defenses": ["vanilla"], "seeds": 1}, tmp_path / "run", device="cpu", executor="inline")
    trained = done.records().query("kind == 'train'")
    assert set(trained.status) == {"oom"}
    assert "it would take 2 such devices" in trained.reason.iloc[0]
