"""Explain a prediction by its gradient over edge weights: saliency, integrated gradients, and what they share."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.explainers.base import BlockExplainer
from fgai_bench.explainers.computation_graph import CutOutGraph, Field
from fgai_bench.models.base import AttentionModel, ModelError

MOST_EDGES = 2**18
"""Edges of the computation graphs that are differentiated at once."""


def probabilities(logits: Tensor, rows: Tensor, classes: Tensor) -> Tensor:
    """Return the probability of one class in each of some rows: ``(N, C), (B,), (B,) -> (B,)``."""
    return logits[rows].softmax(1).gather(1, classes.unsqueeze(1)).squeeze(1)


def part_of(model: AttentionModel, field: Field) -> CutOutGraph | None:
    """Return the field as a graph of its own, or None if the model's output there would be another."""
    part = field.part()
    same = model.restricted(part.edges, part.rows, field.edge_index, field.num_nodes)
    return part if same else None


def weight_gradient(
    model: AttentionModel, h: Tensor, edges: Tensor, roots: Tensor, classes: Tensor, level: float = 1.0
) -> Tensor:
    r"""Return the derivative of the predicted probabilities of the roots with respect to each edge's weight: ``(M,)``.

    .. math:: \partial \textstyle\sum_v p_v / \partial w_e \quad \text{at} \quad w = (\text{level}, ..., \text{level})
    """
    weight = torch.full((edges.size(1),), level, dtype=h.dtype, device=h.device, requires_grad=True)
    with torch.enable_grad():
        logits = model.propagate(h, edges, edge_weight=weight).logits
        if not logits.requires_grad:
            raise ModelError("the network's outputs have no gradient over its edges")
        return torch.autograd.grad(probabilities(logits, roots, classes).sum(), weight)[0]


class GradientExplainer(BlockExplainer):
    """An explainer by gradients of the predicted probability: :meth:`products` is asked about parts that fit memory."""

    def prepared(self, model: AttentionModel, data: Data, seed: int) -> Callable[[Field], Tensor]:
        with torch.no_grad():
            embedded = model.embed(data.x)
            logits = model.propagate(embedded, data.edge_index).logits
        classes = logits.argmax(1)  # (N,)

        def score(field: Field) -> Tensor:
            if not field.edges.numel():
                return logits.new_zeros(0)
            return torch.cat([self.scored(model, embedded, part, classes) for part in field.split(MOST_EDGES)])

        return score

    def scored(self, model: AttentionModel, embedded: Tensor, field: Field, classes: Tensor) -> Tensor:
        """Return the scores of a field, ``(M,)``, from embedded nodes and predicted classes, ``(N, ...), (N,)``."""
        part = part_of(model, field)
        if part is not None:
            return self.products(model, embedded[part.rows], part.edges, part.roots, classes[field.nodes])
        # The whole graph for each node: slower, and right for every model.
        alone = [
            self.products(model, embedded, one.edge_index, one.nodes, classes[one.nodes])[one.edges]
            for one in field.split(0)
        ]
        return torch.cat(alone)

    def products(self, model: AttentionModel, h: Tensor, edges: Tensor, roots: Tensor, classes: Tensor) -> Tensor:
        """Return the scores of all edges of a graph for the predictions of its roots: ``(M,)``."""
        raise TypeError(f"{type(self).__name__} must implement products(model, h, edges, roots, classes)")


class Saliency(GradientExplainer):
    r"""The size of the gradient of the predicted probability with respect to the weight of each edge.

    .. math:: s_v(e) = \big| \partial p_v / \partial w_e \big| \quad \text{at} \quad w = 1

    An edge of weight w has its attention multiplied by w in every layer before it sums to one again.
    """

    summary = "size of the gradient of the predicted probability over edge weights"
    paper = "https://arxiv.org/abs/1312.6034"
    tags = ("gradient",)
    levels: tuple[float, ...] = (1.0,)  # of the weights at which the gradient is taken

    def products(self, model: AttentionModel, h: Tensor, edges: Tensor, roots: Tensor, classes: Tensor) -> Tensor:
        slopes = [weight_gradient(model, h, edges, roots, classes, level) for level in self.levels]
        return torch.stack(slopes).mean(0).abs()


class IntegratedGradients(Saliency):
    r"""Integrated gradients (Sundararajan et al. 2017) over edge weights, from a graph without edges to the graph.

    .. math:: s_v(e) = \Big| \int_0^1 \frac{\partial p_v}{\partial w_e}(t, ..., t) \, dt \Big|

    by the midpoint rule. Before their size is taken, the scores of a node sum to what its edges together change.

    Args:
        steps: points of the midpoint rule.
    """

    summary = "integrated gradients of the predicted probability over edge weights, from no edges to all"
    paper = "https://arxiv.org/abs/1703.01365"
    tags = ("gradient",)

    def __init__(self, steps: int = 16) -> None:
        self.levels = tuple((step + 0.5) / steps for step in range(steps))
