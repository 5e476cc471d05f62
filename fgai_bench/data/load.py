"""Load a graph with its split, given the name of a dataset and a seed."""

import hashlib
import os
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data
from torch_geometric.utils import index_to_mask

from fgai_bench.data.catalogue import DATASETS
from fgai_bench.data.checksum import graph_sha256
from fgai_bench.data.dataset import Dataset, data_root, score_of
from fgai_bench.data.download import fetch_files
from fgai_bench.data.graph import canonical
from fgai_bench.data.splits import PARTS, Split, random_split

DENSE_UP_TO = 2**25  # entries of the features, 128 MiB; larger ones stay sparse unless somebody asks
SPLIT_SUFFIXES = ("_mask", "_index")  # ends of the names of a split's parts; the edges are hashed with the graph


def load_dataset(
    name: str, seed: int = 0, root: str | os.PathLike[str] | None = None, *, sparse: bool | None = None, **options: Any
) -> Data:
    """Load the graph ``name`` with its node split for ``seed``.

    Args:
        name: a name of ``DATASETS``. ``cora`` always comes from the file inside the package, so that it is the same
            graph everywhere, in the same order of nodes, network or not.
        seed: of the 10/10/80 % split; a graph that brings its own split (indices or boolean masks) has that one, and of
            several masks the one of this seed, counted round.
        root: folder of raw files; else ``$FGAI_BENCH_DATA``, else the user's data folder.
        sparse: True gives features as CSR where fewer than 10 % are non-zero, as suites use them, False always dense
            ones; if not said, dense ones up to 2^25 entries.
        options: options of the dataset, for those that have any: ``load_dataset("csbm", edges=300_000)``.

    Returns:
        ``Data`` with ``x`` (N, F) float32; ``edge_index`` (2, E) int64, both directions, no loops, no duplicates; ``y``
        (N,) int64; ``train_mask``, ``val_mask``, ``test_mask`` and the same as ``train_index``, ...; and the plain
        attributes ``name``, ``num_classes``, ``score`` (what ranks it), ``split_hash`` and ``checksum`` (SHA-256 of x,
        edges, labels).

    >>> graph = load_dataset("cora")
    >>> graph.num_nodes, graph.num_edges // 2, graph.num_classes, len(graph.train_index)
    (2708, 5278, 7, 270)
    """
    dataset, folder = _complete(name, root)
    data = canonical(dataset(folder, **options))
    given = Split.given(data, seed)
    split = random_split(data.x.size(0), seed) if given is None else given
    split.checked(name, data.x.size(0), complete=given is None)
    for part in PARTS:
        data[f"{part}_index"] = getattr(split, part)
        data[f"{part}_mask"] = index_to_mask(getattr(split, part), data.x.size(0))
    data.name, data.num_classes, data.score = name, int(data.y.max()) + 1, dataset.score
    score_of(data)  # raises where the graph cannot have it
    data.split_hash, data.checksum = split.hash, graph_sha256(data)
    if data.x.layout != torch.strided and not (data.x.numel() > DENSE_UP_TO if sparse is None else sparse):
        data.x = data.x.to_dense()
    return data


def _complete(name: str, root: str | os.PathLike[str] | None) -> tuple[Dataset, Path]:
    """Return a dataset and its data root, which has all files after this."""
    dataset, folder = DATASETS[name], data_root(root)
    if dataset.missing(folder):
        fetch_files(dataset, folder)
    return dataset, folder


def content_sha256(name: str, root: str | os.PathLike[str] | None = None) -> str:
    """Return the SHA-256 of a dataset's content: features, edges, labels, and the split that it brings, if any."""
    dataset, folder = _complete(name, root)
    data = canonical(dataset(folder))
    digest = hashlib.sha256(graph_sha256(data).encode())
    for key in sorted(key for key in data.to_dict() if key.endswith(SPLIT_SUFFIXES) and key != "edge_index"):
        digest.update(f"{key}{tuple(data[key].shape)}".encode())
        digest.update(data[key].detach().cpu().contiguous().numpy())
    return digest.hexdigest()


def fetch_dataset(name: str, root: str | os.PathLike[str] | None = None) -> list[Path]:
    """Download the missing files of dataset ``name`` and return the paths of all its files (none if generated)."""
    dataset, folder = _complete(name, root)
    return [dataset.path(file, folder) for file in dataset.files]
