"""Split links into training, validation and test links, each part with as many fixed non-links."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from fgai_bench.seeds import generator


@dataclass(frozen=True, eq=False)
class LinkSplit:
    """Links (``pos``) and non-links (``neg``) of each part, as undirected pairs ``(2, P)``, source < destination."""

    train_pos: Tensor
    train_neg: Tensor
    val_pos: Tensor
    val_neg: Tensor
    test_pos: Tensor
    test_neg: Tensor

    def pairs(self, part: str) -> tuple[Tensor, Tensor]:
        """Return pairs and labels of a part, links first: ``(2, P), (P,)``."""
        positive, negative = getattr(self, f"{part}_pos"), getattr(self, f"{part}_neg")
        labels = torch.cat([torch.ones(positive.size(1)), torch.zeros(negative.size(1))])
        return torch.cat([positive, negative], dim=1), labels.to(positive.device)

    def to(self, device: str) -> LinkSplit:
        """Return the same split on another device."""
        return LinkSplit(*(getattr(self, f.name).to(device) for f in fields(self)))

    @property
    def message_edges(self) -> Tensor:
        """Return ``(2, 2 * links)`` the training links in both directions: the only edges that messages pass over."""
        return torch.cat([self.train_pos, self.train_pos.flip(0)], dim=1)

    @property
    def hash(self) -> str:
        """Return the SHA-256 of all six sets of pairs; recorded with every trial."""
        digest = hashlib.sha256()
        for f in fields(self):
            pairs = getattr(self, f.name).cpu().numpy().astype(np.int64)
            digest.update(f"{f.name}{pairs.shape[1]}".encode() + pairs[:, np.lexsort(pairs)].tobytes())
        return digest.hexdigest()


def random_link_split(edge_index: Tensor, num_nodes: int, seed: int, val: float = 0.05, test: float = 0.1) -> LinkSplit:
    """Return a uniform split of the undirected links by seed, with non-links that no two parts share.

    ``floor(val * links)`` and ``floor(test * links)`` links are held out, all others are for training.

    >>> ring = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]])
    >>> split = random_link_split(torch.cat([ring, ring.flip(0)], 1), 10, seed=0, val=0.1, test=0.2)
    >>> split.train_pos.size(1), split.val_pos.size(1), split.test_neg.size(1)
    (7, 1, 2)
    """
    draw = generator(seed, "link-split")
    links = edge_index[:, edge_index[0] < edge_index[1]]
    links = links[:, torch.randperm(links.size(1), generator=draw)]
    free = num_nodes * (num_nodes - 1) // 2 - links.size(1)
    if free < links.size(1):
        raise ValueError(
            f"{links.size(1)} links leave {free} pairs without one, fewer than the {links.size(1)} that are needed"
        )
    negatives = _non_links(links, num_nodes, links.size(1), draw)
    held_val, held_test = int(val * links.size(1)), int(test * links.size(1))
    sizes = [links.size(1) - held_val - held_test, held_val, held_test]
    parts = [pair for both in zip(links.split(sizes, 1), negatives.split(sizes, 1), strict=True) for pair in both]
    return LinkSplit(*parts)


def _non_links(links: Tensor, num_nodes: int, wanted: int, draw: torch.Generator) -> Tensor:
    """Draw distinct pairs without a link, source < destination, in random order: ``(2, wanted)``."""
    taken = links[0] * num_nodes + links[1]
    drawn = taken[:0]
    while drawn.numel() < wanted:
        pairs = torch.randint(num_nodes, (2, 2 * wanted + 16), generator=draw).sort(0).values
        keys = (pairs[0] * num_nodes + pairs[1])[pairs[0] != pairs[1]]
        drawn = torch.unique(torch.cat([drawn, keys[~torch.isin(keys, taken)]]))
    drawn = drawn[torch.randperm(drawn.numel(), generator=draw)[:wanted]]
    return torch.stack([drawn // num_nodes, drawn % num_nodes])
