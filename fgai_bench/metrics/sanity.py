"""Sanity: edge rankings that know nothing of the model; an attention worth reading beats their F-slope curves."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fgai_bench.models.attention import Attention
from fgai_bench.seeds import generator


def random_ranking(edge_index: Tensor, seed: int = 0) -> Attention:
    """Edges in a random order that depends on the seed only, the same on every device.

    >>> edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    >>> torch.equal(random_ranking(edges, seed=1).weight, random_ranking(edges, seed=1).weight)
    True
    """
    weight = torch.rand(edge_index.shape[1], generator=generator(seed, "random-ranking"))
    return Attention(edge_index, weight.to(edge_index.device))


def uniform_ranking(edge_index: Tensor, seed: int = 0) -> Attention:
    """Every node pays the same attention to each of its in-edges, one over its in-degree: a mean over neighbours.

    One constant for all edges would rank them by their position in the file; the seed has no effect.

    >>> uniform_ranking(torch.tensor([[0, 1, 0], [2, 2, 1]])).weight.tolist()
    [0.5, 0.5, 1.0]
    """
    return Attention(edge_index, 1.0 / torch.bincount(edge_index[1]).float()[edge_index[1]])


def degree_ranking(edge_index: Tensor, seed: int = 0) -> Attention:
    r"""Edges by the degrees of their ends, with the fixed weight of a GCN; the seed has no effect.

    .. math:: w_{ij} = \frac{1}{\sqrt{d_i d_j}}

    The degree of a node is the number of edges that leave or enter it.

    >>> degree_ranking(torch.tensor([[0, 1], [2, 2]])).weight.tolist()  # 1 / sqrt(1 * 2)
    [0.7071067690849304, 0.7071067690849304]
    """
    degree = torch.bincount(edge_index.flatten()).float()
    return Attention(edge_index, (degree[edge_index[0]] * degree[edge_index[1]]).rsqrt())


RANKINGS: dict[str, Callable[[Tensor, int], Attention]] = {
    "random": random_ranking,
    "uniform": uniform_ranking,
    "degree": degree_ranking,
}
