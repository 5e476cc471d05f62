"""Keep scores of edges for the predictions of nodes in a sparse form: one entry per (node, edge) that can matter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from fgai_bench.explainers.computation_graph import Field


@dataclass(frozen=True)
class EdgeScores:
    """A score for each edge that can matter to each node.

    >>> scores = EdgeScores(torch.tensor([7]), torch.tensor([0, 0]), torch.tensor([2, 0]), torch.tensor([0.5, 0.25]))
    >>> scores.dense(3).tolist()
    [[0.25, 0.0, 0.5]]
    """

    nodes: Tensor  # (B,) the nodes whose predictions are explained
    owner: Tensor  # (M,) position in `nodes`, ascending
    edges: Tensor  # (M,) position of the edge in the graph's `edge_index`
    values: Tensor  # (M,) the scores

    @classmethod
    def on(cls, field: Field, values: Tensor) -> EdgeScores:
        """Return values in the order of a field's pairs."""
        return cls(field.nodes, field.owner, field.edges, values)

    @classmethod
    def joined(cls, blocks: Iterable[EdgeScores]) -> EdgeScores:
        """Return the scores of several blocks of nodes as one."""
        listed = list(blocks)
        begins = torch.tensor([0, *(block.nodes.numel() for block in listed)]).cumsum(0).tolist()
        owner = [block.owner + begin for block, begin in zip(listed, begins[:-1], strict=True)]
        parts = [[block.nodes for block in listed], owner, [b.edges for b in listed], [b.values for b in listed]]
        return cls(*(torch.cat(part) for part in parts))

    def dense(self, num_edges: int) -> Tensor:
        """Return ``(B, E)`` with 0 where an edge cannot matter: for few nodes."""
        whole = self.values.new_zeros(self.nodes.numel(), num_edges)
        whole[self.owner, self.edges] = self.values
        return whole

    def of(self, place: int) -> tuple[Tensor, Tensor]:
        """Return the edges that can matter to one node, and their scores: two ``(m,)``."""
        begin, end = torch.searchsorted(self.owner, torch.tensor([place, place + 1], device=self.owner.device)).tolist()
        return self.edges[begin:end], self.values[begin:end]

    def only(self, mask: Tensor) -> EdgeScores:
        """Return the scores of some pairs; ``mask`` is ``(M,)`` boolean."""
        return EdgeScores(self.nodes, self.owner[mask], self.edges[mask], self.values[mask])

    def first(self, count: int) -> EdgeScores:
        """Return the scores of the first ``count`` nodes."""
        end = int(torch.searchsorted(self.owner, count))
        return EdgeScores(self.nodes[:count], self.owner[:end], self.edges[:end], self.values[:end])
