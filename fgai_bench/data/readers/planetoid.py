"""Read CiteSeer and PubMed from the Planetoid files of Yang et al. (2016), through PyG.

The files are pickles, and a pickle can run code when it is read: they are opened only if every one of them is, byte for
byte, the published file.
"""

import warnings
from pathlib import Path

from torch_geometric.data import Data
from torch_geometric.io import read_planetoid_data

from fgai_bench.data.checksum import file_sha256, require_checksum
from fgai_bench.data.dataset import Dataset
from fgai_bench.data.errors import DataError


def read(dataset: Dataset, root: Path) -> Data:
    """Return the graph as PyG reads it, without the public split: nodes are split by seed like in other graphs."""
    paths = [dataset.path(file, root) for file in dataset.files]
    for file, path in zip(dataset.files, paths, strict=True):
        if not file.sha256:
            raise DataError(f"{dataset.name}: {path} is a pickle without a declared checksum and is not opened")
        require_checksum(dataset.name, file, path, file_sha256(path))
    with warnings.catch_warnings():
        # the pickles name modules and dtype flags of numpy and scipy versions of 2016
        warnings.simplefilter("ignore")
        data = read_planetoid_data(str(paths[0].parent), dataset.name)
    return Data(x=data.x, edge_index=data.edge_index, y=data.y)
