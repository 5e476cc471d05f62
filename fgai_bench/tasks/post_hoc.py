"""Post-hoc explainers under the same attacks: is what they name more stable than the attention?

GNNExplainer and PGExplainer are PyG's. Both give a node one weight in [0, 1] per edge that its prediction can see. They
are asked on the clean and on the attacked graph, for a sample of the nodes that the attacker reached, and their answers
are compared as attentions are: by the overlap of their top edges and by the divergence of their weights. Both draw
random numbers, so two answers on the clean graph differ as well: with the same two draws, that is the noise floor.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.explain import Explainer, GNNExplainer, PGExplainer
from torch_geometric.nn import MessagePassing

from fgai_bench.metrics import NotApplicable, edges_into, node_jsd, node_topk_overlap, topk_overlap
from fgai_bench.models import Attention, align
from fgai_bench.models.attention import edge_keys
from fgai_bench.models.base import AttentionModel, undisturbed
from fgai_bench.seeds import generator, isolated_rng
from fgai_bench.tasks.problem import Measured, Problem, attention_of

SAMPLE = 8  # nodes that are explained; each costs a search of its own
SHOWN = 10  # edges of an explanation that a person looks at
MODEL = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}

Explain = Callable[[Tensor, Tensor, int, int], Tensor]


class _Layer(MessagePassing):
    """Where PyG leaves an edge mask, counts a hop, and reads an embedding; it hands on what it gets."""

    def forward(self, h: Tensor) -> Tensor:
        return h


class Surface(nn.Module):
    """A model as PyG's explainers see it: embedded nodes and edges to logits, with masks on its edges.

    An edge with the mask p is there by the share p, in every layer: ``softmax(scores + log p)``.
    """

    def __init__(self, model: AttentionModel) -> None:
        super().__init__()
        self.model = model
        depth = len(getattr(model, "layers", ())) or 2
        self.hops = nn.ModuleList(_Layer() for _ in range(depth))

    def forward(self, h: Tensor, edge_index: Tensor) -> Tensor:
        last: Any = self.hops[-1]
        mask = last._edge_mask
        if mask is not None and last._apply_sigmoid:
            mask = mask.sigmoid()
        return last(self.model.propagate(h, edge_index, edge_weight=mask).logits)


class GNNExplainerMasks:
    """GNNExplainer (Ying et al. 2019): for each node its own mask, found by gradient descent.

    Args:
        epochs, lr: of the search.
    """

    def __init__(self, epochs: int = 50, lr: float = 0.05) -> None:
        self.epochs, self.lr = epochs, lr

    def prepared(self, surface: Surface, h: Tensor, edge_index: Tensor, nodes: Tensor) -> Explain:
        """``explain(h, edge_index, node, seed) -> (E,)``; there is nothing to train."""

        def explain(h: Tensor, edge_index: Tensor, node: int, seed: int) -> Tensor:
            algorithm = GNNExplainer(epochs=self.epochs, lr=self.lr)
            explainer = Explainer(surface, algorithm, "model", MODEL, edge_mask_type="object")
            with isolated_rng(seed, "explain"):
                return explainer(h, edge_index, index=node).edge_mask.detach()

        return explain


class PGExplainerMasks:
    """PGExplainer (Luo et al. 2020): a small network that tells masks from embeddings, trained on the clean graph.

    Args:
        epochs, lr: of its training, which goes through ``nodes`` in every epoch.
    """

    def __init__(self, epochs: int = 10, lr: float = 0.003) -> None:
        self.epochs, self.lr = epochs, lr

    def prepared(self, surface: Surface, h: Tensor, edge_index: Tensor, nodes: Tensor) -> Explain:
        """``explain(h, edge_index, node, seed) -> (E,)``; for every seed one network is trained."""
        trained: dict[int, Any] = {}

        def explain(graph_h: Tensor, graph_edges: Tensor, node: int, seed: int) -> Tensor:
            with isolated_rng(seed, "explain"):
                if seed not in trained:
                    trained[seed] = self._trained(surface, h, edge_index, nodes)
                target = surface(graph_h, graph_edges).argmax(1)
                return trained[seed](graph_h, graph_edges, target=target, index=node).edge_mask.detach()

        return explain

    def _trained(self, surface: Surface, h: Tensor, edge_index: Tensor, nodes: Tensor) -> Explainer:
        algorithm = PGExplainer(epochs=self.epochs, lr=self.lr)
        algorithm.mlp.to(h.device)
        explainer = Explainer(surface, algorithm, "phenomenon", MODEL, edge_mask_type="object")
        with torch.no_grad():
            target = surface(h, edge_index).argmax(1)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Converting a tensor with requires_grad=True to a scalar")
            for epoch in range(self.epochs):
                for node in nodes.tolist():
                    algorithm.train(epoch, surface, h, edge_index, target=target, index=node)
        return explainer


@dataclass(frozen=True)
class Answers:
    """The explanations of some nodes on one graph: for each its mask over the edges, ``(E,)``."""

    edge_index: Tensor
    masks: tuple[Tensor, ...]

    def compared(self, other: Answers) -> tuple[float, float]:
        """Mean overlap of the top edges and mean divergence, over the nodes."""
        pairs = [
            (Attention(self.edge_index, mine), Attention(other.edge_index, its))
            for mine, its in zip(self.masks, other.masks, strict=True)
        ]
        return fmean(top_overlap(*pair) for pair in pairs), fmean(divergence(*pair) for pair in pairs)


def top_overlap(mask: Attention, mask_tilde: Attention) -> float:
    """V_k of two explanations of one node over the edges that the clean one can see; k half of them, at most 10.

    >>> edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    >>> top_overlap(Attention(edges, torch.tensor([0.9, 0.2, 0.0])), Attention(edges, torch.tensor([0.1, 0.8, 0.9])))
    0.0
    """
    w, w_tilde = align(mask, mask_tilde)
    seen = w > 0
    if not bool(seen.any()):
        raise NotApplicable("the explanation of a node names no edge")
    return topk_overlap(w[seen], w_tilde[seen], max(1, min(SHOWN, int(seen.sum()) // 2)))


def divergence(mask: Attention, mask_tilde: Attention) -> float:
    """Jensen-Shannon divergence of two explanations, each a distribution over the union of their edges; in [0, ln 2].

    >>> edges = torch.tensor([[0, 1], [1, 2]])
    >>> divergence(Attention(edges, torch.tensor([0.5, 0.5])), Attention(edges, torch.tensor([0.1, 0.1])))
    0.0
    """
    size = 1 + max(int(part.edge_index.max()) for part in (mask, mask_tilde))
    # As if all edges led into one node: then its distribution over in-edges is that of the explanation.
    parts = [edge_keys(part.edge_index, size) for part in (mask, mask_tilde)]
    stars = [torch.stack([keys, torch.zeros_like(keys)]) for keys in parts]
    return node_jsd(Attention(stars[0], mask.weight), Attention(stars[1], mask_tilde.weight))


def sampled_nodes(problem: Problem, attacked: Data, seed: int) -> Tensor:
    """Up to 8 targets with in-edges that a new edge leads into (any targets, where no edge is new): ``(S,)``."""
    edges = problem.data.edge_index.size(1)
    targets = problem.targets[torch.isin(problem.targets, problem.data.edge_index[1])]
    reached = targets[torch.isin(targets, attacked.edge_index[1, edges:])]
    pool = reached if reached.numel() else targets
    if not pool.numel():
        raise NotApplicable("no target has an edge that could be explained")
    return pool[torch.randperm(pool.numel(), generator=generator(seed, "explained"))[:SAMPLE].to(pool.device)]


def explain_attacked(explainer: Any, problem: Problem, model: AttentionModel, attacked: Data, seed: int) -> Measured:
    """How stable the explainer's answers are under an attack, beside its noise floor and the same nodes' attention."""
    if problem.readout is not None:
        raise NotApplicable("post-hoc explainers are asked about the classes of nodes, not about links")
    nodes, found = sampled_nodes(problem, attacked, seed), Measured()
    with undisturbed(model):
        surface = Surface(model).eval()
        graphs = [(model.embed(data.x).detach(), data.edge_index) for data in (problem.data, attacked)]
        explain = explainer.prepared(surface, *graphs[0], nodes)
        clean, again, perturbed = (
            Answers(graph[1], tuple(explain(*graph, node, draw) for node in nodes.tolist()))
            for graph, draw in ((graphs[0], seed), (graphs[0], seed + 1), (graphs[1], seed + 1))
        )
    for suffix, (overlap, distance) in (("", clean.compared(perturbed)), ("_floor", clean.compared(again))):
        found.metrics |= {f"explainer_topk_overlap{suffix}": overlap, f"explainer_jsd{suffix}": distance}
    _measure_attention(found, problem, model, attacked, nodes)
    return found


def _measure_attention(found: Measured, problem: Problem, model: AttentionModel, attacked: Data, nodes: Tensor) -> None:
    """The stability of the attention that the explained nodes pay."""
    sample = torch.zeros(problem.data.x.shape[0], dtype=torch.bool, device=nodes.device)
    sample[nodes] = True
    clean, perturbed = problem.output(model, problem.data), problem.output(model, attacked)
    found.add("explained_nodes", lambda: float(nodes.numel()))
    found.add(
        "attention_topk_overlap",
        lambda: node_topk_overlap(edges_into(attention_of(clean), sample), attention_of(perturbed), 0.5),
    )
    found.add(
        "attention_jsd",
        lambda: node_jsd(edges_into(attention_of(clean), sample), edges_into(attention_of(perturbed), sample)),
    )
