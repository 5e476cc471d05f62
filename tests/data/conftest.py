from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads or writes the user's folders, uses the network, or finds an encoding that another one left."""
    from fgai_bench.data.laplacian import encodings as laplacian

    monkeypatch.delenv("FGAI_BENCH_DATA", raising=False)
    monkeypatch.setenv("FGAI_BENCH_OFFLINE", "1")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "user"))
    laplacian._memory.clear()
    return tmp_path


@pytest.fixture
def write_npz(tmp_path: Path) -> Callable[..., Path]:
    """Write a four-node path graph 0 - 1 - 2 - 3 as ``tiny.npz`` under the data root, with some arrays replaced."""

    def write(**changes: object) -> Path:
        arrays = {
            "adj_data": np.ones(3),
            "adj_indices": np.array([1, 2, 3]),
            "adj_indptr": np.array([0, 1, 2, 3, 3]),
            "adj_shape": np.array([4, 4]),
            "attr_data": np.array([1.0, 3.0, 1.0, 1.0]),
            "attr_indices": np.array([0, 1, 2, 0]),
            "attr_indptr": np.array([0, 1, 2, 3, 4]),
            "attr_shape": np.array([4, 3]),
            "labels": np.array([0, 0, 1, 1]),
        }
        path = tmp_path / "root" / "tiny.npz"
        path.parent.mkdir(exist_ok=True)
        np.savez(path, **{**arrays, **changes})
        return path

    return write
