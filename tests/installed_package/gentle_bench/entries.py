"""An attack, a model, a dataset with its own masks, two metrics, an explainer and a suite."""

import torch
from torch_geometric.data import Data

import fgai_bench as fb
from fgai_bench.attacks import Attack, Candidate, FeatureDomain
from fgai_bench.attacks.injection import injected_edges, with_injected
from fgai_bench.explainers import Explainer
from fgai_bench.models.base import frozen_eval
from fgai_bench.models.gat import GAT


class Faint(Attack):
    """Injected nodes whose features are all the same small number."""

    summary = "the same small number in every injected feature"
    tags = ("injection", "control")

    def search(self, victim, threat, seed):
        data = victim.data
        size = 0.1 * torch.rand(1, generator=torch.Generator().manual_seed(seed)).item()
        domain = FeatureDomain.of(threat, data)
        features = domain.project(torch.zeros(threat.nodes, data.x.shape[1]) + domain.low + size * domain.width)
        edges = injected_edges(data.x.shape[0], victim.targets, threat, seed)
        return Candidate(with_injected(data, features, edges))


@fb.MODELS.register("small-gat")
class SmallGAT(GAT):
    """A GAT of four channels per head."""

    summary = "a GAT of four channels per head"
    tags = ("attention", "differentiable")

    def __init__(self, in_channels, num_classes, hidden=4, **options):
        super().__init__(in_channels, num_classes, hidden=hidden, **options)


def two_rings(root, nodes: int = 48):
    """Two rings, one for each class, and a few edges between them."""
    half = nodes // 2
    ring = torch.arange(half)
    edges = torch.cat([torch.stack([ring + shift, (ring + 1) % half + shift]) for shift in (0, half)], dim=1)
    bridges = torch.stack([torch.arange(0, half, 8), torch.arange(half, nodes, 8)])
    y = (torch.arange(nodes) >= half).long()
    draw = torch.rand(nodes, 6, generator=torch.Generator().manual_seed(3))
    part = torch.arange(nodes) % 5
    masks = {"train_mask": part < 2, "val_mask": part == 2, "test_mask": part == 3}  # a fifth is in no part
    return Data(x=draw + y.unsqueeze(1), edge_index=torch.cat([edges, bridges], dim=1), y=y, **masks)


two_rings.tags = ("node",)
two_rings.version = "4"


def largest_shift(w, w_tilde) -> float:
    """Return the largest change of an attention weight."""
    shift = (w - w_tilde).abs()
    if not bool(shift.isfinite().all()):
        raise ValueError("largest_shift needs finite weights")
    return float(shift.max())


largest_shift.inputs = "weights"
largest_shift.direction = "lower"
largest_shift.range = (0.0, 1.0)
largest_shift.tags = ("distance", "symmetric")


def seconds(cost) -> float:
    """How long the training took."""
    if cost["train_seconds"] != cost["train_seconds"]:
        raise ValueError("seconds needs a cost that is a number")
    return float(cost["train_seconds"])


seconds.inputs = "cost"
seconds.range = (0.0, float("inf"))


class InEdges(Explainer):
    """The attention that a node pays to its in-edges."""

    summary = "the attention of a node over its own in-edges"
    paper = "https://example.org/in-edges"

    def explain(self, model, data, nodes, seed):
        with frozen_eval(model), torch.no_grad():
            weight = model(data).attention.of_graph().weight
        return torch.where(data.edge_index[1] == nodes.unsqueeze(1), weight, 0.0)


SUITE = {
    "summary": "everything of this package, beside ours",
    "datasets": ["two-rings"],
    "models": ["small-gat", "gat"],
    "defenses": ["vanilla", "gentle"],
    "attacks": ["injection", "faint"],
    "explainers": ["in-edges"],
    "metrics": ["f1", "g_jsd", "largest-shift", "seconds", "explainer_topk_overlap"],
    "seeds": 2,
    "threat": {"nodes": 3, "edges_per_node": 4, "steps": 2},
    "training": {"epochs": 4},
    "inner": {"threat": {"nodes": 3, "edges_per_node": 4, "steps": 1}},
}
