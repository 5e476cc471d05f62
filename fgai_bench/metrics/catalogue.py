"""Registry of the metrics by name: what each takes, which way is better, where its values lie."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from fgai_bench.metrics.base import NULLS
from fgai_bench.registry import Registry

if TYPE_CHECKING:
    from fgai_bench.metrics.base import Metric

FGAI = "https://arxiv.org/abs/2410.06950"
SHARE = (0.0, 1.0)
ANY_SIZE = (0.0, math.inf)
# At the rates 0, .1, ..., .5 a curve of shares has a slope of at most (.25 + .15 + .05) / .175 = 18/7 either way.
SLOPE = (-18 / 7, 18 / 7)

METRICS: Registry[Metric] = Registry("metric", "fgai_bench.metrics", "fgai_bench.metrics.base:admitted")


def _declare(name: str, function: str, inputs: str, summary: str, *tags: str, **metadata: Any) -> None:
    """Declare the metric ``name``, computed by ``function`` of this package, without importing it."""
    path = f"fgai_bench.metrics.{function}"
    METRICS.declare(name, path, summary=summary, tags=(f"inputs:{inputs}", *tags), **metadata)


_lower: dict[str, Any] = {"direction": "lower"}
_higher: dict[str, Any] = {"direction": "higher"}
_tvd: dict[str, Any] = {**_lower, "paper": FGAI, "range": SHARE, "scale": "logit"}
_jsd: dict[str, Any] = {**_lower, "paper": FGAI, "range": (0.0, math.log(2) / 2), "scale": "log"}
_overlap: dict[str, Any] = {**_higher, "paper": FGAI, "range": SHARE, "scale": "logit"}
_node_jsd: dict[str, Any] = {
    **_lower,
    "paper": "https://doi.org/10.1109/18.61115",
    "range": (0.0, math.log(2)),
    "scale": "log",
}

_declare(
    "f1",
    "prediction:micro_f1",
    "labels",
    "micro-averaged F1 of the predicted classes of the test nodes",
    "similarity",
    "symmetric",
    **_higher,
    range=SHARE,
    scale="logit",
)
METRICS.alias("micro_f1", "f1")
_declare(
    "roc_auc",
    "prediction:roc_auc",
    "scores",
    "area under the ROC curve of the test links' scores",
    **_higher,
    range=SHARE,
    scale="logit",
)
_declare(
    "prediction_kept",
    "prediction:prediction_kept",
    "logits",
    "share of the predictions that stay",
    "similarity",
    "symmetric",
    **_higher,
    range=SHARE,
    scale="logit",
)
_declare(
    "kept_by_attack",
    "prediction:as_told",
    "kept",
    "share of the targets' predictions that the attack kept",
    range=SHARE,
    scale="logit",
)

_pair = ("distance", "symmetric")
_declare(
    "g_tvd",
    "stability:g_tvd",
    "probabilities",
    "graph-based total variation distance of the output distributions",
    *_pair,
    **_tvd,
)
_declare(
    "g_tvd_unchanged",
    "stability:g_tvd",
    "probabilities-unchanged",
    "g_tvd where the prediction did not change",
    *_pair,
    **_tvd,
)
_declare(
    "g_tvd_floor", "stability:g_tvd", "probabilities-repeated", "g_tvd with no attack: the noise floor", *_pair, **_tvd
)
_declare(
    "g_tvd_raw",
    "stability:g_tvd_raw",
    "logits",
    "g_tvd on raw outputs, the scale of the published values",
    *_pair,
    **{**_tvd, "range": ANY_SIZE, "scale": "log"},
)
_declare(
    "g_jsd",
    "stability:g_jsd",
    "weights",
    "graph-based Jensen-Shannon divergence of the attentions, edges matched by key",
    *_pair,
    **_jsd,
)
_declare(
    "g_jsd_unchanged",
    "stability:g_jsd",
    "weights-unchanged",
    "g_jsd into the nodes whose prediction did not change",
    *_pair,
    **_jsd,
)
_declare("g_jsd_floor", "stability:g_jsd", "weights-repeated", "g_jsd with no attack: the noise floor", *_pair, **_jsd)
_declare(
    "g_jsd_published",
    "stability:g_jsd_published",
    "weights-by-position",
    "symmetrised KL by position, the scale of the published values",
    *_pair,
    **{**_jsd, "range": ANY_SIZE},
)
_declare(
    "node_jsd",
    "stability:node_jsd",
    "attentions",
    "Jensen-Shannon divergence per destination node, averaged",
    "distance",
    **_node_jsd,
)
_declare(
    "topk_overlap",
    "stability:topk_overlap",
    "weights-or-zero",
    "share of the top-k edges of the graph in common, V_k",
    "needs-k",
    "similarity",
    "symmetric",
    **_overlap,
)
_declare(
    "node_topk_overlap",
    "stability:node_topk_overlap",
    "attentions",
    "V_k within each node's neighbourhood, averaged",
    "needs-share",
    "similarity",
    **_overlap,
)

_declare(
    "f1_reached",
    "prediction:micro_f1",
    "labels-reached",
    "f1 over the test nodes that the attack can reach",
    "similarity",
    "symmetric",
    **_higher,
    range=SHARE,
    scale="logit",
)
_declare(
    "g_tvd_reached", "stability:g_tvd", "probabilities-reached", "g_tvd over what the attack can reach", *_pair, **_tvd
)
_declare(
    "g_jsd_reached", "stability:g_jsd", "weights-reached", "g_jsd into the nodes that it can reach", *_pair, **_jsd
)
_declare(
    "topk_overlap_reached",
    "stability:topk_overlap",
    "weights-or-zero-reached",
    "topk_overlap into the nodes that the attack can reach",
    "needs-k",
    "similarity",
    "symmetric",
    **_overlap,
)
_declare(
    "g_jsd_uniform",
    "stability:g_jsd",
    "weights-uniform",
    "g_jsd of a uniform attention: the null",
    "null",
    *_pair,
    **_jsd,
)
_declare(
    "node_jsd_uniform",
    "stability:node_jsd",
    "attentions-uniform",
    "node_jsd of a uniform attention: the null",
    "null",
    "distance",
    **_node_jsd,
)
_declare(
    "topk_overlap_uniform",
    "stability:topk_overlap",
    "weights-or-zero-uniform",
    "topk_overlap of a uniform attention: the null",
    "null",
    "needs-k",
    "similarity",
    "symmetric",
    **_overlap,
)
_declare("reached_share", "prediction:share_of", "reached", "share of the nodes that the attack can reach", range=SHARE)

_declare(
    "attention_entropy",
    "stability:attention_entropy",
    "attention",
    "mean entropy of each node's attention in nats; stable and uniform explains nothing",
    range=ANY_SIZE,
)
_declare(
    "attention_entropy_normalised",
    "stability:attention_entropy_normalised",
    "attention",
    "attention entropy as a share of the largest possible; 1 is uniform",
    range=SHARE,
)

_declare(
    "f_slope_pos",
    "f_slope:f_slope",
    "curve-highest",
    "signed slope of accuracy as the highest-attention edges go; steeper down is better",
    **_lower,
    paper=FGAI,
    range=SLOPE,
)
_declare(
    "f_slope_neg",
    "f_slope:f_slope",
    "curve-lowest",
    "signed slope of accuracy as the lowest-attention edges go; flatter is better",
    **_higher,
    paper=FGAI,
    range=SLOPE,
)
for _null in NULLS:
    for _sign, _end in (("pos", "highest"), ("neg", "lowest")):
        _declare(
            f"f_slope_{_sign}_{_null}",
            "f_slope:f_slope",
            f"curve-{_end}-{_null}",
            f"f_slope_{_sign} of edges ranked by the null {_null!r}",
            paper=FGAI,
            range=SLOPE,
        )

_correlation: dict[str, Any] = {**_higher, "range": (-1.0, 1.0)}
for _name, _suffix, _note in (
    ("", "explanations", " before and after an attack"),
    ("_unchanged", "explanations-unchanged", " before and after, where the prediction did not change"),
    ("_floor", "explanations-repeated", ", asked twice: the noise floor"),
):
    _declare(
        f"explainer_rank_correlation{_name}",
        "explanation_stability:explanation_rank_correlation",
        _suffix,
        f"mean rank correlation of an explanation{_note}",
        **_correlation,
    )
    _declare(
        f"explainer_topk_overlap{_name}",
        "explanation_stability:explanation_overlap",
        _suffix,
        f"mean overlap of the top edges of an explanation{_note}",
        **_overlap,
    )
    _declare(
        f"explainer_jsd{_name}",
        "explanation_stability:explanation_jsd",
        _suffix,
        f"mean divergence of an explanation{_note}",
        **_node_jsd,
    )
_declare(
    "attention_topk_overlap",
    "stability:node_topk_overlap",
    "attentions-explained",
    "node_topk_overlap of the attention that the explained nodes pay",
    "needs-share",
    "similarity",
    **_overlap,
)
_declare(
    "attention_jsd",
    "stability:node_jsd",
    "attentions-explained",
    "node_jsd of the attention that the explained nodes pay",
    "distance",
    **_node_jsd,
)
_declare("explained_nodes", "prediction:how_many", "nodes", "how many nodes were explained", range=ANY_SIZE)
_declare(
    "explained_unchanged",
    "prediction:how_many",
    "nodes-unchanged",
    "how many nodes were explained that the attack reaches without changing their prediction",
    range=ANY_SIZE,
)
_declare(
    "explained_wrong",
    "prediction:how_many",
    "nodes-wrong",
    "how many of them are predicted wrongly, or otherwise than before the attack",
    range=ANY_SIZE,
)
_share_higher: dict[str, Any] = {**_higher, "range": SHARE, "scale": "logit"}
_share_lower: dict[str, Any] = {**_lower, "range": SHARE, "scale": "logit"}
GRAPHFRAMEX = "https://arxiv.org/abs/2206.09677"
GRAPHXAI = "https://arxiv.org/abs/2208.09339"
for _end, _where in (("", "on the attacked graph"), ("_clean", "on the clean graph")):
    _ending = _end.replace("_", "-")
    for _metric, _function, _inputs, _words, _how in (
        (
            "effect_spearman",
            "effect_spearman",
            "effects",
            "rank correlation with the true effect of edges",
            _correlation,
        ),
        ("effect_precision", "effect_precision", "effects", "top edges among those of largest effect", _share_higher),
        ("effect_largest", "effect_largest", "effects-alone", "largest effect of one edge", {"range": SHARE}),
        (
            "fidelity_plus",
            "fidelity",
            "probabilities-without-top",
            "predictions that change without the top edges",
            {**_share_higher, "paper": GRAPHFRAMEX},
        ),
        (
            "fidelity_minus",
            "fidelity",
            "probabilities-only-top",
            "predictions that change on the top edges alone",
            {**_share_lower, "paper": GRAPHFRAMEX},
        ),
        (
            "unfaithfulness",
            "unfaithfulness",
            "probabilities-only-top",
            "distance of the output on the top edges alone",
            {**_share_lower, "paper": GRAPHXAI},
        ),
        (
            "characterisation",
            "characterisation",
            "fidelities",
            "harmonic mean of fidelity+ and 1 - fidelity-",
            {**_share_higher, "paper": GRAPHFRAMEX},
        ),
        ("truth_auroc", "truth_auroc", "truths", "AUROC of scores against the edges that truly matter", _share_higher),
        ("truth_precision", "truth_precision", "truths", "true edges among the top ones, as many", _share_higher),
    ):
        _declare(f"{_metric}{_end}", f"faithfulness:{_function}", f"{_inputs}{_ending}", f"{_words}, {_where}", **_how)
    for _sign, _first, _better in (("pos", "highest", _lower), ("neg", "lowest", _higher)):
        _declare(
            f"explainer_f_slope_{_sign}{_end}",
            "f_slope:f_slope",
            f"curve-{_first}-explained{_ending}",
            f"slope of accuracy as each node's {_first} edges go, {_where}",
            **_better,
            paper=FGAI,
            range=SLOPE,
        )
_declare(
    "truth_auroc_wrong",
    "faithfulness:truth_auroc",
    "truths-wrong",
    "truth_auroc of the nodes that are predicted wrongly, or otherwise than before the attack",
    **_share_higher,
)

_declare(
    "validation_score",
    "prediction:as_told",
    "validation",
    "the task's score on the validation part",
    **_higher,
    range=SHARE,
    scale="logit",
)
_declare("parameters", "prediction:parameter_count", "model", "how many numbers the model has learned", range=ANY_SIZE)
