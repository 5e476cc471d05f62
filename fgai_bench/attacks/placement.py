"""Placements: which targets the injected nodes are attached to. Come here to add a way of choosing them.

A placement is a pure function ``(victim, clean, threat, seed) -> (nodes, per_node)``: for every injected node the
distinct targets that it gets an edge to, ``per_node`` at most the threat model's ``edges_per_node``. Two injected nodes
may share a target where there are fewer targets than edges.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fgai_bench.attacks.base import Victim
from fgai_bench.attacks.budget import ThreatModel
from fgai_bench.attacks.objectives import margins
from fgai_bench.data.dataset import score_of
from fgai_bench.fast.cuda_graphs import capturing
from fgai_bench.metrics.prediction import won_pairs
from fgai_bench.models.base import Output
from fgai_bench.seeds import generator, uniform

Placement = Callable[[Victim, Output, ThreatModel, "int | None"], Tensor]


def attached_edges(num_nodes: int, attached: Tensor) -> Tensor:
    """Return the edges of injected nodes in both directions: ``(nodes, per_node) -> (2, 2 * nodes * per_node)``.

    A target of -1 is no edge: an injected node may have fewer than it could.

    >>> attached_edges(5, torch.tensor([[0, 3]])).tolist()
    [[5, 5, 0, 3], [0, 3, 5, 5]]
    """
    nodes, per_node = attached.shape
    new = num_nodes + torch.arange(nodes, device=attached.device).repeat_interleave(per_node)
    there = torch.stack([new, attached.flatten()])
    if not capturing():
        there = there[:, there[1] >= 0]
    return torch.cat([there, there.flip(0)], dim=1)


def random(victim: Victim, clean: Output, threat: ThreatModel, seed: int | None) -> Tensor:
    """Attach every injected node to random targets: the published placement."""
    return random_targets(victim.targets, threat, seed)


def random_targets(targets: Tensor, threat: ThreatModel, seed: int | None) -> Tensor:
    """Return distinct random targets for every injected node, all of them if there are fewer: ``(nodes, per_node)``.

    The draw depends on the seed only, so that every attack with this seed, the random control included, has the same.
    """
    per_node = min(threat.edges_per_node, targets.numel())
    chance = uniform((threat.nodes, targets.numel()), seed, "attack-edges", targets.device)
    return targets[chance.topk(per_node).indices]


def cover(victim: Victim, clean: Output, threat: ThreatModel, seed: int | None, strength: float = 0.0) -> Tensor:
    """Attach to the targets whose neighbourhoods, together, hold the most targets that can still be flipped (greedy).

    A target u that is predicted rightly has a need ``w_u`` of 1, a little more near the border. It is served by an edge
    to itself, and by ``min(1, 3 strength / (d_u + 1)) w_u`` by an edge to one of its neighbours (fully where
    ``strength`` is 0: then it is the classical maximum coverage). Each edge goes where it serves the most need that is
    left. Targets of one class share an injected node.
    """
    need = _flippable(victim, clean)
    chosen = _greedy_cover(victim, need.double().cpu().numpy(), threat, strength)
    return _handed_out(victim, clean, chosen, threat, seed)


def defective(victim: Victim, clean: Output, threat: ThreatModel, seed: int | None) -> Tensor:
    r"""Attach to the targets that TDGIA calls topologically defective: of small degree and near the border.

    .. math:: \lambda_v = (1 - p_v) \left( \frac{0.9}{\sqrt{d_v b}} + \frac{0.1}{d_v} \right)

    with :math:`p_v` the probability of the true class, :math:`d_v` the degree with the loop, b the edges per node.
    """
    truth, logits = victim.truth(clean), victim.read(clean)
    degree = torch.bincount(victim.data.edge_index[1], minlength=victim.data.x.shape[0])[victim.targets].double() + 1
    if logits.shape[0] == victim.targets.numel():
        doubt = 1.05 - logits.softmax(1).gather(1, truth.unsqueeze(1)).squeeze(1).double()
    else:  # links: an end point stands in several pairs, so degrees alone decide
        doubt = torch.ones_like(degree)
    score = doubt * (0.9 / (degree * max(threat.edges_per_node, 1)).sqrt() + 0.1 / degree)
    slots = threat.nodes * min(threat.edges_per_node, victim.targets.numel())
    order = victim.targets[score.argsort(descending=True, stable=True)[:slots]]
    return _handed_out(victim, clean, order, threat, seed)


def ranked_by_pairs(victim: Victim) -> bool:
    """Tell whether ROC-AUC ranks the targets: then a target counts by the pairs that it is in."""
    return victim.readout is None and score_of(victim.data) == "roc_auc"


def stakes(victim: Victim, logits: Tensor, truth: Tensor) -> Tensor:
    """Return what each target still adds to the score, ``(T,)``: 1 where it is right, or the pairs that it wins.

    Of a pair in order both ends have one half, so the mean is the score. A target of the rarer class has more at stake,
    whatever is predicted of it.
    """
    if not ranked_by_pairs(victim):
        return (margins(logits, truth) > 0).to(logits.dtype)
    lead, positive = (logits[:, 1] - logits[:, 0]).detach(), truth == 1
    counts = torch.zeros_like(lead)
    counts[positive], counts[~positive] = (won.to(lead) for won in won_pairs(lead, positive))
    return counts * (lead.numel() / (2 * int(positive.sum()) * int((~positive).sum())))


def _flippable(victim: Victim, clean: Output) -> Tensor:
    """Return the need of each target: what it has at stake; of right predictions up to half more near the border."""
    logits = victim.read(clean)
    if logits.shape[0] != victim.targets.numel():
        return torch.ones(victim.targets.numel(), device=victim.targets.device)
    truth = victim.truth(clean)
    if ranked_by_pairs(victim):
        return stakes(victim, logits, truth)
    margin = margins(logits, truth)
    return (margin > 0) * (1 + 0.5 * torch.exp(-margin.clamp(min=0) / margin.abs().mean().clamp(min=1e-9)))


def _greedy_cover(victim: Victim, need: NDArray[np.float64], threat: ThreatModel, strength: float) -> Tensor:
    """Return the targets that serve the most need, in the order in which they were chosen: ``(slots,)``."""
    data, targets = victim.data, victim.targets.cpu().numpy()
    size = data.x.shape[0]
    source, destination = data.edge_index.cpu().numpy()
    order = np.argsort(source, kind="stable")
    neighbours, begins = destination[order], np.searchsorted(source[order], np.arange(size + 1))
    left = np.zeros(size)
    left[targets] = need
    share = np.ones(size) if not strength else np.minimum(1.0, 3 * strength / (1.0 + np.diff(begins)))
    unit = share * left  # what an edge to a neighbour serves of a node, as long as so much is left
    gain = left + np.bincount(source, weights=unit[destination], minlength=size)
    allowed = np.zeros(size, dtype=bool)
    allowed[targets] = True
    gain[~allowed] = -np.inf
    slots = min(threat.nodes * min(threat.edges_per_node, targets.size), targets.size)
    chosen = np.empty(slots, dtype=np.int64)
    for slot in range(slots):
        pick = int(gain.argmax())
        chosen[slot] = pick
        around = neighbours[begins[pick] : begins[pick + 1]]
        before_own, before = left[pick], np.minimum(left[around], unit[around])
        left[pick] = 0.0
        left[around] -= before
        touched = np.append(around, pick)
        change = np.append(np.minimum(left[around], unit[around]) - before, -min(before_own, unit[pick]))
        own = np.append(-before, -before_own)  # what an edge to the node itself would serve has shrunk by as much
        gain[touched] += own
        counts = begins[touched + 1] - begins[touched]
        inside = np.repeat(begins[touched] - np.append(0, counts.cumsum()[:-1]), counts) + np.arange(counts.sum())
        np.add.at(gain, neighbours[inside], np.repeat(change, counts))
        gain[pick] = -np.inf
    return torch.from_numpy(chosen).to(victim.targets.device)


def _handed_out(victim: Victim, clean: Output, order: Tensor, threat: ThreatModel, seed: int | None) -> Tensor:
    """Hand the chosen targets out, ``per_node`` to an injected node; where they do not suffice, go round again.

    They come by predicted class, so that targets of one injected node need the same message.
    """
    if victim.readout is None:
        order = order[clean.logits[order].argmax(1).argsort(stable=True)]
    targets, per_node = victim.targets, min(threat.edges_per_node, victim.targets.numel())
    slots = threat.nodes * per_node
    if order.numel() >= slots:
        return order[:slots].view(threat.nodes, per_node)
    draw, rest = generator(seed or 0, "attack-placement"), targets[~torch.isin(targets, order)]
    orders = (torch.randperm(order.numel(), generator=draw).to(order.device) for _ in range(threat.nodes))
    return torch.stack([torch.cat([order[shuffled], rest])[:per_node] for shuffled in orders])
