"""Define what every model is: a node-wise embedding, then propagation over the edges to logits and attention."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data

from fgai_bench.models.affected_nodes import AffectedNodes
from fgai_bench.models.attention import Attention
from fgai_bench.models.sorted_edges import SortedEdges
from fgai_bench.options import Options, Range, Space
from fgai_bench.seeds import isolated_rng

HIDDEN = -1e30  # a score below all others, but finite: a lone entry keeps its weight of one
DROPOUT_SPACE: Space = {"model.dropout": Range(0.0, 0.8), "model.attention_dropout": Range(0.0, 0.8)}


class ModelError(ValueError):
    """Raised when a network cannot be used; the message is one sentence with the problem and what to do."""


@dataclass(frozen=True)
class Output:
    """The output of a model on a graph.

    Attributes:
        logits: ``(N, C)``.
        attention: of the last layer, averaged over the heads; None for a model that has none.
        hidden: ``(N, ...)`` the output of each hidden layer; empty for a model that does not return it.
    """

    logits: Tensor
    attention: Attention | None
    hidden: tuple[Tensor, ...] = ()


@dataclass(frozen=True)
class HeadWeights:
    """The attention of one layer, head by head, as the layer used it.

    Attributes:
        edge_index: ``(2, E + added)`` the graph's edges in their order, then the self-loops that the layer added.
        weights: ``(E + added, H)`` in the layer's own order; where kernels are plain, the tensor that its sums used.
        place: ``(E + added,)`` the position in ``weights`` of each edge of ``edge_index``.
        added: how many of the last edges are added self-loops.
    """

    edge_index: Tensor
    weights: Tensor
    place: Tensor
    added: int

    def averaged(self, values: Tensor | None = None) -> Attention:
        """Average over the heads, of the weights or of ``values`` of their shape, in the order of ``edge_index``."""
        heads = self.weights if values is None else values
        return Attention(self.edge_index, heads.mean(1).index_select(0, self.place), self.added)


class AttentionModel(nn.Module):
    """The base class of models, in two parts, so that an attack on a few nodes need not project all the others again.

    Subclasses implement :meth:`embed`, in which a row of the result depends on the same row of ``x`` only, and
    :meth:`propagate`, which does everything else. ``config`` holds the constructor's arguments.

    Attributes:
        summary, paper, version: what ``fgai-bench ls`` shows; ``version`` changes when results change.
        cost: for forecasts of memory: ``arrays_per_node`` of a layer's width that are kept for the gradients.
        tags: ``attention``, the output has one; ``differentiable``; ``positional-encoding``.
        local: whether a layer's output at a node depends on the node's in-neighbours only.
        global_because: for a model that no number of hops bounds, the reason, which certificates give.
        search_space: what a study may vary of the model, for defenses that train it from its own start.
    """

    summary: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    version: ClassVar[str] = "1"
    tags: ClassVar[tuple[str, ...]] = ()
    cost: ClassVar[Mapping[str, float]] = {}
    local: ClassVar[bool] = False
    global_because: ClassVar[str] = "its class does not say that its layers are local"
    search_space: ClassVar[Space] = {}
    config: dict[str, Any]
    recorded: dict[str, float]  # the scores of its record, of a model that was loaded from one
    history: list[dict[str, float]]

    def embed(self, x: Tensor) -> Tensor:
        """Map features to the first hidden layer, row by row: ``(N, F) -> (N, ...)``; x dense or sparse CSR."""
        raise TypeError(f"{type(self).__name__} must implement embed(x)")

    def propagate(
        self, h: Tensor, edge_index: Tensor, score_shift: Tensor | None = None, edge_weight: Tensor | None = None
    ) -> Output:
        """Map embedded nodes and edges to the output.

        Args:
            h: the result of :meth:`embed`, ``(N, ...)``.
            edge_index: ``(2, E)``.
            score_shift: ``(E + added,)`` added to the scores of the last layer, in the order of the output's attention.
            edge_weight: ``(E,)`` in [0, 1], the share of each edge that is present, in every layer: 1 is the edge as it
                is, 0 is no edge. Edge attacks differentiate with respect to it.
        """
        raise TypeError(f"{type(self).__name__} must implement propagate(h, edge_index)")

    @property
    def hops(self) -> int:
        """Return how many edges a message travels: a node's output depends on edges within so many hops behind it."""
        return len(getattr(self, "layers", ())) or 2

    @property
    def injection_radius(self) -> int | None:
        """Return how many hops beyond the nodes that get a new edge the output can change; None if there is no bound.

        -1 says that no edge changes anything, 0 that only the nodes with new in-edges can change. A layer whose weights
        depend on the degree of the source, as in a GCN, costs one hop more.
        """
        return self.hops - 1 if self.local else None

    def ignores_edges(self, data: Data) -> bool:
        """Tell whether no edge of a graph can change the output."""
        return self.injection_radius == -1

    def with_layers(self, h: Tensor, edge_index: Tensor) -> tuple[Output, tuple[HeadWeights, ...]]:
        """Return the result of :meth:`propagate`, and the attention of every layer that tells it, first to last."""
        return self.propagate(h, edge_index), ()

    def restricted(self, part: Tensor, rows: Tensor, edge_index: Tensor, num_nodes: int) -> bool:
        """Tell whether a part of a graph gives the same output, at nodes whose computation graph lies whole in it.

        ``part``, ``(2, M)``, are edges between nodes of the part, which are copies of the nodes ``rows``, ``(P,)``. The
        other arguments are of the graph, from which a model may take along what it computes of the whole.
        """
        return self.local

    def joined(self, edge_index: Tensor, graphs: Sequence[Tensor], num_nodes: int, new_nodes: int) -> bool:
        """Tell whether several graphs side by side in one give the outputs that each gives alone.

        In ``edge_index`` the first ``num_nodes`` of each graph come first, then the ``new_nodes`` of each. From
        ``graphs``, the edges of each, a model may take along what it computes of a whole graph.
        """
        return self.injection_radius is not None

    def surroundings(self, embedded: Tensor, clean: Output, edge_index: Tensor, new_nodes: int) -> Any | None:
        """Return what stays the same on a graph with new nodes while their features change; None if nothing is known.

        :meth:`propagate` then takes it as ``affected``: only the rows of the new nodes are not those of ``embedded``,
        ``(N, ...)``, and only their gradient is needed. ``embedded`` and the output ``clean`` are of the graph before,
        in evaluation mode; ``edge_index`` is made by :func:`fgai_bench.models.sorted_edges.append_nodes`.
        """
        if not self.local or clean.attention is None:
            return None
        return AffectedNodes.of(clean.logits, clean.attention, clean.hidden, edge_index, new_nodes)

    def shifting(self, out: Output, h: Tensor, edge_index: Tensor) -> Callable[[Tensor], Output]:
        """Return a function from a shift of the last scores to the result of :meth:`propagate` with it.

        ``out`` is the result without one. A model that returns its hidden layers need not compute them for every shift.
        """
        return partial(self.propagate, h, edge_index)

    def forward(self, data: Data, score_shift: Tensor | None = None) -> Output:
        """Map ``data.x`` and ``data.edge_index`` to :class:`Output`."""
        return self.propagate(self.embed(data.x), data.edge_index, score_shift)

    def on(self, data: Data) -> Callable[[], Output]:
        """Return a function for the output on one graph while parameters change; a model may compute the rest once."""
        return lambda: self(data)

    def hops_behind(self, out: Output) -> int | None:
        """Return how many hops behind a node its output can depend on, given one; None for the whole graph."""
        return len(out.hidden) + 1 if self.local else None

    def capturable(self, new_edges: bool) -> bool:
        """Tell whether a forward pass reads nothing back from the device, so that CUDA can capture and replay it.

        ``new_edges``: also on a graph that :func:`fgai_bench.models.sorted_edges.append_nodes` made while capturing.
        """
        return False

    def rebuilt(self, seed: int = 0, **changes: Any) -> AttentionModel:
        """Return a freshly initialised model of the same class with a changed configuration, on the same device."""
        device = next(self.parameters()).device
        return type(self)(**{**self.config, **changes, "seed": seed}).to(device)


class ConfiguredModel(AttentionModel):
    """A model that is built from options of its ``options_class``; the seed is that of the initial parameters."""

    options_class: ClassVar[type[Options]]

    def __init__(self, in_channels: int, num_classes: int, seed: int = 0, **options: Any) -> None:
        super().__init__()
        chosen = self.options_class(**options)
        self.config = {"in_channels": in_channels, "num_classes": num_classes, **chosen.model_dump(), "seed": seed}
        with isolated_rng(seed, "init"):
            self.build(in_channels, num_classes, chosen)

    def build(self, in_channels: int, num_classes: int, chosen: Any) -> None:
        """Set the modules of the chosen options, freshly initialised."""
        raise TypeError(f"{type(self).__name__} must implement build(in_channels, num_classes, chosen)")


def checked_model(model: Any) -> None:
    """Raise a sentence if ``model`` is not a model of this package but, say, a module that nobody has wrapped."""
    if not hasattr(model, "propagate") or not hasattr(model, "embed"):
        name = type(model).__name__
        raise ModelError(f"{name} is not a model of this package; wrap it first: fgai_bench.wrap(module)")


@contextmanager
def frozen_eval(model: nn.Module) -> Iterator[None]:
    """Evaluate ``model`` without dropout and without gradients of its parameters, and leave it exactly as it was."""
    training = {part: part.training for part in model.modules()}
    wanted = {parameter: parameter.requires_grad for parameter in model.parameters()}
    try:
        model.eval()
        for parameter in wanted:
            parameter.requires_grad_(False)
        yield
    finally:
        for part, mode in training.items():
            part.training = mode
        for parameter, flag in wanted.items():
            parameter.requires_grad_(flag)


def keyed_attention(edges: SortedEdges, weights: Tensor) -> Attention:
    """Average the heads of sorted weights ``(E, H)``; return the attention in the order of ``edges.edge_index``."""
    averaged = weights.squeeze(1) if weights.size(1) == 1 else weights.mean(1)
    return Attention(edges.edge_index, edges.as_given(averaged), edges.added)


def head_weights(edges: SortedEdges, weights: Tensor) -> HeadWeights:
    """Return the attention of one layer of sorted edges: ``(E, H)``."""
    return HeadWeights(edges.edge_index, weights, edges.inverse, edges.added)


def layer_shifts(
    layers: int, edges: SortedEdges, score_shift: Tensor | None, edge_weight: Tensor | None, self_loops: bool = True
) -> list[Tensor | None]:
    """Return the shift of the scores of each layer, in the order of ``edges.edge_index``: ``(E + added,)`` or None.

    An edge of weight p has ``log p`` added to its scores, since ``softmax(s + log p)`` multiplies its weight by p.
    Without ``self_loops`` the added ones have weight 0, except at a node that has nothing else to see.
    """
    presence = None
    if not self_loops:
        graph = torch.zeros(edges.order.numel() - edges.added, device=edges.order.device)
        presence = F.pad(graph, (0, edges.added), value=HIDDEN)
    if edge_weight is not None:
        logarithm = F.pad(edge_weight.clamp(min=1e-30).log(), (0, edges.added))
        presence = logarithm if presence is None else presence + logarithm
    last = score_shift if presence is None or score_shift is None else score_shift + presence
    return [presence] * (layers - 1) + [presence if last is None else last]
