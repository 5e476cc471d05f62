"""Masks of T_k, the k largest entries of a vector, over the whole graph or within each group; ties by position."""

import torch
from torch import Tensor


def topk_mask(w: Tensor, k: int) -> Tensor:
    """Return a mask of the ``k`` largest entries, of each row if there are several; of equal entries the earlier ones.

    It partitions around the k-th largest value instead of sorting: k is about half of millions of edges.

    Shapes: ``(..., E) -> (..., E)`` boolean.

    >>> topk_mask(torch.tensor([0.2, 0.5, 0.2, 0.1]), 2).tolist()
    [True, True, False, False]
    """
    if not 1 <= k <= w.shape[-1]:
        raise ValueError(f"k must be between 1 and the number of edges, got k={k} for {w.shape[-1]} edges")
    w = w.detach()
    threshold = torch.topk(w, k, sorted=False).values.amin(-1, keepdim=True)
    above, ties = w > threshold, w == threshold  # (..., E)
    return above | (ties & (ties.cumsum(-1) <= k - above.sum(-1, keepdim=True)))


def group_topk_mask(w: Tensor, groups: Tensor, share: float) -> Tensor:
    """Return a mask of the largest entries of each group; :func:`group_counts` says how many per group.

    Shapes: ``(E,), (E,) -> (E,)`` boolean.

    >>> group_topk_mask(torch.tensor([0.2, 0.9, 0.8, 0.1]), torch.tensor([0, 1, 0, 1]), 0.5).tolist()
    [False, True, True, False]
    """
    return largest_of_groups(w.detach(), groups, group_counts(groups, share))


def largest_of_groups(w: Tensor, groups: Tensor, counts: Tensor) -> Tensor:
    """Return the same mask for given numbers of entries: ``(E,), (E,), (G,) -> (E,)``."""
    order, rank = ranks_in_groups(w.argsort(descending=True, stable=True), groups)
    return torch.empty_like(groups, dtype=torch.bool).index_copy_(0, order, rank < counts[groups[order]])


def ranks_in_groups(order: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
    """Sort an order of all or some entries by their groups, and return it with the rank of each in its group.

    >>> ranks_in_groups(torch.tensor([2, 0, 1]), torch.tensor([0, 1, 0]))
    (tensor([2, 0, 1]), tensor([0, 1, 0]))
    """
    order = order[groups[order].argsort(stable=True)]
    sizes = torch.bincount(groups[order])  # (G,)
    return order, torch.arange(order.numel(), device=order.device) - (sizes.cumsum(0) - sizes)[groups[order]]


def group_counts(groups: Tensor, share: float) -> Tensor:
    """Return how many entries of each group make up ``share`` of it, rounded down but at least one: ``(E,) -> (G,)``.

    >>> group_counts(torch.tensor([0, 0, 0, 2]), 0.5).tolist()
    [1, 1, 1]
    """
    if not 0 < share <= 1:
        raise ValueError(f"within groups k is a share above 0 and at most 1, got {share}")
    # 0.29 * 100 is 28.999...: without the nudge a whole number of edges would lose one.
    return (torch.bincount(groups).double() * share + 1e-9).floor().long().clamp(min=1)
