"""F-slope: how fast predictions fall when the edges that attention ranks highest, or lowest, are deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fgai_bench.metrics.base import FGAI, NULLS, SLOPE, NotApplicable, metric
from fgai_bench.metrics.inputs import finite
from fgai_bench.models.attention import Attention, align

RATES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)


@metric(
    "f_slope_pos",
    inputs="curve-highest",
    summary="signed slope of accuracy as the highest-attention edges go; steeper down is better",
    direction="lower",
    range=SLOPE,
    paper=FGAI,
)
@metric(
    "f_slope_neg",
    inputs="curve-lowest",
    summary="signed slope of accuracy as the lowest-attention edges go; flatter is better",
    direction="higher",
    range=SLOPE,
    paper=FGAI,
)
@metric(
    "f_slope_pos_random",
    inputs="curve-highest-random",
    summary="f_slope_pos of edges ranked by the null 'random'",
    range=SLOPE,
    paper=FGAI,
    also={
        f"f_slope_{sign}_{null}": (f"curve-{end}-{null}", f"f_slope_{sign} of edges ranked by the null {null!r}")
        for null in NULLS
        for sign, end in (("pos", "highest"), ("neg", "lowest"))
    },
)
def f_slope(rates: Sequence[float], accuracies: Sequence[float]) -> float:
    r"""Return the signed least-squares slope of the curve ``F_acc(r)``; usually negative, the paper prints magnitudes.

    .. math:: \frac{\sum_r (r - \bar r)(F_{acc}(r) - \bar F)}{\sum_r (r - \bar r)^2}

    >>> round(f_slope([0.0, 0.1, 0.2], [1.0, 0.9, 0.7]), 6)  # (-.1 * 1 + .1 * .7) / (2 * .01)
    -1.5
    """
    if len(rates) != len(accuracies):
        raise ValueError(
            f"f_slope needs one accuracy per rate, got {len(rates)} rates and {len(accuracies)} accuracies"
        )
    r = finite(torch.as_tensor(rates, dtype=torch.double), "rates")
    f = finite(torch.as_tensor(accuracies, dtype=torch.double), "accuracies")
    if r.numel() < 2 or bool((r == r[0]).all()):
        raise ValueError("f_slope needs at least two different rates")
    centred = r - r.mean()
    return float((centred * (f - f.mean())).sum() / (centred * centred).sum())


def deletion_order(attention: Attention, highest: bool = True) -> Tensor:
    """Return the edges of the graph in the order in which they are deleted; of equal weights the earlier edge first.

    Each direction of an undirected edge has its own attention and is deleted by itself. Self-loops that the model added
    are no edges of the graph and do not appear.

    Shapes: ``-> (E,)`` positions in ``attention.of_graph().edge_index``.

    >>> att = Attention(torch.tensor([[0, 1, 2, 0], [1, 0, 0, 0]]), torch.tensor([1.0, 0.3, 0.3, 0.4]), added=1)
    >>> deletion_order(att).tolist(), deletion_order(att, highest=False).tolist()
    ([0, 1, 2], [1, 2, 0])
    """
    weight = finite(attention.of_graph().weight, "weights")
    return weight.argsort(descending=highest, stable=True)


def f_acc_curve(
    predict: Callable[[Tensor], Tensor],
    edges: Tensor,
    attention: Attention,
    y: Tensor,
    nodes: Tensor,
    highest: bool = True,
    rates: Sequence[float] = RATES,
) -> tuple[float, ...]:
    """Return ``F_acc`` at each rate: ``F+`` deletes the edges of highest attention first, ``F-`` those of lowest.

    Args:
        predict: maps an ``edge_index`` to the predicted class of every node ``(N,)``; features stay as they are.
        edges: ``(2, E)`` of the graph.
        attention: what ranks them, matched by (source, destination); edges without attention count 0.
        y: ``(N,)`` true classes.
        nodes: ``(K,)`` the nodes that count: those classified correctly before, for example before an attack.
        highest: True for ``F+``, False for ``F-``.
        rates: shares of the edges to delete.

    >>> edges = torch.tensor([[0, 1], [1, 0]])
    >>> attention = Attention(edges, torch.tensor([0.9, 0.1]))
    >>> in_degree = lambda edges: torch.bincount(edges[1], minlength=2)
    >>> f_acc_curve(in_degree, edges, attention, torch.tensor([1, 1]), torch.tensor([0, 1]), rates=(0.0, 0.5))
    (1.0, 0.5)
    """
    if not nodes.numel():
        raise NotApplicable("no node was classified correctly before edges were deleted")
    order = deletion_order(attention_over(edges, attention), highest)
    left = (edges[:, kept_mask(order, rate)] if rate else edges for rate in rates)
    return tuple(int((predict(kept)[nodes] == y[nodes]).sum()) / nodes.numel() for kept in left)


def kept_mask(order: Tensor, rate: float) -> Tensor:
    """Return a mask of the edges that remain after deleting the share ``rate``, rounded down: ``(E,)``."""
    if not 0 <= rate <= 1:
        raise ValueError(f"the share of deleted edges lies between 0 and 1, got {rate}")
    kept = torch.ones_like(order, dtype=torch.bool)
    # 0.29 * 100 is 28.999...: without the nudge a whole number of edges would lose one.
    kept[order[: int(rate * order.numel() + 1e-9)]] = False
    return kept


def attention_over(edges: Tensor, attention: Attention) -> Attention:
    """Return the attention in the order of ``edges``: a defense may have attended over fewer or other edges."""
    graph = attention.of_graph()
    if torch.equal(graph.edge_index, edges):
        return graph
    return Attention(edges, align(Attention(edges, torch.zeros_like(edges[0], dtype=graph.weight.dtype)), graph)[1])
