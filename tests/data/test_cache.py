from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fgai_bench.data import data_root
from fgai_bench.data.cache import Arrays, cache_root, cached_arrays


class Builder:
    """Counts how often it had to build."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> Arrays:
        self.calls += 1
        return {"a": np.arange(1000)}


@pytest.fixture
def stored(isolated: Path) -> Path:
    cached_arrays("kind", "key", Builder())
    return isolated / "cache" / "kind-key.npz"


def rebuilt() -> bool:
    builder = Builder()
    assert np.array_equal(cached_arrays("kind", "key", builder)["a"], np.arange(1000))
    return builder.calls == 1


def test_what_is_stored_is_not_built_again(stored: Path) -> None:
    assert not rebuilt()
    assert [path.name for path in stored.parent.iterdir()] == ["kind-key.npz"]


@pytest.mark.parametrize("length", [0, 10, 200, 4_000, -1])
def test_a_truncated_file_is_rebuilt_and_replaced(stored: Path, length: int) -> None:
    stored.write_bytes(stored.read_bytes()[:length])
    assert rebuilt()
    assert not rebuilt()


def test_a_flipped_byte_is_noticed(stored: Path) -> None:
    content = bytearray(stored.read_bytes())
    content[content.index(b"a.npy") + 3_000] ^= 1
    stored.write_bytes(content)
    assert rebuilt()


def test_a_file_of_another_source_is_not_read(stored: Path) -> None:
    cached_arrays("kind", "other", lambda: {"a": np.zeros(3)})
    stored.with_name("kind-other.npz").replace(stored)
    assert rebuilt()


def test_a_foreign_file_is_not_read(stored: Path) -> None:
    np.savez(stored, a=np.zeros(3))
    assert rebuilt()
    np.save(stored.with_suffix(".npy"), np.zeros(3))
    stored.with_suffix(".npy").replace(stored)
    assert rebuilt()
    stored.write_bytes(pickle.dumps({"a": 1, "key": "key"}))
    assert rebuilt()


def test_a_failing_build_leaves_the_cache_as_it_was(stored: Path) -> None:
    before = stored.read_bytes()

    def fail() -> Arrays:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        cached_arrays("kind", "second", fail)
    assert [path.name for path in stored.parent.iterdir()] == ["kind-key.npz"]
    assert stored.read_bytes() == before


def test_an_interrupted_write_leaves_no_file(stored: Path) -> None:
    code = (
        "import os, numpy as np; from fgai_bench.data import cache\n"
        "os.replace = lambda *names: os._exit(9)\n"
        "cache.cached_arrays('kind', 'third', lambda: {'a': np.arange(9)})"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 9
    assert not stored.with_name("kind-third.npz").exists()
    assert np.array_equal(cached_arrays("kind", "third", lambda: {"a": np.ones(2)})["a"], np.ones(2))


def test_a_cache_that_cannot_be_written_costs_only_time(isolated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (isolated / "file").touch()
    monkeypatch.setenv("FGAI_BENCH_CACHE", str(isolated / "file"))
    assert rebuilt()
    assert rebuilt()


def test_the_argument_wins_over_the_environment_over_the_users_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert data_root().name == "fgai-bench"
    monkeypatch.setenv("FGAI_BENCH_DATA", str(tmp_path / "variable"))
    assert data_root() == tmp_path / "variable"
    assert data_root(tmp_path / "argument") == tmp_path / "argument"


def test_roots_are_absolute_and_the_cache_has_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert data_root("here") == tmp_path / "here"
    monkeypatch.setenv("FGAI_BENCH_CACHE", "there")
    assert cache_root() == tmp_path / "there"
    monkeypatch.delenv("FGAI_BENCH_CACHE")
    assert cache_root() not in (data_root(), data_root().parent)
