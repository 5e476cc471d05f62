"""Inputs for measuring explanations under attack, beside the attention of the same nodes.

An explainer is asked on the clean and on the attacked graph, for a sample of the nodes that the attacker reached. Its
answers are compared by the overlap of their top edges and by the divergence of their weights. Most explainers draw
random numbers, so two answers on the clean graph differ as well: with the same two draws, that is the noise floor.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.explainers import Explainer
from fgai_bench.metrics import NotApplicable, edges_into
from fgai_bench.models import Attention
from fgai_bench.models.base import AttentionModel
from fgai_bench.seeds import generator
from fgai_bench.tasks.measurement import Offers, attention_of
from fgai_bench.tasks.problem import Problem

SAMPLE = 8  # nodes that are explained; each costs a search of its own


def sampled_nodes(problem: Problem, attacked: Data, seed: int) -> Tensor:
    """Return up to 8 targets with in-edges that a new edge leads into (any targets, where no edge is new): ``(S,)``."""
    edges = problem.data.edge_index.size(1)
    targets = problem.targets[torch.isin(problem.targets, problem.data.edge_index[1])]
    reached = targets[torch.isin(targets, attacked.edge_index[1, edges:])]
    pool = reached if reached.numel() else targets
    if not pool.numel():
        raise NotApplicable("no target has an edge that could be explained")
    return pool[torch.randperm(pool.numel(), generator=generator(seed, "explained"))[:SAMPLE].to(pool.device)]


def explain_offers(explainer: Any, problem: Problem, model: AttentionModel, attacked: Data, seed: int) -> Offers:
    """Offer the explainer's answers before and after an attack, two on the clean graph, and the nodes' attention."""
    if problem.readout is not None:
        raise NotApplicable("explainers are asked about the classes of nodes, not about links")
    nodes = sampled_nodes(problem, attacked, seed)
    first, second = (_fitted(explainer, model, problem.data, nodes, draw) for draw in (seed, seed + 1))
    clean = _explanations(first(problem.data, nodes), problem.data)
    again = _explanations(second(problem.data, nodes), problem.data)
    perturbed = _explanations(second(attacked, nodes), attacked)
    return Offers().add(
        explanations=lambda: (list(zip(clean, perturbed, strict=True)),),
        explanations_repeated=lambda: (list(zip(clean, again, strict=True)),),
        nodes=lambda: (nodes,),
        attentions_explained=lambda: _attentions(problem, model, attacked, nodes),
    )


def _fitted(explainer: Any, model: AttentionModel, data: Data, nodes: Tensor, seed: int) -> Any:
    """Return the explainer after it has learned on the clean graph; one that is a mere callable learns nothing."""
    if isinstance(explainer, Explainer):
        return explainer.fitted(model, data, nodes, seed=seed)
    return lambda graph, asked: explainer(model, graph, asked, seed=seed)


def _explanations(scores: Tensor, data: Data) -> list[Attention]:
    """Return the scores of each explained node as an attention over the edges of the graph."""
    return [Attention(data.edge_index, row) for row in scores]


def _attentions(problem: Problem, model: AttentionModel, attacked: Data, nodes: Tensor) -> tuple[Attention, Attention]:
    """Return the attention that the explained nodes pay, clean and attacked."""
    sample = torch.zeros(problem.data.x.shape[0], dtype=torch.bool, device=nodes.device)
    sample[nodes] = True
    clean, perturbed = (attention_of(problem.output(model, data)) for data in (problem.data, attacked))
    return edges_into(clean, sample), edges_into(perturbed, sample)
