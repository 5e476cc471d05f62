"""Score a trained model on the validation part under a short attack: what a search for settings looks at.

The problem that is handed over has no test part (:meth:`Problem.without_test`). The budget is that of the evaluation,
scaled so that the attacker reaches the same share of the targets.
"""

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks import ATTACKS, Attacked, ThreatModel
from fgai_bench.models.base import AttentionModel
from fgai_bench.seeds import derive
from fgai_bench.tasks.base import Problem


def targets_per_edge(data: Data, targets: Tensor) -> float:
    """Return how many targets an edge to a target reaches within one hop, itself included, on average.

    >>> path = Data(x=torch.zeros(4, 1), edge_index=torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]))
    >>> targets_per_edge(path, torch.arange(4)), targets_per_edge(path, torch.tensor([0, 2]))
    (2.5, 1.0)
    """
    inside = torch.zeros(data.x.shape[0], dtype=torch.bool, device=targets.device).index_fill_(0, targets, True)
    between = int((inside[data.edge_index[0]] & inside[data.edge_index[1]]).sum())
    return 1 + between / max(targets.numel(), 1)


def share_of_budget(problem: Problem, held: Problem) -> float:
    """Return the share of the evaluation's injected nodes with which validation targets are as easily reached.

    ``(n_val / r_val) / (n_test / r_test)``, at most 1, where n counts targets and r is :func:`targets_per_edge`: of
    the neighbours of a validation node few are validation nodes, so an edge to it harms fewer of them.
    """
    validation, test = (p.targets.numel() / targets_per_edge(p.data, p.targets) for p in (held, problem))
    return min(1.0, validation / test) if test else 1.0


def scaled(threat: ThreatModel, share: float) -> ThreatModel:
    """Return the threat model with this share of its injected nodes, at least one if it has any.

    >>> scaled(ThreatModel(nodes=20), 0.37).nodes, scaled(ThreatModel(nodes=20), 0.01).nodes
    (7, 1)
    """
    return threat.model_copy(update={"nodes": min(threat.nodes, max(1, round(share * threat.nodes)))})


def validate(
    held: Problem, model: AttentionModel, threat: ThreatModel, seed: int, attack: str = "validation"
) -> tuple[float, float, Attacked]:
    """Attack the validation part of a problem without a test part; return the clean and attacked score, and the attack.

    The attack draws from a stream of its own, which no evaluation uses.
    """
    drawn = derive(seed, "validation-attack")
    found = ATTACKS[attack]()(model, held.data, held.targets, threat=threat, seed=drawn, readout=held.readout)
    clean, attacked = (held.output(model, graph) for graph in (held.data, found.data))
    score = held.supervision.score
    return float(score(clean)), float(score(attacked)), found
