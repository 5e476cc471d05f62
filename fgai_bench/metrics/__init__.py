"""Metrics: pure functions that take tensors or attentions and return one float.

Tags say what a metric takes and what holds for it, so that the runner and the contract checks select by them:

- ``inputs:probabilities``, ``inputs:logits``: two ``(N, C)`` outputs; ``inputs:weights``: two ``(E,)`` weights over the
  same edges; ``inputs:attentions``: two attentions; ``inputs:attention``: one; ``inputs:curve``: rates and accuracies;
  ``inputs:labels``: predicted and true classes; ``inputs:scores``: scores and binary labels;
- ``needs-k``, ``needs-share``: a third argument, a number of edges or a share of each node's edges;
- ``distance``: 0 between a thing and itself; ``similarity``: 1; ``symmetric``: the order of the two does not matter.
"""

import math
from typing import TYPE_CHECKING, Any

from fgai_bench.lazy import keep_name, lazy_names
from fgai_bench.registry import Registry

if TYPE_CHECKING:
    from fgai_bench.metrics.cell import NotApplicable
    from fgai_bench.metrics.cost import Cost, measure
    from fgai_bench.metrics.f_slope import f_acc, f_acc_curve, f_slope
    from fgai_bench.metrics.prediction import micro_f1, roc_auc, unchanged
    from fgai_bench.metrics.sanity import degree_ranking, random_ranking, uniform_ranking
    from fgai_bench.metrics.stability import (
        attention_entropy,
        attention_entropy_normalised,
        edges_into,
        g_jsd,
        g_jsd_published,
        g_tvd,
        g_tvd_raw,
        node_jsd,
        node_topk_overlap,
        topk_overlap,
    )

_FGAI = "https://arxiv.org/abs/2410.06950"

METRICS: Registry[Any] = Registry("metric", "fgai_bench.metrics")
METRICS.declare(
    "g_tvd",
    "fgai_bench.metrics.stability:g_tvd",
    summary="graph-based total variation distance of the output distributions",
    paper=_FGAI,
    direction="lower",
    range=(0.0, 1.0),
    tags=("inputs:probabilities", "distance", "symmetric"),
)
METRICS.declare(
    "g_tvd_raw",
    "fgai_bench.metrics.stability:g_tvd_raw",
    summary="g_tvd on raw outputs, the scale of the published values",
    paper=_FGAI,
    direction="lower",
    range=(0.0, math.inf),
    tags=("inputs:logits", "distance", "symmetric"),
)
METRICS.declare(
    "g_jsd",
    "fgai_bench.metrics.stability:g_jsd",
    summary="graph-based Jensen-Shannon divergence of the attentions, edges matched by key",
    paper=_FGAI,
    direction="lower",
    range=(0.0, math.log(2) / 2),
    tags=("inputs:weights", "distance", "symmetric"),
)
METRICS.declare(
    "g_jsd_published",
    "fgai_bench.metrics.stability:g_jsd_published",
    summary="symmetrised KL by position, the scale of the published values",
    paper=_FGAI,
    direction="lower",
    range=(0.0, math.inf),
    tags=("inputs:weights", "distance", "symmetric"),
)
METRICS.declare(
    "node_jsd",
    "fgai_bench.metrics.stability:node_jsd",
    summary="Jensen-Shannon divergence per destination node, averaged",
    paper="https://doi.org/10.1109/18.61115",
    direction="lower",
    range=(0.0, math.log(2)),
    tags=("inputs:attentions", "distance"),
)
METRICS.declare(
    "topk_overlap",
    "fgai_bench.metrics.stability:topk_overlap",
    summary="share of the top-k edges of the graph in common, V_k",
    paper=_FGAI,
    direction="higher",
    range=(0.0, 1.0),
    tags=("inputs:weights", "needs-k", "similarity", "symmetric"),
)
METRICS.declare(
    "node_topk_overlap",
    "fgai_bench.metrics.stability:node_topk_overlap",
    summary="V_k within each node's neighbourhood, averaged",
    paper=_FGAI,
    direction="higher",
    range=(0.0, 1.0),
    tags=("inputs:attentions", "needs-share", "similarity"),
)
METRICS.declare(
    "attention_entropy",
    "fgai_bench.metrics.stability:attention_entropy",
    summary="mean entropy of each node's attention in nats; stable and uniform explains nothing",
    range=(0.0, math.inf),
    tags=("inputs:attention",),
)
METRICS.declare(
    "attention_entropy_normalised",
    "fgai_bench.metrics.stability:attention_entropy_normalised",
    summary="attention entropy as a share of the largest possible; 1 is uniform",
    range=(0.0, 1.0),
    tags=("inputs:attention",),
)
# At the rates 0, .1, ..., .5 a curve of shares has a slope of at most (.25 + .15 + .05) / .175 = 18/7 either way.
METRICS.declare(
    "f_slope_pos",
    "fgai_bench.metrics.f_slope:f_slope",
    summary="signed slope of accuracy as the highest-attention edges go; steeper down is better",
    paper=_FGAI,
    direction="lower",
    range=(-18 / 7, 18 / 7),
    tags=("inputs:curve",),
)
METRICS.declare(
    "f_slope_neg",
    "fgai_bench.metrics.f_slope:f_slope",
    summary="signed slope of accuracy as the lowest-attention edges go; flatter is better",
    paper=_FGAI,
    direction="higher",
    range=(-18 / 7, 18 / 7),
    tags=("inputs:curve",),
)
METRICS.declare(
    "micro_f1",
    "fgai_bench.metrics.prediction:micro_f1",
    summary="micro-averaged F1 of the predicted classes",
    direction="higher",
    range=(0.0, 1.0),
    tags=("inputs:labels", "similarity", "symmetric"),
)
METRICS.declare(
    "roc_auc",
    "fgai_bench.metrics.prediction:roc_auc",
    summary="area under the ROC curve of link scores",
    direction="higher",
    range=(0.0, 1.0),
    tags=("inputs:scores",),
)

__all__ = [
    "METRICS",
    "Cost",
    "NotApplicable",
    "attention_entropy",
    "attention_entropy_normalised",
    "degree_ranking",
    "edges_into",
    "f_acc",
    "f_acc_curve",
    "f_slope",
    "g_jsd",
    "g_jsd_published",
    "g_tvd",
    "g_tvd_raw",
    "measure",
    "micro_f1",
    "node_jsd",
    "node_topk_overlap",
    "random_ranking",
    "roc_auc",
    "topk_overlap",
    "unchanged",
    "uniform_ranking",
]
_WHERE = {
    "cell": ("NotApplicable",),
    "cost": ("Cost", "measure"),
    "f_slope": ("f_acc", "f_acc_curve"),
    "prediction": ("micro_f1", "roc_auc", "unchanged"),
    "sanity": ("degree_ranking", "random_ranking", "uniform_ranking"),
    "stability": (
        "attention_entropy",
        "attention_entropy_normalised",
        "edges_into",
        "g_jsd",
        "g_jsd_published",
        "g_tvd",
        "g_tvd_raw",
        "node_jsd",
        "node_topk_overlap",
        "topk_overlap",
    ),
}
__getattr__ = lazy_names(__name__, {name: f"{__name__}.{module}" for module, names in _WHERE.items() for name in names})
keep_name(__name__, "f_slope")
