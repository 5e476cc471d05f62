"""Metrics of explanations of single nodes before and after an attack: overlap of top edges, correlation of ranks."""

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from fgai_bench.metrics.base import CORRELATION, FGAI, HIGHER_SHARE, NotApplicable, metric, repeated_and_unchanged
from fgai_bench.metrics.inputs import finite_pair
from fgai_bench.metrics.ranks import differs, group_spearman, shown
from fgai_bench.metrics.stability import destinations
from fgai_bench.metrics.topk import largest_of_groups
from fgai_bench.models.attention import Attention, align

Pairs = Sequence[tuple[Attention, Attention]]


class Explanations(list[tuple[Attention, Attention]]):
    """Explanations of nodes before and after an attack, node by node; joined once, for all metrics."""

    @cached_property
    def joined(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the weights of aligned explanations, clean and attacked, and the node of each edge: three ``(M,)``."""
        if not self:
            raise NotApplicable("no explained node counts")
        ends = torch.cat([mask.edge_index.flatten() for pair in self for mask in pair])
        size = 1 + int(ends.max()) if ends.numel() else 1

        def side_by_side(masks: Sequence[Attention]) -> Attention:
            edges = [mask.edge_index + place * size for place, mask in enumerate(masks)]
            return Attention(torch.cat(edges, dim=1), torch.cat([mask.weight for mask in masks]))

        clean = side_by_side([pair[0] for pair in self])
        aligned = align(clean, side_by_side([pair[1] for pair in self]))
        return *finite_pair(*aligned, "scores"), destinations(clean) // size


def _joined(pairs: Pairs) -> tuple[Tensor, Tensor, Tensor]:
    return (pairs if isinstance(pairs, Explanations) else Explanations(pairs)).joined


@metric(
    "explainer_topk_overlap",
    inputs="explanations",
    summary="mean overlap of the top edges of an explanation before and after an attack",
    **HIGHER_SHARE,
    paper=FGAI,
    also=repeated_and_unchanged("explainer_topk_overlap", "mean overlap of the top edges of an explanation"),
)
def explanation_overlap(pairs: Pairs) -> float:
    """Return the mean of V_k of two explanations of one node over the edges that the clean one can see.

    k is half of these, at least one and at most ten; ties are broken by edge order. A node counts if both of its
    explanations name an edge.

    >>> edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    >>> before, after = (Attention(edges, torch.tensor(w)) for w in ([0.9, 0.2, 0.0], [0.1, 0.8, 0.9]))
    >>> explanation_overlap([(before, after)])
    0.0
    """
    w, w_tilde, node = _joined(pairs)
    before, after = (_names_an_edge([pair[side] for pair in pairs]) for side in (0, 1))
    counted = (w > 0) & (before & after)[node]
    if not bool(counted.any()):
        raise NotApplicable("the explanation of a node names no edge")
    w, w_tilde, node = w[counted], w_tilde[counted], node[counted]
    sizes = torch.bincount(node)  # (nodes,)
    shared = largest_of_groups(w, node, shown(sizes)) & largest_of_groups(w_tilde, node, shown(sizes))
    return float((torch.bincount(node, shared.double()) / shown(sizes))[sizes > 0].mean())


def _names_an_edge(masks: Sequence[Attention]) -> Tensor:
    """Tell which explanations give an edge a score other than 0: ``(nodes,)`` boolean."""
    weight = torch.cat([mask.weight for mask in masks])
    sizes = torch.tensor([mask.weight.numel() for mask in masks], device=weight.device)
    return torch.bincount(torch.repeat_interleave(sizes), (weight != 0).double(), minlength=len(masks)) > 0


@metric(
    "explainer_rank_correlation",
    inputs="explanations",
    summary="mean rank correlation of an explanation before and after an attack",
    direction="higher",
    range=CORRELATION,
    also=repeated_and_unchanged("explainer_rank_correlation", "mean rank correlation of an explanation"),
)
def explanation_rank_correlation(pairs: Pairs) -> float:
    """Return the mean of Spearman's correlation of two explanations over the edges of the clean one.

    A node with one edge, or whose two explanations are both constant, ranks nothing before or after: it counts 1.

    >>> import torch
    >>> edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    >>> before, after = (Attention(edges, torch.tensor(w)) for w in ([0.9, 0.2, 0.1], [0.1, 0.2, 0.9]))
    >>> explanation_rank_correlation([(before, after)])
    -1.0
    """
    w, w_tilde, node = _joined(pairs)
    found, sizes = group_spearman(w, w_tilde, node), torch.bincount(node)
    silent = ~(differs(w, node) | differs(w_tilde, node))
    return float(found.masked_fill(silent, 1.0)[sizes > 0].mean())
