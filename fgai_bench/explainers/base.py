"""Define what every explainer is: a class whose call gives a score to each edge for the prediction of each node.

To write an explainer, subclass :class:`Explainer` and implement :meth:`Explainer.explain`; one that is trained on a
graph before it can explain also implements :meth:`Explainer.fitted`. One that can explain many nodes at once subclasses
:class:`BlockExplainer` instead, whose scores are sparse and come block by block.
"""

from collections.abc import Callable, Iterator
from typing import ClassVar

from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.explainers.computation_graph import EdgeScores, Field, field_of, fields
from fgai_bench.models.base import AttentionModel, frozen_eval

Answer = Callable[[Data, Tensor], Tensor]
SparseAnswer = Callable[[Data, Tensor], EdgeScores]


class Explainer:
    """The base class of explainers, which return a score per edge for the prediction of each of some nodes.

    Attributes:
        summary, paper, version: what ``fgai-bench ls`` shows; ``version`` changes when results change.
        tags: ``attention``, it reads the model's attention; ``gradient``, it differentiates the model; ``post-hoc``, it
            searches for each node, which is slow; ``null``, it knows nothing of the trained model; ``random``, its
            scores depend on the seed; ``into-node``, its scores speak of the edges into the explained node only.
            Without the last tag they speak of the node's whole computation graph.
    """

    summary: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    version: ClassVar[str] = "1"
    tags: ClassVar[tuple[str, ...]] = ()
    entry_methods: ClassVar[tuple[str, ...]] = ("explain", "fitted", "__call__")  # of which an entry implements one

    def __call__(self, model: AttentionModel, data: Data, nodes: Tensor, *, seed: int = 0) -> Tensor:
        """Return ``(len(nodes), E)``: a score per edge for each node's prediction, 0 where an edge cannot matter."""
        return self.fitted(model, data, nodes, seed=seed)(data, nodes)

    def fitted(self, model: AttentionModel, data: Data, nodes: Tensor, *, seed: int = 0) -> Answer:
        """Train on a graph and return ``answer(graph, nodes)``, which gives scores; by default nothing is trained."""
        return lambda graph, explained: self.explain(model, graph, explained, seed)

    def explain(self, model: AttentionModel, data: Data, nodes: Tensor, seed: int) -> Tensor:
        """Return the scores ``(len(nodes), E)``, in the order of ``data.edge_index``."""
        raise TypeError(f"{type(self).__name__} must implement explain(model, data, nodes, seed)")

    def sparse(self, model: AttentionModel, data: Data, nodes: Tensor, *, seed: int = 0) -> SparseAnswer:
        """Return the same as :meth:`fitted`, but an answer has only the edges that can matter to each node."""
        answer = self.fitted(model, data, nodes, seed=seed)

        def on_fields(graph: Data, explained: Tensor) -> EdgeScores:
            field = field_of(graph.edge_index, graph.x.shape[0], explained, model.hops)
            return EdgeScores.on(field, answer(graph, explained)[field.owner, field.edges])

        return on_fields


class BlockExplainer(Explainer):
    """An explainer of many nodes at once: :meth:`prepared` looks at the graph once, then blocks of nodes are scored."""

    def prepared(self, model: AttentionModel, data: Data, seed: int) -> Callable[[Field], Tensor]:
        """Return a function that gives a score to each (node, edge) pair of a field: ``Field -> (M,)``."""
        raise TypeError(f"{type(self).__name__} must implement prepared(model, data, seed)")

    def stream(self, model: AttentionModel, data: Data, nodes: Tensor, *, seed: int = 0) -> Iterator[EdgeScores]:
        """Yield the scores of blocks of nodes; no (nodes, edges) matrix is made, however many nodes there are."""
        with frozen_eval(model):
            score = self.prepared(model, data, seed)
        for field in fields(data.edge_index, data.x.shape[0], nodes, model.hops):
            with frozen_eval(model):
                yield EdgeScores.on(field, score(field).detach())

    def explain(self, model: AttentionModel, data: Data, nodes: Tensor, seed: int) -> Tensor:
        return EdgeScores.joined(self.stream(model, data, nodes, seed=seed)).dense(data.edge_index.size(1))

    def sparse(self, model: AttentionModel, data: Data, nodes: Tensor, *, seed: int = 0) -> SparseAnswer:
        return lambda graph, explained: EdgeScores.joined(self.stream(model, graph, explained, seed=seed))
