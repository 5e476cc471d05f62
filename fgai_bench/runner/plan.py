"""The plan: a pure function from suites to a graph of steps. No torch, no clock, no disk.

A step is known by the hash of everything that changes its result: the names, versions and options of all entries
involved, the threat model, the seed, the dataset's declared checksums, and the hashes of the steps that it builds on.
Labels, time limits and the order of things are not part of it, so two suites that want the same thing share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from fgai_bench.attacks import ATTACKS, ThreatModel
from fgai_bench.data import DATASETS
from fgai_bench.defenses import DEFENSES, Training
from fgai_bench.metrics import METRICS
from fgai_bench.models import MODELS
from fgai_bench.registry import Registry
from fgai_bench.runner.canonical import plain, sha256
from fgai_bench.suites.errors import SuiteError, sentence
from fgai_bench.suites.schema import AttackLine, DefenseLine, Suite
from fgai_bench.tasks import EXPLAINERS, TASKS

# Changes when the runner itself, and no entry of a registry, changes what is measured.
RESULTS_VERSION = "1"
SCENARIOS = ("injection", "edges", "features")
TEACHER = DefenseLine(name="vanilla")
Kind = Literal["train", "clean", "attack", "explain", "agree", "audit"]


@dataclass(frozen=True)
class Step:
    """One unit of work.

    Attributes:
        hash: identity; of ``config`` and nothing else.
        kind: what is done.
        config: everything that changes the result, as plain data.
        inputs: role to hash of the steps whose artifacts it needs: ``teacher``, ``model``, ``other``, ``attacked``.
        trial: hash of the training step whose model is trained or measured.
        time_limit: seconds.
        exclusive: to be run alone.
    """

    hash: str
    kind: Kind
    config: dict[str, Any] = field(compare=False)
    inputs: dict[str, str] = field(compare=False)
    trial: str
    time_limit: float | None = None
    exclusive: bool = False


@dataclass(frozen=True)
class Member:
    """Where a step stands in a suite: the labels under which its records appear."""

    suite: str
    kind: Kind
    step: str
    task: str
    dataset: str
    model: str
    defense: str
    label: str
    attack: str
    attack_label: str
    explainer: str
    seed: int
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """Steps by hash, each after those it builds on, and their places in the suites."""

    steps: dict[str, Step]
    members: tuple[Member, ...]

    @cached_property
    def trials(self) -> list[Member]:
        """The trainings that the suites ask for, in order; a teacher that only serves others is not among them."""
        return [member for member in self.members if self.steps[member.step].kind == "train"]

    def dependents(self, hash: str) -> list[Step]:
        """The steps that need the artifacts of this one."""
        return [step for step in self.steps.values() if hash in step.inputs.values()]


@dataclass(frozen=True)
class Cell:
    """One trial of a suite, before its options are known."""

    suite: Suite
    task: str
    dataset: str
    model: str
    line: DefenseLine
    seed: int

    def of(self, line: DefenseLine) -> Cell:
        """The same cell with another defense."""
        return replace(self, line=line)

    @cached_property
    def settings(self) -> dict[str, dict[str, Any]]:
        """What the suite sets for this cell; later settings win."""
        found: dict[str, dict[str, Any]] = {key: {} for key in ("model", "training", "defense", "inner", "threat")}
        for setting in self.suite.settings:
            if setting.when.matches(self.task, self.dataset, self.model, self.line):
                for key, values in found.items():
                    values.update(getattr(setting, key))
        return found

    def member(self, step: Step, attack: str = "", title: str = "", explainer: str = "") -> Member:
        """Where a step of this cell stands."""
        flags = ("unequal budgets",) if self.suite.unequal_budgets else ()
        where = (self.task, self.dataset, self.model, self.line.name, self.line.title, attack, title, explainer)
        return Member(self.suite.name, step.kind, step.hash, *where, self.seed, flags)


def plan(suites: Iterable[Suite], device: str = "cpu") -> Plan:
    """Every step that the suites ask for, each once, and its places."""
    draft = _Draft(device)
    for suite in suites:
        for cell in _cells(suite):
            draft.add(cell)
        if suite.agreement:
            draft.add_agreements(suite)
    if not draft.members:
        raise SuiteError(
            "nothing to run: no dataset of the suite is for one of its tasks, or no defense for its models"
        )
    return Plan(draft.steps, tuple(dict.fromkeys(draft.members)))


def _cells(suite: Suite) -> Iterator[Cell]:
    for task, dataset, model, seed, line in product(
        suite.tasks, suite.datasets, suite.models, suite.seeds, suite.defenses
    ):
        if _applies(DATASETS.entry(dataset).tags, task) and (not line.models or model in line.models):
            yield Cell(suite, task, dataset, model, line, seed)


def _applies(tags: frozenset[str], task: str) -> bool:
    """Whether an entry is for a task; one that names no task is for all of them."""
    return task in tags or not tags & {"node", "link", *TASKS}


class _Draft:
    """The plan while it grows."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.steps: dict[str, Step] = {}
        self.members: list[Member] = []

    def add(self, cell: Cell) -> None:
        """Train one trial, then measure it: clean, under every attack, and with every explainer."""
        suite = cell.suite
        trained = self._train(cell)
        config = {**self._measured(suite, trained), "sanity": suite.sanity}
        clean = self._step("clean", config, {"model": trained.hash}, suite, trained.hash)
        self.members += [cell.member(trained), cell.member(clean)]
        for attack in suite.attacks:
            step = self._attack(cell, attack, trained)
            if step is None:
                continue
            self.members.append(cell.member(step, attack.name, attack.title))
            for explainer in suite.explainers if _is_plain(attack) else ():
                explained = self._explain(suite, trained, step, explainer)
                self.members.append(cell.member(explained, attack.name, attack.title, explainer))

    def add_agreements(self, suite: Suite) -> None:
        """Hold the attention of each trial against that of the first seed."""
        own = [member for member in self.members if member.suite == suite.name and member.kind == "train"]
        first = {(m.task, m.dataset, m.model, m.label): m.step for m in reversed(own)}
        for member in own:
            other = first[member.task, member.dataset, member.model, member.label]
            if member.step != other:
                config = {**self._measured(suite, self.steps[member.step]), "other": other}
                inputs = {"model": member.step, "other": other}
                step = self._step("agree", config, inputs, suite, member.step)
                self.members.append(replace(member, kind=step.kind, step=step.hash))

    def _train(self, cell: Cell) -> Step:
        suite, line, settings = cell.suite, cell.line, cell.settings
        tags = DEFENSES.entry(line.name).tags
        teacher = self._train(cell.of(TEACHER)) if "needs-teacher" in tags else None
        config = {
            "task": _versioned(TASKS, cell.task),
            "dataset": {**_versioned(DATASETS, cell.dataset), "source": _source(cell.dataset)},
            "model": {**_versioned(MODELS, cell.model), "options": {**suite.model, **settings["model"]}},
            "defense": {**_versioned(DEFENSES, line.name), "options": {**settings["defense"], **line.options}},
            "training": _merged(Training, suite.training.model_dump(), settings["training"]),
            "inner": _inner(cell) if "needs-inner" in tags else None,
            "teacher": teacher.hash if teacher else None,
            "seed": cell.seed,
        }
        return self._step("train", config, {"teacher": teacher.hash} if teacher else {}, suite)

    def _attack(self, cell: Cell, attack: AttackLine, trained: Step) -> Step | None:
        """Attack a trained model; None where the attack would be handed over to the very model it was crafted on."""
        inputs = {"model": trained.hash}
        if attack.transfer:
            inputs["teacher"] = self._train(cell.of(TEACHER)).hash
            if inputs["teacher"] == trained.hash:
                return None
        config = {
            **self._measured(cell.suite, trained),
            "attack": {**_versioned(ATTACKS, attack.name), "options": attack.options},
            "attack_tags": sorted(ATTACKS.entry(attack.name).tags),
            "threat": _threat(cell, attack),
            "crafted_on": inputs.get("teacher"),
        }
        return self._step("attack", config, inputs, cell.suite, trained.hash)

    def _explain(self, suite: Suite, trained: Step, attacked: Step, explainer: str) -> Step:
        config = {
            **self._measured(suite, trained),
            "explainer": _versioned(EXPLAINERS, explainer),
            "attacked": attacked.hash,
        }
        inputs = {"model": trained.hash, "attacked": attacked.hash}
        return self._step("explain", config, inputs, suite, trained.hash)

    @staticmethod
    def _measured(suite: Suite, trained: Step) -> dict[str, Any]:
        """What every measurement depends on: the trained model, its problem, and the versions of the metrics."""
        shared = {key: trained.config[key] for key in ("task", "dataset", "model", "defense", "seed")}
        names = suite.metrics or METRICS.names()
        return {**shared, "trained": trained.hash, "metrics": {name: METRICS.entry(name).version for name in names}}

    def _step(
        self, kind: Kind, config: dict[str, Any], inputs: dict[str, str], suite: Suite, trial: str | None = None
    ) -> Step:
        content = {**config, "kind": kind, "threads": suite.threads, "device": self.device, "results": RESULTS_VERSION}
        if suite.exclusive:
            content["exclusive"] = {"time_limit": suite.time_limit}
        content = plain(content)
        hash = sha256(content)
        step = Step(hash, kind, content, inputs, trial or hash, suite.time_limit, suite.exclusive)
        return self.steps.setdefault(hash, step)


def _is_plain(attack: AttackLine) -> bool:
    """Whether an attack is meant with the suite's own budget and through the defended model: those are explained."""
    return not (attack.label or attack.threat or attack.transfer)


def _versioned(registry: Registry[Any], name: str) -> dict[str, Any]:
    return {"name": name, "version": registry.entry(name).version}


def _source(dataset: str) -> Any:
    """What a dataset declares about where it comes from: checksums of its files, options of its generator."""
    declared = DATASETS[dataset]
    files = [[file.path, file.sha256] for file in getattr(declared, "files", ())]
    return {"files": files, "options": dict(getattr(declared, "options", {}))}


def _inner(cell: Cell) -> dict[str, Any]:
    inner = cell.line.inner or cell.suite.inner
    threat = _merged(ThreatModel, cell.suite.inner.threat, inner.threat, cell.settings["inner"])
    return {
        "attack": inner.attack,
        "version": ATTACKS.entry(inner.attack).version,
        "options": inner.options,
        "threat": threat,
    }


def _threat(cell: Cell, attack: AttackLine) -> dict[str, Any]:
    """The suite's budget, this cell's, this attack's; the scenario is the attack's own unless its line says another."""
    own = [scenario for scenario in SCENARIOS if scenario in ATTACKS.entry(attack.name).tags]
    scenario = {"scenario": own[0]} if own else {}
    return _merged(ThreatModel, cell.suite.threat.model_dump(), scenario, cell.settings["threat"], attack.threat)


def _merged(model: type[BaseModel], *layers: Mapping[str, Any]) -> dict[str, Any]:
    """All fields of ``model`` with the later layers winning, or a sentence on why they do not go together."""
    values = {key: value for layer in layers for key, value in layer.items()}
    try:
        return model(**values).model_dump()
    except ValidationError as error:
        raise SuiteError(sentence(error, model)) from None
