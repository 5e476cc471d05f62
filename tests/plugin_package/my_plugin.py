"""A user's own package: one defense and one attack."""

import torch

import fgai_bench as fb
from fgai_bench.attacks.injection import injected_edges, with_injected
from fgai_bench.attacks.threat import settle
from fgai_bench.defenses.vanilla import Vanilla


@fb.DEFENSES.register("narrow", summary="half the hidden width", tags=("node", "link"))
class Narrow(Vanilla):
    def prepared(self, model, seed):
        return model.rebuilt(model.config["seed"], hidden=model.config["hidden"] // 2)


@fb.ATTACKS.register("copycat", summary="injected nodes that look like random targets", tags=("injection",))
class Copycat:
    def __call__(self, model, data, targets, *, threat, seed=0, readout=None):
        draw = torch.Generator().manual_seed(seed)
        chosen = targets[torch.randint(len(targets), (threat.nodes,), generator=draw)]
        features = (
            torch.stack([data.x[node] for node in chosen]) if len(chosen) else data.x.new_zeros(0, data.x.shape[1])
        )
        edges = injected_edges(data.x.shape[0], targets, threat, seed)
        features = features.to_dense().clamp(threat.feature_low, threat.feature_high)
        return settle(data, with_injected(data, features, edges), threat)
