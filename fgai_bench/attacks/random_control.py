"""The random control: the budget of the injection attack, spent on random features."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks.injection import injected_edges, with_injected
from fgai_bench.attacks.objectives import Readout
from fgai_bench.attacks.threat import Attacked, ThreatModel, settle
from fgai_bench.models.base import AttentionModel
from fgai_bench.seeds import generator


class RandomInjection:
    """Injected nodes with the same edges as the gradient attack of this seed, and uniform features in the range."""

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
        draw = torch.rand(threat.nodes, data.x.shape[1], generator=generator(seed, "attack-random"))
        features = threat.feature_low + draw * (threat.feature_high - threat.feature_low)
        edges = injected_edges(data.x.shape[0], targets, threat, seed)
        return settle(data, with_injected(data, features.to(data.edge_index.device), edges), threat)
