from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.datasets import HeterophilousGraphDataset

from fgai_bench.data import DATASETS, Dataset, MissingDataError, RawFile, load_dataset, undirected_edge_count
from fgai_bench.data.catalogue import NPZ_HETEROPHILOUS

# Nodes, edges, classes, edge homophily, and the sizes of the first split.
TABLE = {
    "tolokers": (11_758, 519_000, 2, 0.595, (5_879, 2_939, 2_940)),
    "minesweeper": (10_000, 39_402, 2, 0.683, (5_000, 2_500, 2_500)),
    "actor": (7_600, 26_659, 5, 0.217, (3_648, 2_432, 1_520)),
    "squirrel-filtered": (2_223, 46_998, 5, 0.207, (1_053, 718, 452)),
    "chameleon-filtered": (890, 8_854, 5, 0.236, (409, 287, 194)),
}


@pytest.mark.parametrize("name", TABLE)
def test_counts_homophily_and_splits_are_those_of_the_authors(name: str, data_root: Path) -> None:
    data = load_dataset(name, root=data_root)
    nodes, edges, classes, homophily, sizes = TABLE[name]
    assert (data.x.shape[0], undirected_edge_count(data.edge_index), data.num_classes) == (nodes, edges, classes)
    source, target = data.edge_index
    assert float((data.y[source] == data.y[target]).double().mean()) == pytest.approx(homophily, abs=0.0006)
    assert (len(data.train_index), len(data.val_index), len(data.test_index)) == sizes
    assert sum(sizes) == nodes
    assert data.score == ("roc_auc" if classes == 2 else "f1")


def test_ten_seeds_are_ten_splits(data_root: Path) -> None:
    hashes = [load_dataset("chameleon-filtered", seed=seed, root=data_root).split_hash for seed in range(11)]
    assert len(set(hashes)) == 10
    assert hashes[10] == hashes[0]


def test_the_graph_is_the_one_that_pyg_reads(data_root: Path, tmp_path: Path) -> None:
    raw = tmp_path / "minesweeper" / "raw"
    raw.mkdir(parents=True)
    (raw / "minesweeper.npz").symlink_to(data_root / "heterophilous/minesweeper/raw/minesweeper.npz")
    theirs, ours = HeterophilousGraphDataset(str(tmp_path), "minesweeper")[0], load_dataset("minesweeper", 3, data_root)
    assert torch.equal(theirs.x, ours.x)
    assert torch.equal(theirs.edge_index, ours.edge_index)
    assert torch.equal(theirs.test_mask[:, 3].nonzero().flatten(), ours.test_index)


def test_a_written_file_is_read_back(tmp_path: Path) -> None:
    masks = {f"{part}_masks": np.eye(3, dtype=bool)[[place]] for place, part in enumerate(("train", "val", "test"))}
    arrays = {"node_features": np.eye(3, dtype=np.float32), "node_labels": np.array([0, 1, 1])}
    np.savez(tmp_path / "tiny.npz", **arrays, edges=np.array([[0, 1], [1, 2]]), **masks)
    file = RawFile("tiny.npz", keys=NPZ_HETEROPHILOUS)
    data = Dataset("tiny", None, DATASETS["actor"].reader, (file,))(tmp_path)
    assert data.edge_index.tolist() == [[0, 1], [1, 2]]
    assert [data[f"{part}_mask"].tolist() for part in ("train", "test")] == [
        [[True], [False], [False]],
        [[False], [False], [True]],
    ]


def test_graphs_without_a_copy_say_what_they_need(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match=r"^questions needs heterophilous/questions/raw/questions.npz under "):
        load_dataset("questions", root=tmp_path)
