"""Read graphs of Platonov et al. (2023): features, labels, each undirected edge once, and masks of ten splits."""

from pathlib import Path

import torch
from torch_geometric.data import Data

from fgai_bench.data.dataset import Dataset
from fgai_bench.data.graph import check_edges
from fgai_bench.data.readers.npz import read_arrays
from fgai_bench.data.splits import PARTS


def read(dataset: Dataset, root: Path) -> Data:
    """Return the graph with its splits as masks ``(N, 10)``; the seed chooses one (:meth:`.Split.given`).

    PyG's own class reads the same file to the same graph, but writes beside it.
    """
    file = dataset.files[0]
    arrays = read_arrays(dataset.name, file, dataset.path(file, root))
    features, labels, edges = (torch.from_numpy(arrays[key]) for key in ("node_features", "node_labels", "edges"))
    check_edges(dataset.name, arrays["edges"], features.size(0))
    masks = {f"{part}_mask": torch.from_numpy(arrays[f"{part}_masks"]).bool().t() for part in PARTS}
    return Data(x=features, edge_index=edges.t(), y=labels, **masks)
