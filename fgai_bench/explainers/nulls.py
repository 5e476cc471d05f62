"""Nulls: scores of edges that know nothing of the trained model, which every explanation has to beat."""

from collections.abc import Callable

from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.explainers.attention import last_attention, over_graph
from fgai_bench.explainers.base import BlockExplainer
from fgai_bench.explainers.computation_graph import Field
from fgai_bench.metrics.null_rankings import degree_ranking, random_ranking, uniform_ranking
from fgai_bench.models.base import AttentionModel, frozen_eval


class RandomScores(BlockExplainer):
    """A random number for each edge, the same for all nodes."""

    summary = "null: random scores"
    tags = ("null", "random")

    def prepared(self, model: AttentionModel, data: Data, seed: int) -> Callable[[Field], Tensor]:
        weight = random_ranking(data.edge_index, seed).weight
        return lambda field: weight[field.edges]


class UniformScores(BlockExplainer):
    """One over the in-degree of the edge's destination: the attention of a mean over neighbours."""

    summary = "null: one over the in-degree of the destination, a mean over neighbours"
    tags = ("null",)

    def prepared(self, model: AttentionModel, data: Data, seed: int) -> Callable[[Field], Tensor]:
        weight = uniform_ranking(data.edge_index).weight
        return lambda field: weight[field.edges]


class DegreeScores(BlockExplainer):
    """One over the root of the product of the degrees of both ends: the fixed weight of a GCN."""

    summary = "null: one over the root of both degrees, the fixed weight of a GCN"
    tags = ("null",)

    def prepared(self, model: AttentionModel, data: Data, seed: int) -> Callable[[Field], Tensor]:
        weight = degree_ranking(data.edge_index).weight
        return lambda field: weight[field.edges]


class UntrainedAttention(BlockExplainer):
    """The last layer's attention of the same model, freshly initialised with another seed."""

    summary = "null: the last layer's attention of the same model before training"
    tags = ("null", "random")

    def prepared(self, model: AttentionModel, data: Data, seed: int) -> Callable[[Field], Tensor]:
        fresh = model.rebuilt(seed + 1)
        with frozen_eval(fresh):
            weight = over_graph(last_attention(fresh, data), data)
        return lambda field: weight[field.edges]
