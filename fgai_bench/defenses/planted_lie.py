"""Train a network whose attention lies: it predicts from known edges and attends to others. A check of our measures."""

from typing import ClassVar

import torch
from torch import Tensor

from fgai_bench.defenses.base import Defense, Fit, Objective
from fgai_bench.models.attention import edge_keys


class PlantedLie(Defense):
    r"""Train on a graph that knows which edges carry the label, and keep the last attention away from them.

    .. math:: \min \; \mathrm{loss}(y) + \lambda \cdot \frac{1}{|V|} \sum_v \sum_{e \in T_v} a_L(e)

    with :math:`T_v` the edges into v that truly matter. No other edge tells the label, so the prediction has to come
    from them, through small weights and large values. On a graph without such edges it trains as vanilla does.

    Args:
        weight: lambda.
        honest: turn the last term round: the attention looks at the true edges.
    """

    summary = "a check of measures: the attention is trained to look away from the edges that decide"
    tags = ("node",)
    cost: ClassVar[dict[str, float]] = {"copies": 1.0}

    def __init__(self, weight: float = 1.0, honest: bool = False) -> None:
        self.weight, self.honest = weight, honest

    def objective(self, fit: Fit) -> Objective:
        edges, true = fit.data.edge_index, fit.data.get("truth_edges", fit.data.edge_index[:, :0])
        true = true[:, true[1] == fit.data.get("truth_nodes", true[1])]
        known = torch.isin(edge_keys(edges, fit.data.x.shape[0]), edge_keys(true, fit.data.x.shape[0]))
        share = (-self.weight if self.honest else self.weight) / max(edges[1, known].unique().numel(), 1)

        def terms(epoch: int) -> dict[str, Tensor]:
            out = fit.student(fit.data)
            seen = out.logits.new_zeros(()) if out.attention is None else out.attention.of_graph().weight[known].sum()
            return {"prediction": fit.task.loss(out), "attention": share * seen}

        return Objective(terms, keep="last")
