"""Wrap DeepRobust's GCN as a model of this package, for the defenses that replace the model by their own."""

import io
import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.models.base import AttentionModel, Output
from fgai_bench.models.features import feature_product
from fgai_bench.models.sorted_edges import SortedEdges
from fgai_bench.options import Options
from fgai_bench.seeds import isolated_rng

Aggregation = Callable[[Tensor], Tensor]  # (N, D) -> (N, D), linear


@contextmanager
def quiet() -> Iterator[None]:
    """Run DeepRobust without its prints and warnings, and leave Python's random state unchanged."""
    state = random.getstate()
    with redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            random.setstate(state)


with quiet():  # DeepRobust prints notices about optional packages that nothing here needs
    from deeprobust.graph.defense import GCN


class GCNOptions(Options):
    """The size of the graph convolutional network that a defense trains in place of the model.

    Attributes:
        hidden: width of the hidden layer.
        dropout: on the hidden layer, while training.
    """

    hidden: int = Field(16, ge=1, le=65_536)
    dropout: float = Field(0.5, ge=0, lt=1)


class GCNModel(AttentionModel):
    """Two graph convolutions with DeepRobust's GCN as the network: ``logits = S relu(S x W_1 + b_1) W_2 + b_2``.

    Subclasses compute S of a graph in :meth:`structure`, and in :meth:`profile` the part of the features it depends
    on. The structure is computed anew for every input graph, so an attack has to pass the preprocessing, too.

    The arguments are those of :class:`fgai_bench.models.base.ConfiguredModel`, with the options of
    :class:`GCNOptions` and those of the subclass, which has ``defaults``.
    """

    network_class: ClassVar[type] = GCN
    defaults: ClassVar[Mapping[str, Any]] = {}

    def __init__(
        self, in_channels: int, num_classes: int, hidden: int = 16, dropout: float = 0.5, seed: int = 0, **options: Any
    ) -> None:
        super().__init__()
        sizes = {"in_channels": in_channels, "num_classes": num_classes, "hidden": hidden}
        self.config = {**sizes, "dropout": dropout, "seed": seed, **self.defaults, **options}
        with isolated_rng(seed, "init"):
            self.network = self.network_class(in_channels, hidden, num_classes, dropout=dropout, device="cpu")

    def profile(self, x: Tensor) -> Tensor:
        """Return the features that the structure depends on, row by row: ``(N, F) -> (N, P)``; by default none."""
        return torch.zeros(x.shape[0], 0, device=x.device)

    def structure(self, profile: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Any:
        """Return the structure that :meth:`classified` uses: by default an :data:`Aggregation`."""
        raise TypeError(f"{type(self).__name__} must implement structure(profile, edge_index, edge_weight)")

    def classified(self, support: Tensor, structure: Any, score_shift: Tensor | None = None) -> Output:
        """Map projected features and structure to the output: ``(N, hidden) -> Output``."""
        if score_shift is not None:
            raise ValueError(f"{type(self).__name__} has no attention whose scores could be shifted")
        first, second = self.network.gc1, self.network.gc2
        h = self.dropped(F.relu(structure(support) + first.bias))  # (N, hidden)
        return Output(structure(h @ second.weight) + second.bias, None)

    def project(self, x: Tensor) -> Tensor:
        """Return ``x W_1``: ``(N, F) -> (N, hidden)``; x dense or sparse CSR."""
        return feature_product(x, self.network.gc1.weight)

    def dropped(self, h: Tensor) -> Tensor:
        """Apply dropout to the hidden layer, while training."""
        return F.dropout(h, self.network.dropout, self.training)

    def embed(self, x: Tensor) -> Tensor:
        return torch.cat([self.project(x), self.profile(x)], dim=1)  # (N, hidden + P)

    def propagate(
        self,
        h: Tensor,
        edge_index: Tensor,
        score_shift: Tensor | None = None,
        edge_weight: Tensor | None = None,
        affected: Any | None = None,
    ) -> Output:
        width = self.config["hidden"]
        profile = h[:, width:]
        if affected is not None and edge_weight is None:
            structure = self.completed(affected, profile)
        else:
            structure = self.structure(profile, edge_index, edge_weight)
        return self.classified(h[:, :width], structure, score_shift)

    def completed(self, affected: Any, profile: Tensor) -> Any:
        """Complete the structure that :meth:`surroundings` returned; by default it is complete already."""
        return affected

    def on(self, data: Data) -> Callable[[], Output]:
        with torch.no_grad():
            structure = self.structure(self.profile(data.x), data.edge_index, None)
        return lambda: self.classified(self.project(data.x), structure)


def inverse_root(degree: Tensor) -> Tensor:
    """Return ``d^(-1/2)``, and 0 where the degree is not positive: ``(N,) -> (N,)``.

    >>> inverse_root(torch.tensor([4.0, 0.0, -1.0])).tolist()
    [0.5, 0.0, 0.0]
    """
    positive = degree > 0
    return torch.where(positive, torch.where(positive, degree, 1).rsqrt(), 0)


def normalised(adjacency: Tensor) -> Tensor:
    """Return ``D^(-1/2) (A + I) D^(-1/2)`` with the row sums of ``A + I`` in D: ``(N, N) -> (N, N)``, dense.

    >>> normalised(torch.tensor([[0.0, 3.0], [3.0, 0.0]]))
    tensor([[0.2500, 0.7500],
            [0.7500, 0.2500]])
    """
    looped = adjacency + torch.eye(adjacency.shape[0], dtype=adjacency.dtype, device=adjacency.device)
    scale = inverse_root(looped.sum(1))
    return scale.unsqueeze(1) * looped * scale


def dense_adjacency(edge_index: Tensor, num_nodes: int, edge_weight: Tensor | None = None) -> Tensor:
    """Return ``A[destination, source] = edge weight``, 1 without weights: ``(2, E) -> (N, N)``.

    >>> dense_adjacency(torch.tensor([[0], [1]]), 2).tolist()
    [[0.0, 0.0], [1.0, 0.0]]
    """
    weight = torch.ones(edge_index.shape[1], device=edge_index.device) if edge_weight is None else edge_weight
    empty = torch.zeros(num_nodes, num_nodes, device=edge_index.device)
    return empty.index_put((edge_index[1], edge_index[0]), weight)


def edge_presence(edges: SortedEdges, edge_weight: Tensor | None) -> Tensor:
    """Return the weight of each sorted edge, 1 for added loops: ``(E,)``."""
    if edge_weight is None:
        return torch.ones(edges.source.numel(), device=edges.source.device)
    return F.pad(edge_weight, (0, edges.added), value=1.0)[edges.order]
