"""Measure one network on one graph: predictions and attention, clean and under every attack. A card is made of it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks import ATTACKS, Attacked, ThreatModel
from fgai_bench.attacks.auto_threat import ChosenThreat
from fgai_bench.attacks.budget import Scenario
from fgai_bench.attacks.catalogue import scenario_of
from fgai_bench.card.attention_check import EdgeEffect, measure_edge_effect
from fgai_bench.certificates import Floor, best_floor
from fgai_bench.data.dataset import score_of
from fgai_bench.data.extend import reached_nodes
from fgai_bench.metrics import NotApplicable, edges_into, uniform_attention
from fgai_bench.metrics.prediction import roc_auc_parts
from fgai_bench.metrics.stability import attention_entropy_normalised, node_jsd_values, node_topk_overlap_values
from fgai_bench.models import AttentionModel
from fgai_bench.models.base import Output
from fgai_bench.tasks.measurement import TOP_SHARE, reached_by_attack
from fgai_bench.tasks.node_classification import NodeProblem

CONTROLS: dict[Scenario, str] = {"injection": "random-injection", "edges": "random-edges"}
SEEDS = 3  # of an attack that takes moments; one whose search is long has one
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Stability:
    """How much the attention of the reached nodes changes: for each draw an array ``(R,)`` with a value per node."""

    overlap: tuple[Values, ...]  # share of the top half of each node's in-edges that stays there
    divergence: tuple[Values, ...]  # Jensen-Shannon divergence of its attention, 0 to ln 2
    null: tuple[Values, ...]  # the same of a uniform attention, which knows nothing


@dataclass(frozen=True)
class AttackOutcome:
    """What one attack leaves."""

    name: str
    right: Values  # (S, T): which test nodes are predicted rightly after each draw; see :class:`Evaluation`
    reached: NDArray[np.bool_]  # (S, T): which test nodes each draw reaches
    stability: Stability | None  # of the attention; None for a network without one, or if no node with edges is reached
    ledger: dict[str, float]  # what the strongest draw spent
    flags: tuple[str, ...]
    seconds: float  # of all draws


@dataclass
class Evaluation:
    """Everything that was measured; see the attributes of its parts."""

    # (T,): which test nodes are predicted rightly on the clean graph, 0 or 1; where ROC-AUC is the score, the part of
    # each in it (``roc_auc_parts``). Its mean is the score.
    right: Values
    guess: float  # the score of knowing nothing: the share of the most common class, or 0.5 for ROC-AUC
    score: str = "f1"  # what ranks predictions on the graph, ``f1`` or ``roc_auc``
    outcomes: dict[str, AttackOutcome] = field(default_factory=dict)  # by attack, the control of the scenario first
    floor: Floor | str = ""  # the highest that can be proven for the same budget, or the reason why none can
    noise: float = 0.0  # the largest difference of a logit between two passes over the clean graph
    entropy: float | None = None  # of the attention as a share of the largest possible; None without attention
    effect: EdgeEffect | str = ""  # the explanation against the measured effect of edges; or why it was not measured
    seconds: dict[str, float] = field(default_factory=dict)  # by part


def evaluated(
    model: AttentionModel,
    problem: NodeProblem,
    chosen: ChosenThreat,
    attacks: Sequence[str],
    seed: int,
    step: Callable[[str], None] = lambda part: None,
) -> Evaluation:
    """Measure a model on a problem under every attack; ``step`` is told the name of the part that begins."""
    started = time.perf_counter()
    step("clean")
    clean = problem.output(model, problem.data)
    right = _right(problem, clean)
    result = Evaluation(right, _guess(problem), score_of(problem.data))
    result.noise = float((problem.output(model, problem.data).logits - clean.logits).abs().max())
    try:
        result.floor = best_floor(model, problem.data, problem.targets, chosen.threat)
    except NotApplicable as reason:
        result.floor = str(reason)
    result.seconds["clean"] = time.perf_counter() - started
    for name in attacks:
        step(name)
        outcome = attacked_outcome(name, model, problem, chosen.threat, seed, clean)
        result.seconds[name] = outcome.seconds
        result.outcomes[name] = outcome
    step("explanation")
    started = time.perf_counter()
    if clean.attention is not None:
        try:
            result.entropy = attention_entropy_normalised(clean.attention)
        except NotApplicable:  # no node has two in-edges to choose between
            result.entropy = 0.0
    explainer = "saliency" if clean.attention is None else "attention-last"
    try:
        result.effect = measure_edge_effect(model, problem, seed, explainer)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError) as error:  # the attacks were paid for: the rest of the card stands
        result.effect = " ".join(str(error).split())
    result.seconds["explanation"] = time.perf_counter() - started
    return result


def with_control(attacks: Sequence[str], scenario: Scenario) -> tuple[str, ...]:
    """Return the attacks, each once, after the random control of a scenario.

    >>> with_control(["prbcd"], "edges"), with_control(["feature-pgd"], "features")
    (('random-edges', 'prbcd'), ('feature-pgd',))
    """
    control = [CONTROLS[scenario]] if scenario in CONTROLS else []
    return tuple(dict.fromkeys([*control, *attacks]))


def draws_of(attack: str) -> int:
    """Return how many seeds an attack is run with: one for a search of fixed, large length, else ``SEEDS``."""
    return 1 if "fixed-search" in ATTACKS.entry(attack).tags else SEEDS


def attacked_outcome(
    name: str, model: AttentionModel, problem: NodeProblem, threat: ThreatModel, seed: int, clean: Output
) -> AttackOutcome:
    """Run one attack with its seeds and measure what each leaves."""
    started = time.perf_counter()
    rows, reached, stabilities, found = [], [], [], []
    for draw in range(draws_of(name)):
        attack: Any = ATTACKS[name]()
        result: Attacked = attack(
            model, problem.data, problem.targets, threat=in_scenario(threat, name), seed=seed + draw
        )
        perturbed = problem.output(model, result.data)
        rows.append(_right(problem, perturbed))
        reached.append(_reached(model, problem, result.data, clean, perturbed))
        stabilities.append(_stability(model, problem, result.data, clean, perturbed))
        found.append(result)
    right = np.stack(rows)
    strongest = found[int(right.mean(1).argmin())]
    flags = tuple(dict.fromkeys(flag for result in found for flag in result.flags))
    ledger = {key: float(value) for key, value in asdict(strongest.ledger).items()}
    known = [draw for draw in stabilities if draw is not None]
    stability = Stability(*zip(*known, strict=True)) if known else None
    took = time.perf_counter() - started
    return AttackOutcome(name, right, np.stack(reached), stability, ledger, flags, took)


def in_scenario(threat: ThreatModel, attack: str) -> ThreatModel:
    """Return the budget in the scenario of an attack."""
    return threat.model_copy(update={"scenario": scenario_of(attack, threat.scenario)})


def _right(problem: NodeProblem, out: Output) -> Values:
    logits, y = out.logits[problem.split.test], problem.data.y[problem.split.test]
    by_rank = score_of(problem.data) == "roc_auc"
    right = roc_auc_parts(logits[:, 1] - logits[:, 0], y == 1) if by_rank else (logits.argmax(1) == y).double()
    return right.cpu().numpy()


def _reached(
    model: AttentionModel, problem: NodeProblem, attacked: Data, clean: Output, perturbed: Output
) -> NDArray[np.bool_]:
    """Return which test nodes an attack reaches: by the network's hops if these are known, and by a changed output."""
    test, hops = problem.split.test, model.hops_behind(clean)
    before, after = clean.logits[test], perturbed.logits[test]
    changed = ~torch.isclose(before, after, rtol=1e-4, atol=1e-5).all(1)
    reached = changed if hops is None else changed | reached_nodes(problem.data, attacked, hops)[test]
    return reached.cpu().numpy()


def _guess(problem: NodeProblem) -> float:
    labels = problem.data.y[problem.split.test]
    most_common = float(torch.bincount(labels).max()) / labels.numel()
    return 0.5 if score_of(problem.data) == "roc_auc" else most_common


def _stability(
    model: AttentionModel, problem: NodeProblem, attacked: Data, clean: Output, perturbed: Output
) -> tuple[Values, Values, Values] | None:
    """Return overlap, divergence and null of one draw, as in :class:`Stability`."""
    if clean.attention is None or perturbed.attention is None:
        return None
    data = problem.data
    reached = reached_by_attack(model, data, attacked, clean, perturbed)
    into = edges_into(clean.attention, reached)
    if not into.of_graph().weight.numel():
        return None
    uniform = [uniform_attention(graph.edge_index, graph.x.shape[0]) for graph in (data, attacked)]
    return (
        _numbers(node_topk_overlap_values(into, perturbed.attention, TOP_SHARE)),
        _numbers(node_jsd_values(into, perturbed.attention)),
        _numbers(node_jsd_values(edges_into(uniform[0], reached), uniform[1])),
    )


def _numbers(nodes_and_values: tuple[Tensor, Tensor]) -> Values:
    return nodes_and_values[1].double().cpu().numpy()
