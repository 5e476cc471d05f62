"""Check attacks: they keep limits, count truthfully, preserve originals, are deterministic and have no side effects."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks import Attacked, BudgetExceeded, ThreatModel, check_budget
from fgai_bench.attacks.budget import scenario_among
from fgai_bench.metrics import topk_overlap
from fgai_bench.models import align
from fgai_bench.models.base import AttentionModel, Output
from fgai_bench.testing.checks import CheckFailed, CheckList, CheckSkipped, EntrySubject, require
from fgai_bench.testing.fixture import tiny_graph, tiny_problem, trained_model
from fgai_bench.testing.traces import disturbed, no_trace_on, same

BUDGET: dict[str, Any] = {
    "nodes": 3,
    "edges_per_node": 5,
    "edges": 6,
    "epsilon": 0.25,
    "feature_low": -0.5,
    "feature_high": 1.0,
    "steps": 3,
}
EFFORT = 0.1
"""Of a search whose length is fixed: none of these properties needs all of it."""
SLACK = 1e-6
"""Tolerance on every limit, for rounding in single precision."""


@dataclass(frozen=True)
class AttackSubject(EntrySubject):
    """An attack to be checked; its scenario is the one among its tags, else injection."""

    @property
    def tags(self) -> frozenset[str]:
        """Return the tags of the entry and its scenario."""
        return self.entry.tags | {self.scenario}

    @property
    def scenario(self) -> str:
        """Return what the attack changes: injection, edges or features."""
        return scenario_among(self.entry.tags)

    def threat(self, **changes: Any) -> ThreatModel:
        """Return a threat model with a small budget in the attack's scenario."""
        return ThreatModel(**{**BUDGET, "scenario": self.scenario, **changes})

    def attacked(
        self,
        data: Data | None = None,
        threat: ThreatModel | None = None,
        seed: int = 0,
        model: AttentionModel | None = None,
        **options: Any,
    ) -> Attacked:
        """Attack the test nodes of the tiny graph and return the result."""
        data = tiny_graph() if data is None else data
        attack, victim = self.entry.load()(), model or trained_model()
        if hasattr(attack, "effort"):
            attack.effort = EFFORT * attack.effort
        result = attack(victim, data, data.test_index, threat=threat or self.threat(), seed=seed, **options)
        require(isinstance(result, Attacked), f"an attack must return Attacked, not {type(result).__name__}")
        return result

    @cached_property
    def found(self) -> Attacked:
        """Return the result with the small budget and seed 0, shared by the checks that only read it."""
        return self.attacked()


subject = AttackSubject
CHECKS = CheckList()


@CHECKS.add()
def check_zero_budget_is_identity(subject: AttackSubject) -> None:
    """Without a budget the graph stays as it is, and the ledger says that nothing was spent."""
    data = tiny_graph()
    result = subject.attacked(data, subject.threat(nodes=0, edges=0, epsilon=0.0))
    for key in ("x", "edge_index", "y"):
        require(same(result.data[key], data[key]), f"data.{key} has changed")
    spent = {quantity: figure for quantity, figure in recount(data, result.data).items() if figure}
    require(not spent, f"the attack spent {spent}")


@CHECKS.add()
def check_limits_hold(subject: AttackSubject) -> None:
    """No limit is exceeded, for several seeds and budgets, and originals come first, unchanged and in their order."""
    narrow = {"feature_low": 0.25, "feature_high": 0.5}
    budgets: list[dict[str, Any]] = [{}, {"nodes": 1, "edges_per_node": 40, "edges": 1}, narrow]
    for seed, changes in enumerate(budgets):
        data, threat = tiny_graph(), subject.threat(**changes)
        require_within(threat, data, subject.attacked(data, threat, seed).data)


@CHECKS.add()
def check_no_side_effects(subject: AttackSubject) -> None:
    """The given graph, the model with its modes and gradients, and the global random state stay as they were."""
    data, model = tiny_graph(), disturbed(trained_model())
    with no_trace_on(data, model):
        result = subject.attacked(data, model=model)
    require(result.data is not data, "the attack returns the very graph it was given")


@CHECKS.add()
def check_same_seed_same_result(subject: AttackSubject) -> None:
    """The same seed gives the same attacked graph and the same curve, also of a model in training mode."""
    first, second = subject.found, subject.attacked(model=trained_model().train())
    for key in ("x", "edge_index"):
        require(same(first.data[key], second.data[key]), f"data.{key} differs between two runs")
    require(first.curve == second.curve, "the curve differs between two runs")


@CHECKS.add(unless=("convergent",))
def check_other_seed_other_result(subject: AttackSubject) -> None:
    """Different seeds give different attacked graphs."""
    first, second = subject.found.data, subject.attacked(seed=1).data
    require(not (same(first.x, second.x) and same(first.edge_index, second.edge_index)), "two seeds give one graph")


@CHECKS.add(needs=("gradient",))
def check_objective_never_falls(subject: AttackSubject) -> None:
    """A gradient attack ends with at least the objective it began with, and its curve is finite."""
    result = subject.found
    if not result.curve and result.ledger.gradient_calls:
        raise CheckSkipped("the strongest of its members has no curve")
    require(len(result.curve) > 1, f"the curve has {len(result.curve)} points")
    require(all(math.isfinite(value) for value in result.curve), "the curve is not finite")
    first, last = result.curve[0], result.curve[-1]
    require(last >= first - SLACK, f"the objective fell from {first:.6g} to {last:.6g}")


@CHECKS.add(needs=("gradient",))
def check_search_does_harm(subject: AttackSubject) -> None:
    """The search makes clean predictions less likely, or moves the attention's top half no less than its start does."""
    data, model = tiny_graph(), trained_model()
    # The steps of the threat model do not shorten a fixed search: it is compared with the clean graph.
    start = data if "fixed-search" in subject.tags else subject.attacked(data, subject.threat(steps=0)).data
    with torch.no_grad():
        clean, *others = (model(graph) for graph in (data, start, subject.found.data))
    if "attention" in subject.tags:
        half = data.edge_index.size(1) // 2
        before, after = (topk_overlap(*align(clean.attention, out.attention), half) for out in others)
        require(after <= before, f"the overlap went from {before:.3g} at the start to {after:.3g}")
    else:
        predicted = clean.logits[data.test_index].argmax(1)
        before, after = (float(F.cross_entropy(out.logits[data.test_index], predicted)) for out in others)
        require(after > before, f"their loss is {before:.6g} where the search starts, {after:.6g} where it ends")


@CHECKS.add(needs=("gradient",))
def check_readout_is_used(subject: AttackSubject) -> None:
    """A gradient attack reads the output through the readout that it is given."""
    looks: list[int] = []
    targets = tiny_problem().targets

    def readout(out: Output) -> Tensor:
        looks.append(1)
        return out.logits[targets]

    subject.attacked(readout=readout)
    require(bool(looks), "the readout was never called")


@CHECKS.add()
def check_report_is_true(subject: AttackSubject) -> None:
    """The ledger, and the share of predictions that the attack says it kept, agree with a count on its graph."""
    data, model, result = tiny_graph(), trained_model(), subject.found
    require_counted(result, data, result.data)
    if result.kept is not None:
        with torch.no_grad():
            before, after = (model(graph).logits[data.test_index].argmax(1) for graph in (data, result.data))
        share = float((before == after).float().mean())
        require(abs(result.kept - share) <= SLACK, f"it says {result.kept:.3g}, counted are {share:.3g}")


@CHECKS.add(needs=("gradient",))
def check_gradients_are_counted(subject: AttackSubject) -> None:
    """The ledger of a gradient attack counts its gradients: at least one, and more in more steps."""
    many = subject.found.ledger.gradient_calls
    require(many > 0, "no gradient was counted")
    if "fixed-search" not in subject.tags:
        few = subject.attacked(threat=subject.threat(steps=1)).ledger.gradient_calls
        require(0 < few < many, f"{few} gradients in 1 step, {many} in {BUDGET['steps']}")


@CHECKS.add()
def check_overrun_is_an_error(subject: AttackSubject) -> None:
    """The attack checks its result against the threat model, and the error of an exceeded budget reaches the caller."""
    try:
        subject.attacked(threat=_RejectingThreatModel(**subject.threat().model_dump()))
    except BudgetExceeded:
        return
    raise CheckFailed("a threat model that refuses every result was not heard")


@CHECKS.add()
def check_sparse_features(subject: AttackSubject) -> None:
    """Sparse features stay sparse and within the limits, and the ledger agrees with a count on them."""
    data, dense = tiny_graph(sparse=True), tiny_graph()
    result = subject.attacked(data)
    require(result.data.x.layout == torch.sparse_csr, f"sparse features have become {result.data.x.layout}")
    attacked = Data(x=result.data.x.to_dense(), edge_index=result.data.edge_index)
    require_within(subject.threat(), dense, attacked)
    require_counted(result, dense, attacked)


class _RejectingThreatModel(ThreatModel):
    """A threat model that allows no result, not even the clean graph."""

    def limits(self) -> dict[str, float]:
        return {"nodes": -1}


def recount(clean: Data, attacked: Data) -> dict[str, float]:
    """Count what an attack spent, edge by edge and row by row on dense features, to compare the ledger with."""
    nodes = clean.x.size(0)
    known = {frozenset(edge) for edge in clean.edge_index.t().tolist()}
    new = {frozenset(edge) for edge in attacked.edge_index.t().tolist()} - known
    injected, change = attacked.x[nodes:].abs(), (attacked.x[:nodes] - clean.x).abs()
    return {
        "nodes": attacked.x.size(0) - nodes,
        "edges": len(new),
        "largest_feature": float(injected.max()) if injected.numel() else 0.0,
        "changed_nodes": int((change > 0).any(1).sum()),
        "feature_change": float(change.max()),
    }


def require_counted(result: Attacked, clean: Data, attacked: Data) -> None:
    """Raise if the ledger of a result does not agree with a count on dense graphs."""
    for quantity, counted in recount(clean, attacked).items():
        recorded = getattr(result.ledger, quantity)
        require(abs(recorded - counted) <= SLACK, f"the ledger says {quantity} = {recorded:g}, counted are {counted:g}")


def require_within(threat: ThreatModel, clean: Data, attacked: Data) -> None:
    """Raise if the attacked graph is not one that the threat model allows, by the one check of a budget."""
    try:
        check_budget(clean, attacked, threat, clean.test_index)
    except BudgetExceeded as sentence:
        raise CheckFailed(str(sentence)) from None
