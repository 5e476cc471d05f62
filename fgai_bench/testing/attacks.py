"""Checks of attacks: limits, truthful ledgers, preserved originals, determinism, and no side effects."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks import Attacked, BudgetExceeded, Ledger, ThreatModel
from fgai_bench.metrics import topk_overlap
from fgai_bench.models import align
from fgai_bench.models.base import AttentionModel, Output
from fgai_bench.registry import Entry
from fgai_bench.testing.checks import CheckFailed, CheckList, CheckSkipped, require
from fgai_bench.testing.fixture import tiny_graph, tiny_problem, trained_model
from fgai_bench.testing.traces import disturbed, no_trace_on, no_trace_on_rng, same

SCENARIOS = ("injection", "edges", "features")
BUDGET: dict[str, Any] = {
    "nodes": 3,
    "edges_per_node": 5,
    "edges": 6,
    "epsilon": 0.25,
    "feature_low": -0.5,
    "feature_high": 1.0,
    "steps": 3,
}
SLACK = 1e-6
"""Of a limit, for what single precision rounds."""


@dataclass(frozen=True)
class AttackSubject:
    """An attack to look at; its scenario is the one that its tags name, else injection."""

    entry: Entry[Any]
    expected_failures: Mapping[str, str] = field(default_factory=dict)

    @property
    def tags(self) -> frozenset[str]:
        """Those of the entry, with the scenario."""
        return self.entry.tags | {self.scenario}

    @property
    def scenario(self) -> str:
        """What the attack changes."""
        return next((scenario for scenario in SCENARIOS if scenario in self.entry.tags), "injection")

    def threat(self, **changes: Any) -> ThreatModel:
        """A small budget in the attack's scenario."""
        return ThreatModel(**{**BUDGET, "scenario": self.scenario, **changes})

    def attacked(
        self,
        data: Data | None = None,
        threat: ThreatModel | None = None,
        seed: int = 0,
        model: AttentionModel | None = None,
        **options: Any,
    ) -> Attacked:
        """The attack on the test nodes of the tiny graph."""
        data = tiny_graph() if data is None else data
        attack, victim = self.entry.load()(), model or trained_model()
        found = attack(victim, data, data.test_index, threat=threat or self.threat(), seed=seed, **options)
        require(isinstance(found, Attacked), f"an attack must return Attacked, not {type(found).__name__}")
        return found

    @cached_property
    def found(self) -> Attacked:
        """The result with the small budget and seed 0, for the checks that only look at it."""
        return self.attacked()


def subject(entry: Entry[Any]) -> AttackSubject:
    """The registered attack ``entry`` on a trained GAT."""
    return AttackSubject(entry, getattr(entry.load(), "expected_failures", {}))


CHECKS: CheckList[AttackSubject] = CheckList()


@CHECKS.add()
def check_zero_budget_is_identity(subject: AttackSubject) -> None:
    """Without a budget the graph stays as it is, and the ledger says that nothing was spent."""
    data = tiny_graph()
    found = subject.attacked(data, subject.threat(nodes=0, edges=0, epsilon=0.0))
    for key in ("x", "edge_index", "y"):
        require(same(found.data[key], data[key]), f"data.{key} has changed")
    spent = {what: figure for what, figure in recount(data, found.data).items() if figure}
    require(not spent, f"the attack spent {spent}")


@CHECKS.add()
def check_limits_hold(subject: AttackSubject) -> None:
    """Whatever the seed and the budget, no limit of the threat model is passed."""
    narrow = {"feature_low": 0.25, "feature_high": 0.5}
    budgets: list[dict[str, Any]] = [{}, {"nodes": 1, "edges_per_node": 40, "edges": 1}, narrow]
    for seed, changes in enumerate(budgets):
        data, threat = tiny_graph(), subject.threat(**changes)
        require_within(threat, data, subject.attacked(data, threat, seed).data, data.test_index)


@CHECKS.add()
def check_originals_are_preserved(subject: AttackSubject) -> None:
    """Original nodes come first, original edges are kept in their order, labels and split stay."""
    data = tiny_graph()
    found = subject.found.data
    edges, nodes = data.edge_index.size(1), data.x.size(0)
    require(same(found.edge_index[:, :edges], data.edge_index), "the original edges do not come first, in their order")
    require(found.y is not None and same(found.y[:nodes], data.y), "the labels of original nodes have changed")
    require(found.y.numel() == found.x.size(0), "there is not one label for each node")
    for key in ("train_index", "val_index", "test_index"):
        require(key in found and same(found[key], data[key]), f"data.{key} has changed")


@CHECKS.add()
def check_input_unchanged(subject: AttackSubject) -> None:
    """The graph that is handed in stays as it is, and the attacked one shares no tensor that could change it."""
    data = tiny_graph()
    with no_trace_on(data):
        found = subject.attacked(data)
    require(found.data is not data, "the attack returns the very graph it was given")


@CHECKS.add()
def check_same_seed_same_result(subject: AttackSubject) -> None:
    """One seed gives one attacked graph, and one curve."""
    one, two = subject.found, subject.attacked()
    for key in ("x", "edge_index"):
        require(same(one.data[key], two.data[key]), f"data.{key} differs between two runs")
    require(one.curve == two.curve, "the curve differs between two runs")


@CHECKS.add(unless=("convergent",))
def check_other_seed_other_result(subject: AttackSubject) -> None:
    """Another seed gives another attacked graph."""
    one, two = subject.found.data, subject.attacked(seed=1).data
    require(not (same(one.x, two.x) and same(one.edge_index, two.edge_index)), "two seeds give one graph")


@CHECKS.add(needs=("gradient",))
def check_objective_never_falls(subject: AttackSubject) -> None:
    """A gradient attack ends with at least the objective it began with, and its curve is finite."""
    found = subject.found
    if not found.curve and found.ledger.gradient_calls:
        raise CheckSkipped("the strongest of its members has no curve")
    require(len(found.curve) > 1, f"the curve has {len(found.curve)} points")
    require(all(math.isfinite(value) for value in found.curve), "the curve is not finite")
    first, last = found.curve[0], found.curve[-1]
    require(last >= first - SLACK, f"the objective fell from {first:.6g} to {last:.6g}")


@CHECKS.add(needs=("gradient", "prediction"))
def check_prediction_is_hurt(subject: AttackSubject) -> None:
    """The search of a gradient attack on the prediction makes its targets' clean predictions less likely."""
    data, model = tiny_graph(), trained_model()
    start, end = subject.attacked(data, subject.threat(steps=0)).data, subject.found.data
    with torch.no_grad():
        clean, *others = (model(graph).logits[data.test_index] for graph in (data, start, end))
    before, after = (float(F.cross_entropy(logits, clean.argmax(1))) for logits in others)
    require(after > before, f"their loss is {before:.6g} where the search starts, {after:.6g} where it ends")


@CHECKS.add(needs=("gradient", "attention"))
def check_attention_is_moved(subject: AttackSubject) -> None:
    """A gradient attack on the attention keeps no more of its top half in place than its starting point does."""
    data, model = tiny_graph(), trained_model()
    graphs = subject.attacked(data, subject.threat(steps=0)).data, subject.found.data
    with torch.no_grad():
        clean, *others = (model(graph).attention for graph in (data, *graphs))
    start, end = (topk_overlap(*align(clean, other), data.edge_index.size(1) // 2) for other in others)
    require(end <= start, f"the overlap went from {start:.3g} at the start to {end:.3g}")


@CHECKS.add()
def check_kept_predictions_are_counted(subject: AttackSubject) -> None:
    """An attack that says which share of the predictions it kept says the truth."""
    data, model, found = tiny_graph(), trained_model(), subject.found
    if found.kept is None:
        raise CheckSkipped("it says nothing about kept predictions")
    with torch.no_grad():
        before, after = (model(graph).logits[data.test_index].argmax(1) for graph in (data, found.data))
    share = float((before == after).float().mean())
    require(abs(found.kept - share) <= SLACK, f"it says {found.kept:.3g}, counted are {share:.3g}")


@CHECKS.add(needs=("gradient",))
def check_readout_is_used(subject: AttackSubject) -> None:
    """A gradient attack looks at the output through the readout that it is handed."""
    looks: list[int] = []
    targets = tiny_problem().targets

    def readout(out: Output) -> Tensor:
        looks.append(1)
        return out.logits[targets]

    subject.attacked(readout=readout)
    require(bool(looks), "the readout was never called")


@CHECKS.add()
def check_model_untouched(subject: AttackSubject) -> None:
    """The model keeps its weights, its gradients, its ``requires_grad``, and the mode of each of its parts."""
    model = disturbed(trained_model())
    with no_trace_on(model):
        subject.attacked(model=model)


@CHECKS.add()
def check_mode_does_not_matter(subject: AttackSubject) -> None:
    """A model in training mode is attacked as it predicts: the result is that of evaluation mode."""
    one, two = subject.attacked(model=trained_model().train()).data, subject.found.data
    require(same(one.x, two.x) and same(one.edge_index, two.edge_index), "the results differ")


@CHECKS.add()
def check_global_rng_untouched(subject: AttackSubject) -> None:
    """The global random state stays as it was."""
    with no_trace_on_rng():
        subject.attacked()


@CHECKS.add()
def check_ledger_tells_the_truth(subject: AttackSubject) -> None:
    """The ledger says what a count on the attacked graph says."""
    found = subject.found
    for what, counted in recount(tiny_graph(), found.data).items():
        said = getattr(found.ledger, what)
        require(abs(said - counted) <= SLACK, f"the ledger says {what} = {said:g}, counted are {counted:g}")


@CHECKS.add(needs=("gradient",))
def check_gradients_are_counted(subject: AttackSubject) -> None:
    """The ledger of a gradient attack counts its gradients: at least one, and more in more steps."""
    few = subject.attacked(threat=subject.threat(steps=1)).ledger.gradient_calls
    many = subject.found.ledger.gradient_calls
    require(0 < few < many, f"{few} gradients in 1 step, {many} in {BUDGET['steps']}")


@CHECKS.add()
def check_overrun_is_an_error(subject: AttackSubject) -> None:
    """The result is held against the threat model, whose refusal reaches the caller."""
    try:
        subject.attacked(threat=_Refusing(**subject.threat().model_dump()))
    except BudgetExceeded:
        return
    raise CheckFailed("a threat model that refuses every result was not heard")


@CHECKS.add()
def check_sparse_features(subject: AttackSubject) -> None:
    """Sparse features stay sparse, inside the limits, and the ledger is true for them, too."""
    data, dense = tiny_graph(sparse=True), tiny_graph()
    found = subject.attacked(data)
    require(found.data.x.layout == torch.sparse_csr, f"sparse features have become {found.data.x.layout}")
    attacked = Data(x=found.data.x.to_dense(), edge_index=found.data.edge_index)
    require_within(subject.threat(), dense, attacked, dense.test_index)
    for what, counted in recount(dense, attacked).items():
        require(abs(getattr(found.ledger, what) - counted) <= SLACK, f"the ledger is wrong about {what}")


class _Refusing(ThreatModel):
    """A threat model for which every result is too much."""

    def check(self, ledger: Ledger) -> None:
        raise BudgetExceeded("refused")


def recount(clean: Data, attacked: Data) -> dict[str, float]:
    """What was spent, counted edge by edge and row by row on dense features: the plain way, to check the ledger by."""
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


def require_within(threat: ThreatModel, clean: Data, attacked: Data, targets: Tensor) -> None:
    """Fail if the attacked graph is not within the threat model; each limit is looked at by itself."""
    spent, nodes = recount(clean, attacked), clean.x.size(0)
    new = attacked.edge_index[:, clean.edge_index.size(1) :]
    limits: dict[str, dict[str, float]] = {
        "injection": {"nodes": threat.nodes, "edges": threat.nodes * threat.edges_per_node},
        "edges": {"edges": threat.edges},
        "features": {"changed_nodes": threat.nodes, "feature_change": threat.epsilon},
    }
    for what in ("nodes", "edges", "changed_nodes", "feature_change"):
        limit = limits[threat.scenario].get(what, 0)
        require(spent[what] <= limit + SLACK, f"{what} = {spent[what]:g}, allowed are {limit:g}")
    if threat.scenario == "injection":
        _require_injection(threat, attacked.x[nodes:], new, nodes, targets)
    if threat.scenario == "features":
        changed = ((attacked.x - clean.x).abs() > 0).any(1).nonzero().view(-1)
        require(bool(torch.isin(changed, targets).all()), "features of a node that is no target have changed")
    require(bool((new[0] != new[1]).all()), "a new edge is a self-loop")
    require(new.unique(dim=1).size(1) == new.size(1), "a new edge is there twice")
    back = {tuple(edge) for edge in new.t().tolist()}
    require(all((b, a) in back for a, b in back), "a new edge has one direction only")


def _require_injection(threat: ThreatModel, features: Tensor, new: Tensor, nodes: int, targets: Tensor) -> None:
    inside = (features >= threat.feature_low - SLACK) & (features <= threat.feature_high + SLACK)
    require(bool(inside.all()), "an injected feature is outside of the range")
    leaving = new[:, new[0] >= nodes]
    each = torch.bincount(leaving[0] - nodes) if leaving.numel() else torch.zeros(1)
    require(int(each.max()) <= threat.edges_per_node, f"an injected node has {int(each.max())} edges")
    require(bool(torch.isin(leaving[1], targets).all()), "an injected node has an edge to a node that is no target")
