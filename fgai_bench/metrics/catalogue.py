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

for _name, _suffix in (("", "explanations"), ("_floor", "explanations-repeated")):
    _note = ", asked twice: the noise floor" if _name else " before and after an attack"
    _declare(
        f"explainer_topk_overlap{_name}",
        "explanation:explanation_overlap",
        _suffix,
        f"mean overlap of the top edges of an explanation{_note}",
        **_overlap,
    )
    _declare(
        f"explainer_jsd{_name}",
        "explanation:explanation_jsd",
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
    "validation_score",
    "prediction:as_told",
    "validation",
    "the task's score on the validation part",
    **_higher,
    range=SHARE,
    scale="logit",
)
_declare("parameters", "prediction:parameter_count", "model", "how many numbers the model has learned", range=ANY_SIZE)
