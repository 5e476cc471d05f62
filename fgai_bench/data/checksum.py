"""Compute and compare checksums of files, of arrays and of loaded graphs."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch_geometric.data import Data

from fgai_bench.data.dataset import RawFile
from fgai_bench.data.errors import DataError


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, as ``sha256sum`` prints it."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def arrays_sha256(arrays: Mapping[str, NDArray[np.generic]]) -> str:
    """Return the SHA-256 of named arrays: of their names, shapes and values, whatever the width of their numbers.

    >>> narrow, wide = np.array([1, 2], np.int8), np.array([1, 2], np.int64)
    >>> arrays_sha256({"a": narrow}) == arrays_sha256({"a": wide})
    True
    >>> arrays_sha256({"a": narrow}) == arrays_sha256({"b": narrow})
    False
    """
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        widened = array.astype(np.float64 if array.dtype.kind == "f" else np.int64)
        digest.update(f"{name}{array.shape}".encode())
        digest.update(widened.tobytes())
    return digest.hexdigest()


def graph_sha256(data: Data) -> str:
    """Return the SHA-256 of a loaded graph (features, edges, labels), which is the same for every copy of the graph."""
    x = data.x
    parts = {"values": x}
    if x.is_sparse_csr:
        parts = {"values": x.values(), "columns": x.col_indices(), "rows": x.crow_indices()}
    digest = hashlib.sha256()
    for name, tensor in {**parts, "edge_index": data.edge_index, "y": data.y}.items():
        digest.update(f"{name}{tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().numpy())
    return digest.hexdigest()


def require_checksum(name: str, file: RawFile, path: Path, actual: str) -> None:
    """Raise if the catalogue declares a checksum for ``file`` and ``actual`` is another one."""
    if file.sha256 and actual != file.sha256:
        raise DataError(
            f"{name}: {path} has checksum {actual[:12]}... where {file.sha256[:12]}... is declared; "
            "replace it with the original file"
        )
