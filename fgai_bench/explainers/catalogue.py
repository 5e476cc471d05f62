"""Register the explainers by name; their classes describe them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fgai_bench.registry import Registry

if TYPE_CHECKING:
    from fgai_bench.explainers.base import Explainer

EXPLAINERS: Registry[type[Explainer]] = Registry(
    "explainer", "fgai_bench.explainers", "fgai_bench.explainers.base:Explainer"
)
EXPLAINERS.declare("attention-last", "fgai_bench.explainers.attention:AttentionLast")
EXPLAINERS.declare("attention-mean", "fgai_bench.explainers.attention:AttentionMean")
EXPLAINERS.declare("attention-rollout", "fgai_bench.explainers.attention:AttentionRollout")
EXPLAINERS.declare("gatt", "fgai_bench.explainers.attention:GAtt")
EXPLAINERS.declare("attention-gradient", "fgai_bench.explainers.attention:AttentionGradient")
EXPLAINERS.declare("contribution", "fgai_bench.explainers.attention:Contribution")
EXPLAINERS.declare("saliency", "fgai_bench.explainers.gradient:Saliency")
EXPLAINERS.declare("integrated-gradients", "fgai_bench.explainers.gradient:IntegratedGradients")
EXPLAINERS.declare("gnn-explainer", "fgai_bench.explainers.gnn_explainer:GNNExplainerMasks")
EXPLAINERS.declare("pg-explainer", "fgai_bench.explainers.pg_explainer:PGExplainerMasks")
EXPLAINERS.declare("random", "fgai_bench.explainers.nulls:RandomScores")
EXPLAINERS.declare("uniform", "fgai_bench.explainers.nulls:UniformScores")
EXPLAINERS.declare("uniform-paths", "fgai_bench.explainers.attention:UniformPaths")
EXPLAINERS.declare("degree", "fgai_bench.explainers.nulls:DegreeScores")
EXPLAINERS.declare("untrained", "fgai_bench.explainers.nulls:UntrainedAttention")
