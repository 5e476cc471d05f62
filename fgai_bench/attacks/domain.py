"""Which features injected nodes may have on a graph. Come here for the in-domain threat and the homophily bound.

Under ``features: range`` an injected row is anything in one box. Under ``features: in-domain`` it is a row that the
data could contain: each column inside its observed range, 0 or 1 in columns that are, and no more non-zero entries than
95 % of the real rows have. Sums of rows are not bounded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.fast.cached_results import OncePerTensor
from fgai_bench.fast.ordered_sums import sum_at
from fgai_bench.metrics.topk import topk_mask
from fgai_bench.models.features import dense_rows, row_sums
from fgai_bench.seeds import uniform

USUAL = 95  # percentile of real rows and degrees up to which an injected node may go
CHUNK = 256  # nodes whose homophily is computed together
SCALES, PARTS = 9, 20  # multiples of the neighbours' mean, and parts of the way there, that a row's repair tries
SLACK = 1e-5  # of a cosine in single precision
Bound = Any  # a number, or one for each column, ``(F,)``


@dataclass(frozen=True)
class FeatureDomain:
    """The rows that injected nodes may have.

    A search moves freely in the box of :meth:`clamp`; what the model sees and what counts is :meth:`project`.

    Attributes:
        low, high: bounds of an entry: numbers, or one for each column, ``(F,)``.
        unit: size of a search's step of 1: as far as a column reaches from 0, where the bounds are those of the data.
        binary: ``(F,)`` the columns whose entries are 0 or 1; None if there are none.
        most_nonzero: how many entries of a row may be other than 0; None for all.
        nonzeros: ``(N,)`` how many each real row has, where ``most_nonzero`` is a number.
        least_homophily: smallest cosine of a row and the mean of its neighbours; -1 for any.
        around: ``(M, F)`` that mean for each injected node, once its edges are known (:meth:`beside`).
    """

    low: Bound = -math.inf
    high: Bound = math.inf
    unit: Bound = 1.0
    binary: Tensor | None = None
    most_nonzero: int | None = None
    nonzeros: Tensor | None = None
    least_homophily: float = -1.0
    around: Tensor | None = None

    @classmethod
    def of(cls, threat: Any, data: Data) -> FeatureDomain:
        """Return the domain of a ``ThreatModel`` (which imports this file) on a clean graph."""
        own = observed(data.x) if threat.features == "in-domain" else cls(threat.feature_low, threat.feature_high)
        if threat.homophily_percentile is None:
            return own
        nodes = torch.bincount(data.edge_index[1], minlength=data.x.shape[0]).nonzero().flatten()
        real = homophily(data.x, data.edge_index, nodes)
        return replace(own, least_homophily=percentile(real, threat.homophily_percentile) - SLACK)

    def beside(self, data: Data, edges: Tensor, count: int) -> FeatureDomain:
        """Return the domain of ``count`` injected nodes with these new edges ``(2, P)``, with its homophily bound."""
        if self.least_homophily <= -1:
            return self
        new = data.x.shape[0] + torch.arange(count, device=edges.device)
        return replace(self, around=_neighbour_means(data.x, torch.cat([data.edge_index, edges], dim=1), new))

    def reachable(self, data: Data, edges: Tensor, count: int) -> Tensor:
        """Return the edges ``(2, P)`` without those of injected nodes that no row can make similar enough to them."""
        while (around := self.beside(data, edges, count).around) is not None:
            able = (self._most_like(around)[0] >= self.least_homophily).flatten()[edges.amax(0) - data.x.shape[0]]
            if bool(able.all()):
                break
            edges = edges[:, able]  # which may change the degrees, and so the means, of others
        return edges

    @property
    def width(self) -> Bound:
        return self.high - self.low

    def clamp(self, features: Tensor) -> Tensor:
        """Return the nearest point of the box: ``(M, F) -> (M, F)``."""
        return features.clamp(self.low, self.high)

    def project(self, features: Tensor) -> Tensor:
        """Return the nearest row of the domain, of equals the first by column: ``(M, F) -> (M, F)``.

        A row below a homophily bound then moves towards its neighbours. Nothing is read back from the device.

        >>> domain = FeatureDomain(torch.zeros(3), torch.ones(3), binary=torch.tensor([True, True, False]))
        >>> domain.project(torch.tensor([[0.75, 0.25, 0.25]])).tolist()
        [[1.0, 0.0, 0.25]]
        """
        rows = self._nearest(features)
        return rows if self.around is None else self._repaired(features, rows, self.around)

    def straight_through(self, features: Tensor) -> Tensor:
        """Return the projected rows with the gradient of the features themselves; in a plain box, the features."""
        if self.binary is None and self.most_nonzero is None and self.around is None:
            return features  # a search keeps to the box by itself
        return self.project(features.detach()) + (features - features.detach())

    def draw(self, shape: tuple[int, int], seed: int | None, purpose: str, device: torch.device) -> Tensor:
        """Return random rows: uniform in the box; if sparse, with as many entries as random real rows have."""
        rows = self.low + uniform(shape, seed, purpose, device) * self.width  # (M, F)
        if self.nonzeros is not None:
            order = uniform(shape, seed, f"{purpose}-columns", device).argsort(1).argsort(1)
            drawn = uniform(shape[:1], seed, f"{purpose}-rows", device) * self.nonzeros.numel()
            kept = order < self.nonzeros[drawn.long()].unsqueeze(1)
            rows = rows if self.binary is None else torch.where(self.binary, self.high, rows)
            rows = torch.where(kept, rows, 0.0)
        return self.project(rows)

    def violation(self, rows: Tensor) -> str | None:
        """Return a sentence on what an injected row has that none may have, ``(M, F)``; None if all are allowed."""
        if not rows.numel():
            return None
        if self.binary is not None and bool((other := self.binary & (rows != 0) & (rows != 1)).any()):
            return f"an injected feature is {float(rows[other][0]):g}, but real features are 0 or 1 in its column"
        low, high = (torch.as_tensor(bound).to(rows).expand(rows.shape) for bound in (self.low, self.high))
        slack = torch.finfo(rows.dtype).eps * torch.maximum(low.abs(), high.abs())
        if bool((outside := (rows < low - slack) | (rows > high + slack)).any()):
            bounds = f"[{float(low[outside][0]):g}, {float(high[outside][0]):g}]"
            whose = "its threat model" if isinstance(self.low, float) else "real rows in its column"
            return f"an injected feature lies outside {bounds}, the range of {whose}"
        if (most := int((rows != 0).sum(1).amax())) > (usual := self.most_nonzero or rows.shape[1]):
            return f"an injected row has {most} non-zero features; {USUAL} % of real rows have at most {usual}"
        if self.around is not None and (seen := float(_similarity(rows, self.around).min())) < self.least_homophily:
            return f"an injected node has a homophily of {seen:.3g}; at least {self.least_homophily:.3g} is needed"
        return None

    def _nearest(self, features: Tensor) -> Tensor:
        """Return the nearest row of the right type and range; 0 replaces values c of x where it costs the least."""
        value = features if self.binary is None else torch.where(self.binary, (features > 0.5).to(features), features)
        value = self.clamp(value)
        if self.most_nonzero is None:
            return value
        cost = value * (2 * features - value)  # of a 0: x^2 - (x - c)^2
        cost = torch.where((self.low > 0) | (self.high < 0), torch.inf, cost)  # columns that are never 0
        return torch.where(topk_mask(cost, self.most_nonzero), value, 0.0)

    def _repaired(self, features: Tensor, rows: Tensor, around: Tensor) -> Tensor:
        """Move rows below the homophily bound towards the multiple of their neighbours' mean that is most like it."""
        _, most_like = self._most_like(around)
        for part in range(1, PARTS + 1):
            mixed = self._nearest(torch.lerp(features, most_like, part / PARTS))
            rows = torch.where(_similarity(rows, around) < self.least_homophily, mixed, rows)
        return rows

    def _most_like(self, around: Tensor) -> tuple[Tensor, Tensor]:
        """Return the largest possible similarity, and the multiple of the mean that has it: ``(M, 1), (M, F)``."""
        tried = [_similarity(self._nearest(2.0**power * around), around) for power in range(SCALES)]  # (M, 1) each
        similarity, power = torch.stack(tried).max(0)
        return similarity, torch.exp2(power.to(around.dtype)) * around


@OncePerTensor
def observed(x: Tensor) -> FeatureDomain:
    """Return the domain of real rows ``(N, F)``, dense or CSR, on which its bounds are tensors ``(F,)``."""
    if x.layout == torch.strided:
        values, low, high = x, x.amin(0), x.amax(0)
        other = ((x != 0) & (x != 1)).any(0)
    else:
        values, column = x.values(), x.col_indices()
        stored = torch.bincount(column, minlength=x.shape[1])
        empty = values.new_zeros(x.shape[1]).masked_fill(stored == x.shape[0], torch.inf)  # 0 where an entry is 0
        low = empty.scatter_reduce(0, column, values, "amin")
        high = (-empty).scatter_reduce(0, column, values, "amax")
        other = torch.bincount(column[(values != 0) & (values != 1)], minlength=x.shape[1]) > 0
    binary = ~other & (low < high)  # the bounds say all of a column that never changes
    nonzeros = row_sums(x, lambda value: (value != 0).to(value.dtype)).flatten().long()  # (N,)
    most = max(1, int(percentile(nonzeros, USUAL)))
    start = torch.zeros_like(low).clamp(low, high)
    limits = (most, nonzeros) if most < x.shape[1] else (None, None)
    unit = torch.maximum(high - start, start - low)
    return FeatureDomain(low, high, unit, binary if bool(binary.any()) else None, *limits)


@OncePerTensor
def usual_degree(edge_index: Tensor, nodes: int) -> int:
    """Return the 95th percentile of the degrees of ``nodes`` nodes, by their in-edges; at least 1."""
    return max(1, int(percentile(torch.bincount(edge_index[1], minlength=nodes), USUAL)))


def percentile(values: Tensor, share: float) -> float:
    """Return the smallest of the values ``(N,)`` that at least ``share`` percent of them do not exceed."""
    return float(values.kthvalue(max(1, math.ceil(share * values.numel() / 100))).values)


def homophily(x: Tensor, edge_index: Tensor, nodes: Tensor) -> Tensor:
    """Return how similar nodes u are to their neighbours j, ``cos(x_u, sum_j x_j / sqrt(d_j))``: ``(R,)``, -1 to 1.

    It is the node-centric homophily of HAO (https://arxiv.org/abs/2202.08057), with d the in-degrees.

    >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])  # 0 - 1 - 2
    >>> homophily(torch.tensor([[3.0, 0.0], [3.0, 4.0], [3.0, 4.0]]), path, torch.tensor([0, 2]))
    tensor([0.6000, 1.0000])
    """
    chunks = [(dense_rows(x, some), _neighbour_means(x, edge_index, some)) for some in nodes.split(CHUNK)]
    return torch.cat([F.cosine_similarity(own, mean) for own, mean in chunks])


def _similarity(rows: Tensor, around: Tensor) -> Tensor:
    """Return the cosine of each row and the mean around it; 1 where nothing is around: ``(M, 1)``."""
    return F.cosine_similarity(rows, around).masked_fill(~around.any(1), 1.0).unsqueeze(1)


def _neighbour_means(x: Tensor, edge_index: Tensor, nodes: Tensor) -> Tensor:
    """Return the mean of each node's neighbours, weighted by ``1 / sqrt(degree)``: ``(R, F)``; 0 without neighbours."""
    source, destination = edge_index
    size = x.shape[0] + nodes.numel()
    degree = torch.bincount(destination, minlength=size)
    place = torch.full((size,), -1, device=nodes.device)
    place[nodes] = torch.arange(nodes.numel(), device=nodes.device)
    into = (place[destination] >= 0) & (source != destination)
    source, owner = source[into], place[destination[into]]
    weight = degree[source].clamp(min=1).to(x.dtype).rsqrt()  # (P,)
    total = sum_at(owner, weight, nodes.numel()).clamp(min=torch.finfo(x.dtype).tiny)
    return sum_at(owner, weight.unsqueeze(1) * dense_rows(x, source), nodes.numel()) / total.unsqueeze(1)
