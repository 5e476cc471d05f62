"""Define normalisation as a defense: between the layers (LN), or of the feature rows only."""

from typing import ClassVar

from fgai_bench.defenses.vanilla import Vanilla
from fgai_bench.models.base import AttentionModel


class LayerNorm(Vanilla):
    """Normalise the input of every layer after the first, with learned scale and shift (LN); train as vanilla."""

    summary = "layer normalisation between the layers"
    paper = "https://arxiv.org/abs/2111.04314"
    tags = ("node", "link")
    cost: ClassVar[dict[str, float]] = {"copies": 1.0, "arrays_per_node": 1.0}

    def prepared(self, model: AttentionModel, seed: int) -> AttentionModel:
        return model.rebuilt(model.config.get("seed", seed), layer_norm=True)


class RowNorm(Vanilla):
    """Divide feature rows by the sum of their magnitudes, ``x / |x|_1``; train as vanilla."""

    summary = "feature rows divided by the sum of their magnitudes"
    paper = "https://arxiv.org/abs/1609.02907"
    tags = ("node", "link")
    cost: ClassVar[dict[str, float]] = {"copies": 1.0}

    def prepared(self, model: AttentionModel, seed: int) -> AttentionModel:
        return model.rebuilt(model.config.get("seed", seed), input_norm="row")
