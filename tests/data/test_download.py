from __future__ import annotations

import dataclasses
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from fgai_bench.data import DATASETS, DataError, Dataset, MissingDataError, RawFile, fetch_dataset, load_dataset
from fgai_bench.data.checksum import file_sha256
from fgai_bench.data.download import fetch_files


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FGAI_BENCH_OFFLINE")


def served(tmp_path: Path, content: bytes, sha256: str | None = None) -> Dataset:
    """A dataset of one file that lies elsewhere on this machine, as if on a server."""
    source = tmp_path / "server" / "part.bin"
    source.parent.mkdir()
    source.write_bytes(content)
    file = RawFile("Mine/raw/part.bin", sha256 or file_sha256(source), url=source.as_uri())
    return Dataset("mine", None, "nowhere:read", (file,))


def test_offline_says_which_files_and_where(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with pytest.raises(MissingDataError) as error:
        load_dataset("amazon-photo", root=root)
    assert str(error.value) == (
        f"amazon-photo needs Photo/raw/amazon_electronics_photo.npz under {root}; put it there or set FGAI_BENCH_DATA"
    )
    assert not root.exists()


def test_what_nobody_serves_is_not_asked_for(tmp_path: Path, online: None) -> None:
    dataset = Dataset("mine", None, "nowhere:read", (RawFile("Mine/raw/part.bin"),))
    with pytest.raises(MissingDataError, match=r"^mine needs Mine/raw/part.bin under"):
        fetch_files(dataset, tmp_path)


def test_a_file_is_fetched_verified_and_put_in_place(tmp_path: Path, online: None) -> None:
    dataset, root = served(tmp_path, b"content"), tmp_path / "root"
    fetch_files(dataset, root)
    assert (root / "Mine/raw/part.bin").read_bytes() == b"content"
    assert [path.name for path in root.iterdir()] == ["Mine"]


def test_a_wrong_file_is_not_kept(tmp_path: Path, online: None) -> None:
    root = tmp_path / "root"
    with pytest.raises(DataError, match=r"^mine: \S*part.bin has checksum ed7002b439e9... where 111111111111..."):
        fetch_files(served(tmp_path, b"content", "1" * 64), root)
    assert list(root.iterdir()) == []


def test_a_failed_download_gives_its_reason_and_leaves_nothing(tmp_path: Path, online: None) -> None:
    dataset, root = served(tmp_path, b"content"), tmp_path / "root"
    (tmp_path / "server/part.bin").unlink()
    with pytest.raises(MissingDataError, match=r"^mine needs Mine/raw/part.bin under \S+ \(the download failed: .*\);"):
        fetch_files(dataset, root)
    assert list(root.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_root_that_cannot_be_written(tmp_path: Path, online: None) -> None:
    dataset = served(tmp_path, b"content")
    tmp_path.chmod(0o555)
    with pytest.raises(MissingDataError, match="Permission denied"):
        fetch_files(dataset, tmp_path / "root")
    tmp_path.chmod(0o755)


def test_ogbs_archive_is_unpacked_without_a_question(tmp_path: Path, online: None) -> None:
    arxiv = DATASETS["ogbn-arxiv"]
    archive = tmp_path / "arxiv.zip"
    with zipfile.ZipFile(archive, "w") as stream:
        for file in arxiv.files:
            stream.writestr("arxiv/" + file.path.partition("/")[2], file.path)
    served = RawFile("arxiv.zip", file_sha256(archive), url=archive.as_uri())
    fetch_files(dataclasses.replace(arxiv, archive=served), tmp_path / "root")
    assert all((tmp_path / "root" / file.path).read_text() == file.path for file in arxiv.files)
    assert [path.name for path in (tmp_path / "root").iterdir()] == ["ogbn_arxiv"]


def test_fetching_what_is_there_returns_its_files(tmp_path: Path) -> None:
    assert [path.name for path in fetch_dataset("cora", tmp_path)] == ["cora.npz"]
    assert fetch_dataset("csbm", tmp_path) == []


def test_npz_content_is_verified_before_it_is_kept(tmp_path: Path, online: None) -> None:
    source = tmp_path / "amazon_electronics_photo.npz"
    np.savez(source, labels=np.zeros(3))
    photo = DATASETS["amazon-photo"]
    files = (dataclasses.replace(photo.files[0], url=source.as_uri(), mirrors=()),)
    with pytest.raises(DataError, match=r"^amazon-photo: \S* lacks an array"):
        fetch_files(dataclasses.replace(photo, files=files), tmp_path / "root")
    assert list((tmp_path / "root").iterdir()) == []
