"""Define the defense RUNG (Hou et al. 2024, https://arxiv.org/abs/2311.14934)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from fgai_bench.defenses.aggregation.smoothed_logits import SmoothedLogits, SmoothingOptions
from fgai_bench.defenses.plain_gcn import ScaledGraph
from fgai_bench.defenses.vanilla import ReplacedModel
from fgai_bench.models.base import Output, keyed_attention
from fgai_bench.options import OWN_NETWORK, LogRange, Range, Space

NEAREST = 1e-2
"""A smaller difference is taken for this one: towards zero the weight of an edge, and rounding, grow without bound."""


class RUNGOptions(SmoothingOptions):
    """Options of RUNG, beside the perceptron and the steps.

    Attributes:
        cut: ``gamma``, the difference of two nodes from which on their edge has no weight.
        smoothing: ``1 / (1 + lambda)``, how much the neighbours count beside the node's own logits.
    """

    cut: float = Field(3.0, gt=0, le=1e6)
    smoothing: float = Field(0.9, gt=0, lt=1)


def penalty_slope(difference: Tensor, cut: float) -> Tensor:
    """Return ``d rho / d y^2 = max(0, 1 / (2 y) - 1 / (2 gamma))`` of the minimax concave penalty: ``(E,) -> (E,)``.

    >>> penalty_slope(torch.tensor([0.5, 1.0, 2.0, 3.0]), cut=2.0).tolist()
    [0.75, 0.25, 0.0, 0.0]
    """
    return (0.5 / difference.clamp(min=NEAREST) - 0.5 / cut).clamp(min=0)


class RUNGModel(SmoothedLogits):
    r"""A perceptron whose logits are smoothed over edges between nodes that are alike.

    With :math:`f_i^0` the perceptron's logits and :math:`d_i` the degree, loop included, it minimises

    .. math::
        \sum_{(i,j) \in E} \rho_\gamma\left(\left\lVert \tfrac{f_i}{\sqrt{d_i}} - \tfrac{f_j}{\sqrt{d_j}} \right\rVert_2
        \right) + \lambda \sum_i \lVert f_i - f_i^0 \rVert^2

    by reweighted least squares with a quasi-Newton step, K times, where :math:`\rho_\gamma` is the minimax concave
    penalty and :math:`W_{ij} = d\rho_\gamma(y_{ij}) / d y_{ij}^2` for :math:`i \ne j`:

    .. math::
        f_i \leftarrow \frac{\sum_j W_{ij} A_{ij} f_j / \sqrt{d_i d_j} + \lambda f_i^0}{q_i + \lambda} \qquad
        q_i = \sum_j W_{ij} A_{ij} / d_i

    For :math:`g = f / \sqrt d` this is an average: j has the weight :math:`W_{ij} A_{ij} / (d_i (q_i + \lambda))` and
    :math:`g_i^0` the weight :math:`\lambda / (q_i + \lambda)`. Those of the last step are the attention. An edge
    between nodes that differ by more than :math:`\gamma` has none.
    """

    defaults: ClassVar[dict[str, Any]] = {"steps": 10, "cut": 3.0, "smoothing": 0.9}

    def smoothed(self, h: Tensor, graph: ScaledGraph, score_shift: Tensor | None) -> Output:
        products, loop = graph.products, graph.loop
        anchor = 1 / self.config["smoothing"] - 1  # lambda
        present = graph.presence / products.at_destination(graph.degree)  # (E,)
        start = g = graph.scale * h  # (N, C)
        for left in reversed(range(self.config["steps"])):
            slope = penalty_slope(products.distances(g, g), self.config["cut"])  # (E,)
            raw = torch.where(loop, anchor, slope * present)
            if score_shift is not None and not left:
                raw = raw * graph.products.edges.in_order(score_shift).exp()
            share = raw / products.at_destination(products.totals(raw))  # (E,)
            own = products.totals(share * loop).unsqueeze(1)
            g = products.sums(share * ~loop, g) + own * start
        return Output(g / graph.scale, keyed_attention(graph.products.edges, share.unsqueeze(1)))


class RUNG(ReplacedModel):
    """RUNG in place of the model; options as in :class:`RUNGOptions`."""

    summary = "RUNG: logits smoothed over the graph, without edges between nodes that differ much"
    paper = "https://arxiv.org/abs/2311.14934"
    tags: ClassVar[tuple[str, ...]] = ("node", "replaces-model")
    search_space: ClassVar[Space | None] = {
        **OWN_NETWORK,
        "defense.cut": LogRange(0.3, 10.0),
        "defense.smoothing": Range(0.5, 0.95),
    }
    options_class = RUNGOptions
    model_class = RUNGModel
