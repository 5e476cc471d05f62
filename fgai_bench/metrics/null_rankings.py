"""Null rankings of edges and a null attention: both know nothing of the model, and an explanation has to beat them.

An attention worth reading ranks edges better than the rankings do, and a stable one changes less than an attention that
is uniform, which explains nothing.
"""

import torch
from torch import Tensor

from fgai_bench.models.attention import Attention
from fgai_bench.models.sorted_edges import sorted_edges
from fgai_bench.seeds import generator


def random_ranking(edge_index: Tensor, seed: int = 0) -> Attention:
    """Rank the edges in a random order that depends on the seed only, the same on every device.

    >>> edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    >>> torch.equal(random_ranking(edges, seed=1).weight, random_ranking(edges, seed=1).weight)
    True
    """
    weight = torch.rand(edge_index.shape[1], generator=generator(seed, "random-ranking"))
    return Attention(edge_index, weight.to(edge_index.device))


def uniform_ranking(edge_index: Tensor) -> Attention:
    """Rank the edges by one over the in-degree of their destination: the attention of a mean over neighbours.

    One constant for all edges would rank them by their position in the file.

    >>> uniform_ranking(torch.tensor([[0, 1, 0], [2, 2, 1]])).weight.tolist()
    [0.5, 0.5, 1.0]
    """
    return Attention(edge_index, 1.0 / torch.bincount(edge_index[1]).float()[edge_index[1]])


def uniform_attention(edge_index: Tensor, num_nodes: int) -> Attention:
    r"""Return the attention of a mean over neighbours, self-loops included as the models add them.

    .. math:: w_{ij} = \frac{1}{d_i + 1}

    Shapes: ``(2, E) -> Attention`` over ``E`` edges and a self-loop for every node that has none.

    >>> uniform_attention(torch.tensor([[0, 1], [2, 2]]), 3).of_graph().weight.tolist()  # 1 / (2 + 1)
    [0.3333333432674408, 0.3333333432674408]
    """
    edges = sorted_edges(edge_index, num_nodes)
    weight = edges.pointer.diff().float().reciprocal()[edges.edge_index[1]]  # (E + loops,)
    return Attention(edges.edge_index, weight, edges.added)


def degree_ranking(edge_index: Tensor) -> Attention:
    r"""Rank the edges by the degrees of their ends, with the fixed weight of a GCN.

    .. math:: w_{ij} = \frac{1}{\sqrt{d_i d_j}}

    The degree of a node is the number of edges that leave or enter it.

    >>> degree_ranking(torch.tensor([[0, 1], [2, 2]])).weight.tolist()  # 1 / sqrt(1 * 2)
    [0.7071067690849304, 0.7071067690849304]
    """
    degree = torch.bincount(edge_index.flatten()).float()
    return Attention(edge_index, (degree[edge_index[0]] * degree[edge_index[1]]).rsqrt())
