from __future__ import annotations

from pathlib import Path

import pytest

from fgai_bench.data import cache_root, data_root


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
