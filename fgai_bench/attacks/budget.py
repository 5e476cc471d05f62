"""The threat model, the ledger, and the one check of a budget: :func:`check_budget`.

Only the check needs torch, and imports it when it is called: suites, plans and reports read this file without it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from fgai_bench.options import Options

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data

Scenario = Literal["injection", "edges", "features"]
SCENARIOS: tuple[Scenario, ...] = get_args(Scenario)
LARGEST_COUNT = 10**9  # of nodes, edges or steps in a budget; more would not fit into memory


class BudgetExceeded(ValueError):
    """Raised when an attacked graph is not one that its threat model allows; the message is one sentence."""


class ThreatError(ValueError):
    """Raised when a budget or the targets of an attack cannot be used; the message is one sentence."""


def scenario_among(tags: Collection[str], default: Scenario = "injection") -> Scenario:
    """Return what an attack with these tags changes; ``default`` where none of them says so.

    >>> scenario_among(("edges", "gradient")), scenario_among(("gradient",))
    ('edges', 'injection')
    """
    return next((scenario for scenario in SCENARIOS if scenario in tags), default)


class ThreatModel(Options):
    """What the attacker may change, and by how much. It belongs to the suite, never to a defense.

    All scenarios are evasion: the model is trained on the clean graph and sees the attacked one at test time.

    ============  ======================================================================================
    scenario      what may change
    ============  ======================================================================================
    injection     ``nodes`` new nodes, ``edges_per_node`` edges each to target nodes, features in the domain
    edges         ``edges`` new undirected edges between existing nodes
    features      features of ``nodes`` target nodes, each entry by at most ``epsilon``
    ============  ======================================================================================

    Attributes:
        scenario: what may change, see above.
        targets: the nodes that may be attached to or changed.
        nodes: how many nodes are injected, or changed.
        edges_per_node: edges of each injected node.
        features: of injected nodes; ``range`` for anything from ``feature_low`` to ``feature_high``, ``in-domain`` for
            rows as real nodes have them (:mod:`fgai_bench.attacks.domain`), with at most as many edges as 95 % of them.
        feature_low: smallest value of an injected feature.
        feature_high: largest value of an injected feature.
        homophily_percentile: injected nodes are as similar to their neighbours as this percentile of the real nodes is.
        step: of the published attack's ascent; so large that ten of them cross the range, if not given.
        steps: gradients of the published attack; the standard attack has its own.
        restarts: starting points of the published attack.
        edges: new undirected edges, in the scenario ``edges``.
        epsilon: largest change of an entry, in the scenario ``features``.

    >>> ThreatModel().nodes, ThreatModel().step, ThreatModel(feature_low=0, feature_high=10.5).step
    (20, 0.1, 1.05)
    """

    scenario: Scenario = "injection"
    targets: Literal["test", "all"] = "test"
    nodes: int = Field(20, ge=0, le=LARGEST_COUNT)
    edges_per_node: int = Field(20, ge=0, le=LARGEST_COUNT)
    features: Literal["range", "in-domain"] = "range"
    feature_low: float = -1.0
    feature_high: float = 1.0
    homophily_percentile: float | None = Field(None, ge=0, le=100)
    step: float = Field(0.1, gt=0)
    steps: int = Field(10, ge=0, le=LARGEST_COUNT)
    restarts: int = Field(1, ge=1, le=LARGEST_COUNT)
    edges: int = Field(400, ge=0, le=LARGEST_COUNT)
    epsilon: float = Field(0.1, ge=0)

    @model_validator(mode="after")
    def _range_is_not_empty(self) -> ThreatModel:
        if not self.feature_low <= self.feature_high:
            raise ValueError(f"feature_low {self.feature_low} must not exceed feature_high {self.feature_high}")
        if "step" not in self.model_fields_set:
            self.__dict__["step"] = self.default_step  # frozen for everybody else
        return self

    @property
    def default_step(self) -> float:
        """Return the step of which ten cross the range."""
        return self.farthest / 10 or 0.1

    @property
    def farthest(self) -> float:
        """Return the largest distance in the range from 0, or from the bound next to it, where searches start."""
        start = min(max(0.0, self.feature_low), self.feature_high)
        return max(self.feature_high - start, start - self.feature_low)

    @model_serializer(mode="wrap")
    def _without_unused_options(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the domain where it is the plain range, so that threat models recorded before it stay the same."""
        unused = (("features", "range"), ("homophily_percentile", None))
        return {key: value for key, value in dump(self).items() if (key, value) not in unused}

    def resolved(self, data: Data) -> ThreatModel:
        """Return the threat model on a graph: in the domain, a node has no more edges than real ones usually have."""
        if self.features == "range" or self.scenario != "injection":
            return self
        from fgai_bench.attacks.domain import usual_degree

        most = usual_degree(data.edge_index, data.x.shape[0])
        return self.model_copy(update={"edges_per_node": min(self.edges_per_node, most)})

    def limits(self) -> dict[str, float]:
        """Return the largest figures that a ledger may have.

        >>> ThreatModel(scenario="edges", edges=4).limits()
        {'nodes': 0, 'edges': 4, 'changed_nodes': 0, 'feature_change': 0.0}
        """
        none = {"nodes": 0, "edges": 0, "changed_nodes": 0, "feature_change": 0.0}
        if self.scenario == "injection":
            return {**none, "nodes": self.nodes, "edges": self.nodes * self.edges_per_node}
        if self.scenario == "edges":
            return {**none, "edges": self.edges}
        return {**none, "changed_nodes": self.nodes, "feature_change": self.epsilon}


@dataclass(frozen=True)
class Ledger:
    """What an attack really spent, counted on the graph it returned."""

    nodes: int = 0  # injected
    edges: int = 0  # new and undirected
    largest_feature: float = 0.0  # largest magnitude among the injected features
    changed_nodes: int = 0  # existing nodes whose features changed
    feature_change: float = 0.0  # largest change of an existing feature
    gradient_calls: int = 0  # gradients of the model that the search took


def check_budget(
    clean: Data, attacked: Data, threat: ThreatModel, targets: Tensor | None = None, gradient_calls: int = 0
) -> Ledger:
    """Count what an attacked graph spends, and raise :class:`BudgetExceeded` if its threat model does not allow it.

    This is the only check of a budget: every attack, ``break``, ``verify`` and the contract checks call it. It checks

    - that original nodes, edges, labels and other attributes are as they were, in their order;
    - that each new edge is new and stands once in both directions;
    - the totals of nodes, edges, changed nodes and the change of a feature;
    - for injected nodes: edges of each node, features in the domain, no edge but to a target;
    - for changed features: that their nodes are targets.

    Bounds are those of the features' precision: a feature of 0.1 in single precision does not exceed 0.1.

    Args:
        clean: the graph before the attack.
        attacked: the graph that the attack returned.
        threat: the budget.
        targets: ``(T,)`` nodes that may be attached to or changed; None for any node.
        gradient_calls: gradients that the search took, for the ledger.
    """
    import torch

    from fgai_bench.attacks.domain import FeatureDomain
    from fgai_bench.data.extend import row_differences
    from fgai_bench.models.features import dense_rows

    threat = threat.resolved(clean)
    _check_originals(clean, attacked)
    nodes, size = clean.x.shape[0], attacked.x.shape[0]
    edges = attacked.edge_index[:, clean.edge_index.shape[1] :]  # (2, P)
    _check_new_edges(clean, edges, size)
    injected = dense_rows(attacked.x, torch.arange(nodes, size, device=attacked.x.device))  # (M, F)
    change = row_differences(clean.x, attacked.x)  # (N,)
    if not bool(torch.isfinite(injected).all() & torch.isfinite(change).all()):
        raise BudgetExceeded("the attacked graph has a feature that is NaN or infinite")
    ledger = Ledger(
        nodes=size - nodes,
        edges=edges.shape[1] // 2,
        largest_feature=float(injected.abs().max()) if injected.numel() else 0.0,
        changed_nodes=int((change > 0).sum()),
        feature_change=float(change.max()) if change.numel() else 0.0,
        gradient_calls=gradient_calls,
    )
    _check_totals(ledger, threat, clean)
    if threat.scenario == "injection":
        _check_attached(edges, nodes, threat, targets)
        domain = FeatureDomain.of(threat, clean).beside(clean, edges, size - nodes)
        if sentence := domain.violation(injected):
            raise BudgetExceeded(sentence)
    elif threat.scenario == "features":
        _check_targets(change.nonzero().flatten(), targets, "the features of node {} have changed")
    return ledger


def _check_originals(clean: Data, attacked: Data) -> None:
    """Raise if original nodes or edges do not come first, or one of their labels or other attributes has changed."""
    import torch

    nodes, edges = clean.x.shape[0], clean.edge_index.shape[1]
    if attacked.x.shape[0] < nodes or not torch.equal(attacked.edge_index[:, :edges], clean.edge_index):
        raise BudgetExceeded("an attack must keep the original nodes and edges first, in their order")
    for name, before in clean.to_dict().items():
        after = attacked.get(name) if name not in ("x", "edge_index") else None
        if after is None or after is before or not isinstance(before, torch.Tensor) or not before.dim():
            continue
        after = after[: before.shape[0]]
        if after.shape != before.shape or not bool(((after == before) | ((after != after) & (before != before))).all()):
            what = "the labels" if name == "y" else f"data.{name}"
            raise BudgetExceeded(f"an attack must not change {what} of the original graph")


def _check_new_edges(clean: Data, edges: Tensor, size: int) -> None:
    """Raise unless each new edge joins two nodes of the graph, is new, and stands once in both directions."""
    import torch

    from fgai_bench.models.attention import edge_keys

    if not edges.numel():
        return
    if int(edges.min()) < 0 or int(edges.max()) >= size:
        raise BudgetExceeded(f"a new edge names a node that does not exist; nodes are numbered from 0 to {size - 1}")
    keys, back = edge_keys(edges, size), edge_keys(edges.flip(0), size)
    once = torch.unique(keys)
    if bool((keys == back).any()) or once.numel() < keys.numel() or not torch.equal(once, torch.unique(back)):
        raise BudgetExceeded("each new edge must stand once in both directions and join two different nodes")
    known = (edges < clean.x.shape[0]).all(0)  # an edge of an injected node is new
    if bool(known.any()) and bool(torch.isin(keys[known], edge_keys(clean.edge_index, size)).any()):
        raise BudgetExceeded("a new edge is an edge of the original graph already")


def _check_totals(ledger: Ledger, threat: ThreatModel, clean: Data) -> None:
    """Raise if a figure of the ledger is larger than its threat model allows."""
    for what, allowed in threat.limits().items():
        spent = getattr(ledger, what)
        if spent > allowed and not (what == "feature_change" and spent <= allowed + _rounding(clean.x, allowed)):
            raise BudgetExceeded(f"the attack spent {what} = {spent:g}, but its threat model allows {allowed:g}")


def _rounding(x: Tensor, epsilon: float) -> float:
    """Return by how much the sum of a feature and ``epsilon`` may be rounded; nothing where nothing may change."""
    import torch

    values = x.values() if x.layout == torch.sparse_csr else x
    return torch.finfo(x.dtype).eps * (float(values.abs().max()) + epsilon) if epsilon and values.numel() else 0.0


def _check_attached(edges: Tensor, nodes: int, threat: ThreatModel, targets: Tensor | None) -> None:
    """Raise if one of the new edges ``(2, P)`` joins no target and injected node, or an injected node has too many."""
    import torch

    if not bool(((edges >= nodes).sum(0) == 1).all()):
        raise BudgetExceeded("each new edge must join an injected node and a target; one joins two nodes of a kind")
    leaving = edges[:, edges[0] >= nodes]
    most = int(torch.bincount(leaving[0] - nodes).max()) if leaving.numel() else 0
    if most > threat.edges_per_node:
        raise BudgetExceeded(f"an injected node has {most} edges, but its threat model allows {threat.edges_per_node}")
    _check_targets(leaving[1], targets, "an injected node is attached to node {}")


def _check_targets(nodes: Tensor, targets: Tensor | None, sentence: str) -> None:
    import torch

    others = nodes[~torch.isin(nodes, targets.to(nodes.device))] if targets is not None else nodes[:0]
    if others.numel():
        raise BudgetExceeded(f"{sentence.format(int(others[0]))}, which is not a target")
