"""Edge attacks: new edges between existing nodes, at random, chosen by gradient, or the worst of several searches."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.utils import coalesce, to_undirected

from fgai_bench.attacks.base import Attack, Candidate, Trace, Victim
from fgai_bench.attacks.budget import ThreatModel
from fgai_bench.attacks.objectives import Reference, objective_named
from fgai_bench.attacks.search import PortfolioSearch, published, strongest
from fgai_bench.data import undirected_edge_count
from fgai_bench.data.extend import extended
from fgai_bench.models.attention import edge_keys
from fgai_bench.models.base import Output
from fgai_bench.seeds import generator, isolated_rng

STEPS = 40  # of every member of `worst-edges` but the published one
PORTFOLIO: tuple[dict[str, Any], ...] = (
    {"loss": "margin"},
    {"loss": "nll"},
    {"loss": "tvd"},
    {"loss": "margin", "greedy": True},
    {"loss": "margin", "local": 0.5},
)


def with_edges(data: Data, pairs: Tensor) -> Data:
    """Return a new graph with the undirected ``pairs`` ``(2, P)`` appended in both directions."""
    return extended(data, data.x, torch.cat([data.edge_index, pairs, pairs.flip(0)], dim=1))


def absent(pairs: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
    """Return those of the ``pairs`` that are no self-loops and no edges yet, each once, as source < destination."""
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
        wanted = min(threat.edges, nodes * (nodes - 1) // 2 - undirected_edge_count(edges))
        pairs = torch.empty(2, 0, dtype=torch.long, device=edges.device)
        while pairs.size(1) < wanted:
            more = torch.randint(nodes, (2, 2 * wanted + 16), generator=draw).to(pairs.device)
            pairs = absent(torch.cat([pairs, more], dim=1), edges, nodes)
        chosen = torch.randperm(pairs.size(1), generator=draw)[:wanted].to(pairs.device)
        return Candidate(with_edges(victim.data, pairs[:, chosen]))


class PRBCD(Attack):
    """Projected (or greedy) randomised block coordinate descent over candidate edges, PyG's implementation.

    PyG's attack also removes edges; here it may only add them, since original edges are kept in every scenario.

    Every graph that is scored is the discretised one, which holds the chosen edges only. A model with positional
    encodings is differentiated on a graph that holds all candidates, and its encodings with it: such a result carries
    a flag.

    Args:
        loss: a loss on predictions, as for the injection attack.
        block_size: candidate edges that are looked at together.
        greedy: use ``GRBCDAttack`` instead of ``PRBCDAttack``.
        local: the new edges that a node may get, as a share of its degree, rounded down; None for any number. With it
            the attack is LR-BCD (Gosch et al. 2023, https://arxiv.org/abs/2306.15427).
    """

    summary = "gradient-chosen new edges, by PyG's randomised block coordinate descent"
    paper = "https://arxiv.org/abs/2110.14038"
    tags = ("edges", "gradient", "prediction", "edge-weight", "convergent")

    def __init__(
        self, loss: str = "margin", block_size: int = 50_000, greedy: bool = False, local: float | None = None
    ) -> None:
        if block_size < 1:
            raise ValueError(f"a block holds at least one candidate edge, not {block_size}")
        if loss.startswith("attention"):
            raise ValueError(f"an edge attack needs a loss on predictions, not {loss!r}")
        if local is not None and (greedy or local < 0):
            raise ValueError(f"local budgets need local >= 0, not {local}, and a search that is not greedy")
        self.loss, self.block_size, self.greedy, self.local = loss, block_size, greedy, local
        self._objective = objective_named(loss)

    def search(self, victim: Victim, threat: ThreatModel, seed: int | None) -> Candidate:
        model, data = victim.model, victim.data
        embedded, clean = victim.evaluated()
        reference = self.reference(victim, clean)
        if not threat.edges or not threat.steps or not reference.prediction.numel():
            return Candidate(with_edges(data, data.edge_index[:, :0]))
        encoded = not model.local and "positional-encoding" in model.tags
        doubts = ("gradients with the encodings of a graph that holds every candidate edge",) if encoded else ()
        degree = torch.bincount(data.edge_index[1], minlength=data.x.shape[0])
        local = None if self.local is None else (self.local * degree).floor().tolist()
        surface = _Surface(victim)

        def objective(logits: Tensor, labels: Tensor, index: Tensor | None) -> Tensor:
            return self._objective(logits, surface.out, reference)

        with isolated_rng(seed or 0, "attack-prbcd"):
            search = _additive_search(self.greedy, local)(
                surface,
                block_size=max(self.block_size, 2 * threat.edges),
                epochs=threat.steps,
                **({} if self.greedy else {"epochs_resampling": max(1, 3 * threat.steps // 4)}),
                loss=objective,
                metric=objective,
                is_undirected=True,
                log=False,
            )
            _, flipped = search.attack(embedded, data.edge_index, reference.prediction, threat.edges)
        pairs = absent(flipped.to(data.edge_index.device), data.edge_index, data.x.shape[0])
        curve = tuple(float(loss) for loss in search.attack_statistics["loss"])
        return Candidate(with_edges(data, pairs), Trace(len(curve), curve, doubts))

    def reference(self, victim: Victim, clean: Output) -> Reference:
        """Return what the search moves away from: the clean output."""
        return Reference.of(clean, victim.read)


class LabelledPRBCD(PRBCD):
    """The search for edges, away from the labels of the targets instead of the clean predictions."""

    def reference(self, victim: Victim, clean: Output) -> Reference:
        return replace(super().reference(victim, clean), prediction=victim.truth(clean))


class WorstEdges(Attack):
    """The strongest result of a fixed portfolio of edge attacks; judged by the labels of the targets."""

    summary = "the worst case over edge attacks: projected, greedy and local searches, several losses, and the control"
    paper = "https://arxiv.org/abs/2110.14038"
    version = "2"  # one more member
    tags = ("edges", "gradient", "prediction", "edge-weight", "convergent", "fixed-search")

    def search(self, victim: Victim, threat: ThreatModel, seed: int | None) -> Candidate:
        search, longer = PortfolioSearch(victim, threat, seed), threat.model_copy(update={"steps": STEPS})
        if not search.truth.numel():
            return Candidate(with_edges(victim.data, victim.data.edge_index[:, :0]))
        candidates = [RandomEdges().search(victim, threat, seed), PRBCD().search(victim, published(threat), seed)]
        if threat.edges:
            members = [LabelledPRBCD(**options) for options in PORTFOLIO]
            candidates += [member.search(victim, longer, seed) for member in members]
        return strongest(search, candidates)


class _Surface(nn.Module):
    """The model as PyG's attack calls it: embedded nodes, edges and edge weights to the logits that are attacked."""

    def __init__(self, victim: Victim) -> None:
        super().__init__()
        self.model, self.readout = victim.model, victim.read

    def forward(self, h: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        self.out = self.model.propagate(h, edge_index, edge_weight=edge_weight)
        return self.readout(self.out)


def within_budgets(weight: Tensor, pairs: Tensor, local: Sequence[float], budget: float, whole: bool = False) -> Tensor:
    """Return the weights of candidate edges, lowered where a node or all of them together have too much: ``(P,)``.

    The largest weight comes first; each keeps what the ``local`` budgets of its two nodes and the common one have left.
    With ``whole``, edges are chosen instead: each of positive weight counts one, or zero where a budget is below one.

    >>> pairs = torch.tensor([[0, 0, 1], [1, 2, 2]])
    >>> within_budgets(torch.tensor([0.5, 1.0, 0.75]), pairs, [1.0, 1.0, 1.5], 9).tolist()
    [0.0, 1.0, 0.5]
    >>> within_budgets(torch.tensor([0.5, 1.0, 0.75]), pairs, [1.0, 1.0, 1.5], 9, whole=True).tolist()
    [0.0, 1.0, 0.0]
    """
    left, kept = list(local), torch.zeros(weight.numel())
    order = weight.argsort(descending=True, stable=True)[: int((weight > 0).sum())]
    columns = [values.tolist() for values in (order, weight[order], *pairs[:, order])]
    for place, value, i, j in zip(*columns, strict=True):
        most = min(left[i], left[j], budget)
        share = float(most >= 1) if whole else min(value, most)
        kept[place] = share
        left[i], left[j], budget = left[i] - share, left[j] - share, budget - share
        if budget <= 0:
            break
    return kept.to(weight)


def _additive_search(greedy: bool, local: Sequence[float] | None = None) -> Any:
    """Return PyG's attack class, restricted to adding edges; imported here because the import warns.

    ``local`` is the budget of each node, if nodes have one.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch_geometric.contrib.nn import GRBCDAttack, PRBCDAttack

    base = GRBCDAttack if greedy else PRBCDAttack

    class Additive(base):  # type: ignore[misc,valid-type]
        def _get_modified_adj(
            self, edge_index: Tensor, edge_weight: Tensor, block_edge_index: Tensor, block_edge_weight: Tensor
        ) -> tuple[Tensor, Tensor]:
            block = to_undirected(block_edge_index, block_edge_weight, num_nodes=self.num_nodes, reduce="mean")
            edges = torch.cat([edge_index.to(self.device), block[0]], dim=1)
            weights = torch.cat([edge_weight.to(self.device), block[1]])
            edges, weights = coalesce(edges, weights, num_nodes=self.num_nodes, reduce="sum")
            there = weights > 0  # positional encodings do not see weights: an edge that is not there must be left out
            return edges[:, there], weights[there].clamp(max=1)  # a candidate that is an edge already changes nothing

    class Local(Additive):
        current_block: Tensor
        block_edge_index: Tensor
        block_edge_weight: Tensor
        best_metric: Tensor | float

        def _within(self, weight: Tensor, budget: float, whole: bool = False) -> Tensor:
            return within_budgets(weight, self.block_edge_index, local or (), budget, whole)

        @torch.no_grad()
        def _update(
            self, epoch: int, gradient: Tensor, x: Tensor, labels: Tensor, budget: int, idx_attack: Any = None
        ) -> dict[str, float]:
            eps = self.coeffs["eps"]
            raised = self._update_edge_weights(budget, self.block_edge_weight, epoch, gradient)
            self.block_edge_weight = self._within(raised.clamp(0, 1), budget).clamp(eps, 1 - eps)
            chosen = self._chosen(budget)
            graph = self._get_modified_adj(self.edge_index, self.edge_weight, self.block_edge_index, chosen)
            metric = self.metric(self._forward(x, *graph), labels, idx_attack)
            if metric > self.best_metric:
                self.best_metric = metric
                self.best = self.current_block, self.block_edge_index, self.block_edge_weight.clone()
            if epoch < self.epochs_resampling - 1:
                self._resample_random_block(budget)
            elif epoch == self.epochs_resampling - 1:
                self.current_block, self.block_edge_index, self.block_edge_weight = self.best
            return {"metric": float(metric)}

        def _chosen(self, budget: int) -> Tensor:
            likely = self.block_edge_weight * (self.block_edge_weight > self.coeffs["eps"])
            return self._within(likely, budget, whole=True)

        def _close(self, x: Tensor, labels: Tensor, budget: int, idx_attack: Any = None) -> tuple[Tensor, Tensor]:
            self.current_block, self.block_edge_index, self.block_edge_weight = self.best
            return self.edge_index, self.block_edge_index[:, self._chosen(budget) > 0]

    return Additive if local is None else Local
