"""Ranks: Spearman's correlation, and how many edges of an explanation are compared."""

import torch
from torch import Tensor

SHOWN = 10  # edges of an explanation that a person looks at


def shown(edges: Tensor) -> Tensor:
    """Return how many edges of explanations are compared: half of each one's edges, at least one, at most ten.

    >>> shown(torch.tensor([1, 8, 300])).tolist()
    [1, 4, 10]
    """
    return (edges // 2).clamp(1, SHOWN)


def below_and_equal(values: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
    """Return how many entries of its group are below each entry, and how many equal it, itself too: two ``(M,)``.

    >>> [part.tolist() for part in below_and_equal(torch.tensor([0.3, 0.1, 0.3, 0.7]), torch.tensor([0, 0, 0, 1]))]
    [[1, 0, 1, 0], [2, 1, 2, 1]]
    """
    order = values.argsort()
    order = order[groups[order].argsort(stable=True)]
    first = torch.ones_like(order, dtype=torch.bool)  # of equal values of a group
    first[1:] = (values[order].diff() != 0) | (groups[order].diff() != 0)
    run = first.cumsum(0) - 1
    counts, sizes = torch.bincount(run), torch.bincount(groups)
    begins = (counts.cumsum(0) - counts)[run] - (sizes.cumsum(0) - sizes)[groups[order]]
    below, equal = torch.empty_like(order), torch.empty_like(order)
    below[order], equal[order] = begins, counts[run]
    return below, equal


def ranks(values: Tensor, groups: Tensor) -> Tensor:
    """Return ranks from 1 within each group, equal values sharing the mean of theirs: ``(M,), (M,) -> (M,)``.

    >>> ranks(torch.tensor([0.3, 0.1, 0.3, 0.7]), torch.tensor([0, 0, 0, 1])).tolist()
    [2.5, 1.0, 2.5, 1.0]
    """
    below, equal = below_and_equal(values, groups)
    return below + (equal + 1).double() / 2


def top_chance(values: Tensor, groups: Tensor, counts: Tensor) -> Tensor:
    """Return each entry's chance to be one of the largest of its group, if ties fall at random: ``(M,)``.

    ``counts`` is ``(G,)``, how many entries of each group are the largest.

    >>> top_chance(torch.tensor([0.5, 0.2, 0.2, 0.1]), torch.tensor([0, 0, 0, 0]), torch.tensor([2])).tolist()
    [1.0, 0.5, 0.5, 0.0]
    """
    below, equal = below_and_equal(values, groups)
    above = torch.bincount(groups)[groups] - below - equal
    return ((counts[groups] - above) / equal.double()).clamp(0, 1)


def extreme(values: Tensor, groups: Tensor, which: str) -> Tensor:
    """Return the largest (``amax``) or the smallest (``amin``) value of each group: ``(M,), (M,) -> (G,)``."""
    return values.new_zeros(int(groups.max()) + 1).scatter_reduce(0, groups, values, which, include_self=False)


def differs(values: Tensor, groups: Tensor) -> Tensor:
    """Tell which groups have entries of different values: ``(M,), (M,) -> (G,)`` boolean."""
    return extreme(values, groups, "amax") > extreme(values, groups, "amin")


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
