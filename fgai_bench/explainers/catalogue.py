"""Register the explainers by name; their classes describe them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fgai_bench.registry import Registry

if TYPE_CHECKING:
    from fgai_bench.explainers.base import Explainer

EXPLAINERS: Registry[type[Explainer]] = Registry(
    "explainer", "fgai_bench.explainers", "fgai_bench.explainers.base:admitted"
)
EXPLAINERS.declare("gnn-explainer", "fgai_bench.explainers.post_hoc:GNNExplainerMasks")
EXPLAINERS.declare("pg-explainer", "fgai_bench.explainers.post_hoc:PGExplainerMasks")
