from __future__ import annotations

import pickle
import shutil
import warnings
from pathlib import Path

import pytest
import torch
from torch_geometric.io import read_planetoid_data
from torch_geometric.utils import coalesce, is_undirected

from fgai_bench.data import DATASETS, DataError, Dataset, RawFile, load_dataset


def test_citeseer_is_what_pyg_reads(data_root: Path) -> None:
    ours = load_dataset("citeseer", root=data_root)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = read_planetoid_data(str(data_root / "CiteSeer/raw"), "citeseer")
    assert torch.equal(ours.x.to_dense(), theirs.x)
    assert torch.equal(ours.edge_index, coalesce(theirs.edge_index))
    assert torch.equal(ours.y, theirs.y)
    assert is_undirected(ours.edge_index)


def test_a_changed_pickle_is_not_opened(data_root: Path, tmp_path: Path) -> None:
    shutil.copytree(data_root / "CiteSeer", tmp_path / "CiteSeer")
    graph = tmp_path / "CiteSeer/raw/ind.citeseer.graph"
    graph.chmod(0o644)
    graph.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(DataError, match=r"^citeseer: \S*ind.citeseer.graph has checksum \w+... where d79a4ef9d3e7..."):
        load_dataset("citeseer", root=tmp_path)
    assert not Trap.sprung


def test_a_pickle_without_a_declared_checksum_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "ind.mine.x").write_bytes(pickle.dumps(Trap()))
    mine = Dataset("mine", None, DATASETS["citeseer"].reader, (RawFile("ind.mine.x"),))
    with pytest.raises(DataError, match=r"is a pickle without a declared checksum and is not opened$"):
        mine(tmp_path)
    assert not Trap.sprung


class Trap:
    """Says so if it is ever unpickled."""

    sprung = False

    def __reduce__(self) -> tuple[object, ...]:
        return _spring, ()


def _spring() -> None:
    Trap.sprung = True
