"""Which features injected nodes may have on a graph. Come here for the in-domain threat and the homophily bound.

Under ``features: range`` an injected row is anything in one box. Under ``features: in-domain`` it is a row that the data
could contain: each column inside its observed range, 0 or 1 where all features are, and no more non-zero entries than
95 % of the real rows have.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks.budget import ThreatModel
from fgai_bench.fast.cached_results import OncePerTensor
from fgai_bench.fast.ordered_sums import sum_at
from fgai_bench.metrics.topk import topk_mask
from fgai_bench.models.features import dense_rows, row_sums
from fgai_bench.seeds import uniform

USUAL = 95  # percentile of real rows and degrees up to which an injected node may go
CHUNK = 256  # nodes whose homophily is computed together
SCALES = 9  # powers of 2 times the neighbours' mean that are tried, to find the row most like it
PARTS = 20  # of the way to that row
SLACK = 1e-5  # of a cosine in single precision


@dataclass(frozen=True)
class FeatureDomain:
    """The rows that injected nodes may have.

    A search moves freely in the box of :meth:`clamp`; what the model sees and what counts is :meth:`project`.

    Attributes:
        low, high: bounds of an entry: numbers, or one for each column, ``(F,)``.
        observed: whether the bounds are those of the data; steps are then relative to what each column has.
        binary: every entry is 0 or 1.
        most_nonzero: how many entries of a row may be other than 0; None for all.
        nonzeros: ``(N,)`` how many each real row has, where ``most_nonzero`` is a number.
        least_homophily: smallest cosine of a row and the mean of its neighbours; None for any.
        around: ``(M, F)`` that mean for each injected node, once its edges are known; see :meth:`beside`.
    """

    low: float | Tensor
    high: float | Tensor
    observed: bool = False
    binary: bool = False
    most_nonzero: int | None = None
    nonzeros: Tensor | None = None
    least_homophily: float | None = None
    around: Tensor | None = None

    @classmethod
    def of(cls, threat: ThreatModel, data: Data) -> FeatureDomain:
        """Return the domain of a threat model on a clean graph."""
        own = _observed(data.x) if threat.features == "in-domain" else cls(threat.feature_low, threat.feature_high)
        if threat.homophily_percentile is None:
            return own
        return replace(own, least_homophily=_least_homophily(data, threat.homophily_percentile))

    def beside(self, data: Data, edges: Tensor, count: int) -> FeatureDomain:
        """Return the domain of ``count`` injected nodes with these new edges ``(2, P)``, for the homophily bound."""
        if self.least_homophily is None:
            return self
        new = data.x.shape[0] + torch.arange(count, device=edges.device)
        return replace(self, around=_neighbour_means(data.x, torch.cat([data.edge_index, edges], dim=1), new))

    @property
    def width(self) -> float | Tensor:
        """Return ``high - low``."""
        return self.high - self.low

    @property
    def unit(self) -> float | Tensor:
        """Return the size of a step of 1: how far 0, or what is next to it, lies from the farther bound.

        It is 1 where the threat model itself names the range: its steps are absolute.
        """
        if not self.observed:
            return 1.0
        start = self.clamp(torch.zeros_like(torch.as_tensor(self.low)))
        return torch.maximum(self.high - start, start - self.low)

    def clamp(self, features: Tensor) -> Tensor:
        """Return the nearest point of the box: ``(M, F) -> (M, F)``."""
        return features.clamp(self.low, self.high)  # type: ignore[arg-type]

    def project(self, features: Tensor) -> Tensor:
        r"""Return the nearest row of the domain, ties by column: ``(M, F) -> (M, F)``; nothing is read back.

        An entry x becomes c, its nearest value; where only k entries may stay, these are the k with the largest
        :math:`x^2 - (x - c)^2 = c (2x - c)`, what setting them to 0 would cost. Under a homophily bound, rows below it
        are then moved towards their neighbours, which need not be the nearest way.

        >>> domain = FeatureDomain(torch.zeros(3), torch.ones(3), binary=True, most_nonzero=1)
        >>> domain.project(torch.tensor([[0.7, 0.9, 0.2]])).tolist()
        [[0.0, 1.0, 0.0]]
        """
        rows = self._nearest(features)
        return rows if self.around is None else self._beside_neighbours(features, rows)

    def straight_through(self, features: Tensor) -> Tensor:
        """Return the projected rows with the gradient of the features themselves; in a plain box, the features."""
        if not self.binary and self.most_nonzero is None and self.around is None:
            return features  # a search keeps to the box by itself
        return self.project(features.detach()) + (features - features.detach())

    def draw(self, shape: tuple[int, int], seed: int | None, purpose: str, device: torch.device) -> Tensor:
        """Return random rows: uniform in the box; if sparse, with as many entries as random real rows have."""
        spread = uniform(shape, seed, purpose, device)  # (M, F)
        rows = self.low + spread * self.width
        if self.nonzeros is not None:
            chance = uniform(shape, seed, f"{purpose}-columns", device)
            drawn = uniform(shape[:1], seed, f"{purpose}-rows", device) * self.nonzeros.numel()
            kept = chance.argsort(1).argsort(1) < self.nonzeros[drawn.long()].unsqueeze(1)
            rows = torch.where(kept, torch.as_tensor(self.high) if self.binary else rows, 0.0)
        return self.project(rows) if self.observed or self.around is not None else rows

    def violation(self, rows: Tensor) -> str | None:
        """Return a sentence on what an injected row has that none may have, ``(M, F)``; None if all are allowed."""
        if self.binary and bool((other := (rows != 0) & (rows != 1)).any()):
            return f"an injected feature is {float(rows[other][0]):g}, but real features are 0 or 1"
        low, high = (torch.as_tensor(bound).to(rows).expand(rows.shape) for bound in (self.low, self.high))
        slack = torch.finfo(rows.dtype).eps * torch.maximum(low.abs(), high.abs())
        if bool((outside := (rows < low - slack) | (rows > high + slack)).any()):
            bounds = f"[{float(low[outside][0]):g}, {float(high[outside][0]):g}]"
            whose = "real rows in its column" if self.observed else "its threat model"
            return f"an injected feature lies outside {bounds}, the range of {whose}"
        most = int((rows != 0).sum(1).amax()) if rows.numel() else 0
        if self.most_nonzero is not None and most > self.most_nonzero:
            return (
                f"an injected row has {most} non-zero features; {USUAL} % of real rows have at most {self.most_nonzero}"
            )
        if self.around is not None and bool((unlike := self._unlike(rows)).any()):
            seen = float(F.cosine_similarity(rows, self.around)[unlike][0])
            return f"an injected node has a homophily of {seen:.3g}; at least {self.least_homophily:.3g} is needed"
        return None

    def _nearest(self, features: Tensor) -> Tensor:
        """Return the nearest row that is of the right type, in range, and sparse enough."""
        value = self.clamp((features > 0.5).to(features.dtype) if self.binary else features)
        if self.most_nonzero is None:
            return value
        fixed = (self.low > 0) | (self.high < 0)  # type: ignore[operator]  # columns that are never 0
        cost = torch.where(fixed, torch.inf, value * (2 * features - value))  # type: ignore[call-overload]
        return torch.where(topk_mask(cost, self.most_nonzero) & (cost > 0), value, 0.0)

    def _unlike(self, rows: Tensor) -> Tensor:
        """Return which injected nodes are below the homophily bound: ``(M,)``; those without neighbours are not."""
        assert self.around is not None and self.least_homophily is not None
        return self.around.any(1) & (F.cosine_similarity(rows, self.around) < self.least_homophily - SLACK)

    def _beside_neighbours(self, features: Tensor, rows: Tensor) -> Tensor:
        """Move the rows below the homophily bound towards the row most like their neighbours, no further than needed.

        That row is the nearest one to a multiple of the neighbours' mean. Where even it is below, it is returned.
        """
        assert self.around is not None
        likes = [F.cosine_similarity(self._nearest(2.0**power * self.around), self.around) for power in range(SCALES)]
        most_like = torch.exp2(torch.stack(likes).argmax(0).to(rows.dtype)).unsqueeze(1) * self.around  # (M, F)
        low = self._unlike(rows).unsqueeze(1)
        for part in range(1, PARTS + 1):
            mixed = self._nearest(torch.lerp(features, most_like, part / PARTS))
            rows = torch.where(low, mixed, rows)
            low = low & self._unlike(mixed).unsqueeze(1)
        return rows


@OncePerTensor
def _observed(x: Tensor) -> FeatureDomain:
    """Return the domain of the rows of ``x``, dense or CSR: ``(N, F)``."""
    if x.layout == torch.strided:
        values, low, high = x, x.amin(0), x.amax(0)
    else:
        values, column = x.values(), x.col_indices()
        stored = torch.bincount(column, minlength=x.shape[1])
        empty = values.new_zeros(x.shape[1]).masked_fill(stored == x.shape[0], torch.inf)  # 0 where an entry is 0
        low = empty.scatter_reduce(0, column, values, "amin")
        high = (-empty).scatter_reduce(0, column, values, "amax")
    binary = bool(((values == 0) | (values == 1)).all())
    nonzeros = row_sums(x, lambda value: (value != 0).to(value.dtype)).flatten().long()  # (N,)
    most = max(1, int(percentile(nonzeros, USUAL)))
    if most >= x.shape[1]:
        return FeatureDomain(low, high, True, binary)
    return FeatureDomain(low, high, True, binary, most, nonzeros)


@OncePerTensor
def usual_degree(edge_index: Tensor, nodes: int) -> int:
    """Return the 95th percentile of the degrees of ``nodes`` nodes, by their in-edges; at least 1."""
    return max(1, int(percentile(torch.bincount(edge_index[1], minlength=nodes), USUAL)))


def percentile(values: Tensor, share: float) -> float:
    """Return the smallest of the values ``(N,)`` that at least ``share`` percent of them do not exceed.

    >>> percentile(torch.arange(1, 41), 95)
    38.0
    """
    return float(values.kthvalue(max(1, math.ceil(share * values.numel() / 100))).values)


def homophily(x: Tensor, edge_index: Tensor, nodes: Tensor) -> Tensor:
    r"""Return how similar nodes are to their neighbours, in [-1, 1]: ``(N, F), (2, E), (R,) -> (R,)``.

    .. math:: \cos\left(x_u, \sum_{j \in N(u)} x_j / \sqrt{d_j}\right)

    the node-centric homophily of Chen et al. (2022, https://arxiv.org/abs/2202.08057), with d the in-degrees; 0 for a
    node without neighbours.

    >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])  # 0 - 1 - 2
    >>> homophily(torch.tensor([[3.0, 0.0], [3.0, 4.0], [3.0, 4.0]]), path, torch.tensor([0, 2]))
    tensor([0.6000, 1.0000])
    """
    chunks = [(dense_rows(x, some), _neighbour_means(x, edge_index, some)) for some in nodes.split(CHUNK)]
    return torch.cat([F.cosine_similarity(own, mean) for own, mean in chunks])


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


def _least_homophily(data: Data, share: float) -> float:
    """Return the homophily that all but ``share`` percent of the real nodes with neighbours reach."""
    nodes = torch.bincount(data.edge_index[1], minlength=data.x.shape[0]).nonzero().flatten()
    return percentile(homophily(data.x, data.edge_index, nodes), share) if nodes.numel() else -1.0
