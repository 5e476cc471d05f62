"""Define the defense ``clipped``: attention scores with a bound, so that no neighbour outweighs many others."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from pydantic import Field

from fgai_bench.defenses.base import FitError
from fgai_bench.defenses.vanilla import Vanilla
from fgai_bench.models.base import AttentionModel
from fgai_bench.options import LogRange, Options, Space


def largest_share(clip: float, others: int, together: int = 1) -> float:
    r"""Return the most attention that ``together`` in-edges can draw from a node with ``others`` further ones.

    Scores lie in [-c, c], so :math:`e^{s}` lies in :math:`[e^{-c}, e^c]`. With m edges beside d others, the
    self-loop among them where the model adds one, the m have at most

    .. math::
        \frac{m e^c}{m e^c + d e^{-c}} = \frac{m e^{2c}}{m e^{2c} + d}

    of the attention, in every head, whatever the features and the parameters are.

    >>> round(largest_share(0.5, others=9), 3), largest_share(0.5, others=0)
    (0.232, 1.0)
    """
    pull = together * math.exp(2 * clip)
    return pull / (pull + others)


class ClippedOptions(Options):
    """The option ``clip``: the bound c of the scores."""

    clip: float = Field(1.0, gt=0, le=100)


class ClippedAttention(Vanilla):
    r"""Bound the scores by :math:`s \mapsto c \tanh(s / c)` before the softmax, in every layer; train as vanilla.

    This bounds the attention of one neighbour by :func:`largest_share`. It does not bound the neighbour's values, so
    it is no floor of the score. Unlike a hard clip it has a gradient everywhere, which attacks can follow.
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
