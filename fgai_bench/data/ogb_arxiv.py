"""Read ogbn-arxiv from OGB's raw files, with a cache, because its compressed tables take long to parse."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch_geometric.data import Data

from fgai_bench.data.cache import Arrays, cached_arrays
from fgai_bench.data.checksum import file_sha256
from fgai_bench.data.dataset import Dataset
from fgai_bench.data.download import quiet_ogb
from fgai_bench.data.errors import DataError


def read(dataset: Dataset, root: Path) -> Data:
    """Return the graph with OGB's split by year.

    OGB's dataset class is not used: it asks questions on standard input, writes beside the raw files and reads back a
    pickle. Its reader of raw files does none of that.
    """
    paths = {Path(file.path).name.removesuffix(".csv.gz"): dataset.path(file, root) for file in dataset.files}
    key = sha256("".join(file_sha256(path) for path in paths.values()).encode()).hexdigest()
    arrays = cached_arrays(dataset.name, key, lambda: _parse(dataset.name, paths))
    tensors = {name: torch.tensor(array) for name, array in arrays.items()}
    return Data(**tensors)


def _parse(name: str, paths: dict[str, Path]) -> Arrays:
    """Parse tables into arrays; OGB raises whatever pandas and gzip raise on a damaged table."""
    try:
        with quiet_ogb():
            from ogb.io.read_graph_raw import read_csv_graph_raw

            graph = read_csv_graph_raw(str(paths["edge"].parent))[0]
        labels = _table(paths["node-label"])
        split = {
            f"{part}_index": _table(paths[table])
            for part, table in (("train", "train"), ("val", "valid"), ("test", "test"))
        }
    except Exception as error:
        raise DataError(f"{name}: the tables under {paths['edge'].parent} cannot be read ({error})") from error
    return {"x": graph["node_feat"].astype(np.float32), "edge_index": graph["edge_index"], "y": labels, **split}


def _table(path: Path) -> np.ndarray:
    return pd.read_csv(path, compression="gzip", header=None).to_numpy(np.int64)[:, 0]
