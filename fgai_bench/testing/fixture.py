"""Provide the tiny graph on which the contract checks run, and the models trained on it once."""

from functools import cache

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.data.graph import as_csr
from fgai_bench.data.splits import Split
from fgai_bench.defenses import Training
from fgai_bench.defenses.vanilla import Vanilla
from fgai_bench.models import AttentionModel, build_model
from fgai_bench.tasks.node_classification import NodeProblem

NODES, FEATURES, CLASSES = 36, 8, 3
EPOCHS = 2
"""Of every training in a check: enough to see what it touches, too few to wait for."""


def tiny_graph(isolated: bool = False, sparse: bool = False, binary: bool = False) -> Data:
    """Return a connected graph: 36 nodes in 3 classes, distinct Laplacian eigenvalues, features that separate classes.

    It has an isolated node more, sparse features (CSR), or features of 0 and 1 if asked.

    >>> tiny_graph()
    Data(x=[36, 8], edge_index=[2, 140], y=[36], train_index=[15], val_index=[9], test_index=[12])
    """
    draw = torch.Generator().manual_seed(8)
    y = torch.arange(NODES) * CLASSES // NODES
    x = torch.rand(NODES, FEATURES, generator=draw) * (torch.rand(NODES, FEATURES, generator=draw) < 0.5)
    x[:, :CLASSES] += 2 * torch.nn.functional.one_hot(y, CLASSES)
    x = (x > 0).to(x.dtype) if binary else x
    # A path through all nodes, so that the graph is connected, and random pairs, mostly within classes.
    low, high = torch.triu_indices(NODES, NODES, 1)
    chance = torch.where(y[low] == y[high], 0.16, 0.02)
    kept = (torch.rand(low.numel(), generator=draw) < chance) | (high == low + 1)
    pairs = torch.stack([low[kept], high[kept]])
    both = torch.cat([pairs, pairs.flip(0)], dim=1)
    edge_index = both[:, (both[0] * NODES + both[1]).argsort()]
    if isolated:
        x, y = torch.cat([x, x[:1]]), torch.cat([y, y[:1]])
    order = torch.randperm(NODES, generator=draw)
    train, val, test = (part.sort().values for part in order.split([15, 9, 12]))
    return Data(
        x=as_csr(x) if sparse else x, edge_index=edge_index, y=y, train_index=train, val_index=val, test_index=test
    )


@cache
def tiny_problem() -> NodeProblem:
    data = tiny_graph()
    return NodeProblem(data, Split.of(data))


def tiny_model(name: str = "gat", seed: int = 0) -> AttentionModel:
    return build_model(name, FEATURES, CLASSES, seed=seed)


def trained_model() -> AttentionModel:
    """Return a copy of a vanilla GAT trained on the tiny graph: the victim of attacks and the teacher of defenses."""
    model = tiny_model()
    model.load_state_dict(_trained_state())
    return model.eval()


@cache
def _trained_state() -> dict[str, Tensor]:
    problem, training = tiny_problem(), Training(epochs=80, lr=0.05)
    return dict(Vanilla().fit(tiny_model(), problem.training_data, problem.split, training=training).state_dict())
