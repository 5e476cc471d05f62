from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from fgai_bench.data import DataError, Dataset, RawFile
from fgai_bench.data.catalogue import NPZ_GRAPH
from fgai_bench.data.checksum import arrays_sha256
from fgai_bench.data.graph import canonical

Write = Callable[..., Path]


def tiny(sha256: str = "") -> Dataset:
    return Dataset("tiny", None, "fgai_bench.data.readers.npz:read", (RawFile("tiny.npz", sha256, NPZ_GRAPH),))


def test_a_written_graph_is_read_back(write_npz: Write) -> None:
    data = canonical(tiny()(write_npz().parent))
    assert data.edge_index.tolist() == [[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]
    assert data.x.to_dense().tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert data.y.tolist() == [0, 0, 1, 1]


def test_features_above_ten_per_cent_become_dense(write_npz: Write) -> None:
    assert canonical(tiny()(write_npz().parent)).x.layout == torch.strided


def test_a_truncated_archive(write_npz: Write) -> None:
    path = write_npz()
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DataError, match=r"^tiny: \S*tiny.npz is no complete npz without pickles \(.*\); replace it"):
        tiny()(path.parent)


def test_an_archive_with_a_flipped_byte(write_npz: Write) -> None:
    path = write_npz()
    content = bytearray(path.read_bytes())
    content[content.index(b"labels.npy") + 160] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"^tiny: .* \(.*CRC.*\); replace it with the original file$"):
        tiny()(path.parent)


def test_a_pickle_instead_of_an_archive(write_npz: Write) -> None:
    path = write_npz()
    path.write_bytes(pickle.dumps({"labels": [1]}))
    with pytest.raises(DataError, match=r"without pickles \(.*pickle.*\); replace it with the original file$"):
        tiny()(path.parent)


def test_a_pickled_array_inside_the_archive(write_npz: Write) -> None:
    path = write_npz(labels=np.array([Bomb()], dtype=object))
    with pytest.raises(DataError, match=r"without pickles \(.*allow_pickle=False.*\); replace it"):
        tiny()(path.parent)
    assert not Bomb.exploded


def test_a_missing_array(write_npz: Write) -> None:
    path = write_npz()
    with np.load(path) as archive:
        kept = {name: archive[name] for name in archive.files if name != "labels"}
    np.savez(path, **kept)
    with pytest.raises(DataError, match=r"^tiny: \S* lacks an array \(labels.*\); replace it with the original file$"):
        tiny()(path.parent)


def test_a_wrong_checksum(write_npz: Write) -> None:
    path = write_npz()
    with pytest.raises(
        DataError, match=r"^tiny: \S*tiny.npz has checksum \w{12}... where 000000000000... is declared;"
    ):
        tiny("0" * 64)(path.parent)


def test_the_checksum_is_of_the_arrays_not_of_the_archive(write_npz: Write) -> None:
    path = write_npz()
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    np.savez_compressed(path, **{**arrays, "labels": arrays["labels"].astype(np.int8)}, comment=np.zeros(3))
    assert tiny(arrays_sha256(arrays))(path.parent).num_nodes == 4


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"adj_indices": np.array([1, 2, 7])}, r"^tiny has an edge with node 7, out of range for its 4 nodes$"),
        ({"adj_indptr": np.array([0, 1, 3])}, r"^tiny: the adjacency of tiny.npz is not a CSR matrix \(.*\)$"),
        ({"attr_indices": np.array([0, 1, 9, 0])}, r"^tiny: its features are not a CSR matrix \(.*\)$"),
    ],
)
def test_an_inconsistent_matrix(write_npz: Write, changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        tiny()(write_npz(**changes).parent)


class Bomb:
    """Says so if it is ever unpickled."""

    exploded = False

    def __reduce__(self) -> tuple[object, ...]:
        return _explode, ()


def _explode() -> None:
    Bomb.exploded = True
