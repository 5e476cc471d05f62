"""Find the nodes that an attack can reach: the meaning of "reached" in the name of a metric."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.data.extend import reached_nodes
from fgai_bench.metrics import NotApplicable
from fgai_bench.models.base import AttentionModel, Output


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
