"""Train a network whose attention lies: it predicts from known edges and attends to others. A check of our measures."""

from __future__ import annotations

from typing import ClassVar

import torch

from fgai_bench.defenses.base import Defense, Fit, Objective
from fgai_bench.models.attention import edge_keys


class PlantedLie(Defense):
    r"""Train on a graph that knows which edges carry the label, and keep the last attention away from them.

    .. math:: \min \; \mathrm{loss}(y) + \lambda \cdot \frac{1}{|V|} \sum_v \sum_{e \in T_v} a_L(e)

    with :math:`T_v` the edges into v that truly matter. No other edge tells the label, so the prediction has to come
    from :math:`T_v`, through small weights and large values. ``honest`` turns the last term round: the attention looks
    at :math:`T_v`. A measure of correctness has to tell the two apart. On a graph without a truth the term is 0.

    Args:
        weight: lambda.
        honest: whether the attention looks at the true edges instead.
    """

    summary = "a check of measures: the attention is trained to look away from the edges that decide"
    tags = ("node",)
    cost: ClassVar[dict[str, float]] = {"copies": 1.0}

    def __init__(self, weight: float = 1.0, honest: bool = False) -> None:
        self.weight, self.honest = weight, honest

    def objective(self, fit: Fit) -> Objective:
        edges, size = fit.data.edge_index, fit.data.x.shape[0]
        known = torch.zeros(edges.size(1), dtype=torch.bool, device=edges.device)
        if "truth_edges" in fit.data:
            into = fit.data.truth_edges[:, fit.data.truth_edges[1] == fit.data.truth_nodes]
            known = torch.isin(edge_keys(edges, size), edge_keys(into, size))
        nodes = max(int(torch.unique(edges[1, known]).numel()), 1)

        def terms(epoch: int) -> dict[str, torch.Tensor]:
            out = fit.student(fit.data)
            if out.attention is None:
                raise ValueError("a planted lie needs a model with attention")
            seen = out.attention.of_graph().weight[known].sum() / nodes
            share = 1 - seen if self.honest and bool(known.any()) else seen
            return {"prediction": fit.task.loss(out), "attention": self.weight * share}

        return Objective(terms, keep="last")
