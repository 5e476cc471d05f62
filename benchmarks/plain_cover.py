"""A strong attack written without ours: a greedy cover of the targets within one hop, then sign steps on the margin."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data


def greedy_targets(data: Data, targets: Tensor, number: int) -> list[int]:
    """The targets whose closed neighbourhoods together hold the most targets, chosen one after the other."""
    wanted = set(targets.tolist())
    around = {node: {node} & wanted for node in wanted}
    for source, destination in data.edge_index.t().tolist():
        if source in wanted and destination in wanted:
            around[source].add(destination)
    chosen: list[int] = []
    left = set(wanted)
    gains = {node: len(near) for node, near in around.items()}
    for _ in range(min(number, len(wanted))):
        while True:
            best = max(gains, key=lambda node: (gains[node], -node))
            fresh = len(around[best] & left)
            if fresh == gains[best]:
                break
            gains[best] = fresh
        chosen.append(best)
        left -= around[best]
        del gains[best]
    return chosen


def covered_attack(model, data: Data, targets: Tensor, nodes=20, each=20, steps=100, restarts=2, step=0.1) -> Data:
    """The attacked graph that leaves the fewest right predictions, over restarts and steps."""
    device, size = data.edge_index.device, data.x.shape[0]
    chosen = torch.tensor(greedy_targets(data, targets.cpu(), nodes * each), device=device)
    new = size + torch.arange(chosen.numel(), device=device) // each
    edges = torch.cat([data.edge_index, torch.stack([new, chosen]), torch.stack([chosen, new])], dim=1)
    truth = data.y[targets]
    with torch.no_grad():
        embedded = model.embed(data.x)
    best, least = None, 2.0
    for restart in range(restarts):
        draw = torch.rand(nodes, data.x.shape[1], generator=torch.Generator().manual_seed(100 + restart)).to(device)
        x = (2 * draw - 1) * (0.1 if restart == 0 else 1.0)
        for _ in range(steps + 1):
            x = x.detach().requires_grad_()
            logits = model.propagate(torch.cat([embedded, model.embed(x)]), edges).logits[targets]
            right = logits.gather(1, truth.unsqueeze(1)).squeeze(1)
            other = logits.scatter(1, truth.unsqueeze(1), -torch.inf).amax(1)
            score = float((logits.argmax(1) == truth).float().mean())
            if score < least:
                best, least = x.detach().clone(), score
            (gradient,) = torch.autograd.grad(torch.tanh(other - right).mean(), x)
            x = (x + step * gradient.sign()).clamp(-1, 1)
    dense = data.x.to_dense() if data.x.layout == torch.sparse_csr else data.x
    return Data(x=torch.cat([dense, best]), edge_index=edges)
