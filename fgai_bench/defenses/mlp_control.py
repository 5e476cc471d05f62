"""Define the control of every defense: a perceptron in place of the model, which never looks at the graph."""

from typing import Any, ClassVar

from fgai_bench.defenses.base import Fit
from fgai_bench.defenses.training import num_classes
from fgai_bench.defenses.vanilla import Vanilla
from fgai_bench.models.base import AttentionModel
from fgai_bench.models.mlp import MLP
from fgai_bench.models.options import MLPOptions
from fgai_bench.options import Choice, Range, Space


class MLPControl(Vanilla):
    """Train a perceptron in place of the model; options as in :class:`fgai_bench.models.options.MLPOptions`.

    What a defended network keeps under attack is worth its edges only as far as it is more than what this keeps.
    """

    summary = "a perceptron in place of the model: what features give without any edge"
    paper = "https://arxiv.org/abs/1811.05868"
    tags: ClassVar[tuple[str, ...]] = ("node", "replaces-model", "no-attention")
    cost: ClassVar[dict[str, float]] = {"copies": 0.5}
    search_space: ClassVar[Space | None] = {"defense.hidden": Choice(64, 256), "defense.dropout": Range(0.0, 0.8)}

    def __init__(self, **options: Any) -> None:
        self.options = MLPOptions(**options)

    def student(self, fit: Fit) -> AttentionModel:
        classes = num_classes(fit.student, fit.data)
        model = MLP(fit.data.x.shape[1], classes, seed=fit.seed, **self.options.model_dump())
        return model.to(fit.data.edge_index.device)
