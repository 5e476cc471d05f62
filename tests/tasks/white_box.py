"""Build a GAT whose parameters are set by hand, and a graph on which the edges that matter to it are known exactly.

Come here for a yardstick of explainers: there is no training, and the truth is one of the model itself.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.models.gat import GAT
from fgai_bench.seeds import generator


def white_box(
    targets: int = 600, classes: int = 4, distractors: int = 5, focus: float = 3.0, seed: int = 0
) -> tuple[GAT, Data]:
    """Return the model and its graph.

    Each target is joined to one carrier of its class and to ``distractors`` other nodes; carriers and distractors have
    the same mean degree. Features are a one-hot class (of a distractor, a random one; of a target, none) and a flag
    that only carriers have. The first layer copies features and attends to flagged sources ``exp(focus)`` times as much
    as to others; the second attends evenly and reads the class. So the class of a target is that of its carrier, and
    the edge from its carrier is the one that matters; and the last layer's attention says nothing about it.

    Returns:
        a GAT of two layers with one head, and ``Data`` with ``truth_nodes`` (the targets) and ``truth_edges``.

    >>> model, data = white_box(targets=20)
    >>> bool((model(data).logits[data.truth_nodes].argmax(1) == data.y[data.truth_nodes]).all())
    True
    """
    draw = generator(seed, "white-box")
    carriers = targets // distractors
    own = torch.arange(targets)
    carrier = torch.randperm(targets, generator=draw) % carriers  # (targets,)
    label = torch.randint(classes, (carriers,), generator=draw)
    # Targets first, then carriers, then distractors.
    kind = torch.cat([label[carrier], label, torch.randint(classes, (targets,), generator=draw)])
    x = torch.nn.functional.one_hot(kind, classes + 1).float()
    x[:targets] = 0
    x[targets : targets + carriers, classes] = 1
    carried = torch.stack([carrier + targets, own])
    chosen = torch.rand(targets, targets, generator=draw).topk(distractors).indices + targets + carriers
    noise = torch.stack([chosen.flatten(), own.repeat_interleave(distractors)])
    pairs = torch.cat([carried, noise], dim=1)
    edges = torch.cat([pairs, pairs.flip(0)], dim=1)
    data = Data(x=x, edge_index=edges, y=kind, truth_nodes=own, truth_edges=carried)
    return _by_hand(classes, focus), data


def _by_hand(classes: int, focus: float) -> GAT:
    """Return a GAT that copies features, and attends to sources by their flag."""
    width = classes + 1
    model = GAT(width, classes, hidden=width, heads=(1,), dropout=0.0, attention_dropout=0.0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        first, second = model.layers
        _set(first.project.weight, torch.eye(width))  # type: ignore[union-attr,arg-type]
        _set(first.att_src, focus * torch.eye(width)[classes:])  # type: ignore[arg-type]
        _set(second.project.weight, 4 * torch.eye(width)[:, :classes])  # type: ignore[union-attr,arg-type]
    return model.eval()


def _set(parameter: Tensor, value: Tensor) -> None:
    parameter.copy_(value)
