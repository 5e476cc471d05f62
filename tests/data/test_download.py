"""Downloads from a real server on this machine: wrong files, archives, a built dataset."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import os
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from fgai_bench.data import (
    DATASETS,
    DataError,
    Dataset,
    MissingDataError,
    RawFile,
    fetch_dataset,
    load_dataset,
)
from fgai_bench.data.checksum import arrays_sha256, file_sha256
from fgai_bench.data.download import fetch_files
from fgai_bench.data.readers.npz import read_arrays

Pages = dict[str, bytes]


@pytest.fixture(autouse=True)
def online(isolated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FGAI_BENCH_OFFLINE")
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def server() -> Iterator[tuple[str, Pages]]:
    """The address of a server and its pages."""
    pages: Pages = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path.lstrip("/"))
            self.send_response(404 if page is None else 200)
            self.send_header("Content-Length", str(len(page or b"")))
            self.end_headers()
            self.wfile.write(page or b"")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        made.daemon_threads = True
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{made.server_port}", pages
        made.shutdown()


def dataset_at(address: str, content: bytes = b"content") -> Dataset:
    file = RawFile("Mine/raw/part.bin", hashlib.sha256(content).hexdigest(), url=address)
    return Dataset("mine", None, "nowhere:read", (file,))


def test_a_file_is_fetched_to_its_place(server: tuple[str, Pages], tmp_path: Path) -> None:
    address, pages = server
    pages["right"] = b"content"
    fetch_files(dataset_at(f"{address}/right"), tmp_path / "root")
    assert (tmp_path / "root/Mine/raw/part.bin").read_bytes() == b"content"
    assert [path.name for path in (tmp_path / "root").iterdir()] == ["Mine"]


@pytest.mark.parametrize(
    ("address", "reason"),
    [("{}/none", "HTTP Error 404"), ("http://127.0.0.1:1/closed", "<urlopen error"), ("nowhere", "unknown url type")],
)
def test_a_failed_download_says_why(address: str, reason: str, server: tuple[str, Pages], tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match=rf"\(the download failed: {reason}[^\n]*\); put it there") as error:
        fetch_files(dataset_at(address.format(server[0])), tmp_path / "root")
    assert "\n" not in str(error.value)
    assert list((tmp_path / "root").iterdir()) == []


def test_half_a_file_is_none(server: tuple[str, Pages], tmp_path: Path) -> None:
    address, pages = server
    pages["half"] = b"cont"
    with pytest.raises(DataError, match=r"^mine: .* has checksum"):
        fetch_files(dataset_at(f"{address}/half"), tmp_path / "root")
    assert list((tmp_path / "root").iterdir()) == []


def packed(tables: dict[str, np.ndarray]) -> bytes:
    """Tables in the layout of OGB's archive."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, table in tables.items():
            text = io.StringIO()
            np.savetxt(text, table, fmt="%d", delimiter=",")
            archive.writestr(f"arxiv/{name}.csv.gz", gzip.compress(text.getvalue().encode(), 1))
    return out.getvalue()


def tables_of(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The tables that OGB's archive has for a topology, its edges in another order."""
    source = np.repeat(np.arange(len(arrays["label"])), np.diff(arrays["indptr"]))
    edges = np.stack([source, arrays["indices"]], 1)
    shuffled = edges[np.random.default_rng(0).permutation(len(edges))]
    return {
        "raw/edge": shuffled,
        "raw/node-label": arrays["label"],
        "raw/node_year": arrays["year"],
        **{f"split/time/{part}": arrays[f"{part}_idx"] for part in ("train", "valid", "test")},
    }


def built(arrays: dict[str, np.ndarray], sha256: str, server: tuple[str, Pages], root: Path) -> dict[str, np.ndarray]:
    """What `data fetch arxiv-topology` makes of an archive with these arrays."""
    address, pages = server
    content = packed(tables_of(arrays))
    pages["arxiv.zip"] = content
    topology = DATASETS["arxiv-topology"]
    (file,) = topology.files
    dataset = dataclasses.replace(
        topology,
        files=(dataclasses.replace(file, sha256=sha256),),
        archive=RawFile("arxiv.zip", hashlib.sha256(content).hexdigest(), url=f"{address}/arxiv.zip"),
    )
    fetch_files(dataset, root)
    assert os.listdir(root) == ["arxiv_topology"]
    return read_arrays("arxiv-topology", dataset.files[0], root / file.path)


TINY = {
    "indptr": np.array([0, 2, 2, 3]),
    "indices": np.array([1, 2, 1]),
    "label": np.array([0, 39, 1]),
    "year": np.array([1999, 2018, 2020]),
    "train_idx": np.array([0]),
    "valid_idx": np.array([1]),
    "test_idx": np.array([2]),
}


def test_arxiv_topology_is_built_from_ogbs_archive(server: tuple[str, Pages], tmp_path: Path) -> None:
    found = built(TINY, arrays_sha256(TINY), server, tmp_path / "root")
    assert {key: found[key].tolist() for key in TINY} == {key: array.tolist() for key, array in TINY.items()}


def test_another_graph_in_the_archive_is_refused(server: tuple[str, Pages], tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"arxiv-topology: .* has checksum"):
        built(TINY, "1" * 64, server, tmp_path / "root")
    assert list((tmp_path / "root").iterdir()) == []
    with pytest.raises(DataError, match="out of range for its 3 nodes"):
        built({**TINY, "indices": np.array([1, 7, 1])}, "", server, tmp_path / "root")


def test_an_archive_without_years_is_one_sentence(server: tuple[str, Pages], tmp_path: Path) -> None:
    address, pages = server
    pages["arxiv.zip"] = packed({"raw/edge": np.zeros((1, 2))})
    archive = RawFile("arxiv.zip", "", url=f"{address}/arxiv.zip")
    with pytest.raises(DataError, match=r"^arxiv-topology: the tables of \S*arxiv cannot be read \(.*node-label.*\)$"):
        fetch_files(dataclasses.replace(DATASETS["arxiv-topology"], archive=archive), tmp_path / "root")


@pytest.mark.slow
def test_the_builder_gives_the_declared_arrays_of_the_real_graph(
    server: tuple[str, Pages], data_root: Path, tmp_path: Path
) -> None:
    """The real topology, written as OGB's tables in another order, is built to the very arrays that are declared."""
    (file,) = DATASETS["arxiv-topology"].files
    arrays = read_arrays("arxiv-topology", file, data_root / file.path)
    found = built(arrays, file.sha256, server, tmp_path / "root")
    assert arrays_sha256({key: found[key] for key in file.keys}) == file.sha256


def test_offline_says_which_files_and_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FGAI_BENCH_OFFLINE", "1")
    root = tmp_path / "root"
    with pytest.raises(MissingDataError) as error:
        load_dataset("amazon-photo", root=root)
    assert str(error.value) == (
        f"amazon-photo needs Photo/raw/amazon_electronics_photo.npz under {root}; put it there or set FGAI_BENCH_DATA"
    )
    assert not root.exists()


def test_what_nobody_serves_is_not_asked_for(tmp_path: Path) -> None:
    dataset = Dataset("mine", None, "nowhere:read", (RawFile("Mine/raw/part.bin"),))
    with pytest.raises(MissingDataError, match=r"^mine needs Mine/raw/part.bin under"):
        fetch_files(dataset, tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_root_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"content")
    dataset = dataset_at((tmp_path / "source").as_uri())
    tmp_path.chmod(0o555)
    with pytest.raises(MissingDataError, match="Permission denied"):
        fetch_files(dataset, tmp_path / "root")
    tmp_path.chmod(0o755)


def test_ogbs_archive_is_unpacked_without_a_question(tmp_path: Path) -> None:
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


def test_npz_content_is_verified_before_it_is_kept(tmp_path: Path) -> None:
    source = tmp_path / "amazon_electronics_photo.npz"
    np.savez(source, labels=np.zeros(3))
    photo = DATASETS["amazon-photo"]
    files = (dataclasses.replace(photo.files[0], url=source.as_uri()),)
    with pytest.raises(DataError, match=r"amazon-photo: \S* lacks an array"):
        fetch_files(dataclasses.replace(photo, files=files), tmp_path / "root")
    assert list((tmp_path / "root").iterdir()) == []
