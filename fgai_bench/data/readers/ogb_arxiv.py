"""Read ogbn-arxiv from OGB's raw files, with a cache, because its compressed tables take long to parse.

The same files without their features are arxiv-topology, which is built here and read by ``surrogate``.
"""

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
from fgai_bench.data.graph import check_edges


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


def build_topology(name: str, folder: Path, target: Path) -> None:
    """Write the graph, the labels, the years and the split of OGB's unpacked archive, without its features, as a npz.

    Citations become a CSR matrix, row cites column, the columns of each row in ascending order.
    """
    try:
        source, cited = pd.read_csv(folder / "raw/edge.csv.gz", header=None).to_numpy(np.int64).T
        labels, years = (_table(folder / f"raw/{table}.csv.gz") for table in ("node-label", "node_year"))
        split = {f"{part}_idx": _table(folder / f"split/time/{part}.csv.gz") for part in ("train", "valid", "test")}
    except Exception as error:  # whatever pandas and gzip raise on a damaged table
        raise DataError(f"{name}: the tables of {folder.name} cannot be read ({error})") from error
    check_edges(name, np.concatenate([source, cited]), len(labels))
    order = np.lexsort((cited, source))
    indptr = np.append(0, np.bincount(source, minlength=len(labels)).cumsum())
    arrays = {"indptr": indptr, "indices": cited[order], "label": labels, "year": years, **split}
    narrow = {key: array.astype(np.int16 if key in ("label", "year") else np.int32) for key, array in arrays.items()}
    np.savez_compressed(target, **narrow)


def _table(path: Path) -> np.ndarray:
    return pd.read_csv(path, compression="gzip", header=None).to_numpy(np.int64)[:, 0]
