"""Read graphs from ``.npz`` files in the layout of Shchur et al. (2018): CSR ``adj_*``, ``attr_*``, and ``labels``."""

import zipfile
import zlib
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.io import parse_npz

from fgai_bench.data.checksum import arrays_sha256, require_checksum
from fgai_bench.data.dataset import Dataset, RawFile
from fgai_bench.data.errors import DataError
from fgai_bench.data.graph import check_edges, csr_tensor


def read(dataset: Dataset, root: Path) -> Data:
    """Read the graph from a dataset's only file.

    Edges and labels come from PyG's own reader. Features do not: it would make them dense (1.1 GB for coauthor-physics,
    of which 0.4 % are non-zero), so they go from CSR to CSR under its rule that every positive entry becomes one.
    """
    file = dataset.files[0]
    arrays = read_arrays(dataset.name, file, dataset.path(file, root))
    features = _features(dataset.name, arrays)
    nodes = features.size(0)
    check_edges(dataset.name, arrays["adj_indices"], nodes)
    empty = sp.csr_matrix((nodes, 0), dtype=np.float32)
    attributes = {f"attr_{part}": getattr(empty, part) for part in ("data", "indices", "indptr", "shape")}
    try:
        data: Data = parse_npz({**arrays, **attributes})
    except (ValueError, IndexError) as error:
        raise DataError(f"{dataset.name}: the adjacency of {file.path} is not a CSR matrix ({error})") from error
    data.x = features
    return data


def read_arrays(name: str, file: RawFile, path: Path) -> dict[str, NDArray[np.generic]]:
    """Return the declared arrays of an ``.npz``, verified; nothing in it is ever unpickled."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in file.keys}
    except KeyError as error:
        raise DataError(
            f"{name}: {path} lacks an array ({error.args[0]}); replace it with the original file"
        ) from error
    except (OSError, ValueError, EOFError, TypeError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
        reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise DataError(
            f"{name}: {path} is no complete npz without pickles ({reason}); replace it with the original file"
        ) from error
    require_checksum(name, file, path, arrays_sha256(arrays))
    return arrays


def _features(name: str, arrays: dict[str, NDArray[np.generic]]) -> Tensor:
    """Return CSR features (N, F), columns sorted in each row, positive entries set to one."""
    parts = (arrays["attr_data"].astype(np.float32), arrays["attr_indices"], arrays["attr_indptr"])
    try:
        matrix = sp.csr_matrix(parts, shape=tuple(int(size) for size in arrays["attr_shape"]))
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise DataError(f"{name}: its features are not a CSR matrix ({error})") from error
    matrix.sum_duplicates()
    matrix.data[matrix.data > 0] = 1
    indptr, indices, values = (torch.from_numpy(part) for part in (matrix.indptr, matrix.indices, matrix.data))
    return csr_tensor(indptr, indices, values, matrix.shape)
