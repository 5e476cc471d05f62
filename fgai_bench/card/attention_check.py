"""Hold attention, or gradients, against what edges do: delete them one by one and see how far the prediction moves."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.explainers import EXPLAINERS, EdgeScores, edge_effects
from fgai_bench.explainers.computation_graph import field_of
from fgai_bench.metrics.ranks import spearman
from fgai_bench.models import AttentionModel
from fgai_bench.models.base import frozen_eval
from fgai_bench.models.pyg_wrapper import FromPyG
from fgai_bench.seeds import generator
from fgai_bench.tasks.node_classification import NodeProblem

SAMPLED_NODES = 30  # test nodes that are looked at
LEAST_IN_EDGES, MOST_IN_EDGES = 3, 20  # in-edges that such a node has: fewer have no order, more take long


@dataclass(frozen=True)
class EdgeEffect:
    """Rank correlation of rankings with the measured effect of edges, one value per node: arrays ``(n,)``."""

    explained: NDArray[np.float64]  # of the model's attention, or of its gradients
    random: NDArray[np.float64]  # of rankings that know nothing
    degree: NDArray[np.float64]


def measure_edge_effect(
    model: AttentionModel, problem: NodeProblem, seed: int, explainer: str = "attention-last"
) -> EdgeEffect | str:
    """Return how an explainer ranks the in-edges of some test nodes against their effect, or why it cannot be said.

    The effect of an edge on a node is the change of the probability of the node's predicted class when the edge is
    deleted, and nothing else. The rank correlation is Spearman's, over the in-edges of each node.
    """
    if not model.hops:
        return "no layer of the network is PyG's or calls mark_attention"
    nodes = _sampled(problem, seed)
    if nodes.numel() < 2:
        return f"fewer than two test nodes have {LEAST_IN_EDGES} to {MOST_IN_EDGES} edges leading into them"
    effects = effects_into(model, problem.data, nodes)
    of_node = [effects.owner == place for place in range(nodes.numel())]

    def correlations(explainer: str) -> NDArray[np.float64]:
        scores = EXPLAINERS[explainer]().sparse(model, problem.data, nodes, seed=seed)(problem.data, nodes)
        values = scores.only(problem.data.edge_index[1, scores.edges] == nodes[scores.owner]).values
        return np.array([spearman(values[mask], effects.values[mask].abs()) for mask in of_node])

    return EdgeEffect(*map(correlations, (explainer, "random", "degree")))


def effects_into(model: AttentionModel, data: Data, nodes: Tensor) -> EdgeScores:
    """Return the exact effects of the edges into the nodes; side by side for a user's network that allows it.

    A network that gives the nodes on copies of their computation graphs what it gives them on the whole graph looks at
    nothing else, and copies without one edge can go through it at once.
    """
    if isinstance(model, FromPyG) and len(model.input_names) == 2:
        part = field_of(data.edge_index, data.x.shape[0], nodes, model.hops).part()
        with frozen_eval(model), torch.no_grad():
            embedded = model.embed(data.x)
            alone = model.propagate(embedded[part.rows], part.edges).logits[part.roots]
            whole = model.propagate(embedded, data.edge_index).logits[nodes]
        if torch.allclose(alone, whole, rtol=1e-4, atol=1e-5):
            with model.taken_for_local():
                return edge_effects(model, data, nodes, only_into=True)
    return edge_effects(model, data, nodes, only_into=True)


def _sampled(problem: NodeProblem, seed: int) -> Tensor:
    """Return up to ``SAMPLED_NODES`` test nodes of moderate in-degree, at random."""
    degree = torch.bincount(problem.data.edge_index[1], minlength=problem.data.x.shape[0])
    test = problem.split.test
    pool = test[(degree[test] >= LEAST_IN_EDGES) & (degree[test] <= MOST_IN_EDGES)]
    return pool[torch.randperm(pool.numel(), generator=generator(seed, "edge-effect"))[:SAMPLED_NODES].to(pool.device)]
