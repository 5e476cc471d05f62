"""Read arxiv-topology: the real graph of ogbn-arxiv with random features, for when the real ones are unavailable.

Use it to measure scale and cost. Accuracies on it say nothing about arXiv papers, so tables never call it ogbn-arxiv.
"""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from fgai_bench.data.dataset import Dataset
from fgai_bench.data.graph import check_edges
from fgai_bench.data.readers.npz import read_arrays
from fgai_bench.seeds import derive

SIGNAL = 0.18
"""Length of the class means per dimension, in units of the noise: the one of five values at which an MLP reaches about
what it reaches on the real word vectors: 55.4 % of OGB's test nodes, one seed, instead of 55.5 %."""


def read(dataset: Dataset, root: Path) -> Data:
    """Read citations (row cites column), labels, years and OGB's split from the file; draw features by label."""
    file = dataset.files[0]
    arrays = read_arrays(dataset.name, file, dataset.path(file, root))
    labels = arrays["label"].astype(np.int64)
    targets = arrays["indices"].astype(np.int64)
    check_edges(dataset.name, targets, len(labels))
    indptr = arrays["indptr"].astype(np.int64)
    sources = np.repeat(np.arange(len(labels)), indptr[1:] - indptr[:-1])
    further = {"year": "year", "train_index": "train_idx", "val_index": "valid_idx", "test_index": "test_idx"}
    return Data(
        x=torch.from_numpy(surrogate_features(labels)),
        edge_index=torch.from_numpy(np.stack([sources, targets])),
        y=torch.from_numpy(labels),
        **{name: torch.from_numpy(arrays[key].astype(np.int64)) for name, key in further.items()},
    )


def surrogate_features(labels: NDArray[np.int64], width: int = 128) -> NDArray[np.float32]:
    """Draw features (N, ``width``) by class: ``x_i = SIGNAL * m[y_i] + e_i`` with ``m`` and ``e`` standard normal.

    The seed is part of the dataset, not of the trial: there is one arxiv-topology. A row depends on its node's label
    and on noise, never on the split, so features leak nothing that a real feature vector would not.
    """
    random = np.random.default_rng(derive(0, "arxiv-topology"))
    classes = int(labels.max()) + 1
    means = random.standard_normal((classes, width), dtype=np.float32)  # (C, width)
    features = random.standard_normal((len(labels), width), dtype=np.float32)
    features += np.float32(SIGNAL) * means[labels]
    return features
