"""Read ogbn-arxiv from OGB's compressed tables, and build arxiv-topology from them, which has no features."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch_geometric.data import Data

from fgai_bench.data.dataset import Dataset
from fgai_bench.data.errors import DataError
from fgai_bench.data.graph import check_edges

PARTS = ("train", "valid", "test")


def read(dataset: Dataset, root: Path) -> Data:
    """Return the graph with OGB's split by year.

    OGB's own class is not used: it asks questions on standard input and writes beside the raw files.
    """
    folder = root / "ogbn_arxiv"
    tables = _tables(dataset.name, folder, "raw/edge", "raw/node-feat", "raw/node-label")
    check_edges(dataset.name, tables[0], len(tables[1]))
    edges, x, y, train, val, test = (torch.tensor(table) for table in tables)
    split = {"train_index": train[:, 0], "val_index": val[:, 0], "test_index": test[:, 0]}
    return Data(x=x.float(), edge_index=edges.t(), y=y[:, 0], **split)


def build_topology(name: str, folder: Path, target: Path) -> None:
    """Write the graph, the labels, the years and the split of OGB's unpacked archive, without its features, as a npz.

    Citations become a CSR matrix, row cites column, the columns of each row in ascending order.
    """
    edges, *columns = _tables(name, folder, "raw/edge", "raw/node-label", "raw/node_year")
    (source, cited), (labels, years, *split) = edges.T, (column[:, 0] for column in columns)
    check_edges(name, edges, len(labels))
    order = np.lexsort((cited, source))
    indptr = np.append(0, np.bincount(source, minlength=len(labels)).cumsum())
    arrays = {"indptr": indptr, "indices": cited[order], "label": labels, "year": years}
    arrays |= {f"{part}_idx": index for part, index in zip(PARTS, split, strict=True)}
    narrow = {key: array.astype(np.int16 if key in ("label", "year") else np.int32) for key, array in arrays.items()}
    np.savez_compressed(target, **narrow)


def _tables(name: str, folder: Path, *names: str) -> list[np.ndarray[Any, Any]]:
    """Return the named tables of OGB's folder and those of its split, (rows, columns) each."""
    paths = [folder / f"{table}.csv.gz" for table in (*names, *(f"split/time/{part}" for part in PARTS))]
    try:
        return [pd.read_csv(path, header=None).to_numpy() for path in paths]
    except Exception as error:  # whatever pandas and gzip raise on a damaged table
        raise DataError(f"{name}: the tables of {folder} cannot be read ({error})") from error
