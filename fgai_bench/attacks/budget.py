"""The threat model and the ledger: what an attacker may change, and what one did. Readable without torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from pydantic import Field, model_validator

from fgai_bench.options import Options

Scenario = Literal["injection", "edges", "features"]
SCENARIOS: tuple[Scenario, ...] = get_args(Scenario)
LARGEST = 10**9  # of a count in a budget: more is a slip of the pen, and would not fit into memory


class BudgetExceeded(ValueError):
    """An attack returned more than its threat model allows."""


class ThreatModel(Options):
    """What the attacker may change, and by how much. It belongs to the suite, never to a defense.

    All scenarios are evasion: the model is trained on the clean graph and sees the attacked one at test time.

    ============  ======================================================================================
    scenario      what may change
    ============  ======================================================================================
    injection     ``nodes`` new nodes, ``edges_per_node`` edges each to target nodes, features in the range
    edges         ``edges`` new undirected edges between existing nodes
    features      features of ``nodes`` target nodes, each entry by at most ``epsilon``
    ============  ======================================================================================

    Attributes:
        scenario: what may change, see above.
        targets: the nodes that may be attached to or changed.
        nodes: how many nodes are injected, or changed.
        edges_per_node: edges of each injected node.
        feature_low: smallest value of an injected feature.
        feature_high: largest value of an injected feature.
        step: of the published attack's ascent; the standard attack has its own.
        steps: gradients of the published attack; the standard attack has its own.
        restarts: starting points of the published attack.
        edges: new undirected edges, in the scenario ``edges``.
        epsilon: largest change of an entry, in the scenario ``features``.

    >>> ThreatModel().nodes, ThreatModel().steps
    (20, 10)
    """

    scenario: Scenario = "injection"
    targets: Literal["test", "all"] = "test"
    nodes: int = Field(20, ge=0, le=LARGEST)
    edges_per_node: int = Field(20, ge=0, le=LARGEST)
    feature_low: float = -1.0
    feature_high: float = 1.0
    step: float = Field(0.1, gt=0)
    steps: int = Field(10, ge=0, le=LARGEST)
    restarts: int = Field(1, ge=1, le=LARGEST)
    edges: int = Field(400, ge=0, le=LARGEST)
    epsilon: float = Field(0.1, ge=0)

    @model_validator(mode="after")
    def _range_is_not_empty(self) -> ThreatModel:
        if not self.feature_low <= self.feature_high:
            raise ValueError(f"feature_low {self.feature_low} must not exceed feature_high {self.feature_high}")
        return self

    def check(self, ledger: Ledger) -> None:
        """Raise :class:`BudgetExceeded` with the first figure of the ledger that the budget does not allow."""
        allowed = _ALLOWED[self.scenario](self)
        for what, spent in asdict(ledger).items():
            if what in allowed and spent > allowed[what] + 1e-6:
                raise BudgetExceeded(
                    f"the attack spent {what} = {spent:g}, but its threat model allows {allowed[what]:g}"
                )


_ALLOWED: dict[str, Any] = {
    "injection": lambda t: {
        "nodes": t.nodes,
        "edges": t.nodes * t.edges_per_node,
        "largest_feature": max(abs(t.feature_low), abs(t.feature_high)),
        "changed_nodes": 0,
        "feature_change": 0.0,
    },
    "edges": lambda t: {"nodes": 0, "edges": t.edges, "changed_nodes": 0, "feature_change": 0.0},
    "features": lambda t: {"nodes": 0, "edges": 0, "changed_nodes": t.nodes, "feature_change": t.epsilon},
}


@dataclass(frozen=True)
class Ledger:
    """What an attack really spent, counted on the graph it returned.

    Attributes:
        nodes: injected nodes.
        edges: new undirected edges.
        largest_feature: largest magnitude among the injected features.
        changed_nodes: existing nodes whose features changed.
        feature_change: largest change of an existing feature.
        gradient_calls: gradients of the model that the search took.
    """

    nodes: int = 0
    edges: int = 0
    largest_feature: float = 0.0
    changed_nodes: int = 0
    feature_change: float = 0.0
    gradient_calls: int = 0
