"""A sample of the attention around one node, before and after an attack: small enough to keep with every record."""

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.models import Attention, align

MOST_IN_EDGES = 24  # in-edges of a centre, at most, if there is such a node
PER_NEIGHBOUR = 6  # in-edges that are kept of each of its neighbours: a picture of hubs shows nothing


def attention_sample(clean: Attention, attacked: Attention, graph: Data, targets: Tensor) -> dict[str, Tensor]:
    """Return the edges within two hops of one attacked node, with their attention on both graphs.

    The centre is the target that the most new edges lead into, among those of moderate degree: it depends on the graph
    and on where the attacker attached, not on the model, so that samples of different defenses show the same place.

    Returns:
        ``edge_index`` ``(2, S)``, ``clean`` and ``attacked`` ``(S,)`` with 0 for an edge that is not there, ``centre``
        and ``nodes`` ``(1,)``: injected nodes are those from ``nodes`` on.
    """
    nodes = graph.x.shape[0]
    before, after = clean.of_graph(), attacked.of_graph()
    edges = after.edge_index if after.edge_index.size(1) >= before.edge_index.size(1) else before.edge_index
    centre = _centre(before.edge_index, edges, targets, nodes)
    edges = edges[:, _within_two_hops(edges, centre)]
    sampled = Attention(edges, before.weight.new_zeros(edges.size(1)))
    parts = {name: align(sampled, attention)[1] for name, attention in (("clean", before), ("attacked", after))}
    whole = {"edge_index": edges, **parts, "centre": centre.reshape(1), "nodes": torch.tensor([nodes])}
    return {name: part.detach().cpu().contiguous() for name, part in whole.items()}


def _centre(before: Tensor, after: Tensor, targets: Tensor, nodes: int) -> Tensor:
    """Return the target with the most new in-edges, of moderate degree where possible; ties to the smallest."""
    size = max(nodes, int(after.max()) + 1)
    degree = torch.bincount(before[1], minlength=size)
    new = torch.bincount(after[1], minlength=size) - degree
    merit = new * 1000 + degree.clamp(max=MOST_IN_EDGES) - 10**6 * ((degree > MOST_IN_EDGES) | (degree == 0))
    ordered = targets.sort().values
    return ordered[merit[ordered].argmax()]


def _within_two_hops(edges: Tensor, centre: Tensor) -> Tensor:
    """Return positions of the edges into the centre, then of the last few into each neighbour (new edges are last)."""
    first = (edges[1] == centre).nonzero().squeeze(1)
    near = torch.unique(edges[0, first])
    second = (torch.isin(edges[1], near) & (edges[1] != centre)).nonzero().squeeze(1).flip(0)
    grouped, order = edges[1, second].sort(stable=True)
    starts = torch.searchsorted(grouped, grouped)
    place = torch.arange(grouped.numel(), device=edges.device) - starts
    return torch.cat([first, second[order[place < PER_NEIGHBOUR]].sort().values])
