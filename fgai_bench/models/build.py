"""Build a model from its registered name."""

from __future__ import annotations

from typing import Any

from fgai_bench.models.base import AttentionModel
from fgai_bench.models.catalogue import MODELS
from fgai_bench.seeds import isolated_rng


def build_model(name: str, in_channels: int, num_classes: int, seed: int = 0, **config: Any) -> AttentionModel:
    """Return the registered model ``name``, initialised from ``seed`` without touching the global random state."""
    with isolated_rng(seed, "init"):
        try:
            return MODELS[name](in_channels, num_classes, seed=seed, **config)
        except TypeError as error:
            raise ValueError(f"model {name!r} cannot be built with {sorted(config)}: {error}") from error
