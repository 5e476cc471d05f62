"""Small random graphs and networks on which floors are held against attacks and against brute force."""

from __future__ import annotations

import torch
from torch_geometric.data import Data
from torch_geometric.utils import erdos_renyi_graph

import fgai_bench as fb
from fgai_bench.defenses.votes import VotesModel
from fgai_bench.models import AttentionModel

FEATURES, CLASSES = 4, 3
# Networks by name: what builds them, with options that make them small.
NETWORKS = {
    "mlp": ("mlp", {"hidden": 8}),
    "gat-one-hop": ("gat-one-hop", {"hidden": 8, "heads": (2,)}),
    "gatv2-one-hop": ("gatv2-one-hop", {"hidden": 8, "heads": (1,), "skip": False}),
    "gat": ("gat", {"hidden": 4, "heads": (2,)}),
    "gat-three-layers": ("gat", {"hidden": 4, "heads": (1, 1)}),
    "gcn": ("gcn", {}),
    "gnnguard": ("gnnguard-sparse", {}),
    "soft-median": ("soft-median", {}),
    "rung-one-step": ("rung", {"steps": 1, "hidden": 8}),
    "elastic-one-step": ("elastic-gnn", {"steps": 1, "hidden": 8}),
    "votes": ("votes", {"voters": 5, "hidden": 8}),
}


def small_graph(seed: int, nodes: int = 10, density: float = 0.2) -> Data:
    """Return an undirected random graph whose test nodes are all nodes but two."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        edge_index = erdos_renyi_graph(nodes, density)
        x, y = torch.randn(nodes, FEATURES), torch.arange(nodes) % CLASSES
    test = torch.ones(nodes, dtype=torch.bool)
    test[:2] = False
    train, val = torch.zeros_like(test), torch.zeros_like(test)
    train[0], val[1] = True, True
    return Data(x=x, edge_index=edge_index, y=y, train_mask=train, val_mask=val, test_mask=test)


def network(name: str, data: Data, seed: int) -> AttentionModel:
    """Return a network with random weights: what a floor says holds for any weights."""
    kind, options = NETWORKS[name]
    if kind in fb.MODELS:
        return fb.build_model(kind, data, seed=seed, **options).eval()
    if kind == "votes":
        return VotesModel(FEATURES, CLASSES, seed=seed, **options).eval()
    return fb.fit(kind, fb.build_model("gat", data, seed=seed), data, seed=seed, epochs=0, **options)


def right_on_most(model: AttentionModel, data: Data) -> Data:
    """Return the graph with labels as the network predicts them, every fifth one excepted."""
    labelled = data.clone()
    with torch.no_grad():
        labelled.y = model(data).logits.argmax(1)
    labelled.y[::5] = (labelled.y[::5] + 1) % CLASSES
    labelled.y[-1] = CLASSES - 1  # so that every class exists
    return labelled


def score(model: AttentionModel, data: Data, attacked: Data) -> float:
    """Return the share of test nodes that are right on the attacked graph."""
    with torch.no_grad():
        predicted = model(attacked).logits[: data.num_nodes].argmax(1)
    return float((predicted == data.y)[data.test_mask].double().mean())
