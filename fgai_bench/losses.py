"""Compute the differentiable terms of FGAI's objective, as pure functions of tensors."""

from torch import Tensor

from fgai_bench.metrics.stability import jensen_shannon_terms
from fgai_bench.metrics.topk import group_counts, group_topk_mask, topk_mask


def tvd(y: Tensor, y_tilde: Tensor) -> Tensor:
    r"""Return the total variation distance, summed over nodes.

    .. math:: D(y, \tilde y) = \frac{1}{2} \sum_{i=1}^{N} \lVert y_i - \tilde y_i \rVert_1

    The half is that of the textbook definition, which the paper's g-TVD divides by N: ``tvd = N * g_tvd``.
    The rows may be probabilities or raw outputs.

    Shapes: ``(N, C), (N, C) -> ()``.

    >>> import torch
    >>> tvd(torch.tensor([[1.0, 0.0], [0.5, 0.5]]), torch.tensor([[0.75, 0.25], [0.5, 0.5]]))
    tensor(0.2500)
    """
    if y.shape != y_tilde.shape:
        raise ValueError(f"tvd needs outputs of one shape, got {tuple(y.shape)} and {tuple(y_tilde.shape)}")
    return 0.5 * (y - y_tilde).abs().sum()


Tops = tuple[Tensor | None, Tensor | None]
"""Of two attentions, the masks of their top-k ``(E,)`` where they are known: selecting costs more than adding."""


def topk_surrogate(
    w: Tensor, w_tilde: Tensor, k: float, groups: Tensor | None = None, tops: Tops = (None, None)
) -> Tensor:
    r"""Return a surrogate of the top-k overlap: how far two attentions lie apart on the top-k entries of either.

    .. math:: L_k(a, b) = \frac{1}{2k} \left( \sum_{e \in T_k(a)} |a_e - b_e| + \sum_{e \in T_k(b)} |a_e - b_e| \right)

    The index sets are constants of the gradient; ties are broken by edge order.

    Args:
        w: ``(E,)`` attention.
        w_tilde: ``(E,)`` attention over the same edges (see :func:`fgai_bench.models.align`).
        k: how many edges of the graph; with ``groups``, which share of each group's edges (rounded down, at least one).
        groups: ``(E,)`` destination of each edge, for the node scope: the mean of ``L_k`` over the groups.
        tops: the masks of both top-k, as :func:`in_topk` returns them, where they are known.

    >>> import torch
    >>> a, b = torch.tensor([0.5, 0.25, 0.25, 0.0]), torch.tensor([0.25, 0.5, 0.0, 0.25])
    >>> topk_surrogate(a, b, k=1)  # edge 0 is a's top, edge 1 is b's: (|.5-.25| + |.25-.5|) / 2
    tensor(0.2500)
    >>> topk_surrogate(a, b, k=0.5, groups=torch.tensor([0, 0, 1, 1]))
    tensor(0.2500)
    """
    times = _times_in_topk(w, w_tilde, k, groups, tops)
    if groups is None:
        return ((w - w_tilde).abs() * times).sum() / (2 * k)
    per_edge = times / (2 * group_counts(groups, k)[groups])  # (E,)
    return ((w - w_tilde).abs() * per_edge).sum() / groups.bincount().count_nonzero()


def topk_variation(
    w: Tensor, w_tilde: Tensor, k: float, nodes: int, groups: Tensor | None = None, tops: Tops = (None, None)
) -> Tensor:
    r"""Return how far the attention of a node moves on the top-k edges, averaged over the nodes: ``L_k`` per node.

    .. math:: \frac{1}{4N} \left( \sum_{e \in T_k(a)} |a_e - b_e| + \sum_{e \in T_k(b)} |a_e - b_e| \right)

    The attention of a node sums to one, so this lies in [0, 1] and depends neither on the number of edges nor on their
    number per node: it is the total variation distance of a node's attention, limited to the top-k. Arguments as in
    :func:`topk_surrogate`; ``nodes`` is N.

    >>> import torch
    >>> a, b = torch.tensor([0.5, 0.5, 1.0]), torch.tensor([0.25, 0.75, 1.0])  # two nodes, of two edges and of one
    >>> topk_variation(a, b, k=3, nodes=2)  # (1/2) * (|.5-.25| + |.5-.75|) / 2 nodes
    tensor(0.1250)
    """
    return ((w - w_tilde).abs() * _times_in_topk(w, w_tilde, k, groups, tops)).sum() / (4 * nodes)


def in_topk(w: Tensor, k: float, groups: Tensor | None = None) -> Tensor:
    """Return the mask of T_k(w), ``(E,)`` boolean; arguments as in :func:`topk_surrogate`.

    >>> import torch
    >>> in_topk(torch.tensor([0.5, 0.25, 0.25, 0.0]), k=2).tolist()
    [True, True, False, False]
    """
    return topk_mask(w, int(k)) if groups is None else group_topk_mask(w, groups, k)


def _times_in_topk(w: Tensor, w_tilde: Tensor, k: float, groups: Tensor | None, tops: Tops) -> Tensor:
    """In how many of the two top-k sets each edge is: ``(E,)`` 0, 1 or 2.

    They multiply and do not select, so that a NaN outside the top-k still shows in the loss.
    """
    if w.shape != w_tilde.shape or w.dim() != 1:
        raise ValueError(f"top-k terms need two (E,) weights, got {tuple(w.shape)} and {tuple(w_tilde.shape)}")
    if groups is None and int(k) != k:
        raise ValueError(f"over the whole graph k is a number of edges, got {k}")
    if groups is not None and groups.shape != w.shape:
        raise ValueError(f"groups must name one group per edge, got {tuple(groups.shape)} for {w.numel()} edges")
    if not w.numel():
        raise ValueError("top-k terms need at least one edge")
    mine, others = (in_topk(v, k, groups) if top is None else top for v, top in zip((w, w_tilde), tops, strict=True))
    return mine.to(w.dtype) + others.to(w.dtype)


def jsd(w: Tensor, w_tilde: Tensor) -> Tensor:
    r"""Return the Jensen-Shannon divergence of two attentions, averaged over the edges: the differentiable g-JSD.

    .. math:: \frac{1}{2|E|} \sum_e \left( w_e \ln \frac{w_e}{m_e} + \tilde w_e \ln \frac{\tilde w_e}{m_e} \right),
        \quad m = \frac{w + \tilde w}{2}

    Shapes: ``(E,), (E,) -> ()``.

    >>> import torch
    >>> round(jsd(torch.tensor([1.0]), torch.tensor([0.0])).item(), 4)  # ln(2) / 2
    0.3466
    """
    if w.shape != w_tilde.shape:
        raise ValueError(f"jsd needs weights over the same edges, got {tuple(w.shape)} and {tuple(w_tilde.shape)}")
    return jensen_shannon_terms(w, w_tilde).sum() / (2 * max(w.numel(), 1))
