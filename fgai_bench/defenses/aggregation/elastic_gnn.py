"""Define the defense Elastic GNN (Liu et al. 2021, https://arxiv.org/abs/2107.06996)."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field
from torch import Tensor

from fgai_bench.defenses.aggregation.smoothed_logits import SmoothedLogits, SmoothingOptions
from fgai_bench.defenses.plain_gcn import ScaledGraph
from fgai_bench.defenses.vanilla import ReplacedModel
from fgai_bench.fast.ordered_sums import rows_at, sum_at
from fgai_bench.models.base import Output
from fgai_bench.options import OWN_NETWORK, LogRange, Space


class ElasticOptions(SmoothingOptions):
    """Options of Elastic GNN, beside the perceptron and the steps.

    Attributes:
        lambda1: how much the differences along edges count, unsquared: most become zero, and a few may stay large.
        lambda2: how much the squared ones count.
    """

    lambda1: float = Field(3.0, gt=0, le=1e6)
    lambda2: float = Field(3.0, ge=0, le=1e6)


def shortened(rows: Tensor, length: float) -> Tensor:
    """Return the rows, none longer than ``length``: ``(E, C) -> (E, C)``.

    >>> import torch
    >>> shortened(torch.tensor([[3.0, 4.0], [0.3, 0.4]]), 1.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    return rows * (length / rows.norm(dim=1, keepdim=True).clamp(min=length))


class ElasticModel(SmoothedLogits):
    r"""A perceptron whose logits X are smoothed by elastic message passing.

    With :math:`\tilde A = D^{-1/2} (A + I) D^{-1/2}`, :math:`\tilde\Delta = \Delta D^{-1/2}` the scaled differences
    along edges, :math:`\gamma = 1 / (1 + \lambda_2)` and :math:`\beta = 1 / (2 \gamma)`, it minimises

    .. math::
        \lambda_1 \lVert \tilde\Delta F \rVert_{21} + \tfrac{\lambda_2}{2} \mathrm{tr}(F^T (I - \tilde A) F)
        + \tfrac12 \lVert F - X \rVert^2

    by K steps from :math:`F = X, Z = 0`:

    .. math::
        Y = \gamma X + (1 - \gamma) \tilde A F \qquad
        Z \leftarrow \Pi_{\lambda_1}(Z + \beta \tilde\Delta (Y - \gamma \tilde\Delta^T Z)) \qquad
        F \leftarrow Y - \gamma \tilde\Delta^T Z

    where :math:`\Pi_{\lambda_1}` shortens the rows of Z to that length. Here Z has a row for each direction of an edge;
    the two are each other's negative. A step passes messages twice: for Y, and for Z.
    """

    defaults: ClassVar[dict[str, Any]] = {"steps": 10, "lambda1": 3.0, "lambda2": 3.0}
    hops_per_step = 2

    def smoothed(self, h: Tensor, graph: ScaledGraph, score_shift: Tensor | None) -> Output:
        if score_shift is not None:
            raise ValueError("Elastic GNN has no attention whose scores could be shifted")
        edges, scale = graph.products.edges, graph.scale
        gamma, length = 1 / (1 + self.config["lambda2"]), self.config["lambda1"]
        link = (graph.presence * ~graph.loop).unsqueeze(1)  # (E, 1)

        def pull(z: Tensor) -> Tensor:
            return scale * sum_at(edges.destination, link * z, len(h))  # (E, C) -> (N, C)

        f, z = h, h.new_zeros(edges.source.numel(), h.size(1))
        for _ in range(self.config["steps"]):
            y = gamma * h + (1 - gamma) * scale * graph.products.sums(graph.presence, scale * f)  # (N, C)
            near = scale * (y - gamma * pull(z))
            difference = rows_at(edges.destination, near) - rows_at(edges.source, near)  # (E, C)
            z = shortened(z + difference / (2 * gamma), length)
            f = y - gamma * pull(z)
        return Output(f, None)


class ElasticGNN(ReplacedModel):
    """Elastic GNN in place of the model; options as in :class:`ElasticOptions`."""

    summary = "Elastic GNN: logits smoothed over the graph so that a few differences may stay large"
    paper = "https://arxiv.org/abs/2107.06996"
    tags: ClassVar[tuple[str, ...]] = ("node", "replaces-model", "no-attention")
    search_space: ClassVar[Space | None] = {
        **OWN_NETWORK,
        "defense.lambda1": LogRange(0.1, 10.0),
        "defense.lambda2": LogRange(0.1, 10.0),
    }
    options_class = ElasticOptions
    model_class = ElasticModel
