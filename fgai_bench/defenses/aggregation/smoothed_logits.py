"""Define what RUNG and Elastic GNN share: a perceptron whose logits are smoothed over the graph, step by step."""

from __future__ import annotations

from typing import ClassVar

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from fgai_bench.defenses.deeprobust_gcn import GCNOptions
from fgai_bench.defenses.plain_gcn import PlainGCNModel, ScaledGraph
from fgai_bench.models.base import Output


class SmoothingOptions(GCNOptions):
    """The size of the perceptron, and ``steps``: how often its logits are smoothed."""

    hidden: int = Field(64, ge=1, le=65_536)
    steps: int = Field(10, ge=1, le=1000)


class SmoothedLogits(PlainGCNModel):
    """A perceptron ``relu(x W_1 + b_1) W_2 + b_2``, then ``steps`` of smoothing, which subclasses implement.

    A message is divided by the root of its sender's degree, so it reaches one hop further than the steps alone. A step
    sends messages over ``hops_per_step`` edges.
    """

    hops_per_step: ClassVar[int] = 1

    @property
    def hops(self) -> int:
        return self.hops_per_step * self.config["steps"]

    def classified(self, support: Tensor, structure: ScaledGraph, score_shift: Tensor | None = None) -> Output:
        first, second = self.network.gc1, self.network.gc2
        logits = self.dropped(F.relu(support + first.bias)) @ second.weight + second.bias
        return self.smoothed(logits, structure, score_shift)

    def smoothed(self, h: Tensor, graph: ScaledGraph, score_shift: Tensor | None) -> Output:
        """Return the output for the perceptron's logits: ``(N, C) -> Output``."""
        raise TypeError(f"{type(self).__name__} must implement smoothed(h, graph, score_shift)")
