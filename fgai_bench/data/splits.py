"""Split nodes into training, validation and test nodes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.data.errors import DataError
from fgai_bench.data.node_index import node_index
from fgai_bench.seeds import generator

PARTS = ("train", "val", "test")


@dataclass(frozen=True, eq=False)
class Split:
    """Disjoint index tensors of the training, validation and test nodes, each sorted; masks are turned into these."""

    train: Tensor
    val: Tensor
    test: Tensor

    def __post_init__(self) -> None:
        """Read boolean masks as the nodes that they mark."""
        for part in PARTS:
            nodes = getattr(self, part)
            if nodes.dtype == torch.bool:
                object.__setattr__(self, part, node_index(nodes, nodes.shape[0], f"the {part} mask"))

    @classmethod
    def of(cls, data: Data, seed: int = 0) -> Split:
        """Return the split that a graph carries: ``train_mask``, ... or ``train_index``, ...; see :meth:`given`."""
        split = cls.given(data, seed)
        if split is None:
            raise DataError("the graph carries no split; give it train_index, val_index and test_index, or masks")
        return split

    @classmethod
    def given(cls, data: Data, seed: int = 0) -> Split | None:
        """Return the split that a graph carries as boolean masks or as indices, or None where it carries none.

        Where it carries both, the masks count. Masks of several splits are ``(N, K)``; the seed chooses one, counted
        round.

        >>> masks = {f"{part}_mask": torch.tensor([[part == p] for p in PARTS]) for part in PARTS}
        >>> Split.given(Data(**masks)).val
        tensor([1])
        """
        names = split_keys(data)
        if not names:
            return None
        missing = [part for part in PARTS if part not in names]
        if missing:
            raise DataError(
                f"the graph carries {' and '.join(names.values())} but neither {missing[0]}_mask nor "
                f"{missing[0]}_index; give it all three parts or none"
            )
        return cls(*(_nodes_of(data, name, seed) for name in names.values()))

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


def split_keys(data: Data) -> dict[str, str]:
    """Return which entry of a graph names each part of its split; a mask comes before an index vector.

    >>> split_keys(Data(train_mask=torch.tensor([True]), train_index=torch.tensor([0]), test_index=torch.tensor([0])))
    {'train': 'train_mask', 'test': 'test_index'}
    """
    return {part: name for part in PARTS for name in (f"{part}_index", f"{part}_mask") if data.get(name) is not None}


def _nodes_of(data: Data, name: str, seed: int) -> Tensor:
    """Return the nodes that a mask or an index vector of the graph names; the seed chooses one of several masks."""
    value: Tensor = data[name]
    size = data.x.shape[0] if data.x is not None else value.shape[0] if value.dim() == 2 else data.num_nodes
    return node_index(value, size, name, seed % value.shape[1] if value.dim() == 2 else 0)


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
