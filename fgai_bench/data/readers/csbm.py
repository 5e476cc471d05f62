"""Generate csbm, a contextual stochastic block model of any size, for scaling studies (Deshpande et al. 2018)."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from fgai_bench.data.errors import DataError
from fgai_bench.seeds import derive

Integers = NDArray[np.int64]


def generate_csbm(
    edges: int = 10_000,
    degree: float = 10.0,
    classes: int = 5,
    features: int = 64,
    homophily: float = 0.8,
    signal: float = 0.2,
    graph_seed: int = 0,
) -> Data:
    """Draw a graph with exactly ``edges`` undirected edges, the share ``homophily`` of them within classes.

    It has ``N = 2 * edges / degree`` nodes in classes of equal size. Edges within and between classes are uniform
    among the possible ones; features are ``x_i = signal * m[y_i] + e_i`` with ``m`` and ``e`` standard normal. Time
    and memory grow linearly with the edges, but for one sort.

    >>> graph = generate_csbm(edges=100, degree=4, features=3)
    >>> graph.num_nodes, graph.num_edges, tuple(graph.x.shape)
    (50, 100, (50, 3))
    """
    nodes = round(2 * edges / degree)
    if min(edges, classes, features, graph_seed + 1) < 1 or not 0 <= homophily <= 1 or nodes < 2 * classes:
        raise DataError(
            "csbm needs positive edges, classes and features, a homophily in [0, 1] and two nodes in each class; "
            f"asked were {edges} edges of mean degree {degree:g} in {classes} classes, homophily {homophily:g}"
        )
    random = np.random.default_rng(derive(graph_seed, "csbm"))
    labels = random.permutation(nodes) % classes  # (N,)
    within = round(edges * homophily)
    keys = np.concatenate(
        [_distinct(random, labels, within, same=True), _distinct(random, labels, edges - within, same=False)]
    )
    means = random.standard_normal((classes, features), dtype=np.float32)
    noise = random.standard_normal((nodes, features), dtype=np.float32)
    return Data(
        x=torch.from_numpy(noise + np.float32(signal) * means[labels]),
        edge_index=torch.from_numpy(np.stack([keys // nodes, keys % nodes])),
        y=torch.from_numpy(labels),
    )


def _distinct(random: np.random.Generator, labels: Integers, count: int, same: bool) -> Integers:
    """Draw ``count`` distinct pairs ``u < v`` as keys ``u * N + v``, of one class if ``same``, else of two."""
    nodes, sizes = len(labels), np.bincount(labels)
    within = int((sizes * (sizes - 1) // 2).sum())
    possible = within if same else nodes * (nodes - 1) // 2 - within
    if count > possible // 2:
        kind = "within" if same else "between"
        raise DataError(f"csbm with {nodes} nodes cannot draw {count} edges {kind} classes, at most {possible // 2}")
    keys = np.empty(0, np.int64)
    while len(keys) < count:
        drawn = _pairs(random, labels, 2 * (count - len(keys)) + 16, same)
        keys = torch.from_numpy(np.concatenate([keys, drawn])).unique().numpy()
    return random.permutation(keys)[:count]


def _pairs(random: np.random.Generator, labels: Integers, count: int, same: bool) -> Integers:
    """Draw about ``count`` uniform pairs with repetitions; both ends have one class if ``same``, else two."""
    nodes, sizes = len(labels), np.bincount(labels)
    order, starts = np.argsort(labels, kind="stable"), np.cumsum(sizes) - sizes
    u = random.integers(nodes, size=count)
    own, first = sizes[labels[u]], starts[labels[u]]
    if same:
        v = order[first + random.integers(own)]
    else:
        position = random.integers(nodes - own)
        v = order[np.where(position < first, position, position + own)]
    low, high = np.minimum(u, v), np.maximum(u, v)
    return (low * nodes + high)[low < high]
