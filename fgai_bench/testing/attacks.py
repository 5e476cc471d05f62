"""Check attacks: they keep limits, count truthfully, preserve originals, are deterministic and have no side effects."""

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
from fgai_bench.models.base import Output
from fgai_bench.testing.checks import CheckFailed, CheckSkipped, EntrySubject, require, tagged
from fgai_bench.testing.fixture import tiny_graph, tiny_problem, trained_model
from fgai_bench.testing.traces import disturbed, no_trace_on, same

BUDGET = ThreatModel(nodes=3, edges_per_node=5, edges=6, epsilon=0.25, feature_low=-0.5, feature_high=1.0, steps=3)
EFFORT = 0.1
"""Of a search whose length is fixed: none of these properties needs all of it."""
SLACK = 1e-6  # for rounding in single precision


@dataclass(frozen=True)
class AttackSubject(EntrySubject):
    """An attack to be checked; its scenario is the one among its tags, else injection."""

    def threat(self, **changes: Any) -> ThreatModel:
        """Return a threat model with a small budget in the attack's scenario."""
        return BUDGET.model_copy(update={"scenario": scenario_among(self.tags), **changes})

    def attacked(self, seed: int = 0, **changes: Any) -> Attacked:
        """Attack the test nodes of the tiny graph; ``changes`` replace model, data or threat, or are added."""
        arguments = {"model": trained_model(), "data": tiny_graph(), "threat": self.threat(), **changes}
        model, data, attack = arguments.pop("model"), arguments.pop("data"), self.entry.load()()
        if hasattr(attack, "effort"):
            attack.effort = EFFORT * attack.effort
        return attack(model, data, data.test_index, seed=seed, **arguments)

    @cached_property
    def found(self) -> Attacked:
        """Return the result with the small budget and seed 0, shared by the checks that only read it."""
        return self.attacked()


subject = AttackSubject


def check_limits_hold(subject: AttackSubject) -> None:
    """No limit is exceeded, for several seeds and budgets, zero included; originals come first, as they were."""
    narrow = {"feature_low": 0.25, "feature_high": 0.5}
    nothing = {"nodes": 0, "edges": 0, "epsilon": 0.0}
    budgets: list[dict[str, Any]] = [{}, {"nodes": 1, "edges_per_node": 40, "edges": 1}, narrow, nothing]
    for seed, changes in enumerate(budgets):
        data, threat = tiny_graph(), subject.threat(**changes)
        require_within(threat, data, subject.attacked(seed, data=data, threat=threat).data)


@tagged(needs=("injection",))
def check_in_domain(subject: AttackSubject) -> None:
    """Under ``features: in-domain`` injected rows and degrees are as real ones, on every kind of graph."""
    threat = subject.threat(features="in-domain", edges_per_node=40)
    for kind in ({"isolated": True}, {"binary": True, "sparse": True}):
        data = tiny_graph(**kind)
        require_within(threat, data, subject.attacked(data=data, threat=threat).data)


def check_no_side_effects(subject: AttackSubject) -> None:
    """The given graph, the model with its modes and gradients, and the global random state stay as they were."""
    data, model = tiny_graph(), disturbed(trained_model())
    with no_trace_on(data, model):
        result = subject.attacked(data=data, model=model)
    require(result.data is not data, "the attack returns the very graph it was given")


def check_seed_decides_the_result(subject: AttackSubject) -> None:
    """One seed gives one graph and curve, also of a model in training mode; another seed gives another graph."""
    first, second = subject.found, subject.attacked(model=trained_model().train())
    for key in ("x", "edge_index"):
        require(same(first.data[key], second.data[key]), f"data.{key} differs between two runs")
    require(first.curve == second.curve, "the curve differs between two runs")
    if "convergent" not in subject.tags:
        other = subject.attacked(seed=1).data
        equal = same(first.data.x, other.x) and same(first.data.edge_index, other.edge_index)
        require(not equal, "two seeds give one graph")


@tagged(needs=("gradient",))
def check_search_does_harm(subject: AttackSubject) -> None:
    """The search makes clean predictions less likely, or moves the attention's top half no less than its start does."""
    data, model = tiny_graph(), trained_model()
    # The steps of the threat model do not shorten a fixed search: it is compared with the clean graph.
    start = data if "fixed-search" in subject.tags else subject.attacked(threat=subject.threat(steps=0)).data
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


@tagged(needs=("gradient",))
def check_readout_is_used(subject: AttackSubject) -> None:
    """A gradient attack reads the output through the readout that it is given."""
    looks: list[int] = []
    targets = tiny_problem().targets

    def readout(out: Output) -> Tensor:
        looks.append(1)
        return out.logits[targets]

    subject.attacked(readout=readout)
    require(bool(looks), "the readout was never called")


def check_kept_predictions_are_counted(subject: AttackSubject) -> None:
    """If an attack reports the share of predictions that it kept, a count on the attacked graph agrees."""
    data, model, result = tiny_graph(), trained_model(), subject.found
    if result.kept is None:
        raise CheckSkipped("it says nothing about kept predictions")
    with torch.no_grad():
        before, after = (model(graph).logits[data.test_index].argmax(1) for graph in (data, result.data))
    share = float((before == after).float().mean())
    require(abs(result.kept - share) <= SLACK, f"it says {result.kept:.3g}, counted are {share:.3g}")


@tagged(needs=("gradient",))
def check_gradients_are_counted(subject: AttackSubject) -> None:
    """The ledger of a gradient attack counts its gradients: at least one, and more in more steps."""
    many = subject.found.ledger.gradient_calls
    require(many > 0, "no gradient was counted")
    if "fixed-search" not in subject.tags:
        few = subject.attacked(threat=subject.threat(steps=1)).ledger.gradient_calls
        require(0 < few < many, f"{few} gradients in 1 step, {many} in {BUDGET.steps}")


def check_sparse_features(subject: AttackSubject) -> None:
    """Sparse features stay sparse and within the limits."""
    data, dense = tiny_graph(sparse=True), tiny_graph()
    attacked = subject.attacked(data=data).data
    require(attacked.x.layout == torch.sparse_csr, f"sparse features have become {attacked.x.layout}")
    require_within(subject.threat(), dense, Data(x=attacked.x.to_dense(), edge_index=attacked.edge_index))


def require_within(threat: ThreatModel, clean: Data, attacked: Data) -> None:
    """Raise if the attacked graph is not one that the threat model allows, by the one check of a budget."""
    try:
        check_budget(clean, attacked, threat, clean.test_index)
    except BudgetExceeded as sentence:
        raise CheckFailed(str(sentence)) from None
