"""The random control: the budget of the injection attack, spent on random features."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks.injection import injected_edges, with_injected
from fgai_bench.attacks.objectives import Readout
from fgai_bench.attacks.threat import Attacked, ThreatModel, settle
from fgai_bench.models.base import AttentionModel
from fgai_bench.seeds import uniform


class RandomInjection:
    """Injected nodes with the same edges as the gradient attack of this seed, and uniform features in the range."""

    recordable: ClassVar[bool] = True

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
        draw = uniform((threat.nodes, data.x.shape[1]), seed, "attack-random", data.edge_index.device)
        features = threat.feature_low + draw * (threat.feature_high - threat.feature_low)
        edges = injected_edges(data.x.shape[0], targets, threat, seed)
        return settle(data, with_injected(data, features, edges), threat, injected=features)
