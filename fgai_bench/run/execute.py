"""Run one step: turn its configuration and input artifacts into a result, without store or scheduler."""

import functools
import json
import os
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import torch
from safetensors.torch import save
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks import ATTACKS, ThreatModel
from fgai_bench.defenses import DEFENSES, Training
from fgai_bench.defenses.out_of_memory import OutOfMemory, require_memory
from fgai_bench.defenses.training import Progress
from fgai_bench.explainers import EXPLAINERS
from fgai_bench.metrics import NotApplicable
from fgai_bench.metrics import measure as measured_cost
from fgai_bench.models import AttentionModel, build_model
from fgai_bench.records import packing
from fgai_bench.records.canonical import sha256
from fgai_bench.records.provenance import environment, plugins_used
from fgai_bench.records.result import Result, Status, storable
from fgai_bench.run.forecast import MEMORY_TOLERANCE, Shape, Size
from fgai_bench.run.timing import TimedEnough, stopwatch, warm_up
from fgai_bench.tasks import TASKS, Problem
from fgai_bench.tasks.attention_sample import attention_sample
from fgai_bench.tasks.definition1 import AuditOptions
from fgai_bench.tasks.definition1 import audit as audit_pair
from fgai_bench.tasks.explanations import effect_offers, explain_offers, measured_effects
from fgai_bench.tasks.floors import measured_floor
from fgai_bench.tasks.measurement import Measured, Offers, measured, pair_offers, value_of
from fgai_bench.tasks.problems import problem_of
from fgai_bench.tasks.validation import scaled
from fgai_bench.tasks.validation import validate as score_on_validation

# The metrics that compare two models trained with different seeds.
METRICS_OF_PAIRS = (
    *("prediction_kept", "g_tvd", "g_tvd_raw", "g_tvd_unchanged"),
    *("g_jsd", "g_jsd_published", "node_jsd", "topk_overlap", "node_topk_overlap"),
)
Inputs = Mapping[str, bytes]


def execute(
    config: Mapping[str, Any], inputs: Inputs, data_root: str | None = None, progress: Progress | None = None
) -> Result:
    """Run one step; an exception becomes a result with a status and a reason."""
    process, started, clock = os.getpid(), time.time(), time.perf_counter()
    torch.set_num_threads(config["threads"])
    try:
        with threadpool_limits(config["threads"]):
            result = storable(STEPS[config["kind"]](config, inputs, problem_of(config, data_root), progress))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        status, reason = diagnosis(error)
        detail = "" if status == "not-applicable" else traceback.format_exc()
        result = storable(Result(status, reason, detail))
    finally:
        if os.getpid() != process:  # a copy of this process, which the step has forked, must not go on as if it were it
            os._exit(0)
    if "model" in inputs and result.status == "ok":  # so that a merge can tell which training it is about
        result = replace(result, facts={**result.facts, "trained_model": sha256(inputs["model"])})
    seconds = time.perf_counter() - clock
    where = {**environment(config["device"], config["threads"]), **plugins_used(config)}
    return replace(result, environment=where, started=started, seconds=seconds)


def diagnosis(error: BaseException) -> tuple[Status, str]:
    """Return the status that an exception gives its step, and the reason in one line.

    >>> diagnosis(NotApplicable("the model has no attention"))
    ('not-applicable', 'the model has no attention')
    >>> diagnosis(ZeroDivisionError("division by zero"))
    ('failed', 'ZeroDivisionError: division by zero')
    """
    try:
        message = " ".join(str(error).split())
    except Exception:  # the message of somebody's exception is somebody's code
        message = "without a message"
    if isinstance(error, NotApplicable):
        return "not-applicable", message
    no_memory = isinstance(error, MemoryError | OutOfMemory | torch.OutOfMemoryError)
    if no_memory or "can't allocate memory" in message:
        return "oom", message or "out of memory"
    return "failed", f"{type(error).__name__}: {message}" if message else type(error).__name__


def train(config: Mapping[str, Any], inputs: Inputs, problem: Problem, progress: Progress | None) -> Result:
    _check_task(config)
    _check_memory(config, problem)
    training = Training(**config["training"])
    fit = functools.partial(_fit, config, inputs, problem)
    warming = warm_up(config, lambda: fit(training.model_copy(update={"epochs": min(1, training.epochs)}), None))
    trained: AttentionModel | None = None
    timed = training.epochs
    try:
        with measured_cost(config["device"], every=0.02) as cost:
            trained = fit(training, stopwatch(config, progress, warming))
    except TimedEnough as stopped:
        timed, cost.seconds = stopped.epochs, stopped.total(training.epochs)
    costs = {"train_seconds": cost.seconds, "train_peak_mib": cost.peak_mib}
    if "exclusive" in config:
        costs |= {"epochs_timed": float(timed), "extrapolated": float(trained is None)}
    facts = {**problem.provenance, "memory": cost.memory}
    if trained is None:
        return Result(cost=costs, flags=(f"extrapolated from {timed} of {training.epochs} epochs",), facts=facts)
    with torch.no_grad():
        score = float(problem.supervision.score(problem.output(trained, problem.training_data)))
    offers = Offers({"model": lambda: (trained,), "validation": lambda: (score,)})
    return Result(
        metrics=measured(offers).metrics,
        cost=costs,
        facts=facts,
        artifacts={"model": packing.pack_model(trained), "history": packing.pack_history(trained.history)},
    )


def _check_task(config: Mapping[str, Any]) -> None:
    """Raise :class:`NotApplicable` if the defense is for other tasks than that of the step, or for another split."""
    name, task = config["defense"]["name"], config["task"]["name"]
    tags = DEFENSES.entry(name).tags
    if task not in tags and tags & set(TASKS):
        raise NotApplicable(f"the defense {name!r} is not for the task {task!r}")
    if config["dataset"].get("split") == "inductive" and "transductive" in tags:
        raise NotApplicable(f"the defense {name!r} knows only the graph that it was trained on")


def _check_memory(config: Mapping[str, Any], problem: Problem) -> None:
    """Raise :class:`OutOfMemory` if the training will certainly not fit its device; nothing is allocated for it yet."""
    x, edges = problem.training_data.x, problem.training_data.edge_index.size(1)
    sparse = x.layout == torch.sparse_csr
    stored = x.values().numel() if sparse else x.numel()
    size = Size(x.shape[0], edges + x.shape[0], x.shape[1], stored, sparse, problem.num_outputs)
    model, defense = config["model"]["name"], config["defense"]["name"]
    shape = Shape.of(model, config["model"]["options"], size.outputs)
    needed = shape and shape.training_bytes(size, defense)
    if needed:
        named = f"{defense} of {model} on {size.nodes:,} nodes and {edges:,} edges"
        require_memory(named, int(needed), config["device"], MEMORY_TOLERANCE)


def validate(config: Mapping[str, Any], inputs: Inputs, problem: Problem, progress: Progress | None) -> Result:
    """Train one model on a problem without a test part and score it on the validation part, clean and attacked."""
    _check_task(config)
    with measured_cost(config["device"], every=0.02) as training:
        trained = _fit(config, inputs, problem, Training(**config["training"]), progress)
    threat = scaled(ThreatModel(**config["validation"]["threat"]), problem.provenance["validation_share"])
    with measured_cost(config["device"], every=0.02) as attacking:
        attack = config["validation"]["name"]
        clean, attacked, found = score_on_validation(problem, trained, threat, config["seed"], attack)
    return Result(
        metrics={"validation_clean": clean, "validation_attacked": attacked},
        cost={"train_seconds": training.seconds, "attack_seconds": attacking.seconds},
        ledger={name: float(value) for name, value in asdict(found.ledger).items()},
        flags=found.flags,
        facts=problem.provenance,
        artifacts={"model": packing.pack_model(trained)} if config["keep"] else {},
    )


def _fit(
    config: Mapping[str, Any], inputs: Inputs, problem: Problem, training: Training, progress: Progress | None
) -> AttentionModel:
    seed, chosen = config["seed"], config["model"]
    model = build_model(chosen["name"], problem.data.x.shape[1], problem.num_outputs, seed=seed, **chosen["options"])
    defense = DEFENSES[config["defense"]["name"]](**config["defense"]["options"])
    fitted = defense.fit(
        model.to(config["device"]),
        problem.training_data,
        problem.training_split,
        seed=seed,
        supervision=problem.supervision,
        teacher=_model("teacher", config, inputs, problem) if "teacher" in inputs else None,
        inner=problem.inner(_inner_options(defense, config["inner"])) if config["inner"] else None,
        training=training,
        progress=progress,
    )
    if not isinstance(fitted, AttentionModel):
        raise TypeError(f"the defense {config['defense']['name']!r} returned {fitted!r:.60} and no model")
    return fitted


def _inner_options(defense: Any, inner: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inner attack as the one flat mapping a task expects: the suite's options override the defense's own.

    Its ``targets`` are the defense's, or the task sets them.
    """
    threat = {key: value for key, value in inner["threat"].items() if key != "targets"}
    return {**getattr(defense, "inner_options", {}), **threat, **inner["options"], "attack": inner["attack"]}


def clean(config: Mapping[str, Any], inputs: Inputs, problem: Problem, progress: Progress | None) -> Result:
    model = _model("model", config, inputs, problem)
    warm_up(config, lambda: problem.clean(model, sanity=config["sanity"]))
    with measured_cost(config["device"], every=0.02) as cost:
        measurements = problem.clean(model, sanity=config["sanity"])
    return _result(measurements, problem, {"evaluate_seconds": cost.seconds, "evaluate_peak_mib": cost.peak_mib})


def attack(config: Mapping[str, Any], inputs: Inputs, problem: Problem, progress: Progress | None) -> Result:
    """Attack a trained model, with an attack crafted on itself or on the vanilla model, and measure it."""
    model = _model("model", config, inputs, problem)
    other = _model("teacher", config, inputs, problem) if "teacher" in inputs else None
    victim = other if config["crafted_on"] and other is not None else model
    threat = ThreatModel(**config["threat"])
    targets = problem.targets
    if threat.targets == "all":
        targets = torch.arange(problem.data.x.shape[0], device=targets.device)
    search = ATTACKS[config["attack"]["name"]](**config["attack"]["options"])
    run = functools.partial(search, victim, problem.data, targets, seed=config["seed"], readout=problem.readout)
    if "uses-surrogate" in config["attack_tags"]:
        run = functools.partial(run, surrogate=other)
    warm_up(config, lambda: problem.attacked(model, run(threat=threat.model_copy(update={"steps": 1}))))
    with measured_cost(config["device"], every=0.02) as attacking:
        attacked = run(threat=threat)
    with measured_cost(config["device"], every=0.02) as evaluating:
        measurements = problem.attacked(model, attacked)
    measurements.curves["objective"] = (tuple(map(float, range(len(attacked.curve)))), attacked.curve)
    cost = {
        "attack_seconds": attacking.seconds,
        "attack_peak_mib": attacking.peak_mib,
        "evaluate_seconds": evaluating.seconds,
        "evaluate_peak_mib": evaluating.peak_mib,
    }
    return replace(
        _result(measurements, problem, cost),
        ledger={name: float(value) for name, value in asdict(attacked.ledger).items()},
        flags=tuple(attacked.flags),
        artifacts={
            "attacked": packing.pack_attacked(problem.data, attacked.data),
            **_attention_around(problem, model, attacked.data, targets),
        },
    )


def _attention_around(problem: Problem, model: AttentionModel, attacked: Data, targets: Tensor) -> dict[str, bytes]:
    """Return a sample of the attention before and after the attack, for figures; empty without attention."""
    before, after = (problem.output(model, graph).attention for graph in (problem.data, attacked))
    if before is None or after is None:
        return {}
    return {"attention": save(attention_sample(before, after, problem.data, targets))}


def agree(config: Mapping[str, Any], inputs: Inputs, problem: Problem, progress: Progress | None) -> Result:
    """Compare the outputs and the attention of two models trained with different seeds."""
    out, other = (problem.output(_model(role, config, inputs, problem), problem.data) for role in ("model", "other"))
    offers = pair_offers(out, other, lambda o: o.logits)
    return _result(measured(offers, METRICS_OF_PAIRS), problem, {})


def measure(config: Mapping[str, Any], inputs: Inputs, problem: Problem, progress: Progress | None) -> Result:
    """Measure one additional metric of a trained model, on the clean graph or on a recorded attacked graph."""
    model, name = _model("model", config, inputs, problem), config["metric"]["name"]
    if "attacked" in inputs:
        offers = problem.attack_offers(model, packing.unpack_attacked(problem.data, inputs["attacked"]))
    else:
        offers = problem.clean_offers(model)
    offers.add(cost=lambda: (json.loads(inputs["costs"]),))
    with measured_cost(config["device"], every=0.02) as cost:
        value = value_of(name, offers)
    return Result(metrics={name: value}, cost={"measure_seconds": cost.seconds}, facts=problem.provenance)


def effect(config: Mapping[str, Any], inputs: Inputs, problem: Problem, progress: Progress | None) -> Result:
    """Measure the true effects of single edges on a sample of nodes, before and after an attack."""
    model = _model("model", config, inputs, problem)
    attacked = packing.unpack_attacked(problem.data, inputs["attacked"])
    with measured_cost(config["device"], every=0.02) as cost:
        effects = measured_effects(problem, model, attacked, config["seed"], config["nodes"])
    result = _result(measured(effect_offers(effects)), problem, {"effect_seconds": cost.seconds})
    return replace(result, artifacts={"effects": packing.pack_effects(effects)})


def explain(config: Mapping[str, Any], inputs: Inputs, problem: Problem, progress: Progress | None) -> Result:
    """Ask an explainer on the clean and on the attacked graph; compare its answers with each other and with effects."""
    model = _model("model", config, inputs, problem)
    attacked = packing.unpack_attacked(problem.data, inputs["attacked"])
    effects = packing.unpack_effects(inputs["effects"], problem.data.edge_index.device)
    explainer = EXPLAINERS[config["explainer"]["name"]]()
    with measured_cost(config["device"], every=0.02) as cost:
        measurements = measured(explain_offers(explainer, problem, model, attacked, effects, config["seed"]))
    return _result(measurements, problem, {"explain_seconds": cost.seconds, "explain_peak_mib": cost.peak_mib})


def certify(config: Mapping[str, Any], inputs: Inputs, problem: Problem, progress: Progress | None) -> Result:
    model = _model("model", config, inputs, problem)
    with measured_cost(config["device"], every=0.02) as cost:
        floor = measured_floor(config, model, problem)
    return _result(floor, problem, {"certify_seconds": cost.seconds})


def audit(config: Mapping[str, Any], inputs: Inputs, problem: Problem, progress: Progress | None) -> Result:
    """Check a defended model against Definition 1."""
    if problem.readout is not None:
        raise NotApplicable("Definition 1 is about the output distribution of nodes, and links have none")
    defended = _model("model", config, inputs, problem)
    itself = config["trained"] == config["teacher"]
    vanilla = defended if itself else _model("teacher", config, inputs, problem)
    outcome = audit_pair(vanilla, defended, problem.data, AuditOptions(**config["audit"]))
    return Result(
        metrics=outcome.metrics(),
        curves=outcome.curves(),
        facts=problem.provenance,
        artifacts={"audit": packing.pack_audit(outcome)},
    )


def _model(role: str, config: Mapping[str, Any], inputs: Inputs, problem: Problem) -> AttentionModel:
    model = packing.unpack_model(inputs[role], config["model"], problem.data.x.shape[1], problem.num_outputs)
    return model.to(config["device"])


def _result(measurements: Measured, problem: Problem, cost: Mapping[str, float]) -> Result:
    return Result(
        metrics={name: float(value) for name, value in measurements.metrics.items()},
        not_applicable=measurements.not_applicable,
        curves=measurements.curves,
        cost=cost,
        facts=problem.provenance,
    )


STEPS: dict[str, Callable[[Mapping[str, Any], Inputs, Problem, Progress | None], Result]] = {
    function.__name__: function
    for function in (train, clean, attack, certify, measure, agree, effect, explain, audit, validate)
}
