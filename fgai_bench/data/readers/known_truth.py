"""Generate graphs that say which edges matter to which node: motifs, infections, planted carriers of labels.

Every graph carries ``truth_nodes`` (T,) and ``truth_edges`` (2, T): the edge ``truth_edges[:, i]`` matters to the label
of the node ``truth_nodes[i]``. Nothing is read from disk; the seed of a graph belongs to the dataset.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.datasets import ExplainerDataset, InfectionDataset
from torch_geometric.datasets.graph_generator import BAGraph, ERGraph
from torch_geometric.datasets.motif_generator import CustomMotif, GridMotif, HouseMotif
from torch_geometric.utils import to_undirected

from fgai_bench.data.errors import DataError
from fgai_bench.seeds import derive, isolated_rng

DEGREE_COLUMNS = 12  # one-hot degrees; larger ones share the last column
HOPS = 2  # edges that a message travels in the models that these graphs are made for


@contextmanager
def _drawing(graph_seed: int) -> Iterator[None]:
    """Run a generator of PyG, which draws from the global states of torch and of numpy, and restore both."""
    state = np.random.get_state()
    np.random.seed(derive(graph_seed, "truth") % 2**32)
    try:
        with isolated_rng(graph_seed, "truth"):
            yield
    finally:
        np.random.set_state(state)


def _tree() -> CustomMotif:
    """Return a binary tree of seven nodes, whose levels are labels."""
    edges = torch.tensor([[0, 0, 1, 1, 2, 2], [1, 2, 3, 4, 5, 6]])
    return CustomMotif(Data(num_nodes=7, edge_index=to_undirected(edges), y=torch.tensor([0, 1, 1, 2, 2, 2, 2])))


MOTIFS = {"house": HouseMotif, "grid": GridMotif, "tree": _tree}


def generate_motifs(
    motif: str = "house", nodes: int = 400, edges: int = 3, motifs: int = 80, graph_seed: int = 0
) -> Data:
    """Attach motifs to a Barabasi-Albert graph with PyG's ``ExplainerDataset``; labels are roles in the motif.

    Features are one-hot degrees: with constant ones no attention could tell a node from another. The edges of a motif
    matter to the nodes of that motif.

    >>> graph = generate_motifs(nodes=30, motifs=4)
    >>> graph.num_nodes, graph.truth_edges.shape == (2, graph.truth_nodes.numel())
    (50, True)
    """
    if motif not in MOTIFS:
        raise DataError(f"there is no motif {motif!r}; possible are {', '.join(MOTIFS)}")
    with _drawing(graph_seed):
        drawn = ExplainerDataset(BAGraph(nodes, edges), MOTIFS[motif](), num_motifs=motifs)[0]
    size = (drawn.num_nodes - nodes) // motifs
    inside = drawn.edge_index[:, drawn.edge_mask > 0]
    inside = inside[:, inside[0] != inside[1]]
    owner = (inside[0] - nodes) // size  # (M,)
    members = nodes + owner.unsqueeze(1) * size + torch.arange(size)  # (M, size)
    edge_index = to_undirected(drawn.edge_index, num_nodes=drawn.num_nodes)
    degree = torch.bincount(edge_index[1], minlength=drawn.num_nodes).clamp(max=DEGREE_COLUMNS - 1)
    return Data(
        x=F.one_hot(degree, DEGREE_COLUMNS).float(),
        edge_index=drawn.edge_index,
        y=drawn.y,
        truth_nodes=members.flatten(),
        truth_edges=inside.repeat_interleave(size, dim=1),
    )


def generate_infection(nodes: int = 1000, mean_degree: float = 4.0, infected: int = 60, graph_seed: int = 0) -> Data:
    """Infect nodes of a random graph with PyG's ``InfectionDataset``; labels are distances to the nearest infected one.

    The edges of the shortest path matter, to nodes that have exactly one of at most two edges; features say who is
    infected.

    >>> graph = generate_infection(nodes=60, infected=4)
    >>> int(graph.y.max()), bool((graph.y[graph.truth_nodes] > 0).all())
    (3, True)
    """
    with _drawing(graph_seed):
        drawn = InfectionDataset(
            ERGraph(nodes, mean_degree / (nodes - 1)), num_infected_nodes=infected, max_path_length=HOPS
        )[0]
    edge_index = to_undirected(drawn.edge_index, num_nodes=nodes)
    return Data(x=drawn.x, edge_index=edge_index, y=drawn.y, **_shortest_paths(edge_index, drawn.y))


def _shortest_paths(edge_index: Tensor, distance: Tensor) -> dict[str, Tensor]:
    """Return the edges of the path to each node that has exactly one shortest path from an infected one."""
    source, destination = edge_index.numpy()
    away = distance.numpy()
    nearer: dict[int, list[int]] = {}
    for start, end in zip(source, destination, strict=True):
        if away[end] <= HOPS and away[start] == away[end] - 1:
            nearer.setdefault(int(end), []).append(int(start))
    owners, edges = [], []
    for node in sorted(nearer):
        at, path = node, []
        while len(nearer.get(at, ())) == 1:
            path.append((nearer[at][0], at))
            at = nearer[at][0]
        if away[at] == 0:
            owners += [node] * len(path)
            edges += path
    return {"truth_nodes": torch.tensor(owners), "truth_edges": torch.tensor(edges).T.contiguous()}


def generate_planted(
    nodes: int = 800,
    carriers: int = 120,
    classes: int = 4,
    features: int = 16,
    planted: int = 2,
    noise_degree: float = 6.0,
    strength: float = 1.0,
    graph_seed: int = 0,
) -> Data:
    """Plant edges that carry the label: every plain node is joined to ``planted`` carriers of its class.

    Plain nodes have features of noise alone, ``e_i``; carriers have ``strength * m[y_i] + e_i`` with ``m`` and ``e``
    standard normal. Plain nodes are joined to each other at random, whatever their class. So the edges from carriers
    hold all that a plain node can learn of its label, and at strength 0 nothing does.

    >>> graph = generate_planted(nodes=40, carriers=8)
    >>> graph.num_nodes, graph.truth_nodes.numel()
    (48, 80)
    """
    if min(nodes, planted, features) < 1 or carriers < classes * planted or strength < 0:
        raise DataError(
            f"planted edges need nodes, features and at least {planted} carriers in each of {classes} classes, "
            f"and a strength of at least 0; asked were {carriers} carriers of strength {strength:g}"
        )
    random = np.random.default_rng(derive(graph_seed, "planted"))
    labels = np.concatenate([random.permutation(nodes) % classes, np.arange(carriers) % classes])
    means = random.standard_normal((classes, features), dtype=np.float32)
    x = random.standard_normal((nodes + carriers, features), dtype=np.float32)
    x[nodes:] += np.float32(strength) * means[labels[nodes:]]
    of_class = [nodes + np.flatnonzero(labels[nodes:] == c) for c in range(classes)]
    chosen = np.stack([random.permutation(of_class[label])[:planted] for label in labels[:nodes]])  # (nodes, planted)
    true = np.stack([chosen.ravel(), np.repeat(np.arange(nodes), planted)])
    noise = random.integers(nodes, size=(2, round(nodes * noise_degree / 2)))
    return Data(
        x=torch.from_numpy(x),
        edge_index=torch.from_numpy(np.concatenate([true, noise[:, noise[0] != noise[1]]], axis=1)),
        y=torch.from_numpy(labels),
        truth_nodes=torch.from_numpy(true[1].copy()),
        truth_edges=torch.from_numpy(true),
    )
