"""Explain a prediction by the model's attention: of one layer, of all, or along the paths that messages take."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.explainers.base import BlockExplainer
from fgai_bench.explainers.computation_graph import Field
from fgai_bench.explainers.gradient import GradientExplainer, probabilities
from fgai_bench.fast.ordered_sums import sum_at
from fgai_bench.metrics.base import NotApplicable
from fgai_bench.metrics.f_slope import attention_over
from fgai_bench.metrics.inputs import attention_of
from fgai_bench.metrics.null_rankings import uniform_attention
from fgai_bench.models import Attention
from fgai_bench.models.base import AttentionModel
from fgai_bench.models.kernels.segments import plain_attention


def last_attention(model: AttentionModel, data: Data) -> Attention:
    """Return the attention of the last layer over the edges of the graph; raise where the model has none."""
    with torch.no_grad():
        return attention_of(model(data))


def layer_attentions(model: AttentionModel, data: Data) -> tuple[Attention, ...]:
    """Return the attention of every layer, first to last, heads averaged; raise where the model does not tell them."""
    with torch.no_grad():
        out, layers = model.with_layers(model.embed(data.x), data.edge_index)
    attention_of(out)  # not applicable without one
    if not layers:
        raise NotApplicable("the model does not tell the attention of its hidden layers")
    return tuple(layer.averaged() for layer in layers)


def over_graph(attention: Attention, data: Data) -> Tensor:
    """Return the weight of each edge of the graph, in its order; 0 for one that the model left out: ``(E,)``."""
    weight = attention_over(data.edge_index, attention).weight
    if weight.numel() != data.edge_index.size(1):
        raise NotApplicable("the graph has parallel edges, and the model does not keep them apart")
    return weight


class AttentionLast(BlockExplainer):
    """The last layer's attention, averaged over its heads, of the edges into the node: ``s_v(e) = a_L(e)``.

    On other edges its weights enter the outputs of other nodes only, and they have the score 0.
    """

    summary = "the last layer's attention: what the paper reads as the explanation"
    paper = "https://arxiv.org/abs/2410.06950"
    version = "2"
    tags = ("attention", "into-node")

    def prepared(self, model: AttentionModel, data: Data, seed: int) -> Callable[[Field], Tensor]:
        weight = over_graph(last_attention(model, data), data)
        return lambda field: weight[field.edges] * field.leads_into_node


class AttentionMean(BlockExplainer):
    """The mean of attention over layers and heads, as PyG's AttentionExplainer: ``s_v(e) = mean_l a_l(e)``."""

    summary = "attention averaged over layers and heads, as PyG's AttentionExplainer with reduce='mean'"
    tags = ("attention",)

    def prepared(self, model: AttentionModel, data: Data, seed: int) -> Callable[[Field], Tensor]:
        weight = torch.stack([over_graph(layer, data) for layer in layer_attentions(model, data)]).mean(0)
        return lambda field: weight[field.edges]


class GAtt(BlockExplainer):
    r"""GAtt (Shin et al. 2024): attention summed over the places of an edge in a node's computation tree.

    .. math:: s_v(j \to i) = \sum_{m=1}^{L} \big(A_L A_{L-1} \cdots A_{m+1}\big)_{vi} \; a_m(j \to i)

    where :math:`A_m` is the matrix of the attention of layer m, self-loops included: an edge's attention at each of its
    places times the attention along the path from there to the node.
    """

    summary = "GAtt: attention multiplied along the paths of the computation tree"
    paper = "https://arxiv.org/abs/2406.04612"
    tags = ("attention",)
    residual = 0.0

    def prepared(self, model: AttentionModel, data: Data, seed: int) -> Callable[[Field], Tensor]:
        size, share = data.x.shape[0], 1 - self.residual
        layers = [
            (share * over_graph(attention, data), share * _loops(attention, size) + self.residual)
            for attention in layer_attentions(model, data)
        ]
        return lambda field: _along_paths(field, layers)


class AttentionRollout(GAtt):
    r"""Attention rollout (Abnar and Zuidema 2020), read edge by edge.

    As :class:`GAtt` with half of each layer's attention on the node itself, for what a residual connection carries:
    :math:`A_m` becomes :math:`(A_m + I) / 2` and :math:`a_m` becomes :math:`a_m / 2`. The score is the share of the
    rollout that flows over the edge, summed over the layers.
    """

    summary = "attention rollout: paths through (attention + identity) / 2"
    paper = "https://arxiv.org/abs/2005.00928"
    tags = ("attention",)
    residual = 0.5


class UniformPaths(GAtt):
    """The null of what follows paths: :class:`GAtt` of a uniform attention in every layer, whatever the model.

    It knows the paths from an edge to the node and the degrees along them, but no attention.
    """

    summary = "null: GAtt of a uniform attention in every layer"
    paper = ""
    tags = ("null",)

    def prepared(self, model: AttentionModel, data: Data, seed: int) -> Callable[[Field], Tensor]:
        uniform = uniform_attention(data.edge_index, data.x.shape[0])
        layers = [(uniform.of_graph().weight, _loops(uniform, data.x.shape[0]))] * model.hops
        return lambda field: _along_paths(field, layers)


def _loops(attention: Attention, num_nodes: int) -> Tensor:
    """Return the attention that each node pays to itself over a self-loop that the model added: ``(N,)``."""
    loops = attention.weight.new_zeros(num_nodes)
    kept = attention.weight.numel() - attention.added
    loops[attention.edge_index[0, kept:]] = attention.weight[kept:]
    return loops


def _along_paths(field: Field, layers: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Return the sum over layers of (weight of the paths from the edge's end to the node) x (weight of the edge).

    ``layers`` holds, first to last, the weights of edges ``(E,)`` and of added self-loops ``(N,)``.
    """
    source, destination = field.ends
    block, size = field.nodes.numel(), field.num_nodes
    first = layers[-1][0]
    paths = first.new_zeros(block, size)  # the weight of all paths from a node of the graph to a node of the block
    paths[torch.arange(block, device=paths.device), field.nodes] = 1
    total = first.new_zeros(field.edges.numel())
    into, out_of = field.owner * size + destination, field.owner * size + source
    for weight, loops in reversed(layers):
        flow = paths.view(-1)[into] * weight[field.edges]  # (M,)
        total += flow
        paths = (paths * loops).view(-1).index_add_(0, out_of, flow).view(block, size)
    return total


class WeightGradientExplainer(GradientExplainer):
    """An explainer by gradients with respect to attention weights, each of which is taken by itself.

    No parameter is differentiable, so ``h`` has to be: the weights must be part of a history.
    """

    def prepared(self, model: AttentionModel, data: Data, seed: int) -> Callable[[Field], Tensor]:
        layer_attentions(model, data)  # not applicable without the attention of every layer
        return super().prepared(model, data, seed)


class AttentionGradient(WeightGradientExplainer):
    r"""Attention times its gradient, averaged over heads and summed over layers.

    .. math:: s_v(e) = \Big| \sum_m \frac{1}{H_m} \sum_h a_{m,h}(e) \, \frac{\partial p_v}{\partial a_{m,h}(e)} \Big|

    with :math:`p_v` the probability of the predicted class of v. The gradient takes each weight by itself: the others
    of the same softmax stay as they are.
    """

    summary = "attention x gradient of the predicted probability, over all layers"
    paper = "https://arxiv.org/abs/2103.15679"
    tags = ("attention", "gradient")

    def products(self, model: AttentionModel, h: Tensor, edges: Tensor, roots: Tensor, classes: Tensor) -> Tensor:
        with torch.enable_grad(), plain_attention():
            out, layers = model.with_layers(h.detach().requires_grad_(), edges)
            wanted = [layer.weights for layer in layers]
            slopes = torch.autograd.grad(probabilities(out.logits, roots, classes).sum(), wanted)
        parts = [
            layer.averaged(layer.weights.detach() * slope).of_graph().weight
            for layer, slope in zip(layers, slopes, strict=True)
        ]
        return torch.stack(parts).sum(0).abs()


class Contribution(WeightGradientExplainer):
    r"""The change of the predicted probability if the last layer attended to all edges but one.

    .. math:: s_v(e) = \big| p_v(z_v) - p_v(z_v - \delta_v(e)) \big|, \quad
              \delta_v(e) = \sum_h o_h - \frac{o_h - a_h(e) \, u_h(e)}{1 - a_h(e)}, \quad o_h = \sum_e a_h(e) \, u_h(e)

    with :math:`u_h(e)` the derivative of the logits by the weight :math:`a_h(e)`: the value of the edge's source. The
    product a u is what the edge adds to the logits. Without the edge the other weights sum to one again. So in a
    network of one attention layer with self-loops and a linear read-out, the score is the effect of deletion. With more
    layers an edge also changes what other edges carry, and a non-linear read-out is linearised. A self-loop of the
    graph has the score 0: models add it again.
    """

    summary = "attention x value of the last layer: what the prediction would be without the edge"
    tags = ("attention", "gradient", "into-node")

    def products(self, model: AttentionModel, h: Tensor, edges: Tensor, roots: Tensor, classes: Tensor) -> Tensor:
        block = torch.arange(roots.numel(), device=roots.device)
        with torch.enable_grad(), plain_attention():
            out, layers = model.with_layers(h.detach().requires_grad_(), edges)
            last, logits = layers[-1], out.logits[roots]  # (B, C)
            slopes = [torch.autograd.grad(column.sum(), last.weights, retain_graph=True)[0] for column in logits.T]
        owner = torch.full_like(edges[0, :1], -1).repeat(h.size(0)).index_copy_(0, roots, block)[last.edge_index[1]]
        into = (owner >= 0).nonzero().squeeze(1)  # (M,)
        owner, place, logits = owner[into], last.place[into], logits.detach().double()
        weight = last.weights.detach()[place].double()  # (M, H)
        whole = sum_at(owner, weight, block.numel())[owner]
        rest, changes = (whole - weight).clamp(min=1e-300), []
        for slope in slopes:
            added = weight * slope[place]
            carried = sum_at(owner, added, block.numel())[owner]
            changes.append((carried / whole - (carried - added) / rest).sum(1))
        without = logits[owner] - torch.stack(changes, dim=1)  # (M, C)
        best = classes[owner]
        falls = probabilities(logits, owner, best) - probabilities(
            without, torch.arange(best.numel(), device=best.device), best
        )
        loop = last.edge_index[0, into] == last.edge_index[1, into]
        scores = h.new_zeros(last.edge_index.size(1)).index_copy_(0, into, falls.abs().masked_fill(loop, 0).to(h.dtype))
        return scores[: scores.numel() - last.added]
