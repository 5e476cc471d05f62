"""Split nodes into training, validation and test nodes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.data.errors import DataError
from fgai_bench.seeds import generator

PARTS = ("train", "val", "test")


@dataclass(frozen=True, eq=False)
class Split:
    """Disjoint index tensors of the training, validation and test nodes, each sorted."""

    train: Tensor
    val: Tensor
    test: Tensor

    @classmethod
    def of(cls, data: Data, seed: int = 0) -> Split:
        """Return the split that a graph carries: ``train_index``, ... or ``train_mask``, ...; see :meth:`given`."""
        split = cls.given(data, seed)
        if split is None:
            raise DataError("the graph carries no split; give it train_index, val_index and test_index, or masks")
        return split

    @classmethod
    def given(cls, data: Data, seed: int = 0) -> Split | None:
        """Return the split that a graph carries as indices or as boolean masks, or None where it carries none.

        Masks of several splits are ``(N, K)``; the seed chooses one, counted round.

        >>> masks = {f"{part}_mask": torch.tensor([[part == p] for p in PARTS]) for part in PARTS}
        >>> Split.given(Data(**masks)).val
        tensor([1])
        """
        if all(f"{part}_index" in data for part in PARTS):
            return cls(*(data[f"{part}_index"] for part in PARTS))
        if not all(f"{part}_mask" in data for part in PARTS):
            return None
        masks = [data[f"{part}_mask"].bool() for part in PARTS]
        return cls(*((m if m.dim() == 1 else m[:, seed % m.size(1)]).nonzero().view(-1) for m in masks))

    @property
    def hash(self) -> str:
        """Return the SHA-256 of the three sets, whatever the order of their indices; recorded with every trial.

        >>> a, b = torch.tensor([0, 1]), torch.tensor([2])
        >>> Split(a, b, b).hash == Split(a.flip(0), b, b).hash, Split(a, b, b).hash == Split(b, a, b).hash
        (True, False)
        """
        digest = hashlib.sha256()
        for name, index in (("train", self.train), ("val", self.val), ("test", self.test)):
            digest.update(f"{name}{index.numel()}".encode())
            digest.update(np.sort(index.cpu().numpy().astype(np.int64)).tobytes())
        return digest.hexdigest()

    def checked(self, name: str, num_nodes: int, complete: bool = True) -> Split:
        """Return the split itself; raise if a node is in two parts or is not in the graph.

        A ``complete`` split has every node in a part; a graph's own split may leave nodes out, but no part empty.
        """
        index = torch.cat([self.train, self.val, self.test])
        inside = not index.numel() or (int(index.min()) >= 0 and int(index.max()) < num_nodes)
        distinct = index.unique().numel() == index.numel()
        if not (inside and distinct) or (complete and index.numel() != num_nodes):
            raise DataError(f"{name} must have each of its {num_nodes} nodes in exactly one part of the split")
        empty = [part for part in PARTS if not getattr(self, part).numel()]
        if not complete and empty:
            raise DataError(f"{name} has a split without {empty[0]} nodes")
        return self


def random_split(num_nodes: int, seed: int, train: float = 0.1, val: float = 0.1) -> Split:
    """Return a uniform split by seed: ``floor(train * N)`` and ``floor(val * N)`` nodes, and all others for the test.

    The split is plain random and not stratified, as in the paper.

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
