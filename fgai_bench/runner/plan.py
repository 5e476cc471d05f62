"""Plan suites: a pure function turns them into a graph of steps, without torch, clock or disk.

A step is identified by the hash of everything that changes its result: the names, versions and options of all entries
involved, the threat model, the seed, the dataset's declared checksums, and the hashes of the steps that it builds on.
Labels, time limits and the order of steps are not part of the hash, so two suites that need the same step share it. Nor
are metrics: trainings, attacks and clean evaluations measure the built-in ones, and each other metric that a suite
names is a step of its own (``measure``), so that adding one to a finished run computes nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from fgai_bench.attacks import ATTACKS, ThreatModel
from fgai_bench.attacks.threat import SCENARIOS
from fgai_bench.data import DATASETS
from fgai_bench.defenses import DEFENSES, Training
from fgai_bench.explainers import EXPLAINERS
from fgai_bench.metrics import METRICS
from fgai_bench.metrics.base import Where, offered_in
from fgai_bench.models import MODELS
from fgai_bench.registry import Registry
from fgai_bench.store.canonical import plain, sha256
from fgai_bench.suites.errors import SuiteError, sentence
from fgai_bench.suites.schema import AttackLine, DefenseLine, Suite
from fgai_bench.tasks import TASKS

# Increase when a change to the runner, or to a metric that every step measures, changes recorded values.
RESULTS_VERSION = "2"
TEACHER = DefenseLine(name="vanilla")
Kind = Literal["train", "clean", "attack", "measure", "effect", "explain", "agree", "audit"]


@dataclass(frozen=True)
class Step:
    """One unit of work: a training, an attack or a measurement.

    Attributes:
        hash: identity of the step, computed from ``config`` alone.
        kind: what the step does.
        config: everything that changes the result, as plain data.
        inputs: role to hash of the steps whose artifacts it needs: ``teacher``, ``model``, ``other``, ``attacked``,
            ``effects``.
        trial: hash of the training step whose model is trained or measured.
        time_limit: seconds after which the step is stopped.
        exclusive: whether no other step may run at the same time.
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
    """The place of a step in a suite: the labels under which its records appear.

    Attributes:
        kind: kind of the place; a ``measure`` step has ``clean`` or ``attack``, like the step whose records it extends.
        metric: what a ``measure`` step measures; empty for every other step.
        metrics: the names that the suite limits its records to; empty for all.
    """

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
    metric: str = ""
    metrics: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        """Return the member as plain data, without empty ``metric`` and ``metrics``."""
        content = asdict(self)
        return {key: value for key, value in content.items() if value or key not in ("metric", "metrics")}


@dataclass(frozen=True)
class Plan:
    """The steps by hash, each after those it builds on, and their places in the suites."""

    steps: dict[str, Step]
    members: tuple[Member, ...]

    @cached_property
    def trials(self) -> list[Member]:
        """Return the trainings that the suites list, in order, without teachers that only serve other trainings."""
        return [member for member in self.members if self.steps[member.step].kind == "train"]


@dataclass(frozen=True)
class Trial:
    """One trial of a suite (task, dataset, model, defense, seed), before its options are merged."""

    suite: Suite
    task: str
    dataset: str
    model: str
    line: DefenseLine
    seed: int

    def with_defense(self, line: DefenseLine) -> Trial:
        """Return the same trial with another defense."""
        return replace(self, line=line)

    @cached_property
    def settings(self) -> dict[str, dict[str, Any]]:
        """Return the options that the suite sets for this trial; later settings override earlier ones."""
        merged: dict[str, dict[str, Any]] = {key: {} for key in ("model", "training", "defense", "inner", "threat")}
        for setting in self.suite.settings:
            if setting.when.matches(self.task, self.dataset, self.model, self.line):
                for key, values in merged.items():
                    values.update(getattr(setting, key))
        return merged

    def member(self, step: Step, attack: str = "", title: str = "", explainer: str = "", metric: str = "") -> Member:
        """Return the place of a step of this trial in the suite."""
        flags = ("unequal budgets",) if self.suite.unequal_budgets else ()
        where = (self.task, self.dataset, self.model, self.line.name, self.line.title, attack, title, explainer)
        kind = step.kind if not metric else "attack" if attack else "clean"
        wanted = tuple(METRICS.entry(name).name for name in self.suite.metrics)
        return Member(self.suite.name, kind, step.hash, *where, self.seed, flags, metric, wanted)


def plan(suites: Iterable[Suite], device: str = "cpu") -> Plan:
    """Return every step that the suites need, each once, with its places in the suites."""
    draft = _Draft(device)
    for suite in suites:
        for trial in _trials(suite):
            draft.add(trial)
        if suite.agreement:
            draft.add_agreements(suite)
    if not draft.members:
        raise SuiteError(
            "nothing to run: no dataset of the suite is for one of its tasks, or no defense for its models"
        )
    return Plan(draft.steps, tuple(dict.fromkeys(draft.members)))


def _trials(suite: Suite) -> Iterator[Trial]:
    for task, dataset, model, seed, line in product(
        suite.tasks, suite.datasets, suite.models, suite.seeds, suite.defenses
    ):
        if _applies(DATASETS.entry(dataset).tags, task) and (not line.models or model in line.models):
            yield Trial(suite, task, dataset, model, line, seed)


def _applies(tags: frozenset[str], task: str) -> bool:
    """Tell whether an entry is for a task; an entry that names no task is for all of them."""
    return task in tags or not tags & {"node", "link", *TASKS}


class _Draft:
    """A plan under construction."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.steps: dict[str, Step] = {}
        self.members: list[Member] = []

    def add(self, trial: Trial) -> None:
        """Add the steps of a trial: training, clean evaluation, every attack, every explainer and further metric."""
        suite = trial.suite
        trained = self._train(trial)
        config = {**_measurement_config(trained), "sanity": suite.sanity}
        clean = self._step("clean", config, {"model": trained.hash}, suite, trained.hash)
        self.members += [trial.member(trained), trial.member(clean)]
        self._measure(trial, trained, None)
        for attack in suite.attacks:
            if attack.seeds and trial.seed not in attack.seeds:
                continue
            step = self._attack(trial, attack, trained)
            if step is None:
                continue
            self.members.append(trial.member(step, attack.name, attack.title))
            self._measure(trial, trained, step, attack)
            if suite.explainers and _is_explained(attack) and "explained" in TASKS.entry(trial.task).tags:
                self._explain_all(trial, attack, trained, step)

    def _measure(self, trial: Trial, trained: Step, attacked: Step | None, line: AttackLine | None = None) -> None:
        """Add a step for each metric of the suite that is not built in and whose input is available here."""
        where: Where = "clean" if attacked is None else "attack"
        for entry in map(METRICS.entry, trial.suite.metrics):
            if entry.ours or not offered_in(entry.tags, where):
                continue
            config = {
                **_measurement_config(trained),
                "metric": {"name": entry.name, "version": entry.version, "direction": entry.direction},
                "attacked": attacked.hash if attacked else None,
            }
            inputs = {"model": trained.hash, **({"attacked": attacked.hash} if attacked else {})}
            step = self._step("measure", config, inputs, trial.suite, trained.hash)
            names = (line.name, line.title) if line else ("", "")
            self.members.append(trial.member(step, *names, metric=entry.name))

    def add_agreements(self, suite: Suite) -> None:
        """Add steps that compare the attention of each trial with that of the first seed."""
        own = [member for member in self.members if member.suite == suite.name and member.kind == "train"]
        first = {(m.task, m.dataset, m.model, m.label): m.step for m in reversed(own)}
        for member in own:
            other = first[member.task, member.dataset, member.model, member.label]
            if member.step != other:
                config = {**_measurement_config(self.steps[member.step]), "other": other}
                inputs = {"model": member.step, "other": other}
                step = self._step("agree", config, inputs, suite, member.step)
                self.members.append(replace(member, kind=step.kind, step=step.hash))

    def _train(self, trial: Trial) -> Step:
        suite, line, settings = trial.suite, trial.line, trial.settings
        tags = DEFENSES.entry(line.name).tags
        teacher = self._train(trial.with_defense(TEACHER)) if "needs-teacher" in tags else None
        config = {
            "task": _versioned(TASKS, trial.task),
            "dataset": {**_versioned(DATASETS, trial.dataset), "source": _source(trial.dataset)},
            "model": {**_versioned(MODELS, trial.model), "options": {**suite.model, **settings["model"]}},
            "defense": {**_versioned(DEFENSES, line.name), "options": {**settings["defense"], **line.options}},
            "training": _merged(Training, suite.training.model_dump(), settings["training"]),
            "inner": _inner(trial) if "needs-inner" in tags else None,
            "teacher": teacher.hash if teacher else None,
            "seed": trial.seed,
        }
        return self._step("train", config, {"teacher": teacher.hash} if teacher else {}, suite)

    def _attack(self, trial: Trial, attack: AttackLine, trained: Step) -> Step | None:
        """Return the attack on a trained model; None if it would transfer to the model it was crafted on."""
        inputs = {"model": trained.hash}
        tags = ATTACKS.entry(attack.name).tags
        if attack.transfer or "uses-surrogate" in tags:
            inputs["teacher"] = self._train(trial.with_defense(TEACHER)).hash
        if inputs.get("teacher") == trained.hash:  # nothing transfers from a model to itself
            if attack.transfer:
                return None
            del inputs["teacher"]
        config = {
            **_measurement_config(trained),
            "attack": {**_versioned(ATTACKS, attack.name), "options": attack.options},
            "attack_tags": sorted(tags),
            "threat": _threat(trial, attack),
            "crafted_on": inputs["teacher"] if attack.transfer else None,
        }
        return self._step("attack", config, inputs, trial.suite, trained.hash)

    def _explain_all(self, trial: Trial, attack: AttackLine, trained: Step, attacked: Step) -> None:
        """Add the true effects of edges under an attack, and every explainer of the suite to be held against them."""
        suite, inputs = trial.suite, {"model": trained.hash, "attacked": attacked.hash}
        config = {**_measurement_config(trained), "attacked": attacked.hash, "nodes": suite.explained_nodes}
        effects = self._step("effect", config, inputs, suite, trained.hash)
        self.members.append(trial.member(effects, attack.name, attack.title))
        for explainer in suite.explainers:
            asked = {**config, "explainer": _versioned(EXPLAINERS, explainer), "effects": effects.hash}
            explained = self._step("explain", asked, {**inputs, "effects": effects.hash}, suite, trained.hash)
            self.members.append(trial.member(explained, attack.name, attack.title, explainer))

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


def _measurement_config(trained: Step) -> dict[str, Any]:
    """Return the configuration that every measurement shares: the trained model and its problem."""
    shared = {key: trained.config[key] for key in ("task", "dataset", "model", "defense", "seed")}
    return {**shared, "trained": trained.hash}


def _is_explained(attack: AttackLine) -> bool:
    """Tell whether explainers are asked under an attack: it has the suite's budget, and is no control."""
    plain = not (attack.label or attack.threat or attack.transfer or attack.seeds)
    return plain and "control" not in ATTACKS.entry(attack.name).tags


def _versioned(registry: Registry[Any], name: str) -> dict[str, Any]:
    return {"name": name, "version": registry.entry(name).version}


def _source(dataset: str) -> Any:
    """Return the origin that a dataset declares: checksums of its files, options of its generator."""
    declared = DATASETS[dataset]
    files = [[file.path, file.sha256] for file in declared.files]
    return {"files": files, "options": dict(declared.options)}


def _inner(trial: Trial) -> dict[str, Any]:
    inner = trial.line.inner or trial.suite.inner
    threat = _merged(ThreatModel, trial.suite.inner.threat, inner.threat, trial.settings["inner"])
    return {
        "attack": inner.attack,
        "version": ATTACKS.entry(inner.attack).version,
        "options": inner.options,
        "threat": threat,
    }


def _threat(trial: Trial, attack: AttackLine) -> dict[str, Any]:
    """Merge the budgets of suite, trial and attack; the scenario is the attack's own unless its line sets another."""
    own = [scenario for scenario in SCENARIOS if scenario in ATTACKS.entry(attack.name).tags]
    scenario = {"scenario": own[0]} if own else {}
    return _merged(ThreatModel, trial.suite.threat.model_dump(), scenario, trial.settings["threat"], attack.threat)


def _merged(model: type[BaseModel], *layers: Mapping[str, Any]) -> dict[str, Any]:
    """Return all fields of ``model``, where later layers override earlier ones; raise if the values are invalid."""
    values = {key: value for layer in layers for key, value in layer.items()}
    try:
        return model(**values).model_dump()
    except ValidationError as error:
        raise SuiteError(sentence(error, model)) from None
