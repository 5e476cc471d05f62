"""Explain a prediction by its gradient with respect to edge weights: saliency, and what gradient explainers share."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.explainers.base import BlockExplainer
from fgai_bench.explainers.computation_graph import CutOutGraph, Field
from fgai_bench.models.base import AttentionModel, ModelError

MOST_EDGES = 2**18
"""Edges of the computation graphs that are differentiated at once."""


def predicted_classes(model: AttentionModel, embedded: Tensor, data: Data) -> Tensor:
    """Return the predicted class of every node: ``(N,)``."""
    with torch.no_grad():
        return model.propagate(embedded, data.edge_index).logits.argmax(1)


def probabilities(logits: Tensor, rows: Tensor, classes: Tensor) -> Tensor:
    """Return the probability of one class in each of some rows: ``(N, C), (B,), (B,) -> (B,)``."""
    return logits[rows].softmax(1).gather(1, classes.unsqueeze(1)).squeeze(1)


def part_of(model: AttentionModel, field: Field) -> CutOutGraph | None:
    """Return the field as a graph of its own, or None if the model's output there would be another."""
    part = field.part()
    same = model.restricted(part.edges, part.rows, field.edge_index, field.num_nodes)
    return part if same else None


def weight_gradient(
    model: AttentionModel, embedded: Tensor, field: Field, classes: Tensor, level: float = 1.0
) -> Tensor:
    r"""Return the derivative of each node's predicted probability with respect to the weight of each of its edges.

    .. math:: \partial p_v / \partial w_e \quad \text{at} \quad w = (\text{level}, ..., \text{level})

    Args:
        model: a model in evaluation mode.
        embedded: ``(N, ...)`` its embedded nodes.
        field: the (node, edge) pairs.
        classes: ``(N,)`` the class of each node whose probability is differentiated.
        level: the weight of every edge.

    Returns:
        ``(M,)`` in the order of the field's pairs.
    """
    part = part_of(model, field)
    if part is not None:
        return _slope(model, embedded[part.rows], part.edges, part.roots, classes[field.nodes], level)
    # The whole graph for each node: slower, and right for every model.
    alone = [
        _slope(model, embedded, one.edge_index, one.nodes, classes[one.nodes], level)[one.edges]
        for one in field.split(0)
    ]
    return torch.cat(alone)


def _slope(model: AttentionModel, h: Tensor, edges: Tensor, roots: Tensor, classes: Tensor, level: float) -> Tensor:
    weight = torch.full((edges.size(1),), level, dtype=h.dtype, device=h.device, requires_grad=True)
    with torch.enable_grad():
        logits = model.propagate(h, edges, edge_weight=weight).logits
        if not logits.requires_grad:
            raise ModelError("the network's outputs have no gradient over its edges")
        return torch.autograd.grad(probabilities(logits, roots, classes).sum(), weight)[0]


class GradientExplainer(BlockExplainer):
    """An explainer by gradients of the predicted probability: :meth:`scored` is asked about parts that fit memory."""

    def prepared(self, model: AttentionModel, data: Data, seed: int) -> Callable[[Field], Tensor]:
        with torch.no_grad():
            embedded = model.embed(data.x)
        classes = predicted_classes(model, embedded, data)

        def score(field: Field) -> Tensor:
            return torch.cat([self.scored(model, embedded, part, classes) for part in field.split(MOST_EDGES)])

        return score

    def scored(self, model: AttentionModel, embedded: Tensor, field: Field, classes: Tensor) -> Tensor:
        """Return the scores of a field, ``(M,)``, from embedded nodes and predicted classes, ``(N, ...), (N,)``."""
        raise TypeError(f"{type(self).__name__} must implement scored(model, embedded, field, classes)")


class Saliency(GradientExplainer):
    r"""The size of the gradient of the predicted probability with respect to the weight of each edge.

    .. math:: s_v(e) = \big| \partial p_v / \partial w_e \big| \quad \text{at} \quad w = 1

    An edge of weight w has its attention multiplied by w in every layer before it sums to one again.
    """

    summary = "size of the gradient of the predicted probability over edge weights"
    paper = "https://arxiv.org/abs/1312.6034"
    tags = ("gradient",)
    levels: tuple[float, ...] = (1.0,)

    def scored(self, model: AttentionModel, embedded: Tensor, field: Field, classes: Tensor) -> Tensor:
        slopes = [weight_gradient(model, embedded, field, classes, level) for level in self.levels]
        return torch.stack(slopes).mean(0).abs()
