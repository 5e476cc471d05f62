"""Feature attack: a bounded change of existing features by projected gradient ascent."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks.base import Attack, Victim
from fgai_bench.attacks.budget import ThreatModel
from fgai_bench.attacks.objectives import Reference, objective_named
from fgai_bench.attacks.pgd import Search, ascend
from fgai_bench.attacks.result import Candidate
from fgai_bench.models.features import dense_rows, replace_rows
from fgai_bench.seeds import generator


def with_changed_rows(data: Data, nodes: Tensor, rows: Tensor) -> Data:
    """Return a new graph in which these nodes have other features: ``(R,), (R, F)``."""
    attacked = Data.from_dict(dict(data.to_dict()))
    attacked.x = replace_rows(data.x, nodes, rows) if nodes.numel() else data.x
    return attacked


class FeaturePGD(Attack):
    """``threat.nodes`` random targets have their features moved by at most ``threat.epsilon`` per entry.

    Args:
        loss: as for the injection attack.
    """

    summary = "bounded change of existing features by PGD"
    paper = "https://arxiv.org/abs/1706.06083"
    tags = ("features", "gradient", "prediction")

    def __init__(self, loss: str = "nll") -> None:
        self.loss = loss
        self._objective = objective_named(loss)

    def search(self, victim: Victim, threat: ThreatModel, seed: int | None) -> Candidate:
        model, data = victim.model, victim.data
        draw = generator(seed or 0, "attack-features")
        place = torch.randperm(victim.targets.numel(), generator=draw)[: threat.nodes]
        chosen = victim.targets[place.to(victim.targets.device)]  # (R,)
        rows = dense_rows(data.x, chosen)  # (R, F)
        starts = [
            rows + ((2 * torch.rand(rows.shape, generator=draw) - 1) * threat.epsilon * (restart > 0)).to(rows)
            for restart in range(threat.restarts)
        ]
        with torch.no_grad():
            embedded = model.embed(data.x)
            reference = Reference.of(model.propagate(embedded, data.edge_index), victim.read)

        def objective(features: Tensor) -> Tensor:
            out = model.propagate(embedded.index_copy(0, chosen, model.embed(features)), data.edge_index)
            return self._objective(victim.read(out), out, reference)

        low, high = rows - threat.epsilon, rows + threat.epsilon
        steps = threat.steps if threat.nodes and threat.epsilon else 0
        recordable = model.recordable(new_edges=False)
        search = Search.over(lambda start: ascend(objective, start, low, high, threat.step, steps, recordable), starts)
        changed = chosen if steps else chosen[:0]
        return Candidate(with_changed_rows(data, changed, search.best.point[: changed.numel()]), search)
