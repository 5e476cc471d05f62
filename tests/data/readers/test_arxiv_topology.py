from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from fgai_bench.data import DataError, Dataset, RawFile, load_dataset
from fgai_bench.data.catalogue import NPZ_TOPOLOGY
from fgai_bench.data.readers.arxiv_topology import SIGNAL, surrogate_features

READ = "fgai_bench.data.readers.arxiv_topology:read"


def test_features_are_the_same_in_every_process() -> None:
    features = surrogate_features(np.array([0, 1, 1]), width=2)
    assert features.dtype == np.float32
    assert np.array_equal(features, surrogate_features(np.array([0, 1, 1]), width=2))
    assert features.ravel().tolist() == pytest.approx(
        [-0.2624788, -0.0980946, -0.7856185, 0.2694759, -0.1376348, -2.8117919], abs=1e-6
    )


def test_class_means_are_as_far_apart_as_declared() -> None:
    labels = np.repeat(np.arange(4), 5_000)
    features = surrogate_features(labels, width=64)
    means = np.stack([features[labels == label].mean(0) for label in range(4)])
    assert (features - means[labels]).std() == pytest.approx(1, abs=0.01)
    assert means.std() == pytest.approx(SIGNAL, rel=0.1)


def test_a_small_file_is_read_with_its_published_split(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", **topology())
    data = Dataset("t", None, READ, (RawFile("t.npz", "", NPZ_TOPOLOGY),))(tmp_path)
    assert data.edge_index.tolist() == [[0, 0, 2], [1, 2, 1]]
    assert data.year.tolist() == [2000, 2001, 2002]
    assert (data.train_index.tolist(), data.val_index.tolist(), data.test_index.tolist()) == ([0], [1], [2])


def test_bad_citations(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", **{**topology(), "indices": np.array([1, 5, 1])})
    with pytest.raises(DataError, match=r"^t has an edge with node 5, out of range for its 3 nodes$"):
        Dataset("t", None, READ, (RawFile("t.npz", "", NPZ_TOPOLOGY),))(tmp_path)


def test_arxiv_topology_has_ogbs_split_whatever_the_seed(data_root: Path) -> None:
    data = load_dataset("arxiv-topology", root=data_root, seed=3)
    assert (len(data.train_index), len(data.val_index), len(data.test_index)) == (90_941, 29_799, 48_603)
    assert data.num_edges == 2 * 1_157_799
    years = [data.year[index] for index in (data.train_index, data.val_index, data.test_index)]
    assert years[0].max() == 2017
    assert years[1].unique().tolist() == [2018]
    assert years[2].min() == 2019
    # what a node's own features can tell: the Bayes rule with the true means and the training prior
    means = torch.stack([data.x[data.y == label].mean(0) for label in range(40)])
    prior = data.y[data.train_index].bincount(minlength=40) / len(data.train_index)
    scores = data.x[data.test_index] @ means.T - means.square().sum(1) / 2 + prior.log()
    assert 0.50 < (scores.argmax(1) == data.y[data.test_index]).float().mean() < 0.62


def topology() -> dict[str, np.ndarray]:
    return {
        "indptr": np.array([0, 2, 2, 3]),
        "indices": np.array([1, 2, 1]),
        "label": np.array([0, 1, 1], np.int8),
        "year": np.array([2000, 2001, 2002]),
        "train_idx": np.array([0]),
        "valid_idx": np.array([1]),
        "test_idx": np.array([2]),
    }
