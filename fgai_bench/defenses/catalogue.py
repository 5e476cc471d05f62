"""Register the defenses by name; their classes describe them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fgai_bench.registry import Registry

if TYPE_CHECKING:
    from fgai_bench.defenses.base import Defense

DEFENSES: Registry[type[Defense]] = Registry("defense", "fgai_bench.defenses", "fgai_bench.defenses.base:Defense")
for _name, _class in (
    ("vanilla", "vanilla:Vanilla"),
    ("ln", "layer_norm:LayerNorm"),
    ("row-norm", "layer_norm:RowNorm"),
    ("clipped", "aggregation.clipped_attention:ClippedAttention"),
    ("at", "adversarial_training:AdversarialTraining"),
    ("fgai", "fgai:FGAI"),
    ("fgai-attention", "fgai_attention:FGAIAttention"),
    ("planted-lie", "planted_lie:PlantedLie"),
    ("mlp", "mlp_control:MLPControl"),
    ("gcn", "plain_gcn:PlainGCN"),
    ("votes", "votes:VotingEnsemble"),
    ("pro-gnn", "pro_gnn:ProGNN"),
    ("gnn-svd", "gnn_svd:GNNSVD"),
    ("gnn-svd-sparse", "gnn_svd:GNNSVDSparse"),
    ("gnnguard", "gnnguard:GNNGuard"),
    ("gnnguard-sparse", "gnnguard:GNNGuardSparse"),
    ("soft-median", "aggregation.soft_median:SoftMedian"),
    ("rung", "aggregation.rung:RUNG"),
    ("elastic-gnn", "aggregation.elastic_gnn:ElasticGNN"),
):
    DEFENSES.declare(_name, f"fgai_bench.defenses.{_class}")
