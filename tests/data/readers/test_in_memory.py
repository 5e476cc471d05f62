"""A graph of one's own in suites: split as given, statistics counted, and everything unusable said at once."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import torch
from torch_geometric.datasets import KarateClub

import fgai_bench as fb
from fgai_bench.data import DATASETS, DataError, Statistics, load_dataset, verify_dataset
from fgai_bench.registry import RegistryError
from tests.card.networks import masked_graph


@pytest.fixture
def registered(monkeypatch):
    """Give a function that registers a dataset for this test only."""
    monkeypatch.setattr(DATASETS, "_entries", dict(DATASETS._entries))
    return DATASETS.add


def test_a_graph_is_a_dataset_with_its_own_split_and_counted_statistics(registered):
    data = masked_graph()
    data.y = data.y.view(-1, 1)
    registered("mine", data)
    loaded = load_dataset("mine", seed=3)
    for part in ("train", "val", "test"):
        assert torch.equal(loaded[f"{part}_index"], data[f"{part}_mask"].nonzero().view(-1))
    assert DATASETS["mine"].statistics == Statistics(36, 70, 8, 3)
    assert verify_dataset("mine").status == "ok"
    sent = pickle.loads(pickle.dumps(DATASETS["mine"]))  # as a worker process gets it
    assert torch.equal(sent(Path()).x, data.x)


def test_a_function_may_read_any_usual_form(registered):
    def mine(root, double: bool = True):
        data = masked_graph()
        data.x = (data.x.double() if double else data.x).to_sparse()
        return data

    registered("mine", mine)
    assert load_dataset("mine").x.dtype == load_dataset("mine", double=False).x.dtype == torch.float32


def test_what_a_suite_cannot_use_is_said(registered):
    karate = KarateClub()
    registered("karate", karate)
    with pytest.raises(DataError, match="carries train_mask but neither val_mask nor val_index"):
        load_dataset("karate")
    data = masked_graph()
    data.edge_attr = torch.ones(data.num_edges, 1)
    registered("weighted", data)
    with pytest.raises(DataError, match="'weighted' has edge_attr, which the models of suites do not use"):
        load_dataset("weighted")
    data = masked_graph()
    data.x = None
    with pytest.raises(RegistryError, match="'empty' of unknown cannot be a dataset: the graph has no features"):
        registered("empty", data)


@pytest.mark.parametrize("executor", ["inline", pytest.param("local", marks=pytest.mark.slow)])
def test_a_suite_runs_on_a_graph_in_memory(executor, registered, tmp_path):
    """Worker processes know nothing of what this process holds: the graph is sent to them."""
    registered("mine", masked_graph())
    suite = {
        "name": "own",
        "tasks": ["node"],
        "datasets": ["mine"],
        "models": ["gat"],
        "defenses": ["vanilla"],
        "attacks": ["random-injection"],
        "seeds": [0],
        "training": {"epochs": 2},
        "threat": {"nodes": 1, "edges_per_node": 2},
    }
    run = fb.run(suite, tmp_path / "run", executor=executor, jobs=1, device="cpu")
    records = run.records()
    assert set(records.status) == {"ok"}
    assert set(records.dataset) == {"mine"}
