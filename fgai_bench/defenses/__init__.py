"""Defenses: how a model is trained, or replaced, so that it withstands an attack."""

from typing import TYPE_CHECKING, Any

from fgai_bench.lazy import lazy_names
from fgai_bench.registry import Registry

if TYPE_CHECKING:
    from fgai_bench.defenses.settings import Training
    from fgai_bench.defenses.training import NodeSupervision, Supervision

DEFENSES: Registry[Any] = Registry("defense", "fgai_bench.defenses")
DEFENSES.declare(
    "vanilla",
    "fgai_bench.defenses.vanilla:Vanilla",
    summary="no defense: the task's loss, the best epoch on validation",
    paper="https://arxiv.org/abs/1710.10903",
    tags=("node", "link"),
)
DEFENSES.declare(
    "ln",
    "fgai_bench.defenses.layer_norm:LayerNorm",
    summary="layer normalisation between the layers",
    paper="https://arxiv.org/abs/2111.04314",
    tags=("node", "link"),
)
DEFENSES.declare(
    "row-norm",
    "fgai_bench.defenses.layer_norm:RowNorm",
    summary="feature rows divided by the sum of their magnitudes",
    paper="https://arxiv.org/abs/1609.02907",
    tags=("node", "link"),
)
DEFENSES.declare(
    "at",
    "fgai_bench.defenses.adversarial:AdversarialTraining",
    summary="adversarial training: a tenth of the loss on a freshly attacked copy",
    paper="https://arxiv.org/abs/1706.06083",
    tags=("node", "link", "needs-inner"),
)
DEFENSES.declare(
    "fgai",
    "fgai_bench.defenses.fgai:FGAI",
    summary="FGAI, the published setting: inner maximisation over injected nodes",
    paper="https://arxiv.org/abs/2410.06950",
    tags=("node", "link", "needs-teacher", "needs-inner"),
)
DEFENSES.declare(
    "fgai-attention",
    "fgai_bench.defenses.fgai_attention:FGAIAttention",
    summary="FGAI by Algorithm 1: inner maximisation over the attention scores",
    paper="https://arxiv.org/abs/2410.06950",
    tags=("node", "link", "needs-teacher"),
)
DEFENSES.declare(
    "pro-gnn",
    "fgai_bench.defenses.deeprobust:ProGNN",
    summary="Pro-GNN: a sparse, low-rank graph learned together with a GCN (DeepRobust)",
    paper="https://arxiv.org/abs/2005.10203",
    tags=("node", "replaces-model", "dense", "transductive"),
)
DEFENSES.declare(
    "gnn-svd",
    "fgai_bench.defenses.deeprobust:GNNSVD",
    summary="GNN-SVD: a GCN on the truncated SVD of the graph (DeepRobust)",
    paper="https://doi.org/10.1145/3336191.3371789",
    tags=("node", "replaces-model", "dense"),
)
DEFENSES.declare(
    "gnn-svd-sparse",
    "fgai_bench.defenses.deeprobust:GNNSVDSparse",
    summary="GNN-SVD through the factors of the low-rank graph: the same function, for large graphs",
    paper="https://doi.org/10.1145/3336191.3371789",
    tags=("node", "replaces-model"),
)
DEFENSES.declare(
    "gnnguard",
    "fgai_bench.defenses.gnnguard:GNNGuard",
    summary="GNNGuard: neighbours weighed by similarity, on DeepRobust's GCN",
    paper="https://arxiv.org/abs/2006.08149",
    tags=("node", "replaces-model", "dense"),
)
DEFENSES.declare(
    "gnnguard-sparse",
    "fgai_bench.defenses.gnnguard:GNNGuardSparse",
    summary="GNNGuard edge by edge: the same function, for large graphs",
    paper="https://arxiv.org/abs/2006.08149",
    tags=("node", "replaces-model"),
)
DEFENSES.declare(
    "gcn-jaccard",
    "fgai_bench.defenses.jaccard:Jaccard",
    summary="GCN-Jaccard: edges between dissimilar nodes dropped (DeepRobust)",
    paper="https://arxiv.org/abs/1903.01610",
    tags=("node", "replaces-model"),
)

__all__ = ["DEFENSES", "NodeSupervision", "Supervision", "Training"]
__getattr__ = lazy_names(
    __name__,
    {
        "NodeSupervision": "fgai_bench.defenses.training",
        "Supervision": "fgai_bench.defenses.training",
        "Training": "fgai_bench.defenses.settings",
    },
)
