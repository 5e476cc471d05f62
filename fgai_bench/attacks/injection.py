"""Node injection: new nodes with edges to the targets and features found by projected gradient ascent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks.objectives import Readout, Reference, objective_named
from fgai_bench.attacks.pgd import Ascent, ascend
from fgai_bench.attacks.threat import Attacked, ThreatModel, settle
from fgai_bench.models.base import AttentionModel, Output, undisturbed
from fgai_bench.models.features import append_rows
from fgai_bench.seeds import generator


def injected_edges(num_nodes: int, targets: Tensor, threat: ThreatModel, seed: int) -> Tensor:
    """Edges of the injected nodes, in both directions: ``(2, 2 * nodes * edges_per_node)``.

    Every injected node gets ``edges_per_node`` distinct random targets (all of them, if there are fewer). The draw
    depends on the seed only, so that every attack with this seed, the random control included, has the same edges.
    """
    draw = generator(seed, "attack-edges")
    each = min(threat.edges_per_node, targets.numel())
    chosen = [torch.randperm(targets.numel(), generator=draw)[:each] for _ in range(threat.nodes)]
    place = torch.cat(chosen) if chosen else torch.empty(0, dtype=torch.long)
    attached = targets[place.to(targets.device)]  # (nodes * each,)
    new = num_nodes + torch.arange(threat.nodes, device=targets.device).repeat_interleave(each)
    return torch.cat([torch.stack([new, attached]), torch.stack([attached, new])], dim=1)


def with_injected(data: Data, features: Tensor, edges: Tensor) -> Data:
    """A new graph: the original nodes and edges first, then the injected ones; injected nodes have label -1."""
    attacked = data.clone() if data.x.layout != torch.sparse_csr else _shallow(data)
    attacked.x = append_rows(data.x, features)
    attacked.edge_index = torch.cat([data.edge_index, edges], dim=1)
    if data.y is not None:
        attacked.y = torch.cat([data.y, data.y.new_full((features.shape[0],), -1)])
    return attacked


def _shallow(data: Data) -> Data:
    return Data.from_dict(dict(data.to_dict()))


@dataclass(frozen=True)
class Injection:
    """Shared by the attacks that inject: the surroundings that stay the same while the features are searched.

    The clean nodes are embedded once; a step embeds the injected rows only.
    """

    model: AttentionModel
    data: Data
    edges: Tensor
    edge_index: Tensor
    embedded: Tensor
    reference: Reference
    readout: Readout

    @classmethod
    def prepare(
        cls,
        model: AttentionModel,
        data: Data,
        targets: Tensor,
        threat: ThreatModel,
        seed: int,
        readout: Readout | None,
    ) -> Injection:
        read: Readout = readout or (lambda out: out.logits[targets])
        edges = injected_edges(data.x.shape[0], targets, threat, seed)
        with torch.no_grad():
            embedded = model.embed(data.x)
            clean = model.propagate(embedded, data.edge_index)
        return cls(
            model, data, edges, torch.cat([data.edge_index, edges], 1), embedded, Reference.of(clean, read), read
        )

    def output(self, features: Tensor) -> Output:
        """The model's output with these injected features: ``(nodes, F) -> Output``."""
        return self.model.propagate(torch.cat([self.embedded, self.model.embed(features)]), self.edge_index)


def starting_points(data: Data, threat: ThreatModel, seed: int) -> list[Tensor]:
    """One start per restart: near zero first (every corner is within reach), then anywhere in the range."""
    draw = generator(seed, "attack-features")
    shape = (threat.nodes, data.x.shape[1])
    starts = []
    for restart in range(threat.restarts):
        spread = torch.rand(shape, generator=draw)
        if restart == 0:
            start = (2 * spread - 1) * threat.step
        else:
            start = threat.feature_low + spread * (threat.feature_high - threat.feature_low)
        starts.append(start.clamp(threat.feature_low, threat.feature_high).to(data.edge_index.device))
    return starts


def strongest(search: Callable[[Tensor], Ascent], starts: list[Tensor]) -> tuple[Ascent, int]:
    """The best of the restarts and how many gradients all of them took."""
    found = [search(start) for start in starts]
    return max(found, key=lambda ascent: ascent.value), sum(ascent.gradient_calls for ascent in found)


class InjectionAttack:
    """PGD on the features of injected nodes, through the model as it predicts.

    Args:
        loss: ``nll``, ``margin``, ``tvd``, ``attention-topk`` or ``attention-jsd``.
    """

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
        seed: int = 0,
        readout: Readout | None = None,
    ) -> Attacked:
        threat = threat or ThreatModel()
        with undisturbed(model):
            scene = Injection.prepare(model, data, targets, threat, seed, readout)

            def objective(features: Tensor) -> Tensor:
                out = scene.output(features)
                return self._objective(scene.readout(out), out, scene.reference)

            best, calls = strongest(
                lambda start: ascend(
                    objective,
                    start,
                    start.new_tensor(threat.feature_low),
                    start.new_tensor(threat.feature_high),
                    threat.step,
                    threat.steps if threat.nodes else 0,
                ),
                starting_points(data, threat, seed),
            )
        return settle(data, with_injected(data, best.point, scene.edges), threat, calls, best.curve, best.flags)
