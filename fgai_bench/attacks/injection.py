"""Node injection: new nodes with edges to the targets and features found by projected gradient ascent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks.objectives import Readout, Reference, objective_named
from fgai_bench.attacks.pgd import Search, ascend
from fgai_bench.attacks.threat import Attacked, ThreatModel, settle
from fgai_bench.models.base import AttentionModel, Output, Reach, undisturbed
from fgai_bench.models.edges import grown
from fgai_bench.models.features import append_rows
from fgai_bench.seeds import uniform


def injected_edges(num_nodes: int, targets: Tensor, threat: ThreatModel, seed: int | None) -> Tensor:
    """Edges of the injected nodes, in both directions: ``(2, 2 * nodes * edges_per_node)``.

    Every injected node gets ``edges_per_node`` distinct random targets (all of them, if there are fewer). The draw
    depends on the seed only, so that every attack with this seed, the random control included, has the same edges.
    """
    each = min(threat.edges_per_node, targets.numel())
    chance = uniform((threat.nodes, targets.numel()), seed, "attack-edges", targets.device)
    attached = targets[chance.topk(each).indices.flatten()]  # (nodes * each,)
    new = num_nodes + torch.arange(threat.nodes, device=targets.device).repeat_interleave(each)
    return torch.cat([torch.stack([new, attached]), torch.stack([attached, new])], dim=1)


def with_injected(data: Data, features: Tensor, edges: Tensor) -> Data:
    """A new graph: the original nodes and edges first, then the injected ones; injected nodes have label -1."""
    return _on(data, features, grown(data.edge_index, data.x.shape[0], edges, features.shape[0]))


def _on(data: Data, features: Tensor, edge_index: Tensor) -> Data:
    attacked = Data.from_dict(dict(data.to_dict()))
    attacked.x, attacked.edge_index = append_rows(data.x, features), edge_index
    if data.y is not None:
        attacked.y = torch.cat([data.y, data.y.new_full((features.shape[0],), -1)])
    return attacked


@dataclass(frozen=True)
class Injection:
    """Shared by the attacks that inject: the surroundings that stay the same while the features are searched.

    The clean nodes are embedded once; a step embeds the injected rows only, and hidden layers are computed only where
    they reach.
    """

    model: AttentionModel
    data: Data
    edge_index: Tensor
    embedded: Tensor
    reach: Reach | None
    reference: Reference
    readout: Readout

    @classmethod
    def prepare(
        cls,
        model: AttentionModel,
        data: Data,
        targets: Tensor,
        threat: ThreatModel,
        seed: int | None,
        readout: Readout | None,
    ) -> Injection:
        read: Readout = readout or (lambda out: out.logits.index_select(0, targets))
        edges = injected_edges(data.x.shape[0], targets, threat, seed)
        with torch.no_grad():
            embedded = model.embed(data.x)
            clean = model.propagate(embedded, data.edge_index)
        edge_index = grown(data.edge_index, data.x.shape[0], edges, threat.nodes)
        reach = Reach.of(clean, edge_index, threat.nodes) if model.local else None
        return cls(model, data, edge_index, embedded, reach, Reference.of(clean, read), read)

    def output(self, features: Tensor) -> Output:
        """The model's output with these injected features: ``(nodes, F) -> Output``."""
        embedded = torch.cat([self.embedded, self.model.embed(features)])
        known: dict[str, Any] = {} if self.reach is None else {"reach": self.reach}
        return self.model.propagate(embedded, self.edge_index, **known)

    def graph(self, features: Tensor) -> Data:
        """The attacked graph with these injected features."""
        return _on(self.data, features, self.edge_index)


def starting_points(data: Data, threat: ThreatModel, seed: int | None) -> list[Tensor]:
    """One start per restart: near zero first (every corner is within reach), then anywhere in the range."""
    starts = []
    for restart in range(threat.restarts):
        shape = (threat.nodes, data.x.shape[1])
        spread = uniform(shape, seed, f"attack-features-{restart}", data.edge_index.device)
        if restart == 0:
            start = (2 * spread - 1) * threat.step
        else:
            start = threat.feature_low + spread * (threat.feature_high - threat.feature_low)
        starts.append(start.clamp(threat.feature_low, threat.feature_high))
    return starts


class InjectionAttack:
    """PGD on the features of injected nodes, through the model as it predicts.

    Args:
        loss: ``nll``, ``margin``, ``tvd``, ``attention-topk`` or ``attention-jsd``.
    """

    recordable: ClassVar[bool] = True

    def __init__(self, loss: str = "nll") -> None:
        self.loss = loss
        self._objective = objective_named(loss)

    def __call__(
        self,
        model: AttentionModel,
        data: Data,
        targets: Tensor,
        *,
        threat: ThreatModel | None = None,
        seed: int | None = 0,
        readout: Readout | None = None,
    ) -> Attacked:
        threat = threat or ThreatModel()
        with undisturbed(model):
            scene = Injection.prepare(model, data, targets, threat, seed, readout)

            def objective(features: Tensor) -> Tensor:
                out = scene.output(features)
                return self._objective(scene.readout(out), out, scene.reference)

            recordable = model.recordable(new_edges=False)
            low, high, steps = threat.feature_low, threat.feature_high, threat.steps if threat.nodes else 0
            search = Search.over(
                lambda start: ascend(objective, start, low, high, threat.step, steps, recordable),
                starting_points(data, threat, seed),
            )
        point = search.best.point
        return settle(data, scene.graph(point), threat, search, injected=point)
