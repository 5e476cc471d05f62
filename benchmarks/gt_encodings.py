"""Should the gradient of new edges go through the Laplacian encodings of a Graph Transformer?

``python -m benchmarks.gt_encodings FILE.csv`` trains a GT on Cora and ranks edges from twenty nodes to all test nodes
by the gradient of the loss, three times: with the encodings held fixed, through the encodings alone, by their sum. It
then adds the best of each, solves the encodings of the new graph, and measures what is left. Random edges stand beside.

The gradient through an encoding is exact to first order: of ``L e = lambda e`` with a changed edge follows
``de = -(L - lambda)^+ dL e``, so one linear system for each encoding gives the gradient of every edge.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import minres
from torch import Tensor

import fgai_bench as fb
from fgai_bench.attacks.search import relaxed_gradient
from fgai_bench.data.laplacian.encodings import laplacian_encoding
from fgai_bench.models.base import Output, frozen_eval
from fgai_bench.models.gt import ENCODINGS, _encodings

SOURCES, ADDED, DRAWS, EPOCHS = 20, (20, 100, 400), 3, 100


class EncodingGradient:
    """The gradient of a loss by the weight of an edge, as far as it goes through the encodings."""

    def __init__(self, edge_index: Tensor, encodings: np.ndarray, slope: np.ndarray) -> None:
        nodes = len(encodings)
        adjacency = sp.csr_array((np.ones(edge_index.size(1)), edge_index.numpy()), shape=(nodes, nodes))
        self.degree = np.maximum(adjacency.sum(0), 1)
        scale = sp.diags_array(1 / np.sqrt(self.degree))
        self.smooth = (scale @ adjacency @ scale).tocsr()  # I - L
        self.encodings, self.solved = encodings, np.zeros_like(encodings)
        self.values = np.array([vector @ (self.smooth @ vector) for vector in encodings.T])  # 1 - lambda
        for k, (vector, value) in enumerate(zip(encodings.T, self.values, strict=True)):
            side = slope[:, k] - vector * (vector @ slope[:, k])
            solution, _ = minres(value * sp.identity(nodes) - self.smooth, side, rtol=1e-8, maxiter=20_000)
            self.solved[:, k] = solution - vector * (vector @ solution)

    def __call__(self, pairs: Tensor) -> np.ndarray:
        """Return the gradient by the weight of each undirected pair: ``(2, P) -> (P,)``."""
        i, j = pairs.numpy()
        total = np.zeros(len(i))
        for vector, solution, value in zip(self.encodings.T, self.solved.T, self.values, strict=True):
            v, u, smoothed = vector / np.sqrt(self.degree), solution / np.sqrt(self.degree), self.smooth @ solution
            total += u[i] * v[j] + u[j] * v[i]
            for end in (i, j):
                total -= 0.5 / self.degree[end] * (value * solution[end] + smoothed[end]) * vector[end]
        return total


def rows() -> list[dict[str, object]]:
    """Train, rank, add and measure."""
    data = fb.load_dataset("cora", seed=0)
    model = fb.fit("vanilla", fb.build_model("gt", data, seed=0), data, seed=0, epochs=EPOCHS)
    tests, labels, nodes = data.test_index, data.y[data.test_index], data.x.shape[0]

    def loss(out: Output) -> Tensor:
        return F.cross_entropy(out.logits[tests], labels)

    def measured(name: str, draw: int, pairs: Tensor) -> dict[str, object]:
        with torch.no_grad():
            out = model.propagate(h, torch.cat([data.edge_index, pairs, pairs.flip(0)], dim=1))
        f1 = float((out.logits[tests].argmax(1) == labels).double().mean())
        return {"ranked_by": name, "draw": draw, "edges": pairs.size(1), "loss": float(loss(out)), "f1": f1}

    with frozen_eval(model):
        h = model.embed(data.x)
        encodings = laplacian_encoding(data.edge_index, nodes, ENCODINGS).requires_grad_()
        _encodings.remember(data.edge_index, nodes, encodings)
        (slope,) = torch.autograd.grad(loss(model.propagate(h, data.edge_index)), encodings)
        _encodings.remember(data.edge_index, nodes, encodings.detach())
        through = EncodingGradient(data.edge_index, encodings.detach().double().numpy(), slope.double().numpy())
        found = [measured("none", 0, data.edge_index[:, :0])]
        ends = data.edge_index.numpy()
        parts = connected_components(sp.csr_array((np.ones(ends.shape[1]), ends), shape=(nodes, nodes)))[1]
        whole = np.flatnonzero(parts == np.bincount(parts).argmax())
        targets = np.intersect1d(tests.numpy(), whole)
        for draw in range(DRAWS):
            chance = np.random.default_rng(draw)
            chosen = chance.choice(np.setdiff1d(whole, targets), SOURCES, replace=False)
            pairs = torch.from_numpy(np.stack([np.repeat(chosen, targets.size), np.tile(targets, SOURCES)]))
            both = torch.cat([pairs, pairs.flip(0)], dim=1)
            gradient = relaxed_gradient(model, h, data.edge_index, both, loss)
            assert gradient is not None
            fixed, moved = gradient.view(2, -1).sum(0).double().numpy(), through(pairs)
            ranks = {"fixed": fixed, "through": moved, "sum": fixed + moved, "random": chance.random(fixed.size)}
            for name, rank in ranks.items():
                order = torch.from_numpy((-rank).argsort(kind="stable").copy())
                found += [measured(name, draw, pairs[:, order[:number]]) for number in ADDED]
    return found


if __name__ == "__main__":
    table = pd.DataFrame(rows()).round(4)
    table.to_csv(sys.argv[1], index=False)
    print(table.groupby(["edges", "ranked_by"])[["loss", "f1"]].mean().round(3))
