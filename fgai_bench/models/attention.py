"""Store attention as one weight per edge, and align two attentions by (source, destination)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fgai_bench.fast.ordered_sums import sum_at


@dataclass(frozen=True)
class Attention:
    """The attention of a model on a graph: one weight per edge.

    Attributes:
        edge_index: ``(2, E)`` source and destination of each edge.
        weight: ``(E,)`` the attention that the destination pays to the source.
        added: how many of the last entries are self-loops that the model added; they carry attention (so that it sums
            to one per destination) but are not edges of the graph.

    >>> a = Attention(torch.tensor([[0, 1, 0], [1, 0, 0]]), torch.tensor([1.0, 0.3, 0.7]), added=1)
    >>> a.of_graph().weight.tolist()
    [1.0, 0.30000001192092896]
    """

    edge_index: Tensor
    weight: Tensor
    added: int = 0

    def __post_init__(self) -> None:
        if self.edge_index.dim() != 2 or self.edge_index.shape != (2, self.weight.numel()) or self.weight.dim() != 1:
            raise ValueError(
                f"attention needs edge_index (2, E) and weight (E,), got {tuple(self.edge_index.shape)} "
                f"and {tuple(self.weight.shape)}"
            )
        if not 0 <= self.added <= self.weight.numel():
            raise ValueError(f"attention over {self.weight.numel()} edges cannot have {self.added} added self-loops")

    def of_graph(self) -> Attention:
        """Return the attention on the edges of the graph, without the self-loops that the model added."""
        if not self.added:
            return self
        kept = self.weight.numel() - self.added
        return Attention(self.edge_index[:, :kept], self.weight[:kept])

    def detach(self) -> Attention:
        """Return the same attention without its autograd history."""
        return Attention(self.edge_index, self.weight.detach(), self.added)


def edge_keys(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Return one integer per edge, ``source * num_nodes + destination``: ``(2, E) -> (E,)``."""
    return edge_index[0] * num_nodes + edge_index[1]


def found_in(known: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Return whether each number is one of some ascending ones, and where.

    >>> found_in(torch.tensor([2, 5]), torch.tensor([5, 3]))
    (tensor([ True, False]), tensor([1, 1]))
    """
    if not known.numel():
        return torch.zeros_like(wanted, dtype=torch.bool), torch.zeros_like(wanted)
    place = torch.searchsorted(known, wanted).clamp(max=known.numel() - 1)
    return known[place] == wanted, place


def align(att: Attention, att_tilde: Attention, common: bool = False) -> tuple[Tensor, Tensor]:
    """Return the weights of two attentions over the edges of ``att`` (clean), matched by (source, destination).

    Edges that ``att_tilde`` lacks get 0, or are left out with ``common=True``; edges that only ``att_tilde`` has are
    left out. Parallel edges are one edge whose weight is their sum. Differentiable in both weights.

    Shapes: ``(E,), (E~,) -> (U,), (U,)`` with U distinct clean edges, in the order of their first appearance.

    >>> clean = Attention(torch.tensor([[0, 1], [1, 0]]), torch.tensor([0.9, 0.4]))
    >>> attacked = Attention(torch.tensor([[2, 1, 0], [1, 0, 1]]), torch.tensor([0.5, 0.25, 0.5]))
    >>> [w.tolist() for w in align(clean, attacked)]
    [[0.8999999761581421, 0.4000000059604645], [0.5, 0.25]]
    """
    clean, other = att.of_graph(), att_tilde.of_graph()
    size = 1 + max((int(e.max()) for e in (clean.edge_index, other.edge_index) if e.numel()), default=0)
    keys, w = _coalesced(edge_keys(clean.edge_index, size), clean.weight)  # (U,)
    keys_tilde, w_tilde = _coalesced(edge_keys(other.edge_index, size), other.weight)
    if keys.shape == keys_tilde.shape and torch.equal(keys, keys_tilde):
        return w, w_tilde
    sorted_keys, order = keys_tilde.sort()
    present, place = found_in(sorted_keys, keys)
    matched = torch.where(present, w_tilde[order[place]], 0) if order.numel() else w.new_zeros(w.shape)
    return (w[present], matched[present]) if common else (w, matched)


def _coalesced(keys: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return distinct keys in the order of their first appearance, with the weights of equal keys added up."""
    if bool((keys.sort().values.diff() != 0).all()):
        return keys, weight
    unique, inverse = torch.unique(keys, return_inverse=True)
    first = torch.full_like(unique, keys.numel()).scatter_reduce_(
        0, inverse, torch.arange(keys.numel(), device=keys.device), "amin"
    )
    by_appearance = first.argsort()
    total = sum_at(inverse, weight, unique.numel())
    return unique[by_appearance], total[by_appearance]
