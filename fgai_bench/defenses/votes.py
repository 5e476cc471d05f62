"""Define the defense ``votes``: an ensemble in which every voter sees the messages of one group of sources.

An injected node sends its messages in one group. So it spoils at most one vote of each node that it is attached to,
which :mod:`fgai_bench.certificates.votes` turns into a floor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.defenses.base import Fit, Objective
from fgai_bench.defenses.vanilla import ReplacedModel
from fgai_bench.fast.cached_results import OncePerTensor
from fgai_bench.fast.ordered_sums import sum_at
from fgai_bench.models.attention import Attention
from fgai_bench.models.base import ConfiguredModel, Output
from fgai_bench.models.gat import GATLayer
from fgai_bench.models.gatv2 import GATv2Layer
from fgai_bench.models.one_hop import OneHopLayer
from fgai_bench.models.options import OneHopOptions
from fgai_bench.models.sorted_edges import SortedEdges, sorted_edges
from fgai_bench.options import Choice, Range, Space

LAYERS = {"gat": GATLayer, "gatv2": GATv2Layer}


class VotesOptions(OneHopOptions):
    """Options of the ensemble, beside those of the network that all voters share.

    Attributes:
        voters: how many voters; also the number of groups of sources.
        base: attention of the voters, that of ``gat`` or ``gatv2``.
    """

    voters: int = Field(20, ge=1, le=1000)
    base: Literal["gat", "gatv2"] = "gat"
    heads: tuple[int, ...] = Field((1,), min_length=1, max_length=1)
    attention_dropout: float = Field(0.0, ge=0, lt=1)


def group_of(nodes: Tensor, groups: int) -> Tensor:
    """Return the group of each node by a fixed hash of its number: ``(M,) -> (M,)``, from 0 to ``groups - 1``.

    The multiplier is Knuth's, 2^32 divided by the golden ratio; the upper bits of the product decide.

    >>> group_of(torch.arange(6), 4).tolist()
    [0, 3, 2, 2, 1, 1]
    """
    return (((nodes * 2654435761) & 0xFFFFFFFF) >> 16) % groups


@dataclass(frozen=True)
class Ballots:
    """The ballots of all nodes, as one graph: one forward pass over it is that of all voters.

    The first N ballots are of voters that get no message for their node: each counts once for every such voter. Then
    comes one ballot for each pair of a node and a group that sends it something.

    Attributes:
        owner: ``(B,)`` the node of each ballot.
        count: ``(B,)`` how many votes it stands for; the votes of a node add up to the number of voters.
        edges: from the nodes to the ballots that they send messages to; every ballot also sees its own node.
        loops: ``(N,)`` position of each node's self-loop among the edges of the attention.
    """

    owner: Tensor
    count: Tensor
    edges: SortedEdges
    loops: Tensor

    @classmethod
    def of(cls, edge_index: Tensor, num_nodes: int, voters: int) -> Ballots:
        """Sort the messages of a graph into ballots."""
        source, destination = edge_index
        pairs, place = torch.unique(destination * voters + group_of(source, voters), return_inverse=True)  # (P,), (E,)
        nodes = torch.arange(num_nodes, device=edge_index.device)
        owner = torch.cat([nodes, pairs // voters])
        count = torch.ones_like(owner)
        count[:num_nodes] = voters - torch.bincount(pairs // voters, minlength=num_nodes)
        edges = sorted_edges(torch.stack([source, num_nodes + place]), owner.numel())
        keyed = sorted_edges(edge_index, num_nodes).edge_index
        loops = torch.empty_like(nodes)
        own = (keyed[0] == keyed[1]).nonzero().view(-1)
        loops[keyed[0, own]] = own
        return cls(owner, count, edges, loops)


_ballots = OncePerTensor(Ballots.of)


class VotesModel(ConfiguredModel):
    r"""Voters that share one network of one attention layer; voter g sees the messages of the sources in group g.

    Every voter also sees the node's own features. The class with the most votes wins, the first of equal ones. The
    logits are the logarithms of the smoothed shares of the votes, ``log((n_c + 1 - c / 4C) / (S + C))``: the part of c,
    counted from 0, orders classes of equal votes. In the gradient of the logits each vote is replaced by the voter's
    softmax (straight-through), so that attacks have a direction.

    The attention of an edge is the mean over the voters: that of the one voter that sees it, divided by S.
    """

    options_class = VotesOptions

    def build(self, in_channels: int, num_classes: int, chosen: Any) -> None:
        self.voters = chosen.voters
        self.layer = OneHopLayer(LAYERS[chosen.base], in_channels, num_classes, chosen)

    @property
    def hops(self) -> int:
        return 1

    @property
    def injection_radius(self) -> int | None:
        return 0

    def hops_behind(self, out: Output) -> int | None:
        return 1

    def capturable(self, new_edges: bool) -> bool:
        return not new_edges

    def ballots(self, edge_index: Tensor, num_nodes: int) -> Ballots:
        """Return the ballots of a graph."""
        return _ballots(edge_index, num_nodes, self.voters)

    def cast(self, h: Tensor, ballots: Ballots, shift: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the logits of every ballot ``(B, C)`` and its attention ``(B + E, H)``, in the ballots' edge order."""
        return self.layer(h.index_select(0, ballots.owner), ballots.edges, shift)

    def tally(self, data: Data, margin: float = 0.0) -> tuple[Tensor, Tensor]:
        """Return the votes of each node for each class ``(N, C)``, and how many of them are close ``(N,)``.

        A vote is close if its logit leads the next by no more than ``margin`` times the largest logit.
        """
        ballots = self.ballots(data.edge_index, data.x.shape[0])
        out, _ = self.cast(self.embed(data.x), ballots)
        first, second = out.topk(2, dim=1).values.unbind(1)
        close = (first - second <= margin * out.abs().amax(1)).to(out.dtype)
        votes = torch.cat([F.one_hot(out.argmax(1), out.size(1)).to(out.dtype), close.unsqueeze(1)], dim=1)
        counts = _counted(votes, ballots, data.x.shape[0]).round().long()
        return counts[:, :-1], counts[:, -1]

    def embed(self, x: Tensor) -> Tensor:
        return self.layer.project(x)

    def propagate(
        self, h: Tensor, edge_index: Tensor, score_shift: Tensor | None = None, edge_weight: Tensor | None = None
    ) -> Output:
        ballots = self.ballots(edge_index, h.size(0))
        out, weights = self.cast(h, ballots, self._shift(ballots, edge_index, score_shift, edge_weight))
        share = out.softmax(1)
        votes = F.one_hot(out.argmax(1), out.size(1)) + share - share.detach()
        counts = _counted(votes, ballots, h.size(0))
        rule = torch.arange(out.size(1), device=out.device) / (4 * out.size(1))  # the first of equal classes wins
        logits = ((counts + 1 - rule) / (self.voters + out.size(1))).log()
        return Output(logits, self._attention(ballots, edge_index, weights, h.size(0)))

    def _shift(
        self, ballots: Ballots, edge_index: Tensor, score_shift: Tensor | None, edge_weight: Tensor | None
    ) -> Tensor | None:
        """Return the shift of the scores of the ballots' edges: messages first, then the ballots' own nodes."""
        messages = edge_index.size(1)
        shift = None if edge_weight is None else F.pad(edge_weight.clamp(min=1e-30).log(), (0, ballots.edges.added))
        if score_shift is not None:
            own = score_shift.index_select(0, ballots.loops).index_select(0, ballots.owner)
            given = torch.cat([score_shift[:messages], own])
            shift = given if shift is None else shift + given
        return shift

    def _attention(self, ballots: Ballots, edge_index: Tensor, weights: Tensor, num_nodes: int) -> Attention:
        keyed = sorted_edges(edge_index, num_nodes)
        sent, own = ballots.edges.as_given(weights.mean(1)).tensor_split([edge_index.size(1)])  # (E,), (B,)
        to_self = sum_at(ballots.owner, (ballots.count * own).unsqueeze(1), num_nodes).squeeze(1)  # (N,)
        share = F.pad(sent, (0, keyed.added)).index_add(0, ballots.loops, to_self)
        return Attention(keyed.edge_index, share / self.voters, keyed.added)


def _counted(votes: Tensor, ballots: Ballots, num_nodes: int) -> Tensor:
    """Add up the votes of each node: ``(B, C) -> (N, C)``."""
    return sum_at(ballots.owner, ballots.count.unsqueeze(1) * votes, num_nodes)


class VotingEnsemble(ReplacedModel):
    """Train voters in place of the model; options as in :class:`VotesOptions`.

    The loss is the mean cross-entropy of all voters on the training nodes. Only edges into training and validation
    nodes are passed while training: one layer needs no others.
    """

    summary = "a vote of networks that each see one group of sources: comes with a floor of its own"
    paper = "https://arxiv.org/abs/2502.00765"
    tags: ClassVar[tuple[str, ...]] = ("node", "replaces-model", "numbered")
    cost: ClassVar[dict[str, float]] = {"copies": 4.0}
    search_space: ClassVar[Space | None] = {
        "defense.voters": Choice(5, 10, 20, 60),
        "defense.base": Choice("gat", "gatv2"),
        "defense.hidden": Choice(64, 128),
        "defense.dropout": Range(0.0, 0.8),
    }

    options_class = VotesOptions
    model_class = VotesModel

    def objective(self, fit: Fit) -> Objective:
        student, data, nodes = fit.student, fit.data, fit.data.x.shape[0]
        assert isinstance(student, VotesModel)
        used = torch.zeros(nodes, dtype=torch.bool, device=data.edge_index.device)
        used[fit.split.train] = used[fit.split.val] = True
        edge_index = data.edge_index[:, used[data.edge_index[1]]]
        ballots = student.ballots(edge_index, nodes)
        learning = torch.isin(ballots.owner, fit.split.train).nonzero().view(-1)
        labels = data.y[ballots.owner[learning]]
        weight = ballots.count[learning] / (student.voters * fit.split.train.numel())

        def terms(epoch: int) -> dict[str, Tensor]:
            out, _ = student.cast(student.embed(data.x), ballots)
            return {"prediction": (weight * F.cross_entropy(out[learning], labels, reduction="none")).sum()}

        output: Callable[[], Output] = lambda: student.propagate(student.embed(data.x), edge_index)  # noqa: E731
        return Objective(terms, output=output, capturable=True)
