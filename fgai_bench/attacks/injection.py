"""Node injection: new nodes with edges to targets, and features by projected gradient ascent or at random.

Come here for the published attack (``injection``) and its random control.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks.ascent import BestAscent, ascend
from fgai_bench.attacks.base import Attack, Candidate, Victim
from fgai_bench.attacks.budget import ThreatModel
from fgai_bench.attacks.domain import FeatureDomain
from fgai_bench.attacks.objectives import Reference, objective_named
from fgai_bench.attacks.placement import attached_edges, random_targets
from fgai_bench.data.extend import extended
from fgai_bench.models.base import Output
from fgai_bench.models.features import append_rows
from fgai_bench.models.sorted_edges import append_nodes
from fgai_bench.seeds import uniform


def injected_edges(num_nodes: int, targets: Tensor, threat: ThreatModel, seed: int | None) -> Tensor:
    """Return the edges of the published placement, in both directions: ``(2, 2 * nodes * edges_per_node)``."""
    return attached_edges(num_nodes, random_targets(targets, threat, seed))


def with_injected(data: Data, features: Tensor, edges: Tensor) -> Data:
    """Return a new graph: original nodes and edges first, then the injected ones; see :func:`extended`."""
    edge_index = append_nodes(data.edge_index, data.x.shape[0], edges, features.shape[0])
    return extended(data, append_rows(data.x, features), edge_index)


@dataclass(frozen=True)
class InjectionScene:
    """A graph with injected nodes whose edges are fixed while their features are searched.

    The clean nodes are embedded once. A step embeds the injected rows only, and computes hidden layers only for the
    nodes that they reach. The features that a search moves are those of the domain's box; the model sees the nearest
    rows of the domain, and their gradient is taken for that of the features (straight-through).
    """

    victim: Victim
    edge_index: Tensor
    embedded: Tensor
    affected: Any | None
    reference: Reference
    domain: FeatureDomain

    @classmethod
    def prepare(cls, victim: Victim, threat: ThreatModel, seed: int | None) -> InjectionScene:
        """Attach the injected nodes to random targets and compute what does not depend on their features."""
        edges = injected_edges(victim.data.x.shape[0], victim.targets, threat, seed)
        return cls.with_edges(victim, *victim.evaluated(), edges, threat.nodes, FeatureDomain.of(threat, victim.data))

    @classmethod
    def with_edges(
        cls, victim: Victim, embedded: Tensor, clean: Output, edges: Tensor, nodes: int, domain: FeatureDomain
    ) -> InjectionScene:
        """Attach ``nodes`` injected nodes by these edges; ``embedded`` and ``clean`` are the victim's, unattacked.

        An injected node that cannot meet the domain's homophily bound beside its targets gets no edges.
        """
        edges = domain.reachable(victim.data, edges, nodes)
        edge_index = append_nodes(victim.data.edge_index, embedded.size(0), edges, nodes)
        with torch.no_grad():
            affected = victim.model.surroundings(embedded, clean, edge_index, nodes)
        domain = domain.beside(victim.data, edges, nodes)
        return cls(victim, edge_index, embedded, affected, Reference.of(clean, victim.read), domain)

    def output(self, features: Tensor) -> Output:
        """Return the model's output with these injected features: ``(nodes, F) -> Output``."""
        embedded = torch.cat([self.embedded, self.victim.model.embed(self.domain.straight_through(features))])
        known: dict[str, Any] = {} if self.affected is None else {"affected": self.affected}
        return self.victim.model.propagate(embedded, self.edge_index, **known)

    def graph(self, features: Tensor) -> Data:
        data, rows = self.victim.data, self.domain.straight_through(features).detach()
        return extended(data, append_rows(data.x, rows), self.edge_index)


def starting_points(data: Data, threat: ThreatModel, seed: int | None, domain: FeatureDomain) -> list[Tensor]:
    """Return a start per restart: the first near zero, where every corner is within reach, others anywhere."""
    starts = []
    for restart in range(threat.restarts):
        shape = (threat.nodes, data.x.shape[1])
        spread = uniform(shape, seed, f"attack-features-{restart}", data.edge_index.device)
        near, anywhere = (2 * spread - 1) * threat.step * domain.unit, domain.low + spread * domain.width
        starts.append(domain.clamp(anywhere if restart else near))
    return starts


class InjectionAttack(Attack):
    """PGD on the features of injected nodes, through the model as it predicts; ``loss`` is one of ``OBJECTIVES``."""

    summary = "injected nodes, features by PGD through the defended model; a choice of losses, restarts"
    paper = "https://arxiv.org/abs/2111.04314"
    tags = ("injection", "gradient", "prediction")
    capturable = True

    def __init__(self, loss: str = "nll") -> None:
        self.loss = loss
        self._objective = objective_named(loss)

    def maximising(self, objective: Callable[[Tensor, Output, Reference], Tensor]) -> InjectionAttack:
        other = copy(self)
        other._objective = objective
        return other

    def search(self, victim: Victim, threat: ThreatModel, seed: int | None) -> Candidate:
        scene = InjectionScene.prepare(victim, threat, seed)
        domain, steps = scene.domain, threat.steps if threat.nodes else 0

        def objective(features: Tensor) -> Tensor:
            out = scene.output(features)
            return self._objective(victim.read(out), out, scene.reference)

        capturable = victim.model.capturable(new_edges=False)
        low, high, step = domain.low, domain.high, threat.step * domain.unit
        search = BestAscent.over(
            lambda start: ascend(objective, start, low, high, step, steps, capturable),
            starting_points(victim.data, threat, seed, domain),
        )
        point = domain.straight_through(search.best.point)
        return Candidate(scene.graph(point), search, injected=point)


class RandomInjection(Attack):
    """Injected nodes with the same edges as the gradient attack of this seed, and random features of the domain."""

    summary = "the control: the injection budget with random features"
    paper = "https://arxiv.org/abs/2111.04314"
    tags = ("injection", "control")
    capturable = True

    def search(self, victim: Victim, threat: ThreatModel, seed: int | None) -> Candidate:
        data = victim.data
        domain = FeatureDomain.of(threat, data)
        edges = injected_edges(data.x.shape[0], victim.targets, threat, seed)
        edges = domain.reachable(data, edges, threat.nodes)
        domain = domain.beside(data, edges, threat.nodes)
        features = domain.draw((threat.nodes, data.x.shape[1]), seed, "attack-random", data.edge_index.device)
        return Candidate(with_injected(data, features, edges), injected=features)
