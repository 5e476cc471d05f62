r"""Prove the floor ``votes``: to turn a majority, an attacker has to spoil many votes, and each costs an edge.

**Claim.** Let S voters decide on every node by majority, the first of equal classes winning. Let voter g see, at a node
v, the features of v and the messages of those in-neighbours of v that belong to group g, and let every node belong to
one group. An attacker who injects nodes and attaches them to v with k edges changes at most k votes of v, and none of
the votes of nodes that he does not attach to.

**Proof.** Each injected node belongs to one group and is joined to v by at most one edge, so k edges bring messages of
at most k groups to v. A voter of any other group sees at v what it saw before. A node without a new in-edge has no
voter that sees anything new. QED

**Cost of a node.** Let v be correct: its class y has :math:`n_y` votes. To make class c win, the attacker turns k votes
from y to c at best, which gives :math:`n_y - k` against :math:`n_c + k`. If c comes before y it wins equal votes and
needs :math:`k \ge (n_y - n_c) / 2`; otherwise :math:`k > (n_y - n_c) / 2`:

.. math:: k_c = \lceil (n_y - n_c) / 2 \rceil \; (c < y), \qquad k_c = \lfloor (n_y - n_c) / 2 \rfloor + 1 \; (c > y)

The cost of v is the smallest :math:`k_c`. It cannot be paid if it is more than the number of injected nodes.

**Floor.** Every node is turned by edges of its own, so turned nodes cost at most E edges together. The largest number
of nodes that E edges can turn is found by paying for the cheapest first. A vote that rounding alone might turn is taken
for one that the attacker turns for nothing.

**What it does not cover.** Changed features of existing nodes, and new edges between existing nodes.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from fgai_bench.attacks.budget import ThreatModel
from fgai_bench.certificates.base import ROUNDING, Bound, Certificate, Question
from fgai_bench.certificates.reach import starting_points
from fgai_bench.defenses.votes import VotesModel
from fgai_bench.metrics import NotApplicable


class Votes(Certificate):
    """Bound what changes by the votes that have to be spoilt; the module's text holds the proof."""

    summary = "a majority of voters that each see one group of sources: every vote costs an edge"
    paper = "https://arxiv.org/abs/2502.00765"

    def bound(self, question: Question) -> Callable[[ThreatModel], Bound]:
        model, targets = question.model, question.targets
        if not isinstance(model, VotesModel):
            raise NotApplicable("it is no ensemble of voters, as the defense 'votes' trains one")
        right = targets[question.correct]
        votes, close = (counts[right] for counts in model.tally(question.data, ROUNDING))
        prices = (costs(votes, question.data.y[right]) - close).clamp(min=0)  # (correct,)

        def proven(threat: ThreatModel) -> Bound:
            if threat.scenario != "injection":
                raise NotApplicable(f"it bounds injected nodes, not the scenario {threat.scenario!r}")
            edges = starting_points(threat)
            if not edges:
                return Bound(0, 0)
            payable = prices[prices <= threat.nodes].sort().values
            return Bound(int((payable.cumsum(0) <= edges).sum()), min(edges, targets.numel()))

        return proven


def costs(votes: Tensor, y: Tensor) -> Tensor:
    """Return how many votes of each node have to change before its class no longer wins: ``(M, C), (M,) -> (M,)``.

    Where the class does not win now, the cost is 0.

    >>> costs(torch.tensor([[5, 3, 0], [3, 5, 0]]), torch.tensor([0, 1])).tolist()  # equal votes keep class 0
    [2, 1]
    """
    own = votes.gather(1, y.unsqueeze(1))  # (M, 1)
    lead = own - votes
    before = torch.arange(votes.size(1), device=votes.device) < y.unsqueeze(1)  # (M, C) classes that win equal votes
    needed = torch.where(before, (lead + 1).div(2, rounding_mode="floor"), lead.div(2, rounding_mode="floor") + 1)
    never = int(votes.sum()) + 1  # votes that go to the own class cost it nothing
    return needed.clamp(min=0).scatter(1, y.unsqueeze(1), never).amin(1)
