"""An attack on the explanation by new edges: change the attention, keep the predictions."""

from functools import partial

import torch
from torch import Tensor

from fgai_bench.attacks.base import Attack, Candidate, Trace, Victim
from fgai_bench.attacks.budget import ThreatModel
from fgai_bench.attacks.edges import absent, with_edges
from fgai_bench.attacks.explanation import ExplanationAttack, crowding, kept_share
from fgai_bench.attacks.objectives import Reference
from fgai_bench.attacks.search import relaxed_gradient
from fgai_bench.metrics import NotApplicable
from fgai_bench.models.base import Output
from fgai_bench.seeds import generator

DESTINATIONS = 250  # nodes to which edges are considered in a round; each to SOURCES others
SOURCES = 40
CHEAPER, DEARER = 0.8, 2.0  # factors of the price of lost margins after a step that kept enough, and after another
HALVINGS = 4  # of the edges of a round that would cost too many predictions


class ExplanationEdges(Attack):
    """New edges between existing nodes that change the attention while the targets' predictions stay what they were.

    Each of the threat model's steps adds some of the edges. Candidates lead to nodes with many edges that little keeps
    in the top half. Their relaxed weights get the gradient of ``ln change - price * mean relu(slack - margin_i)``, with
    ``margin_i`` how far target i is from another prediction; it goes through the attention, which is the explanation.
    Those of the largest gradient are added; half as many, if too few predictions stay. Unlike the paper's attack it
    takes no edge away: original edges are kept in every scenario. It searches the whole graph and not near each
    explained node, and its gradient goes through the last attention, whichever explainer is asked.

    Args:
        loss: the change of attention, as for the attack ``explanation``.
        keep: share of the target predictions that must stay.
    """

    summary = "new edges that change the attention while the predictions stay"
    paper = "https://arxiv.org/abs/2406.06417"
    tags = ("edges", "gradient", "attention", "edge-weight")

    def __init__(self, loss: str = "attention-overlap", keep: float = 0.99) -> None:
        self.loss, self.keep, self.like = loss, keep, ExplanationAttack(loss, keep)

    def search(self, victim: Victim, threat: ThreatModel, seed: int | None) -> Candidate:
        embedded, clean = victim.evaluated()
        reference, draw = Reference.of(clean, victim.read), generator(seed or 0, "attack-explanation-edges")
        pairs, out, price, calls = victim.data.edge_index[:, :0], clean, 1.0, 0
        curve = [float(self.like.change(victim.read(clean), clean, reference))]
        for step in range(threat.steps if threat.edges else 0):
            data = with_edges(victim.data, pairs)
            wanted = round(threat.edges * (step + 1) / threat.steps) - pairs.size(1)
            if wanted < 1:
                continue
            more = absent(self.candidates(victim, out, draw), data.edge_index, embedded.size(0))
            both = torch.cat([more, more.flip(0)], dim=1)
            priced = partial(self.priced, victim, reference, price)
            gradient = relaxed_gradient(victim.model, embedded, data.edge_index, both, priced)
            if gradient is None:
                raise NotApplicable("an attack by the gradient of edges needs a model with edge weights")
            calls += 1
            order = gradient.view(2, -1).sum(0).argsort(descending=True, stable=True)
            always = True  # whether enough predictions were kept
            for number in filter(None, (wanted >> halving for halving in range(HALVINGS))):
                tried = torch.cat([pairs, more[:, order[:number]]], dim=1)
                with torch.no_grad():
                    moved = victim.model.propagate(embedded, with_edges(victim.data, tried).edge_index)
                logits = victim.read(moved)
                change = float(self.like.change(logits, moved, reference))
                enough = bool(kept_share(logits, reference) >= self.keep)
                always &= enough
                if enough and change > curve[-1]:
                    pairs, out = tried, moved
                    curve.append(change)
                    break
            price *= CHEAPER if always else DEARER
        kept = float(kept_share(victim.read(out), reference))
        return Candidate(with_edges(victim.data, pairs), Trace(calls, tuple(curve)), kept)

    def candidates(self, victim: Victim, out: Output, draw: torch.Generator) -> Tensor:
        """Return pairs of a node whose attention is easily changed and another one, drawn anew: ``(2, P)``."""
        crowds, size = crowding(out), victim.data.x.shape[0]
        ends = crowds.argsort(descending=True, stable=True)[: 4 * DESTINATIONS]
        ends = ends[torch.randperm(ends.numel(), generator=draw)[:DESTINATIONS].to(ends.device)]
        others = torch.randint(size, (ends.numel() * SOURCES,), generator=draw).to(ends.device)
        return torch.stack([others, ends.repeat_interleave(SOURCES)])

    def priced(self, victim: Victim, reference: Reference, price: float, out: Output) -> Tensor:
        """Return what is raised: the change of attention less the price of lost margins."""
        return self.like.raised(victim.read(out), out, reference, price)[0]
