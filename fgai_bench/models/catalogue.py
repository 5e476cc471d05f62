"""Register the models by name, and build one from its name; their classes describe them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fgai_bench.registry import Registry

if TYPE_CHECKING:
    from fgai_bench.models.base import AttentionModel

MODELS: Registry[type[AttentionModel]] = Registry("model", "fgai_bench.models", "fgai_bench.models.base:AttentionModel")
for _name, _class in (
    ("gat", "gat:GAT"),
    ("gatv2", "gatv2:GATv2"),
    ("gt", "gt:GT"),
    ("gat-one-hop", "one_hop:GATOneHop"),
    ("gatv2-one-hop", "one_hop:GATv2OneHop"),
    ("mlp", "mlp:MLP"),
):
    MODELS.declare(_name, f"fgai_bench.models.{_class}")


def build_model(name: str, in_channels: int, num_classes: int, seed: int = 0, **options: Any) -> AttentionModel:
    """Return the registered model ``name``, initialised from ``seed`` without touching the global random state."""
    from fgai_bench.seeds import isolated_rng  # imports torch, which listing names must not

    with isolated_rng(seed, "init"):
        try:
            return MODELS[name](in_channels, num_classes, seed=seed, **options)
        except TypeError as error:
            raise ValueError(f"model {name!r} cannot be built with {sorted(options)}: {error}") from error
