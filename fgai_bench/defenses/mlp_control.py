"""Define the control of every defense: a perceptron in place of the model, which never looks at the graph."""

from typing import ClassVar

from fgai_bench.defenses.vanilla import ReplacedModel
from fgai_bench.models.mlp import MLP
from fgai_bench.models.options import MLPOptions
from fgai_bench.options import Choice, Range, Space


class MLPControl(ReplacedModel):
    """Train a perceptron in place of the model; options as in :class:`fgai_bench.models.options.MLPOptions`.

    What a defended network keeps under attack is worth its edges only as far as it is more than what this keeps.
    """

    summary = "a perceptron in place of the model: what features give without any edge"
    paper = "https://arxiv.org/abs/1811.05868"
    tags: ClassVar[tuple[str, ...]] = ("node", "replaces-model", "no-attention")
    cost: ClassVar[dict[str, float]] = {"copies": 0.5}
    search_space: ClassVar[Space | None] = {"defense.hidden": Choice(64, 256), "defense.dropout": Range(0.0, 0.8)}

    options_class = MLPOptions
    model_class = MLP
