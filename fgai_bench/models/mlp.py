"""Define the control that never looks at the graph: a perceptron on each node's own features."""

from typing import Any, ClassVar

from torch import Tensor

from fgai_bench.models.base import ConfiguredModel, Output
from fgai_bench.models.features import FeatureProjection, Norm
from fgai_bench.models.kernels.elu import elu
from fgai_bench.models.options import MLPOptions
from fgai_bench.options import Choice, Range, Space


class MLP(ConfiguredModel):
    """A perceptron with one hidden layer: ``logits = W_2 ELU(W_1 x + b_1) + b_2``. Edges play no part."""

    summary = "perceptron on the node's own features: the control that no edge can touch"
    paper = "https://arxiv.org/abs/1811.05868"
    tags = ("differentiable",)
    cost: ClassVar[dict[str, float]] = {"arrays_per_node": 3.0}
    local = True
    options_class = MLPOptions
    search_space: ClassVar[Space] = {"model.hidden": Choice(64, 256), "model.dropout": Range(0.0, 0.8)}

    def build(self, in_channels: int, num_classes: int, chosen: Any) -> None:
        between: Norm = "layer" if chosen.layer_norm else "none"
        self.first = FeatureProjection(in_channels, chosen.hidden, chosen.dropout, chosen.input_norm, bias=True)
        self.second = FeatureProjection(chosen.hidden, num_classes, chosen.dropout, between, bias=True)

    @property
    def hops(self) -> int:
        return 0

    def hops_behind(self, out: Output) -> int | None:
        return 0

    def capturable(self, new_edges: bool) -> bool:
        return True

    def embed(self, x: Tensor) -> Tensor:
        return self.second(elu(self.first(x)))

    def propagate(
        self, h: Tensor, edge_index: Tensor, score_shift: Tensor | None = None, edge_weight: Tensor | None = None
    ) -> Output:
        if score_shift is not None:
            raise ValueError("MLP has no attention whose scores could be shifted")
        unmoved = h if edge_weight is None else h + 0 * edge_weight.sum()  # edge attacks get a gradient, which is zero
        return Output(unmoved, None)
