"""Define the defense ``clipped``: attention scores with a bound, so that no neighbour outweighs many others."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from fgai_bench.defenses.base import FitError
from fgai_bench.defenses.vanilla import Vanilla
from fgai_bench.models.base import AttentionModel
from fgai_bench.options import LogRange, Options, Space


class ClippedOptions(Options):
    """The option ``clip``: the bound c of the scores."""

    clip: float = Field(1.0, gt=0, le=100)


class ClippedAttention(Vanilla):
    r"""Bound the scores by :math:`s \mapsto c \tanh(s / c)` before the softmax, in every layer; train as vanilla.

    A neighbour beside d other in-edges then has at most the share :math:`e^{2c} / (e^{2c} + d)` of the attention. This
    does not bound its values, so it is no floor of the score. Unlike a hard clip it has a gradient everywhere, which
    attacks can follow.
    """

    summary = "attention scores between -c and c: bounds the pull of one neighbour"
    paper = "https://arxiv.org/abs/1611.09940"
    tags = ("node", "link")
    cost: ClassVar[dict[str, float]] = {"copies": 2.0}
    search_space: ClassVar[Space | None] = {"defense.clip": LogRange(0.1, 4.0)}

    def __init__(self, **options: Any) -> None:
        self.options = ClippedOptions(**options)

    def prepared(self, model: AttentionModel, seed: int) -> AttentionModel:
        if "score_clip" not in model.config:
            raise FitError(
                f"{type(model).__name__} has no option score_clip; clipped attention is for gat, gatv2 and gt"
            )
        return model.rebuilt(model.config.get("seed", seed), score_clip=self.options.clip)
