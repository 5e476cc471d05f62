"""Splits: which nodes are trained on, validated on and tested on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.data.errors import DataError
from fgai_bench.seeds import generator


@dataclass(frozen=True, eq=False)
class Split:
    """Disjoint index tensors of the training, validation and test nodes, each sorted."""

    train: Tensor
    val: Tensor
    test: Tensor

    @classmethod
    def of(cls, data: Data) -> Split:
        """The split that a loaded graph carries as ``train_index``, ``val_index`` and ``test_index``."""
        return cls(data.train_index, data.val_index, data.test_index)

    @property
    def hash(self) -> str:
        """SHA-256 of the three sets, whatever the order of their indices; recorded with every trial.

        >>> a, b = torch.tensor([0, 1]), torch.tensor([2])
        >>> Split(a, b, b).hash == Split(a.flip(0), b, b).hash, Split(a, b, b).hash == Split(b, a, b).hash
        (True, False)
        """
        digest = hashlib.sha256()
        for name, index in (("train", self.train), ("val", self.val), ("test", self.test)):
            digest.update(f"{name}{index.numel()}".encode())
            digest.update(np.sort(index.cpu().numpy().astype(np.int64)).tobytes())
        return digest.hexdigest()

    def checked(self, name: str, num_nodes: int) -> Split:
        """The split itself, or a :class:`DataError` if a node is in two parts, in none, or not in the graph."""
        index = torch.cat([self.train, self.val, self.test])
        if index.numel() != num_nodes or not torch.equal(index.sort().values, torch.arange(num_nodes)):
            raise DataError(f"{name} must have each of its {num_nodes} nodes in exactly one part of the split")
        return self


def random_split(num_nodes: int, seed: int, train: float = 0.1, val: float = 0.1) -> Split:
    """A uniform split by seed: ``floor(train * N)`` and ``floor(val * N)`` nodes, and all others for the test.

    Plain random and not stratified, as in the paper.

    >>> split = random_split(7650, seed=0)
    >>> len(split.train), len(split.val), len(split.test)
    (765, 765, 6120)
    """
    if min(train, val) < 0 or train + val > 1:
        raise DataError(f"a split needs shares in [0, 1] that sum to at most 1, not train={train} and val={val}")
    order = torch.randperm(num_nodes, generator=generator(seed, "split"))
    first, second = int(train * num_nodes), int(val * num_nodes)
    parts = order[:first], order[first : first + second], order[first + second :]
    return Split(*(part.sort().values for part in parts))
