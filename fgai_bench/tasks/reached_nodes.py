"""Find the nodes that an attack can reach: the meaning of "reached" in the name of a metric."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks.changes import row_differences
from fgai_bench.metrics import NotApplicable
from fgai_bench.models.base import AttentionModel, Output


def reached_nodes(clean: Data, attacked: Data, layers: int | None) -> Tensor:
    """Return which original nodes have something that changed within ``layers`` hops behind them: ``(N,)`` boolean.

    A node is reached by one layer if an edge into it is new, or if its own features or those of an in-neighbour have
    changed; by every further layer if an in-neighbour was reached before. A model that is not local (``layers`` is
    None), such as one with encodings of the whole graph, is reached everywhere.

    >>> path = Data(x=torch.zeros(4, 1), edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]))
    >>> longer = Data(x=torch.zeros(5, 1), edge_index=torch.tensor([[0, 1, 2, 4], [1, 2, 3, 1]]))
    >>> reached_nodes(path, longer, layers=2).tolist()
    [False, True, True, False]
    """
    nodes, size, edges = clean.x.shape[0], attacked.x.shape[0], clean.edge_index.size(1)
    if layers is None:
        return torch.ones(nodes, dtype=torch.bool, device=clean.edge_index.device)
    source, destination = attacked.edge_index
    reached = torch.zeros(size, dtype=torch.bool, device=source.device)
    reached[:nodes] = row_differences(clean.x, attacked.x).to(source.device) > 0
    if not layers:
        return reached[:nodes]
    reached[destination[reached[source]]] = True
    reached[destination[edges:]] = True
    for _ in range(layers - 1):
        reached[destination[reached[source]]] = True
    return reached[:nodes]


def reached_by_attack(model: AttentionModel, data: Data, attacked: Data, clean: Output, perturbed: Output) -> Tensor:
    """Return which original nodes an attack can reach through a model: ``(N,)`` boolean.

    A model that counts its hops may still look at the whole graph, by a normalisation over all nodes, say. So where
    an output changes beyond the hops, every node counts as reached.
    """
    reached = reached_nodes(data, attacked, model.hops_behind(clean))
    nodes = data.x.shape[0]
    before, after = clean.logits[:nodes][~reached], perturbed.logits[:nodes][~reached]
    if not model.local and not torch.allclose(before, after, rtol=1e-4, atol=1e-5):
        return torch.ones_like(reached)
    return reached


def not_empty(mask: Tensor) -> Tensor:
    """Return the mask itself, or raise :class:`NotApplicable` where it holds nothing."""
    if not bool(mask.any()):
        raise NotApplicable("the attack reaches none of these nodes")
    return mask
