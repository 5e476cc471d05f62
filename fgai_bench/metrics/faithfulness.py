"""Metrics of what an explanation claims: against the true effect of edges, by removal, and against known true edges."""

from collections.abc import Sequence

import torch
from torch import Tensor

from fgai_bench.metrics.base import (
    CORRELATION,
    GRAPHFRAMEX,
    HIGHER_SHARE,
    LOWER_SHARE,
    ROBUST_FIDELITY,
    SHARE,
    NotApplicable,
    metric,
)
from fgai_bench.metrics.inputs import finite_pair
from fgai_bench.metrics.ranks import differs, extreme, group_spearman, ranks, shown, top_chance

Pairs = Sequence[tuple[Tensor, Tensor]]
BOTH = "both edges that matter and edges that do not"


@metric(
    "effect_spearman",
    inputs="effects",
    summary="rank correlation with the size of the true effect",
    direction="higher",
    range=CORRELATION,
    also={
        "effect_spearman_logit": ("effects-logit", "rank correlation with the size of the effect on the logit"),
        "effect_spearman_loss": ("effects-loss", "rank correlation with the size of the effect on the loss"),
        "effect_spearman_signed": ("effects-signed", "rank correlation with the signed effect"),
        "effect_spearman_signed_logit": (
            "effects-signed-logit",
            "rank correlation with the signed effect on the logit",
        ),
        "effect_spearman_signed_loss": ("effects-signed-loss", "rank correlation with the signed effect on the loss"),
    },
    scoped=True,
)
def effect_spearman(pairs: Pairs) -> float:
    r"""Return the mean over nodes of the rank correlation between scores and the true effects of edges.

    .. math:: \frac{1}{|V|} \sum_v \rho\big(s_v(e), \Delta_v(e)\big)_{e}

    with the sizes of effects or, where the metric's name says so, with their signs: an edge that opposes the prediction
    is then below 0. A node counts if two of its edges have different effects; a constant score has the correlation 0.

    >>> effect_spearman([(torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.0, 0.01, 0.2]))])
    1.0
    """
    scores, effects, node = _joined(pairs)
    return float(group_spearman(scores, effects, node)[_differs(effects, node)].mean())


@metric(
    "effect_precision",
    inputs="effects",
    summary="top edges among those of largest effect",
    **HIGHER_SHARE,
    scoped=True,
)
def effect_precision(pairs: Pairs) -> float:
    """Return the mean over nodes of the share of the k edges with the highest scores among the k of largest effect.

    ``k`` is half of a node's edges, at least one and at most ten. Of equal scores, and of equal effects, each is as
    likely to be among the k: the share is the expected one.

    >>> effect_precision([(torch.tensor([0.3, 0.2, 0.1, 0.0]), torch.tensor([0.9, 0.0, 0.8, 0.0]))])
    0.5
    """
    scores, effects, node = _joined(pairs)
    k = shown(torch.bincount(node))  # (nodes,)
    shared = torch.bincount(node, top_chance(scores, node, k) * top_chance(effects, node, k))
    return float((shared / k)[_differs(effects, node)].mean())


@metric(
    "effect_largest",
    inputs="effects-alone",
    summary="largest effect of one edge",
    range=SHARE,
    also={"effect_largest_clean": ("effects-alone-clean", "largest effect of one edge, on the clean graph")},
)
def effect_largest(pairs: Pairs) -> float:
    """Return the mean over nodes of the largest effect of a single edge, a change of probability.

    >>> effect_largest([(torch.ones(2), torch.tensor([0.1, 0.3]))])  # doctest: +ELLIPSIS
    0.3000...
    """
    _, effects, node = _joined(pairs)
    return float(extreme(effects, node, "amax")[torch.bincount(node) > 0].mean())


def _joined(pairs: Pairs) -> tuple[Tensor, Tensor, Tensor]:
    """Return the scores of all nodes, what they are held against, and the node of each: three ``(M,)``."""
    if not pairs:
        raise NotApplicable("no explained node counts")
    scores, values = finite_pair(
        torch.cat([own for own, _ in pairs]), torch.cat([other for _, other in pairs]), "scores"
    )
    sizes = torch.tensor([own.numel() for own, _ in pairs], device=scores.device)
    return scores, values, torch.repeat_interleave(sizes)


def _differs(values: Tensor, node: Tensor, edges: str = "edges of different effect") -> Tensor:
    """Tell which nodes have edges of different values: ``(nodes,)`` boolean; raise if none has."""
    found = differs(values, node)
    if not bool(found.any()):
        raise NotApplicable(f"no explained node has {edges}")
    return found


@metric(
    "fidelity_plus",
    inputs="probabilities-without-top",
    summary="predictions that change without the top edges",
    **HIGHER_SHARE,
    paper=GRAPHFRAMEX,
    scoped=True,
)
@metric(
    "fidelity_minus",
    inputs="probabilities-only-top",
    summary="predictions that change on the top edges alone",
    **LOWER_SHARE,
    paper=GRAPHFRAMEX,
    scoped=True,
)
def fidelity(whole: Tensor, part: Tensor) -> float:
    r"""Return the share of nodes whose predicted class is another on a part of their computation graph.

    .. math:: 1 - \frac{1}{N} \sum_i \mathbb{1}\big(\hat y_i^{part} = \hat y_i\big)

    Fidelity+ where the part lacks the edges of the explanation (high is good), fidelity- where it has only these (low
    is good); as PyG defines them for explanations of a model.

    Shapes: ``(N, C), (N, C)`` distributions.

    >>> fidelity(torch.tensor([[0.9, 0.1], [0.6, 0.4]]), torch.tensor([[0.7, 0.3], [0.2, 0.8]]))
    0.5
    """
    y, other = finite_pair(whole, part, "outputs")
    return float((y.argmax(1) != other.argmax(1)).double().mean())


@metric(
    "characterisation",
    inputs="fidelities",
    summary="harmonic mean of fidelity+ and 1 - fidelity-",
    **HIGHER_SHARE,
    paper=GRAPHFRAMEX,
    scoped=True,
)
def characterisation(fidelity_plus: float, fidelity_minus: float) -> float:
    """Return the harmonic mean of fidelity+ and 1 - fidelity-, PyG's characterization score with equal weights.

    >>> characterisation(0.5, 0.5)
    0.5
    """
    for share in (fidelity_plus, fidelity_minus):
        if not 0 <= share <= 1:
            raise ValueError(f"a fidelity lies between 0 and 1, got {share}")
    necessary, sufficient = float(fidelity_plus), 1 - float(fidelity_minus)
    return 2 * necessary * sufficient / (necessary + sufficient) if necessary and sufficient else 0.0


@metric(
    "robust_fidelity",
    inputs="falls",
    summary="fidelity on partly deleted graphs",
    direction="higher",
    range=(-2.0, 2.0),
    paper=ROBUST_FIDELITY,
    scoped=True,
)
def robust_fidelity(without_part: Tensor, without_rest: Tensor) -> float:
    r"""Return how much more a prediction loses with a part of the explanation than with a part of the other edges.

    .. math:: \frac{1}{N} \sum_v \mathbb{E}\big[p_v(G) - p_v(G \setminus S^{\alpha})\big]
              - \mathbb{E}\big[p_v(G) - p_v(G \setminus \bar S^{\alpha})\big]

    where an edge of the explanation S, or of the others, is deleted with the probability alpha = .1: graphs stay close
    to those that the model knows. Zheng et al. call the difference Fid_Delta, with alpha_1 = .1 and alpha_2 = .9.

    Shapes: ``(N,), (N,)`` mean falls of the probability of the predicted class.

    >>> robust_fidelity(torch.tensor([0.5, 0.25]), torch.tensor([0.25, 0.0]))
    0.25
    """
    first, second = finite_pair(without_part, without_rest, "falls")
    return float((first - second).mean())


@metric(
    "truth_share",
    inputs="truths",
    summary="share of the scores that lies on the edges that truly matter",
    **HIGHER_SHARE,
    scoped=True,
)
def truth_share(pairs: Pairs) -> float:
    """Return the mean over nodes of the share of all scores that lies on edges that are known to matter.

    A node counts if some of its edges matter and some do not; it counts 0 if all of its scores are 0.

    >>> truth_share([(torch.tensor([0.5, 0.25, 0.25]), torch.tensor([True, False, False]))])
    0.5
    """
    scores, truth, node = _joined(pairs)
    counted = _differs(truth, node, BOTH)
    whole, on_true = torch.bincount(node, scores), torch.bincount(node, scores * truth)
    return float((on_true / whole.clamp(min=1e-300))[counted].mean())


@metric(
    "truth_auroc",
    inputs="truths",
    summary="AUROC of scores against the edges that truly matter",
    **HIGHER_SHARE,
    also={
        "truth_auroc_wrong": ("truths-wrong", "truth_auroc of nodes that are predicted wrongly or changed"),
        "turned_auroc": ("truths-turned", "AUROC of scores against edges whose deletion turns the prediction"),
    },
    scoped=True,
)
def truth_auroc(pairs: Pairs) -> float:
    """Return the mean over nodes of the area under the ROC curve of scores against the edges that are known to matter.

    A node counts if some of its edges matter and some do not.

    >>> truth_auroc([(torch.tensor([0.9, 0.5, 0.1]), torch.tensor([True, False, False]))])
    1.0
    """
    scores, truth, node = _joined(pairs)
    matters = (truth > 0).double()
    true, size, counted = torch.bincount(node, matters), torch.bincount(node), _differs(truth, node, BOTH)
    above = torch.bincount(node, ranks(scores, node) * matters) - true * (true + 1) / 2
    return float((above / (true * (size - true)))[counted].mean())
