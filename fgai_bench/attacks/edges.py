"""Edge attacks: new edges between existing nodes, at random or chosen by gradient."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from fgai_bench.attacks.base import Attack, Victim
from fgai_bench.attacks.objectives import Readout, Reference, objective_named
from fgai_bench.attacks.result import Candidate, Trace
from fgai_bench.attacks.threat import ThreatModel
from fgai_bench.models.attention import edge_keys
from fgai_bench.models.base import AttentionModel
from fgai_bench.seeds import generator, isolated_rng


def with_edges(data: Data, pairs: Tensor) -> Data:
    """A new graph with the undirected ``pairs`` ``(2, P)`` appended in both directions."""
    attacked = Data.from_dict(dict(data.to_dict()))
    attacked.edge_index = torch.cat([data.edge_index, pairs, pairs.flip(0)], dim=1)
    return attacked


def absent(pairs: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
    """Those of the ``pairs`` that are no self-loops and no edges yet, each once, as source < destination."""
    pairs = torch.unique(pairs[:, pairs[0] != pairs[1]].sort(0).values, dim=1)
    new = ~torch.isin(edge_keys(pairs, num_nodes), edge_keys(edge_index, num_nodes))
    return pairs[:, new & ~torch.isin(edge_keys(pairs.flip(0), num_nodes), edge_keys(edge_index, num_nodes))]


class RandomEdges(Attack):
    """``threat.edges`` undirected edges, drawn uniformly from the pairs of existing nodes that have none."""

    summary = "random new edges between existing nodes"
    paper = "https://arxiv.org/abs/1806.02371"
    tags = ("edges", "control")

    def search(self, victim: Victim, threat: ThreatModel, seed: int | None) -> Candidate:
        edges, nodes, draw = victim.data.edge_index, victim.data.x.shape[0], generator(seed or 0, "attack-edges")
        wanted = min(threat.edges, nodes * (nodes - 1) // 2 - edges.size(1) // 2)
        pairs = torch.empty(2, 0, dtype=torch.long, device=edges.device)
        while pairs.size(1) < wanted:
            more = torch.randint(nodes, (2, 2 * wanted + 16), generator=draw).to(pairs.device)
            pairs = absent(torch.cat([pairs, more], dim=1), edges, nodes)
        chosen = torch.randperm(pairs.size(1), generator=draw)[:wanted].to(pairs.device)
        return Candidate(with_edges(victim.data, pairs[:, chosen]))


class PRBCD(Attack):
    """Projected (or greedy) randomised block coordinate descent over candidate edges, PyG's implementation.

    PyG's attack also removes edges; here it may only add them, since original edges are kept in every scenario.

    Args:
        loss: ``nll``, ``margin`` or ``tvd``.
        block_size: candidate edges that are looked at together.
        greedy: use ``GRBCDAttack`` instead of ``PRBCDAttack``.
    """

    summary = "gradient-chosen new edges, by PyG's randomised block coordinate descent"
    paper = "https://arxiv.org/abs/2110.14038"
    tags = ("edges", "gradient", "prediction", "edge-weight", "convergent")

    def __init__(self, loss: str = "margin", block_size: int = 50_000, greedy: bool = False) -> None:
        self.loss, self.block_size, self.greedy = loss, block_size, greedy
        if loss.startswith("attention"):
            raise ValueError(f"prbcd merges candidate edges into the graph and cannot follow {loss!r} edge by edge")
        self._objective = objective_named(loss)

    def search(self, victim: Victim, threat: ThreatModel, seed: int | None) -> Candidate:
        model, data = victim.model, victim.data
        if not threat.edges or not threat.steps:
            return Candidate(with_edges(data, data.edge_index[:, :0]))
        with isolated_rng(seed or 0, "attack-prbcd"):
            with torch.no_grad():
                embedded = model.embed(data.x)
                reference = Reference.of(model.propagate(embedded, data.edge_index), victim.read)
            surface = _Surface(model, victim.read)
            search = _additive_search(self.greedy)(
                surface,
                block_size=max(self.block_size, 2 * threat.edges),
                epochs=threat.steps,
                **({} if self.greedy else {"epochs_resampling": max(1, 3 * threat.steps // 4)}),
                loss=lambda logits, labels, index: self._objective(logits, surface.out, reference),
                metric=lambda logits, labels, index: self._objective(logits, surface.out, reference),
                is_undirected=True,
                log=False,
            )
            _, flipped = search.attack(embedded, data.edge_index, reference.prediction, threat.edges)
        pairs = absent(flipped.to(data.edge_index.device), data.edge_index, data.x.shape[0])
        curve = tuple(float(value) for value in search.attack_statistics["loss"])
        return Candidate(with_edges(data, pairs), Trace(len(curve), curve))


class _Surface(nn.Module):
    """The model as PyG's attack calls it: embedded nodes, edges and edge weights to the logits of the targets."""

    def __init__(self, model: AttentionModel, readout: Readout) -> None:
        super().__init__()
        self.model, self.readout = model, readout

    def forward(self, h: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        self.out = self.model.propagate(h, edge_index, edge_weight=edge_weight)
        return self.readout(self.out)


def _additive_search(greedy: bool) -> Any:
    """PyG's attack class, restricted to adding edges; imported here because its import warns of experimental code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch_geometric.contrib.nn import GRBCDAttack, PRBCDAttack
        from torch_geometric.utils import coalesce, to_undirected

    class Additive(GRBCDAttack if greedy else PRBCDAttack):  # type: ignore[misc]
        def _get_modified_adj(
            self, edge_index: Tensor, edge_weight: Tensor, block_edge_index: Tensor, block_edge_weight: Tensor
        ) -> tuple[Tensor, Tensor]:
            block = to_undirected(block_edge_index, block_edge_weight, num_nodes=self.num_nodes, reduce="mean")
            edges = torch.cat([edge_index.to(self.device), block[0]], dim=1)
            weights = torch.cat([edge_weight.to(self.device), block[1]])
            edges, weights = coalesce(edges, weights, num_nodes=self.num_nodes, reduce="sum")
            return edges, weights.clamp(max=1)  # a candidate that is an edge already changes nothing

    return Additive
