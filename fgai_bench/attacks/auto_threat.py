"""Choose a threat model that fits a graph: the range of features from its data, nodes and edges from its size."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks.budget import Scenario, ThreatError, ThreatModel
from fgai_bench.attacks.domain import observed

NODE_SHARE = 0.01  # of the nodes that an attacker may add, at most as many as in the paper
MOST_NODES = MOST_EDGES = 20
LARGE_SHARE = 0.05  # of the nodes; more than that is no small change of the graph any more
UNEVEN_RATIO = 10.0  # columns of features whose ranges differ by more are better scaled before
NamedThreat = Literal["auto", "paper", "in-domain"]


@dataclass(frozen=True)
class ChosenThreat:
    """A threat model that was chosen for a graph, with its description and alarms.

    Attributes:
        threat: the budget.
        sentence: what the attacker may do, and why so much.
        alarms: reasons why the budget does not fit the graph.
        narrow: those of the alarms by which a network looks stronger than it is.
    """

    threat: ThreatModel
    sentence: str
    alarms: tuple[str, ...] = ()
    narrow: tuple[str, ...] = ()


def chosen_threat(
    threat: NamedThreat | ThreatModel | str, data: Data, targets: Tensor, scenario: Scenario = "injection"
) -> ChosenThreat:
    """Return the threat model that a name or a :class:`ThreatModel` means on a graph.

    ``auto`` follows the graph (:func:`auto_threat`), ``paper`` is the paper's 20 nodes with 20 edges and features in
    [-1, 1], whatever the graph is like; ``in-domain`` is as many nodes, with features and degrees that real nodes have.
    ``scenario`` is that of a name; a ``ThreatModel`` has its own.
    """
    if isinstance(threat, ThreatModel):
        chosen, reason = threat.resolved(data), "as given"
    elif threat == "paper":
        chosen, reason = ThreatModel(), "as in the paper"
    elif threat == "in-domain":
        chosen, reason = ThreatModel(features="in-domain").resolved(data), "in-domain"
    elif threat == "auto":
        chosen, reason = auto_threat(data, targets), "chosen for this graph"
    else:
        raise ThreatError(f"unknown threat {threat!r}; possible are 'auto', 'paper', 'in-domain' and a ThreatModel")
    if not isinstance(threat, ThreatModel):
        chosen = chosen.model_copy(update={"scenario": scenario})
    narrow = _too_narrow(chosen, data)
    alarms = (*narrow, *_misfits(chosen, data), *_uneven(data, threat))
    return ChosenThreat(chosen, f"{_in_words(chosen)} ({reason})", alarms, narrow)


def _in_words(threat: ThreatModel) -> str:
    """Return what an attacker may do.

    >>> _in_words(ThreatModel(scenario="edges", edges=1))
    '1 new edge between existing nodes'
    """
    plural = "" if threat.nodes == 1 else "s"
    if threat.scenario == "edges":
        return f"{threat.edges:,} new edge{'' if threat.edges == 1 else 's'} between existing nodes"
    if threat.scenario == "features":
        return f"features of {threat.nodes} test node{plural}, each changed by at most {threat.epsilon:g}"
    ends = f"{threat.edges_per_node} edge{'' if threat.edges_per_node == 1 else 's'} each to test nodes"
    given = f"in [{threat.feature_low:g}, {threat.feature_high:g}]"
    kind = given if threat.features == "range" else "like those of real nodes"
    return f"{threat.nodes} new node{plural} with up to {ends}, features {kind}"


def auto_threat(data: Data, targets: Tensor) -> ThreatModel:
    r"""Return the budget for a graph of N nodes with E edges.

    Nodes: :math:`\min(20, \max(1, \lceil N / 100 \rceil))`. Edges per node: the mean in-degree, rounded up, from 1 to
    20, and no more than the targets. Features: from the smallest to the largest entry that the graph has; a graph whose
    entries are all the same gives the attacker that value and 0.

    >>> path = Data(x=torch.eye(4), edge_index=torch.tensor([[0, 1, 2, 1, 2, 3], [1, 2, 3, 0, 1, 2]]))
    >>> threat = auto_threat(path, torch.arange(4))
    >>> threat.nodes, threat.edges_per_node, threat.feature_low, threat.feature_high, threat.step
    (1, 2, 0.0, 1.0, 0.1)
    """
    size = data.x.shape[0]
    nodes = min(MOST_NODES, max(1, math.ceil(NODE_SHARE * size)))
    degree = math.ceil(data.edge_index.shape[1] / size)
    edges = max(1, min(MOST_EDGES, degree, targets.numel()))
    low, high = _feature_range(data)
    if low == high:
        low, high = min(low, 0.0), max(high, 0.0)
    return ThreatModel(
        nodes=nodes,
        edges_per_node=edges,
        feature_low=low,
        feature_high=high,
        edges=nodes * edges,
        epsilon=0.05 * (high - low),
    )


def _feature_range(data: Data) -> tuple[float, float]:
    """Return the smallest and the largest feature of a graph."""
    seen = observed(data.x)
    return float(seen.low.min()), float(seen.high.max())


def _too_narrow(threat: ThreatModel, data: Data) -> tuple[str, ...]:
    """Return a sentence if new nodes have a much smaller range of features than the graph."""
    low, high = _feature_range(data)
    narrow = _has_range(threat) and threat.feature_high - threat.feature_low < 0.5 * (high - low)
    return (_other_range(threat, low, high, "stronger"),) if narrow else ()


def _has_range(threat: ThreatModel) -> bool:
    return (threat.scenario, threat.features) == ("injection", "range")


def _other_range(threat: ThreatModel, low: float, high: float, looks: str) -> str:
    return (
        f"the features lie in [{low:g}, {high:g}], but the attacker may use [{threat.feature_low:g}, "
        f"{threat.feature_high:g}]: the network looks {looks} than it is; use threat='auto'"
    )


def _misfits(threat: ThreatModel, data: Data) -> list[str]:
    """Return sentences on what else does not fit a graph: a wider range of features, few steps, or many new nodes."""
    if threat.scenario != "injection":
        return []
    low, high = _feature_range(data)
    alarms = []
    if _has_range(threat) and threat.feature_high - threat.feature_low > 4 * (high - low) > 0:
        alarms.append(_other_range(threat, low, high, "weaker"))
    if threat.steps * threat.step < 0.999 * threat.farthest:
        alarms.append(
            f"{threat.steps} steps of {threat.step:g} cannot cross [{threat.feature_low:g}, {threat.feature_high:g}]: "
            "the published attack looks weaker than it is; leave step out"
        )
    size = data.x.shape[0]
    if threat.nodes > max(1, LARGE_SHARE * size):
        alarms.append(f"{threat.nodes} nodes are added to a graph of {size}; threat='auto' scales them to the graph")
    return alarms


def _uneven(data: Data, threat: object) -> list[str]:
    """Return a sentence if one range for all columns of the features is much wider than that of most columns."""
    if threat != "auto" or data.x.layout != torch.strided or data.x.shape[1] < 2:
        return []
    spread = observed(data.x).width  # (F,)
    typical = float(spread[spread > 0].median()) if bool((spread > 0).any()) else 0.0
    if typical and float(spread.max()) > UNEVEN_RATIO * typical:
        return [
            f"the columns of the features have different ranges (up to {float(spread.max()):.3g}, typically "
            f"{typical:.3g}), and the attacker may use the widest in all of them; train on scaled columns to compare"
        ]
    return []
