"""What a user calls: build or wrap a network, train it with a defense, attack it, and get a card for it.

Every function takes the name of a dataset or any PyG ``Data``: boolean masks (one or several splits) or index vectors,
directed or not, sparse or dense features. See :mod:`fgai_bench.data.user_graph` for what a graph may look like.
"""

import copy
import inspect
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor, nn
from torch_geometric.data import Data

from fgai_bench import models
from fgai_bench.attacks import ATTACKS, Attacked, ThreatModel
from fgai_bench.attacks.auto_threat import NamedThreat, chosen_threat
from fgai_bench.attacks.budget import ThreatError
from fgai_bench.attacks.catalogue import scenario_of
from fgai_bench.card import Card
from fgai_bench.card.evaluation import draws_of, evaluated, in_scenario, with_control
from fgai_bench.card.progress import shown_progress
from fgai_bench.certificates import CERTIFICATES, Floor, best_floor
from fgai_bench.data import DataError, load_dataset, undirected_edge_count
from fgai_bench.data.node_index import node_index
from fgai_bench.data.user_graph import UNLABELLED, given_graph, given_split, num_classes
from fgai_bench.defenses import DEFENSES, Training
from fgai_bench.defenses.base import FitError
from fgai_bench.fast.threads import free_threads
from fgai_bench.models.base import AttentionModel, ModelError, frozen_eval
from fgai_bench.models.pyg_wrapper import FromPyG
from fgai_bench.options import sentence
from fgai_bench.run.preflight import options_model
from fgai_bench.seeds import isolated_rng
from fgai_bench.tasks.node_classification import NodeProblem

Threat = NamedThreat | ThreatModel


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Run a block with gradients and draws of its own, whatever mode and random state the caller has."""
    with torch.inference_mode(False), isolated_rng(0, "network"):
        yield


@_undisturbed()
def build_model(name: str, data: Data | str, seed: int = 0, **options: Any) -> AttentionModel:
    """Return a registered model for a graph, freshly initialised; its sizes are read from the graph.

    >>> from torch_geometric.datasets import KarateClub
    >>> build_model("gat", KarateClub()[0], hidden=4).config["num_classes"]
    4
    """
    graph = given_graph(load_dataset(data) if isinstance(data, str) else data)
    try:
        model = models.build_model(name, graph.x.shape[1], num_classes(graph), seed=seed, **options)
    except ValidationError as error:
        raise ModelError(f"model {name!r}: {sentence(error, options_model(error))}") from None
    return model.to(graph.edge_index.device)


def wrap(module: Any, inputs: Sequence[str] | None = None) -> AttentionModel:
    """Return a user's own network, trained or not, as a model of this package; the module itself stays as it is.

    Its ``forward(x, edge_index, ...)`` or ``forward(data)`` returns logits ``(N, C)``. The last GATConv, GATv2Conv or
    TransformerConv in it gives the attention, or the last layer that calls :func:`mark_attention`. Further arguments
    (``edge_attr``, ...) are taken from the graph under the same name.

    Args:
        module: the network; a model of this package is returned as it is.
        inputs: names of the further arguments that it is given; those that its forward names and the graph carries,
            if not said.
    """
    module = getattr(module, "_orig_mod", module)  # of torch.compile
    if isinstance(module, AttentionModel):
        return module
    if not isinstance(module, nn.Module):
        what, kind = ("the class", module) if isinstance(module, type) else ("an object of the class", type(module))
        raise ModelError(f"a network is needed, a torch.nn.Module, not {what} {kind.__name__}")
    return models.from_pyg(module, inputs=inputs)


@_undisturbed()
def fit(
    defense: str,
    model: nn.Module,
    data: Data | str,
    seed: int = 0,
    *,
    split: int = 0,
    teacher: nn.Module | None = None,
    inner: Mapping[str, Any] | None = None,
    progress: Any = None,
    **options: Any,
) -> AttentionModel:
    """Return the model trained with a defense; the given model stays as it is, and test labels are never seen.

    Args:
        defense: a name of ``DEFENSES``; ``vanilla`` for none.
        model: of :func:`build_model`, or a network of your own.
        data: with training and validation nodes, as masks or indices.
        seed: of dropout, initial weights and inner attack.
        split: which split, where the masks hold several.
        teacher: the trained vanilla model; trained here if the defense needs one and it is not given.
        inner: options of the inner attack (``nodes``, ``edges_per_node``, ``steps``, ``loss``, ...), if it has one.
        progress: is called with ``(epoch, epochs)`` after every epoch.
        options: of the training (``epochs``, ``lr``, ``weight_decay``) and of the defense, by name.
    """
    entry = DEFENSES.entry(defense)
    own = {name: value for name, value in options.items() if name not in Training.model_fields}
    given = {name: value for name, value in options.items() if name in Training.model_fields}
    training = _made(Training, "training of the defense", defense, given)
    try:
        method: Any = _made(entry.load(), "defense", defense, own)
    except FitError as error:
        for name in own:
            if repr(name) in str(error) and (close := get_close_matches(name, Training.model_fields, 1)):
                raise FitError(f"there is no option {name!r}; did you mean {close[0]!r}, of the training?") from None
        raise
    start, problem, _ = _prepared(model, data, split)
    for part in ("train", "val"):
        if not getattr(problem.split, part).numel():
            raise DataError(
                f"training needs {part} nodes; give the graph a {part}_mask or a {part}_index that has some"
            )
    if "replaces-model" not in entry.tags and not any(part.requires_grad for part in start.parameters()):
        raise FitError("the network has nothing to train: no parameter of it has requires_grad=True")
    common: dict[str, Any] = {"supervision": problem.supervision, "training": training, "progress": progress}
    if "needs-teacher" in entry.tags:
        if teacher is not None:
            common["teacher"] = _prepared(teacher, data, split)[0]
        else:
            common["teacher"] = DEFENSES["vanilla"]().fit(start, problem.training_data, problem.split, seed, **common)
    if "needs-inner" in entry.tags:
        asked = {"attack": "injection", **getattr(method, "inner_options", {}), **(inner or {})}
        try:
            common["inner"] = problem.inner({"scenario": scenario_of(asked["attack"]), **asked})
        except ValidationError as error:
            raise FitError(f"the inner attack of {defense!r}: {sentence(error, options_model(error))}") from None
    return method.fit(start, problem.training_data, problem.split, seed, **common)


@_undisturbed()
def attack(
    name: str,
    model: nn.Module,
    data: Data | str,
    threat: Threat = "auto",
    seed: int = 0,
    *,
    targets: Tensor | None = None,
    split: int = 0,
    surrogate: nn.Module | None = None,
    **options: Any,
) -> Attacked:
    """Attack a trained model and return the attacked graph with what was spent: ``.data, .ledger, .curve, .flags``.

    Args:
        name: a name of ``ATTACKS``; ``worst`` is the standard attack.
        model: of this package, or a network of your own.
        data: the clean graph.
        threat: ``auto`` (follows the graph), ``paper`` (20 nodes with 20 edges, features in [-1, 1]), ``in-domain``
            (nodes like real ones) or a ``ThreatModel``; one that does not fit warns, and is a flag of the result.
        seed: of every draw.
        targets: nodes that may be attached to or changed, as a mask or indices; the labelled test nodes, if not given.
        split: which split, where the masks hold several.
        surrogate: another model of the same task, whose weaknesses may transfer.
        options: of the attack.
    """
    entry = ATTACKS.entry(name)
    victim, problem, _ = _prepared(model, data, split)
    aimed = problem.targets if targets is None else _targets(targets, problem.data)
    chosen = chosen_threat(_as_taken_by(name, threat), problem.data, aimed, scenario_of(name))
    for alarm in chosen.alarms:
        warnings.warn(alarm, stacklevel=3)  # past the decorator
    further: dict[str, Any] = {}
    if surrogate is not None and "uses-surrogate" in entry.tags:
        further["surrogate"] = _prepared(surrogate, data, split)[0]
    search: Any = _made(entry.load(), "attack", name, options)
    attacked: Attacked = search(victim, problem.data, aimed, threat=chosen.threat, seed=seed, **further)
    return replace(attacked, flags=(*attacked.flags, *chosen.alarms))


@_undisturbed()
def certify(
    model: nn.Module,
    data: Data | str,
    threat: Threat = "auto",
    *,
    certificate: str | None = None,
    targets: Tensor | None = None,
    split: int = 0,
) -> Floor:
    """Return the highest floor that can be proven: what no attack inside the threat model can go below.

    ``.score`` is the proven share of correct targets, ``.explanation`` the share of targets whose attention provably
    stays, ``.kind`` the certificate. Raises ``fgai_bench.metrics.NotApplicable`` with the reasons if there is no proof.

    Args:
        model: trained; of this package, or a network of your own.
        data: the clean graph.
        threat: as in :func:`attack`.
        certificate: a name of ``CERTIFICATES``; the one with the highest floor, if not given.
        targets: nodes that are scored and may be attached to; the labelled test nodes, if not given.
        split: which split, where the masks hold several.
    """
    names = [certificate] if certificate else list(CERTIFICATES)
    for name in names:
        CERTIFICATES.entry(name)
    trained, problem, _ = _prepared(model, data, split)
    aimed = problem.targets if targets is None else _targets(targets, problem.data)
    return best_floor(trained, problem.data, aimed, chosen_threat(threat, problem.data, aimed).threat, names)


@free_threads()
@_undisturbed()
def evaluate(
    model: nn.Module,
    data: Data | str,
    attacks: Sequence[str] = ("injection", "worst"),
    threat: Threat = "auto",
    seed: int = 0,
    *,
    split: int = 0,
    progress: bool = True,
) -> Card:
    """Return a card that says how far a trained network's predictions and attention can be trusted on a graph.

    Nothing is trained. The network is attacked on its labelled test nodes; every number has a 95 % interval over attack
    seeds and nodes. Attacks that take moments have three seeds; those whose search is long have one.

    Args:
        model: trained; of this package, or a network of your own.
        data: the graph, with test nodes as a mask or indices; without, all labelled nodes outside the other parts.
        attacks: names of ``ATTACKS``. A random control is run beside them, to see whether the searches are worth
            anything; for changed features there is none. The verdict counts attacks of the threat's scenario only.
        threat: ``auto`` takes the range of the features from the graph and scales nodes and edges to it, ``paper`` is
            the paper's, ``in-domain`` has nodes like real ones, or give a ``ThreatModel``. The card says what it was.
            A name means the scenario of the attacks, if they have the same one.
        seed: of the first attack.
        split: which split, where the masks hold several.
        progress: show a bar on a terminal or in a notebook.
    """
    names = (attacks,) if isinstance(attacks, str) else tuple(attacks)
    scenarios = {scenario_of(name) for name in names}
    trained, problem, decided = _prepared(model, data, split)
    common = scenarios.pop() if len(scenarios) == 1 else "injection"
    chosen = chosen_threat(threat, problem.data, problem.targets, common)
    names = with_control(names, chosen.threat.scenario)
    with shown_progress(("clean", *names, "explanation"), progress) as step:
        measured = evaluated(trained, problem, chosen, names, seed, step)
    facts, notes = _facts(trained, problem), _notes(trained, problem, decided, names)
    if isinstance(data, str):
        flattered = "test nodes that the network was trained on would flatter it"
        notes = (f"{data} with its split of seed 0; {flattered}", *notes)
    return Card(_title(trained, facts, problem.data), facts, measured, chosen, notes)


def _prepared(model: nn.Module, data: Data | str, split: int) -> tuple[AttentionModel, NodeProblem, list[str]]:
    """Return a model that fits the graph, the problem on that graph, and sentences on how its split was read."""
    wrapped = wrap(model)
    graph = given_graph(load_dataset(data) if isinstance(data, str) else data).clone()  # a forward may write into it
    parameter = next(wrapped.parameters(), None)
    if parameter is not None:
        graph = graph.to(parameter.device)
    if isinstance(wrapped, FromPyG):
        wrapped = copy.deepcopy(wrapped).on_graph(graph)
        wrapped.config["in_channels"] = wrapped.config["in_channels"] or graph.x.shape[1]
        wrapped = wrapped.held_against(graph)
    parts, decided = given_split(graph, split)
    _check_fit(wrapped, graph)
    return wrapped, NodeProblem(graph, parts), decided


def _check_fit(model: AttentionModel, graph: Data) -> None:
    """Raise if a model cannot be run on a graph, changes it, or has fewer outputs than the graph has classes."""
    expected = model.config.get("in_channels") if not isinstance(model, FromPyG) else None
    if expected is not None and expected != graph.x.shape[1]:
        raise ModelError(f"the model takes {expected} features per node, but the graph has {graph.x.shape[1]}")
    versions = _versions(graph)
    with frozen_eval(model), torch.no_grad():
        logits = model(graph).logits
    changed = [name for name, version in _versions(graph).items() if version != versions[name]]
    if changed:
        raise ModelError(f"the network changes {changed[0]} in place, so its next pass sees another graph; use a copy")
    classes = int(graph.y.max()) + 1
    if logits.shape[1] < classes:
        raise ModelError(f"the network has {logits.shape[1]} outputs, but the labels go up to class {classes - 1}")
    if not bool(torch.isfinite(logits).all()):
        raise ModelError("the network's outputs on the clean graph are not finite")


def _as_taken_by(attack: str, threat: Threat) -> Threat:
    """Return a budget in the scenario of an attack; raise if a threat model asks for another one."""
    if not isinstance(threat, ThreatModel):
        return threat
    taken = in_scenario(threat, attack)
    if taken.scenario != threat.scenario and "scenario" in threat.model_fields_set:
        others = ", ".join(name for name in ATTACKS if scenario_of(name) == threat.scenario)
        raise ThreatError(
            f"{attack} is an attack of the scenario {taken.scenario!r}, but the threat model is of the scenario "
            f"{threat.scenario!r}; attacks of that are {others}"
        )
    return taken


def _versions(graph: Data) -> dict[str, int]:
    """Return how often each tensor of a graph was written into."""
    return {name: value._version for name, value in graph.to_dict().items() if isinstance(value, Tensor)}


def _targets(targets: Any, graph: Data) -> Tensor:
    if isinstance(targets, str):
        raise ThreatError(f"targets must be a boolean mask or a vector of node numbers, not {targets!r}")
    index = node_index(targets, graph.x.shape[0], "targets").to(graph.edge_index.device)
    if not index.numel():
        raise ThreatError("there is no node to attack: targets is empty")
    unlabelled = int((graph.y[index] == UNLABELLED).sum())
    if unlabelled:
        raise ThreatError(f"{unlabelled} of the targets have no label, so that no attack on them can be judged")
    return index


def _made(kind: Any, what: str, name: str, options: Mapping[str, Any]) -> Any:
    """Return an object of a class with these options, or raise a sentence that says what it takes."""
    parameters = inspect.signature(kind).parameters.values()
    known = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    unknown = [option for option in options if option not in known]
    if unknown and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        possible = ", ".join(known) or "none"
        raise FitError(f"the {what} {name!r} has no option {unknown[0]!r}; its options are: {possible}")
    try:
        return kind(**options)
    except ValidationError as error:
        raise FitError(f"the {what} {name!r}: {sentence(error, options_model(error))}") from None


def _facts(model: AttentionModel, problem: NodeProblem) -> dict[str, int]:
    data = problem.data
    return {
        "nodes": data.x.shape[0],
        "edges": data.edge_index.shape[1] if _is_directed(data) else undirected_edge_count(data.edge_index),
        "features": data.x.shape[1],
        "classes": problem.num_outputs,
        "test nodes": problem.targets.numel(),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }


def _is_directed(data: Data) -> bool:
    loops = int((data.edge_index[0] == data.edge_index[1]).sum())
    return 2 * undirected_edge_count(data.edge_index) != torch.unique(data.edge_index, dim=1).shape[1] - loops


def _title(model: AttentionModel, facts: Mapping[str, int], data: Data) -> str:
    name = type(model.module).__name__ if isinstance(model, FromPyG) else type(model).__name__
    kind = "directed" if _is_directed(data) else "undirected"
    return (
        f"{name} ({facts['parameters']:,} parameters) on a graph of {facts['nodes']:,} nodes, "
        f"{facts['edges']:,} {kind} edges, {facts['features']:,} features and {facts['classes']} classes"
    )


def _notes(model: AttentionModel, problem: NodeProblem, decided: list[str], attacks: Sequence[str]) -> tuple[str, ...]:
    data = problem.data
    notes = [*decided]
    if isinstance(model, FromPyG):
        given_to_it = "the graph itself" if model.signature.whole else ", ".join(model.input_names)
        notes += [f"the network is given {given_to_it}", *model.notes]
        unused = [name for name in ("edge_attr", "edge_weight") if name in data and name not in model.input_names]
        notes += [f"the graph's {name} is no input of this network" for name in unused]
        if any(name.startswith("edge_") and name != "edge_index" for name in model.input_names):
            notes.append("new edges have the mean edge attribute of the graph, or the most common one of integers")
    if _is_directed(data):
        notes.append("the graph is directed and stays so; edges of new nodes lead in both directions")
    single = [name for name in attacks if draws_of(name) == 1]
    if single:
        notes.append(f"one attack seed for {' and '.join(single)}, whose search is long: an interval over nodes only")
    notes.append("intervals take the test nodes for a sample of independent nodes")
    return tuple(notes)
