"""Ranks: Spearman's correlation, and how many edges of an explanation are compared."""

import torch
from torch import Tensor

SHOWN = 10  # edges of an explanation that a person looks at


def shown(edges: int) -> int:
    """Return how many edges of an explanation are compared: half of them, at least one, at most ten.

    >>> shown(1), shown(8), shown(300)
    (1, 4, 10)
    """
    return max(1, min(SHOWN, edges // 2))


def ranks(values: Tensor, groups: Tensor) -> Tensor:
    """Return ranks from 1 within each group, equal values sharing the mean of theirs: ``(M,), (M,) -> (M,)``.

    >>> ranks(torch.tensor([0.3, 0.1, 0.3, 0.7]), torch.tensor([0, 0, 0, 1])).tolist()
    [2.5, 1.0, 2.5, 1.0]
    """
    order = values.argsort()
    order = order[groups[order].argsort(stable=True)]
    first = torch.ones_like(order, dtype=torch.bool)  # of equal values of a group
    first[1:] = (values[order].diff() != 0) | (groups[order].diff() != 0)
    equal = first.cumsum(0) - 1
    counts, sizes = torch.bincount(equal), torch.bincount(groups)
    shared = counts.cumsum(0) - (counts - 1) / 2.0
    found = torch.empty(values.numel(), dtype=torch.double, device=values.device)
    found[order] = shared[equal].double()
    return found - (sizes.cumsum(0) - sizes)[groups]


def group_spearman(a: Tensor, b: Tensor, groups: Tensor) -> Tensor:
    """Return Spearman's rank correlation within each group; 0 where a side is constant: three ``(M,) -> (G,)``."""
    sizes = torch.bincount(groups)
    left, right = (ranks(values, groups) - ((sizes + 1) / 2)[groups] for values in (a, b))

    def summed(products: Tensor) -> Tensor:
        return products.new_zeros(sizes.numel()).index_add_(0, groups, products)

    scale = (summed(left * left) * summed(right * right)).sqrt()
    return torch.where(scale > 0, summed(left * right) / scale.clamp(min=1e-300), 0.0).clamp(-1, 1)


def spearman(a: Tensor, b: Tensor) -> float:
    """Return Spearman's rank correlation of two ``(M,)``; 0 where one of them is constant, which ranks nothing.

    >>> spearman(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([10.0, 30.0, 20.0]))
    0.5
    """
    return float(group_spearman(a, b, torch.zeros_like(a, dtype=torch.long)))
