"""Edges that are known to matter: what a graph with a built-in truth says, and how scores are held against it.

A dataset with the tag ``truth`` carries ``truth_nodes`` (T,) and ``truth_edges`` (2, T): the edge ``truth_edges[:, i]``
truly matters to the label of the node ``truth_nodes[i]``. That is a truth of the generator. It is one of the model only
where the model predicts the node rightly, so nodes that are predicted wrongly, or that an attack has changed, are
counted apart.
"""

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.explainers import EdgeScores
from fgai_bench.explainers.computation_graph import field_of

Truths = list[tuple[Tensor, Tensor]]


def has_truth(data: Data) -> bool:
    """Tell whether a graph says which edges matter."""
    return "truth_nodes" in data and "truth_edges" in data


def nodes_with_truth(data: Data, hops: int) -> Tensor:
    """Return the nodes with edges within reach that are known to matter and others that do not: ``(K,)``, ascending."""
    nodes = torch.unique(data.truth_nodes)
    field = field_of(data.edge_index, data.x.shape[0], nodes, hops)
    true = is_true(data, data, EdgeScores.on(field, torch.zeros(field.edges.numel(), device=nodes.device)))
    counts = [torch.bincount(field.owner[kind], minlength=nodes.numel()) for kind in (true, ~true)]
    return nodes[(counts[0] > 0) & (counts[1] > 0)]


def is_true(clean: Data, graph: Data, scores: EdgeScores) -> Tensor:
    """Tell which (node, edge) pairs of scores on ``graph`` are true by the clean graph's truth: ``(M,)`` boolean.

    Edges that an attack added are never true.
    """
    size = graph.x.shape[0]
    source, destination = graph.edge_index[:, scores.edges]
    keys = (scores.nodes[scores.owner] * size + source) * size + destination
    known = (clean.truth_nodes * size + clean.truth_edges[0]) * size + clean.truth_edges[1]
    return torch.isin(keys, known)


def truths(clean: Data, graph: Data, scores: EdgeScores, counted: Tensor) -> Truths:
    """Return scores and truth of the edges of each node that counts, on the CPU; ``counted`` is ``(B,)`` boolean."""
    true = is_true(clean, graph, scores)
    sizes = torch.bincount(scores.owner, minlength=scores.nodes.numel()).tolist()
    both = zip(scores.values.cpu().split(sizes), true.cpu().split(sizes), counted.tolist(), strict=True)
    return [(own, matters) for own, matters, counts in both if counts]
