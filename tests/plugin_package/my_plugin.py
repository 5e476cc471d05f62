"""A user's own package: one defense and one attack."""

import torch

import fgai_bench as fb
from fgai_bench.attacks import Attack, Candidate, FeatureDomain
from fgai_bench.attacks.injection import injected_edges, with_injected
from fgai_bench.defenses.vanilla import Vanilla
from fgai_bench.models.features import dense_rows


@fb.DEFENSES.register("narrow", summary="half the hidden width", tags=("node", "link"))
class Narrow(Vanilla):
    def prepared(self, model, seed):
        return model.rebuilt(model.config["seed"], hidden=model.config["hidden"] // 2)


@fb.ATTACKS.register("copycat", summary="injected nodes that look like random targets", tags=("injection",))
class Copycat(Attack):
    def search(self, victim, threat, seed):
        drawn = torch.randint(len(victim.targets), (threat.nodes,), generator=torch.Generator().manual_seed(seed))
        copied = dense_rows(victim.data.x, victim.targets[drawn])
        features = FeatureDomain.of(threat, victim.data).project(copied)
        edges = injected_edges(victim.data.x.shape[0], victim.targets, threat, seed)
        return Candidate(with_injected(victim.data, features, edges))
