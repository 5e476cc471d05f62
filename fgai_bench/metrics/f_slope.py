"""F-slope: how fast predictions fall when the edges that attention ranks highest, or lowest, are deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fgai_bench.metrics.base import FGAI, NULLS, SLOPE, NotApplicable, metric
from fgai_bench.metrics.inputs import finite
from fgai_bench.models.attention import Attention, align

if TYPE_CHECKING:
    from torch_geometric.data import Data

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


def f_acc(correct_before: Tensor, correct_after: Tensor) -> float:
    """Return the share of the nodes classified correctly before that still are after: two ``(N,)`` boolean masks.

    >>> f_acc(torch.tensor([True, True, False]), torch.tensor([True, False, True]))
    0.5
    """
    if correct_before.shape != correct_after.shape:
        raise ValueError(
            f"f_acc needs masks of one shape, got {tuple(correct_before.shape)} and {tuple(correct_after.shape)}"
        )
    before = int(correct_before.sum())
    if not before:
        raise NotApplicable("no node was classified correctly before edges were deleted")
    return int((correct_before & correct_after).sum()) / before


def f_acc_curve(
    predict: Callable[[Tensor], Tensor],
    data: Data,
    attention: Attention,
    y: Tensor,
    nodes: Tensor,
    rates: Sequence[float] = RATES,
    highest: bool = True,
    right_before: bool = False,
) -> tuple[float, ...]:
    """Return ``F_acc`` at each rate: ``F+`` deletes the edges of highest attention first, ``F-`` those of lowest.

    Args:
        predict: maps an ``edge_index`` to the predicted class of every node ``(N,)``; features stay as they are.
        data: the graph whose edges are deleted.
        attention: what ranks its edges, matched by (source, destination); edges without attention count 0.
        y: ``(N,)`` true classes.
        nodes: the nodes that count, for example the test nodes: indices or a mask.
        rates: shares of the edges to delete.
        highest: True for ``F+``, False for ``F-``.
        right_before: whether ``nodes`` are already those classified correctly before, for example on the graph before
            an attack; otherwise those of them count that are right on ``data`` as it is.

    >>> from torch_geometric.data import Data
    >>> data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    >>> attention = Attention(data.edge_index, torch.tensor([0.9, 0.1]))
    >>> in_degree = lambda edges: torch.bincount(edges[1], minlength=2)
    >>> f_acc_curve(in_degree, data, attention, torch.tensor([1, 1]), torch.tensor([0, 1]), rates=(0.0, 0.5))
    (1.0, 0.5)
    """
    if data.edge_index is None:
        raise ValueError("f_acc_curve needs a graph with an edge_index")
    edges = data.edge_index
    order = deletion_order(attention_over(edges, attention), highest)
    intact = predict(edges)[nodes] == y[nodes]
    before = torch.ones_like(intact) if right_before else intact
    after = (predict(edges[:, kept_mask(order, rate)])[nodes] == y[nodes] if rate else intact for rate in rates)
    return tuple(f_acc(before, correct) for correct in after)


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
