"""Models: graph networks that return logits and one attention weight per edge."""

from typing import TYPE_CHECKING, Any

from fgai_bench.lazy import keep_name, lazy_names
from fgai_bench.registry import Registry

if TYPE_CHECKING:
    from fgai_bench.models.attention import Attention, align
    from fgai_bench.models.base import AttentionModel, Output, build_model
    from fgai_bench.models.from_pyg import from_pyg

MODELS: Registry[Any] = Registry("model", "fgai_bench.models")
MODELS.declare(
    "gat",
    "fgai_bench.models.gat:GAT",
    summary="Graph Attention Network: additive scores of source and destination",
    paper="https://arxiv.org/abs/1710.10903",
    tags=("attention", "differentiable"),
)
MODELS.declare(
    "gatv2",
    "fgai_bench.models.gatv2:GATv2",
    summary="GATv2: dynamic attention, the non-linearity inside the score",
    paper="https://arxiv.org/abs/2105.14491",
    tags=("attention", "differentiable"),
)
MODELS.declare(
    "gt",
    "fgai_bench.models.gt:GT",
    summary="Graph Transformer with Laplacian positional encodings",
    paper="https://arxiv.org/abs/2012.09699",
    tags=("attention", "differentiable", "positional-encoding"),
)

__all__ = ["MODELS", "Attention", "AttentionModel", "Output", "align", "build_model", "from_pyg"]
__getattr__ = lazy_names(
    __name__,
    {
        "Attention": "fgai_bench.models.attention",
        "align": "fgai_bench.models.attention",
        "AttentionModel": "fgai_bench.models.base",
        "Output": "fgai_bench.models.base",
        "build_model": "fgai_bench.models.base",
    },
)
keep_name(__name__, "from_pyg")
