from __future__ import annotations

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


def test_tables_are_read_with_the_published_split(ogb_root: Path) -> None:
    data = load_dataset("ogbn-arxiv", root=ogb_root, seed=5)
    assert data.edge_index.tolist() == [[0, 1, 1, 2, 4, 5], [1, 0, 2, 1, 5, 4]]
    assert data.x.flatten().tolist() == pytest.approx([value / 3 for value in range(2 * NODES)])
    assert data.y.tolist() == [0, 1, 2, 0, 1, 2]
    assert (data.train_index.tolist(), data.val_index.tolist(), data.test_index.tolist()) == ([0, 1, 2], [3], [4, 5])


def test_nothing_is_written_beside_the_raw_files(ogb_root: Path) -> None:
    before = sorted(ogb_root.rglob("*"))
    load_dataset("ogbn-arxiv", root=ogb_root)
    assert sorted(ogb_root.rglob("*")) == before


def test_a_damaged_table_is_one_sentence(ogb_root: Path) -> None:
    (ogb_root / "ogbn_arxiv/raw/node-label.csv.gz").write_bytes(b"not gzip")
    with pytest.raises(DataError, match=r"^ogbn-arxiv: the tables of \S*ogbn_arxiv cannot be read \(.*\)$"):
        load_dataset("ogbn-arxiv", root=ogb_root)


def test_another_graph_in_its_place_is_wrong(ogb_root: Path) -> None:
    found = verify_dataset("ogbn-arxiv", ogb_root)
    assert (found.status, found.counts.nodes) == ("wrong", NODES)


def test_it_is_optional_because_another_stands_in() -> None:
    assert DATASETS["ogbn-arxiv"].stand_in in DATASETS
