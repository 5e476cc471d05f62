"""Register the models by name; their classes describe them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fgai_bench.registry import Registry

if TYPE_CHECKING:
    from fgai_bench.models.base import AttentionModel

MODELS: Registry[type[AttentionModel]] = Registry("model", "fgai_bench.models", "fgai_bench.models.base:admitted")
for _name, _class in (
    ("gat", "gat:GAT"),
    ("gatv2", "gatv2:GATv2"),
    ("gt", "gt:GT"),
):
    MODELS.declare(_name, f"fgai_bench.models.{_class}")
