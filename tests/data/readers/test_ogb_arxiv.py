from __future__ import annotations

import builtins
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fgai_bench.data import DATASETS, DataError, load_dataset, verify_dataset

NODES = 6
TABLES = {
    "raw/edge": np.array([[0, 1], [1, 2], [2, 1], [4, 5]]),
    "raw/node-feat": np.arange(2.0 * NODES).reshape(NODES, 2) / 3,
    "raw/node-label": np.array([0, 1, 2, 0, 1, 2]),
    "raw/num-node-list": np.array([NODES]),
    "raw/num-edge-list": np.array([4]),
    "split/time/train": np.array([0, 1, 2]),
    "split/time/valid": np.array([3]),
    "split/time/test": np.array([4, 5]),
}


@pytest.fixture
def ogb_root(tmp_path: Path) -> Path:
    """A six-node graph in the layout of OGB's archive."""
    for name, table in TABLES.items():
        path = tmp_path / "root" / "ogbn_arxiv" / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(table).to_csv(path, header=False, index=False)
    return tmp_path / "root"


def test_tables_are_read_by_ogb_with_the_published_split(ogb_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = load_dataset("ogbn-arxiv", root=ogb_root, seed=5)
    assert data.edge_index.tolist() == [[0, 1, 1, 2, 4, 5], [1, 0, 2, 1, 5, 4]]
    assert data.x.flatten().tolist() == pytest.approx([value / 3 for value in range(2 * NODES)])
    assert data.y.tolist() == [0, 1, 2, 0, 1, 2]
    assert (data.train_index.tolist(), data.val_index.tolist(), data.test_index.tolist()) == ([0, 1, 2], [3], [4, 5])
    assert capsys.readouterr().out == ""


def test_nothing_is_asked_written_beside_the_raw_files_or_left_running(
    ogb_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builtins, "input", lambda *_: pytest.fail("asked on standard input"))
    before, threads = sorted(ogb_root.rglob("*")), threading.active_count()
    load_dataset("ogbn-arxiv", root=ogb_root)
    assert sorted(ogb_root.rglob("*")) == before
    assert threading.active_count() == threads
    assert sys.modules.get("outdated", "absent") is not None


def test_the_parsed_tables_are_cached_until_a_table_changes(ogb_root: Path, isolated: Path) -> None:
    first = load_dataset("ogbn-arxiv", root=ogb_root).checksum
    (cached,) = (isolated / "cache").iterdir()
    cached.write_bytes(cached.read_bytes()[:100])
    assert load_dataset("ogbn-arxiv", root=ogb_root).checksum == first
    pd.DataFrame(np.zeros(NODES, int)).to_csv(ogb_root / "ogbn_arxiv/raw/node-label.csv.gz", header=False, index=False)
    assert load_dataset("ogbn-arxiv", root=ogb_root).y.tolist() == [0] * NODES
    assert len(list((isolated / "cache").iterdir())) == 2


def test_a_damaged_table_is_one_sentence_and_caches_nothing(ogb_root: Path, isolated: Path) -> None:
    (ogb_root / "ogbn_arxiv/raw/node-label.csv.gz").write_bytes(b"not gzip")
    with pytest.raises(DataError, match=r"^ogbn-arxiv: the tables under \S*ogbn_arxiv/raw cannot be read \(.*\)$"):
        load_dataset("ogbn-arxiv", root=ogb_root)
    assert not (isolated / "cache").exists()


def test_another_graph_in_its_place_is_wrong(ogb_root: Path) -> None:
    found = verify_dataset("ogbn-arxiv", ogb_root)
    assert (found.status, found.counts.nodes) == ("wrong", NODES)


def test_it_is_optional_because_another_stands_in() -> None:
    assert DATASETS["ogbn-arxiv"].stand_in in DATASETS
