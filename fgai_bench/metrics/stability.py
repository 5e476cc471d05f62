"""How far an attack moves the attention (g-JSD, overlap) and the output (g-TVD); and the entropy of attention.

Explainers other than attention: :mod:`fgai_bench.metrics.explainer_stability`.
"""

import math

import torch
from torch import Tensor

from fgai_bench.fast.ordered_sums import sum_at
from fgai_bench.metrics.base import (
    ANY_SIZE,
    FGAI,
    HALF_LN_2,
    HIGHER_SHARE,
    LOWER_DIVERGENCE,
    LOWER_OF_ANY_SIZE,
    LOWER_SHARE,
    SHARE,
    NotApplicable,
    metric,
)
from fgai_bench.metrics.inputs import finite, finite_pair, non_negative
from fgai_bench.metrics.topk import group_counts, group_topk_mask, topk_mask
from fgai_bench.models.attention import Attention, align


@metric(
    "g_tvd",
    inputs="probabilities",
    summary="graph-based total variation distance of the output distributions",
    tags=("distance", "symmetric"),
    **LOWER_SHARE,
    paper=FGAI,
    also={
        "g_tvd_unchanged": ("probabilities-unchanged", "g_tvd where the prediction did not change"),
        "g_tvd_floor": ("probabilities-repeated", "g_tvd with no attack: the noise floor"),
        "g_tvd_reached": ("probabilities-reached", "g_tvd over what the attack can reach"),
    },
)
def g_tvd(y: Tensor, y_tilde: Tensor) -> float:
    r"""Return the graph-based total variation distance of two output distributions, in [0, 1].

    .. math:: \frac{1}{2N} \sum_{i=1}^{N} \lVert y_i - \tilde y_i \rVert_1

    Shapes: ``(N, C), (N, C)`` probability rows; for raw outputs there is :func:`g_tvd_raw`.

    >>> g_tvd(torch.tensor([[1.0, 0.0], [0.5, 0.5]]), torch.tensor([[0.5, 0.5], [0.5, 0.5]]))
    0.25
    """
    for rows in (y, y_tilde):
        # Rows of half precision sum to one within a few thousandths.
        if rows.dim() != 2 or bool((rows < 0).any()) or bool(((rows.double().sum(1) - 1).abs() > 5e-3).any()):
            raise ValueError("g_tvd needs rows of probabilities that sum to one; raw outputs go to g_tvd_raw")
    # Rounded rows can lie a hair further apart than 1.
    return min(g_tvd_raw(y, y_tilde), 1.0)


@metric(
    "g_tvd_raw",
    inputs="logits",
    summary="g_tvd on raw outputs, the scale of the published values",
    tags=("distance", "symmetric"),
    **LOWER_OF_ANY_SIZE,
)
def g_tvd_raw(y: Tensor, y_tilde: Tensor) -> float:
    """Return the formula of :func:`g_tvd` on raw outputs: unbounded, and on the scale of the published values.

    Shapes: ``(N, C), (N, C)``.

    >>> g_tvd_raw(torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 1.0]]))
    2.0
    """
    before, after = finite_pair(y, y_tilde, "outputs")
    return float((before - after).abs().sum()) / (2 * len(before))


@metric(
    "g_jsd",
    inputs="weights",
    summary="graph-based Jensen-Shannon divergence of the attentions, edges matched by key",
    tags=("distance", "symmetric"),
    direction="lower",
    range=HALF_LN_2,
    scale="log",
    uniform="weights-uniform",
    paper=FGAI,
    also={
        "g_jsd_unchanged": ("weights-unchanged", "g_jsd into the nodes whose prediction did not change"),
        "g_jsd_floor": ("weights-repeated", "g_jsd with no attack: the noise floor"),
        "g_jsd_reached": ("weights-reached", "g_jsd into the nodes that it can reach"),
    },
)
def g_jsd(w: Tensor, w_tilde: Tensor) -> float:
    r"""Return the graph-based Jensen-Shannon divergence of two attentions over the same edges, never negative.

    .. math:: \frac{1}{2|E|} \sum_{e \in E} w_e \ln\frac{w_e}{m_e} + \tilde w_e \ln\frac{\tilde w_e}{m_e},
              \qquad m = \frac{w + \tilde w}{2}, \qquad 0 \ln 0 = 0

    Args:
        w: ``(E,)`` attention on the clean graph.
        w_tilde: ``(E,)`` attention on the attacked graph, both from ``align(att, att_tilde, common=True)``.

    >>> round(g_jsd(torch.tensor([1.0, 0.5]), torch.tensor([0.0, 0.5])), 6)  # ln 2 / 4
    0.173287
    """
    before, after = (non_negative(values, "weights") for values in finite_pair(w, w_tilde, "weights"))
    return max(float(jensen_shannon_terms(before, after).sum()) / (2 * before.numel()), 0.0)


@metric(
    "g_jsd_published",
    inputs="weights-by-position",
    summary="symmetrised KL by position, the scale of the published values",
    tags=("distance", "symmetric"),
    **LOWER_OF_ANY_SIZE,
)
def g_jsd_published(w: Tensor, w_tilde: Tensor) -> float:
    r"""Return the symmetrised KL closest to the published column: edges matched by position, divided by ``|E|`` twice.

    .. math:: \frac{1}{2|E|^2} \sum_{e=1}^{|E|} (w_e - \tilde w_e) \ln\frac{w_e}{\tilde w_e},
              \qquad |E| = \min(\text{lengths})

    This is what the paper's released evaluation computes in place of :func:`g_jsd`: both vectors are cut to one length,
    zeros count as 1e-10, and the mean over entries is divided by their number once more. Each term is at least 8 times
    the Jensen-Shannon term that it replaces (8 in the limit of close weights). Use it for that comparison only.

    Shapes: ``(E,), (E~,)``; the longer one is cut.

    >>> round(g_jsd_published(torch.tensor([0.5, 0.5]), torch.tensor([0.25, 0.5, 0.25])), 6)  # ln 2 / 4 / 8
    0.021661
    """
    length = min(w.numel(), w_tilde.numel())
    before, after = (non_negative(v, "weights") for v in finite_pair(w[:length], w_tilde[:length], "weights"))
    before, after = (torch.where(v == 0, 1e-10, v) for v in (before, after))
    return float(((before - after) * (before / after).log()).sum()) / (2 * length**2)


@metric(
    "node_jsd",
    inputs="attentions",
    summary="Jensen-Shannon divergence per destination node, averaged",
    tags=("distance",),
    **LOWER_DIVERGENCE,
    uniform="attentions-uniform",
)
def node_jsd(att: Attention, att_tilde: Attention) -> float:
    r"""Return the true Jensen-Shannon divergence per destination, averaged over the clean graph's nodes; in [0, ln 2].

    Each node's attention over the union of its in-edges, self-loops that the model added included, is a distribution
    (weights are divided by their sum, so this also holds for attentions that do not sum to one). A node that keeps no
    attention at all counts ln 2, as if the two distributions shared nothing.

    >>> clean = Attention(torch.tensor([[0, 1], [2, 2]]), torch.tensor([0.5, 0.5]))
    >>> attacked = Attention(torch.tensor([[3, 4], [2, 2]]), torch.tensor([0.5, 0.5]))
    >>> round(node_jsd(clean, attacked), 6)  # no edge in common: ln 2
    0.693147
    """
    return float(node_jsd_values(att, att_tilde)[1].mean())


def node_jsd_values(att: Attention, att_tilde: Attention) -> tuple[Tensor, Tensor]:
    """Return the clean graph's destination nodes ``(D,)`` and the divergence of each ``(D,)``; see :func:`node_jsd`."""
    if not att.weight.numel():
        raise NotApplicable("there are no weights to compare")
    edges = torch.cat([att.edge_index, att_tilde.edge_index], 1)  # (2, E + E~)
    size = int(edges.max()) + 1
    union, place = torch.unique(edges[1] * size + edges[0], return_inverse=True)  # (U,) destination first
    destination = union.div(size, rounding_mode="floor")
    at, at_tilde = place.split([att.weight.numel(), att_tilde.weight.numel()])
    p = _normalised_rows(destination, sum_at(at, _weights(att), len(union)), size)  # (U,)
    q = _normalised_rows(destination, sum_at(at_tilde, _weights(att_tilde), len(union)), size)
    divergence = sum_at(destination, jensen_shannon_terms(p, q) / 2, size)  # (size,)
    has_p, has_q = (sum_at(destination, rows, size) > 0 for rows in (p, q))
    divergence = torch.where(has_p == has_q, divergence, math.log(2)).clamp(0.0, math.log(2))
    nodes = torch.bincount(att.edge_index[1], minlength=size).nonzero().flatten()
    return nodes, divergence[nodes]


@metric(
    "topk_overlap",
    inputs="weights-or-zero",
    summary="share of the top-k edges of the graph in common, V_k",
    tags=("needs-k", "similarity", "symmetric"),
    **HIGHER_SHARE,
    uniform="weights-or-zero-uniform",
    paper=FGAI,
    also={"topk_overlap_reached": ("weights-or-zero-reached", "topk_overlap into the nodes that the attack can reach")},
)
def topk_overlap(w: Tensor, w_tilde: Tensor, k: int) -> float:
    r"""Return the share of the top-k edges that two attentions have in common, the paper's :math:`V_k`.

    .. math:: V_k(w, \tilde w) = \frac{1}{k} | T_k(w) \cap T_k(\tilde w) |

    Ties are broken by edge order. Shapes: ``(E,), (E,)`` over the same edges.

    >>> topk_overlap(torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.5, 0.1, 0.4]), k=2)
    0.5
    """
    before, after = finite_pair(w, w_tilde, "weights")
    return float((topk_mask(before, k) & topk_mask(after, k)).sum()) / k


@metric(
    "node_topk_overlap",
    inputs="attentions",
    summary="V_k within each node's neighbourhood, averaged",
    tags=("needs-share", "similarity"),
    **HIGHER_SHARE,
    paper=FGAI,
    also={
        "attention_topk_overlap": (
            "attentions-explained",
            "node_topk_overlap of the attention that the explained nodes pay",
        )
    },
)
def node_topk_overlap(att: Attention, att_tilde: Attention, k: float) -> float:
    """Return :math:`V_k` within each node's neighbourhood, its mean over the clean graph's destinations; in [0, 1].

    ``k`` is a share of the node's in-edges, rounded down but at least one edge. Edges are those of the clean graph,
    without the self-loops that the model added; an edge that the attacked graph lacks has attention 0 there.

    >>> clean = Attention(torch.tensor([[0, 1, 0], [2, 2, 1]]), torch.tensor([0.7, 0.3, 1.0]))
    >>> attacked = Attention(torch.tensor([[0, 1, 0], [2, 2, 1]]), torch.tensor([0.4, 0.6, 1.0]))
    >>> node_topk_overlap(clean, attacked, k=0.5)  # node 2 changes its mind, node 1 does not
    0.5
    """
    return float(node_topk_overlap_values(att, att_tilde, k)[1].mean())


def node_topk_overlap_values(att: Attention, att_tilde: Attention, k: float) -> tuple[Tensor, Tensor]:
    """Return the clean graph's destinations ``(D,)`` and the overlap of each ``(D,)``: :func:`node_topk_overlap`."""
    w, w_tilde = finite_pair(*align(att, att_tilde), "weights")
    groups = destinations(att.of_graph())  # (U,)
    shared = group_topk_mask(w, groups, k) & group_topk_mask(w_tilde, groups, k)
    nodes = torch.bincount(groups).nonzero().flatten()
    return nodes, torch.bincount(groups, shared.double())[nodes] / group_counts(groups, k)[nodes]


@metric(
    "attention_entropy",
    inputs="attention",
    summary="mean entropy of each node's attention in nats; stable and uniform explains nothing",
    range=ANY_SIZE,
)
def attention_entropy(att: Attention) -> float:
    r"""Return the entropy of each destination's attention over its in-edges, averaged over destinations, in nats.

    .. math:: \frac{1}{D} \sum_{i} - \sum_{j \in N(i)} w_{ij} \ln w_{ij}

    Always read it beside stability: a uniform attention is perfectly stable and explains nothing. Rows as in
    :func:`node_jsd`: added self-loops included, weights divided by their sum.

    >>> att = Attention(torch.tensor([[0, 1, 0], [2, 2, 1]]), torch.tensor([0.5, 0.5, 1.0]))
    >>> round(attention_entropy(att), 6)  # (ln 2 + 0) / 2
    0.346574
    """
    return float(_entropies(att)[0].mean())


@metric(
    "attention_entropy_normalised",
    inputs="attention",
    summary="attention entropy as a share of the largest possible; 1 is uniform",
    range=SHARE,
)
def attention_entropy_normalised(att: Attention) -> float:
    """Return :func:`attention_entropy` as a share of the largest possible, ln(in-degree); 1 = uniform; in [0, 1].

    Only destinations with at least two in-edges have a choice and are counted.

    >>> att = Attention(torch.tensor([[0, 1, 0], [2, 2, 1]]), torch.tensor([0.5, 0.5, 1.0]))
    >>> attention_entropy_normalised(att)
    1.0
    """
    entropy, degree = _entropies(att)
    if not bool((degree > 1).any()):
        raise NotApplicable("no node has two in-edges between which attention could choose")
    return float((entropy / degree.double().log())[degree > 1].mean().clamp(0.0, 1.0))


def edges_into(att: Attention, nodes: Tensor) -> Attention:
    """Return the part of an attention that the masked destinations pay, to measure stability over some nodes only.

    ``nodes`` is a boolean mask ``(N,)``, for example :func:`fgai_bench.metrics.prediction.unchanged`; destinations
    beyond its length (injected nodes) are left out.

    >>> att = Attention(torch.tensor([[0, 1], [1, 0]]), torch.tensor([1.0, 1.0]))
    >>> edges_into(att, torch.tensor([True, False])).edge_index.tolist()
    [[1], [0]]
    """
    destination = att.edge_index[1]
    kept = nodes[destination.clamp(max=len(nodes) - 1)] & (destination < len(nodes))
    added = int(kept[kept.numel() - att.added :].sum())
    return Attention(att.edge_index[:, kept], att.weight[kept], added)


def jensen_shannon_terms(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a ln(a/m) + b ln(b/m)`` per entry; the floor under ``m`` only matters where both are zero."""
    m = ((a + b) / 2).clamp(min=torch.finfo(a.dtype).tiny)
    return torch.xlogy(a, a / m) + torch.xlogy(b, b / m)


def _weights(att: Attention) -> Tensor:
    """Return the weights of an attention, or raise a ``ValueError`` if one is not finite or negative."""
    return non_negative(finite(att.weight, "weights"), "weights")


def _normalised_rows(destination: Tensor, weight: Tensor, size: int) -> Tensor:
    """Return the weights divided by the sum of their destination's; a row without any weight stays zero."""
    total = sum_at(destination, weight, size)[destination]
    return torch.where(total > 0, weight / total, 0.0)


def _entropies(att: Attention) -> tuple[Tensor, Tensor]:
    """Return the entropy and the in-degree of every destination: ``(D,), (D,)``."""
    if not att.weight.numel():
        raise NotApplicable("there are no weights")
    destination = att.edge_index[1]
    degree = torch.bincount(destination)
    p = _normalised_rows(destination, _weights(att), len(degree))
    entropy = sum_at(destination, -torch.xlogy(p, p), len(degree))
    return entropy[degree > 0].clamp(min=0.0), degree[degree > 0]


def destinations(graph: Attention) -> Tensor:
    """Return the destination ``(U,)`` of each distinct edge, ordered as :func:`align`, which adds parallel edges up."""
    destination = graph.edge_index[1].double()
    total = Attention(graph.edge_index, destination)
    times = Attention(graph.edge_index, torch.ones_like(destination))
    return torch.div(*align(total, times)).round().long()
