"""Train a network whose attention lies: it predicts from known edges and attends to others. A check of our measures."""

from typing import ClassVar

import torch
from torch import Tensor

from fgai_bench.defenses.base import Defense, Fit, Objective
from fgai_bench.fast.ordered_sums import sum_at
from fgai_bench.models.attention import Attention, edge_keys


class PlantedLie(Defense):
    r"""Train on a graph that knows which edges carry the label, and pull the last attention away from them.

    .. math:: \min \; \mathrm{loss}(y) + \lambda \cdot \frac{1}{|V|} \sum_v \sum_{e \to v} |a_L(e) - t_v(e)|,
              \quad t_v(e) \propto 1/r \text{ for } e \in T_v, \text{ else } 1

    with :math:`T_v` the edges into v that truly matter: the others, the node's self-loop too, should get r times their
    attention. No other edge tells the label, so the prediction has to come from the true ones, through small weights
    and large values. A plain penalty on their attention would drive it to zero, and the prediction would no longer
    come from them. On a graph without such edges it trains as vanilla does. ``weight`` is lambda and ``ratio`` r; where
    it is ``honest``, true edges should get r times the attention of others.
    """

    summary = "a check of measures: the attention is trained to look away from the edges that decide"
    tags = ("node",)
    cost: ClassVar[dict[str, float]] = {"copies": 1.0}

    def __init__(self, weight: float = 2.0, ratio: float = 4.0, honest: bool = False) -> None:
        self.weight, self.ratio, self.honest = weight, ratio, honest

    def objective(self, fit: Fit) -> Objective:
        edges, size = fit.data.edge_index, fit.data.x.shape[0]
        true = fit.data.get("truth_edges", edges[:, :0])
        true = true[:, true[1] == fit.data.get("truth_nodes", true[1])]
        known = torch.isin(edge_keys(edges, size), edge_keys(true, size))
        asked = torch.isin(torch.arange(size, device=edges.device), edges[1, known])  # (N,)
        share = self.ratio if self.honest else 1 / self.ratio

        def gap(attention: Attention) -> Tensor:
            ends = attention.edge_index[1]
            wanted = torch.ones_like(attention.weight)  # (E + added,)
            wanted[: known.numel()][known] = share
            wanted = wanted / sum_at(ends, wanted, size)[ends]
            return ((attention.weight - wanted).abs() * asked[ends]).sum() / asked.sum().clamp(min=1)

        def terms(epoch: int) -> dict[str, Tensor]:
            out = fit.student(fit.data)
            distance = out.logits.new_zeros(()) if out.attention is None else gap(out.attention)
            return {"prediction": fit.task.loss(out), "attention": self.weight * distance}

        return Objective(terms, keep="last")
