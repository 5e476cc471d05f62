"""Plan suites: a pure function turns them into a graph of steps, without torch, clock or disk.

A step is identified by the hash of everything that changes its result: the names, versions and options of all entries
involved, the threat model, the seed, the content of the data (the checksums that a dataset declares, or a digest of the
graph itself), fingerprints of the code that computes it, and the hashes of the steps that it builds on. Labels, time
limits and the order of steps are not part of the hash, so two suites that need the same step share it. Nor are metrics:
trainings, attacks and clean evaluations measure the built-in ones, and each other metric that a suite names is a step
of its own (``measure``), so that adding one to a finished run computes nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from fgai_bench.attacks import ATTACKS, ThreatModel
from fgai_bench.attacks.catalogue import scenario_of
from fgai_bench.certificates import CERTIFICATES
from fgai_bench.data import DATASETS
from fgai_bench.defenses import DEFENSES
from fgai_bench.explainers import EXPLAINERS
from fgai_bench.metrics import METRICS
from fgai_bench.metrics.base import Where, offered_in
from fgai_bench.models import MODELS
from fgai_bench.options import SuiteError, Training, sentence
from fgai_bench.records.canonical import plain, sha256
from fgai_bench.records.names import spans
from fgai_bench.records.result import Kind, RecordedStep
from fgai_bench.registry import Registry
from fgai_bench.run.identity import code_of
from fgai_bench.suites.overrides import released_settings
from fgai_bench.suites.schema import INDUCTIVE, AttackLine, DefenseLine, Setting, Suite, TunedSetting
from fgai_bench.tasks import TASKS

TEACHER = DefenseLine(name="vanilla")
AnySetting = TypeVar("AnySetting", bound=Setting)
EVALUATION_SEEDS = range(10)  # split seeds that no choice of settings may look at


@dataclass(frozen=True)
class Step(RecordedStep):
    """One unit of work: a training, an attack or a measurement; ``exclusive`` if nothing else may run beside it."""

    time_limit: float | None = None
    exclusive: bool = False


def step_of(
    kind: Kind,
    config: Mapping[str, Any],
    inputs: dict[str, str],
    trial: str | None = None,
    time_limit: float | None = None,
    exclusive: bool = False,
) -> Step:
    """Return the step of a configuration: the one place where the hash of a step is made.

    The hash covers the configuration, the kind and the code of the step. ``config`` is plain data; ``trial`` is the
    hash of the training that the step builds on, and the step's own if it is one.
    """
    content = {**config, "kind": kind, "code": code_of(kind, config)}
    hash = sha256(content)
    return Step(hash, kind, content, inputs, trial or hash, time_limit, exclusive)


OPTIONAL = ("metric", "suite_seeds", "trials", "score")


@dataclass(frozen=True)
class Member:
    """The place of a step in a suite: the labels under which its records appear.

    Attributes:
        kind: kind of the place; a ``measure`` step has ``clean`` or ``attack``, like the step whose records it extends.
        metric: what a ``measure`` step measures; empty for every other step.
        suite_seeds: the seeds that the suite itself has, as ``0-4``; a run may have more or fewer of them.
        trials: how many settings were tried to choose those of this row; 0 where the suite's own are used.
        score: the metric that ranks it, where its dataset declares one; empty for the task's own.
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
    suite_seeds: str = ""
    trials: int = 0
    score: str = ""

    def plain(self) -> dict[str, Any]:
        """Return the member as plain data, without the optional fields that are empty."""
        return {key: value for key, value in vars(self).items() if value or key not in OPTIONAL}


@dataclass(frozen=True)
class Plan:
    """The steps by hash, each after those it builds on, and their places in the suites.

    ``left_out`` has a sentence for each kind of trial that cannot be run, and for each suite whose explainers are asked
    nothing.
    """

    steps: dict[str, Step]
    members: tuple[Member, ...]
    left_out: tuple[str, ...] = ()

    def without(self, absent: Mapping[str, str]) -> Plan:
        """Return the plan without some datasets; a reason for each is given."""
        steps = {hash: step for hash, step in self.steps.items() if step.config["dataset"]["name"] not in absent}
        members = tuple(member for member in self.members if member.step in steps)
        said = (f"left out: {name}, because {reason}" for name, reason in absent.items())
        return Plan(steps, members, (*self.left_out, *said))


@dataclass(frozen=True)
class Trial:
    """One trial of a suite (task, dataset, model, defense, seed), before its options are merged."""

    suite: Suite
    task: str
    dataset: str
    model: str
    line: DefenseLine
    seed: int

    @property
    def teacher(self) -> Trial:
        """Return the trial of the vanilla model that a defense starts from, or that an attack is crafted on."""
        own = {"model": self.line.model, "training": self.line.training}
        return replace(self, line=TEACHER.model_copy(update={**own, "released": self.line.released and TEACHER.name}))

    @cached_property
    def settings(self) -> dict[str, dict[str, Any]]:
        """Return the options of this trial; suite, released program, its line, ``--set`` and search in rising order."""
        inner = self.line.inner.threat if self.line.inner else {}
        line = Setting(model=self.line.model, training=self.line.training, inner=inner)
        own, assigned = self._matching(self.suite.settings), self._matching(self.suite.assigned)
        layers = (*own, *self.released, line, *assigned, *self.chosen)
        return {
            key: {name: value for setting in layers for name, value in getattr(setting, key).items()}
            for key in ("model", "training", "defense", "inner", "threat")
        }

    def _matching(self, settings: Iterable[AnySetting]) -> list[AnySetting]:
        return [s for s in settings if s.when.matches(self.task, self.dataset, self.model, self.line)]

    @cached_property
    def obstacle(self) -> str:
        """Return why the trial cannot be run; empty if it can."""
        if not applies(DATASETS.entry(self.dataset).tags, self.task):
            return f"it is not for the task {self.task}"
        split = self.suite.split
        if split != "transductive" and split not in TASKS.entry(self.task).tags:
            return f"the task {self.task} has no {split} split"
        if self.line.tuned and not self.chosen:
            return f"no settings have been chosen under the {split} split; `fgai-bench tune` searches them"
        if self.line.released and not self.released:
            return "the released program has no configuration"
        return ""

    @property
    def score(self) -> str:
        """Return the score of nodes that the dataset declares; empty for the task's own."""
        declared = DATASETS[self.dataset].score if "explained" in TASKS.entry(self.task).tags else "f1"
        return "" if declared == "f1" else declared

    @property
    def released(self) -> tuple[Setting, ...]:
        """Return the released program's settings for this trial; none for a line that does not ask for them."""
        return released_settings(self.task, self.dataset, self.model, self.line.released) if self.line.released else ()

    @cached_property
    def chosen(self) -> tuple[TunedSetting, ...]:
        """Return the settings that a search chose for this trial; none for a line that does not ask for them."""
        tuned = self.suite.tuned if self.line.tuned else ()
        return tuple(self._matching(chosen for chosen in tuned if chosen.split == self.suite.split)[-1:])

    def member(self, step: Step, attack: str = "", title: str = "", explainer: str = "", metric: str = "") -> Member:
        """Return the place of a step of this trial in the suite."""
        flags = ("unequal budgets",) if self.suite.unequal_budgets else ()
        dataset = f"{self.dataset}{INDUCTIVE if self.suite.split == 'inductive' else ''}"
        where = (self.task, dataset, self.model, self.line.name, self.line.title, attack, title, explainer)
        kind = step.kind if not metric else "attack" if attack else "clean"
        shown = (spans(self.suite.declared_seeds), self.chosen[0].trials if self.chosen else 0)
        return Member(self.suite.title, kind, step.hash, *where, self.seed, flags, metric, *shown, self.score)


def plan(suites: Iterable[Suite], device: str = "cpu", contents: Mapping[str, str] | None = None) -> Plan:
    """Return every step that the suites need, each once, with its places in the suites.

    ``contents`` has the digests of the graphs whose content no declaration tells (:func:`undeclared`), by dataset.
    """
    draft, stopped, unasked = _Draft(device, contents or {}), [], []
    for suite in suites:
        before = len(draft.members)
        for trial in _trials(suite):
            if trial.obstacle:
                stopped.append(trial)
            else:
                draft.add(trial)
        if suite.explainers and all(member.kind != "explain" for member in draft.members[before:]):
            limits = ((key, getattr(suite, f"explained_{key}")) for key in ("datasets", "models", "attacks"))
            only = "; ".join(f"{key} {', '.join(names)}" for key, names in limits if names)
            told = f"limited to {only}" if only else "for attacks with the suite's own budget"
            unasked.append(f"no explanation is planned: the explainers of {suite.title} are {told}")
        if suite.agreement:
            draft.add_agreements(suite)
    if not draft.members:
        reasons = _left_out(stopped) or ["no line of the suite is for one of its models"]
        raise SuiteError(f"nothing to run: {'; '.join(reasons)}")
    # A grid names every dataset for every task, so a dataset of another task is no surprise.
    surprising = [trial for trial in stopped if applies(DATASETS.entry(trial.dataset).tags, trial.task)]
    said = (*(f"left out: {sentence}" for sentence in _left_out(surprising)), *unasked)
    return Plan(draft.steps, tuple(dict.fromkeys(draft.members)), said)


def _left_out(trials: Iterable[Trial]) -> list[str]:
    """Return a sentence for each obstacle and the rows that it stops: on which datasets, and why."""
    datasets: dict[tuple[str, str], dict[str, None]] = {}
    for trial in trials:
        datasets.setdefault((f"{trial.model}/{trial.line.title}", trial.obstacle), {})[trial.dataset] = None
    rows: dict[tuple[str, str], list[str]] = {}
    for (row, obstacle), names in datasets.items():
        rows.setdefault((", ".join(names), obstacle), []).append(row)
    return [f"{', '.join(some)} on {names}, because {obstacle}" for (names, obstacle), some in rows.items()]


def undeclared(suites: Iterable[Suite]) -> list[str]:
    """Return the datasets whose content is known only from the graph itself: users' own, without checksums."""

    def is_declared(dataset: str) -> bool:
        declared, ours = DATASETS[dataset], DATASETS.entry(dataset).ours
        if declared.without_reference:
            return ours and declared.archive is not None
        return ours or bool(declared.files)

    names = dict.fromkeys(name for suite in suites for name in suite.datasets)
    return [name for name in names if not is_declared(name)]


def validation_plan(
    trials: Sequence[Trial], device: str = "cpu", contents: Mapping[str, str] | None = None, attack: str = "validation"
) -> Plan:
    """Return the steps that score trials on the validation part, each once, with the teachers that they need."""
    draft = _Draft(device, contents or {})
    members = [trial.member(draft.validate(trial, attack)) for trial in trials]
    return Plan(draft.steps, tuple(dict.fromkeys(members)))


def applies(tags: frozenset[str], task: str) -> bool:
    """Tell whether an entry is for a task; an entry that names no task is for all of them."""
    return task in tags or not tags & {*TASKS}


def _trials(suite: Suite) -> Iterator[Trial]:
    grid = product(suite.tasks, suite.datasets, suite.models, suite.seeds, suite.defenses)
    for task, dataset, model, seed, line in grid:
        if model in (line.models or [model]) and dataset in (line.datasets or [dataset]):
            yield Trial(suite, task, dataset, model, line, seed)


class _Draft:
    """A plan under construction."""

    def __init__(self, device: str, contents: Mapping[str, str]) -> None:
        self.device, self.contents = device, contents
        self.steps: dict[str, Step] = {}
        self.members: list[Member] = []

    def add(self, trial: Trial) -> None:
        """Add the steps of a trial: training, clean evaluation, floors, attacks, explainers and further metrics."""
        suite = trial.suite
        trained = self._train(trial)
        clean = self._measured("clean", suite, trained, {"sanity": suite.sanity})
        self.members += [trial.member(trained), trial.member(clean)]
        self._measure(trial, trained, None)
        for name in suite.certificates if "explained" in TASKS.entry(trial.task).tags else ():
            threat = _merged(ThreatModel, suite.threat.model_dump(), trial.settings["threat"])
            config = {"certificate": _versioned(CERTIFICATES, name), "threat": threat}
            proven = self._measured("certify", suite, trained, config)
            self.members.append(trial.member(proven, explainer=name))
        for attack in suite.attacks:
            if (attack.seeds and trial.seed not in attack.seeds) or not _has_its_aim(trial, attack):
                continue
            step = self._attack(trial, attack, trained)
            if step is None:
                continue
            self.members.append(trial.member(step, attack.name, attack.title))
            self._measure(trial, trained, step, attack)
            if suite.explainers and _is_explained(trial, attack):
                self._explain_all(trial, attack, trained, step)

    def _measure(self, trial: Trial, trained: Step, attacked: Step | None, line: AttackLine | None = None) -> None:
        """Add a step for each metric of the suite that is not built in and whose input is available here."""
        where: Where = "clean" if attacked is None else "attack"
        for entry in map(METRICS.entry, trial.suite.metrics):
            if entry.ours or not offered_in(entry.tags, where):
                continue
            metric = {"name": entry.name, "version": entry.version, "direction": entry.direction}
            config = {"metric": metric, "attacked": attacked.hash if attacked else None}
            inputs = {"attacked": attacked.hash} if attacked else {}
            step = self._measured("measure", trial.suite, trained, config, **inputs)
            names = (line.name, line.title) if line else ("", "")
            self.members.append(trial.member(step, *names, metric=entry.name))

    def add_agreements(self, suite: Suite) -> None:
        """Add steps that compare the attention of each trial with that of the first seed."""
        own = [member for member in self.members if member.suite == suite.title and member.kind == "train"]
        first = {(m.task, m.dataset, m.model, m.label): m.step for m in reversed(own)}
        for member in own:
            other = first[member.task, member.dataset, member.model, member.label]
            if member.step != other:
                step = self._measured("agree", suite, self.steps[member.step], {"other": other}, other=other)
                self.members.append(replace(member, kind=step.kind, step=step.hash))

    def validate(self, trial: Trial, attack: str) -> Step:
        """Add the training of a trial and its scores on the validation part under an attack: one step.

        The model of the suite's own vanilla line is kept: it is the teacher of every other trial.
        """
        if trial.seed in EVALUATION_SEEDS:
            raise SuiteError(f"seed {trial.seed} belongs to the evaluation; settings must not be chosen on it")
        tags = DEFENSES.entry(trial.line.name).tags
        teacher = self.validate(trial.teacher, attack) if "needs-teacher" in tags else None
        threat = _merged(ThreatModel, trial.suite.threat.model_dump(), trial.settings["threat"])
        changed = any(chosen.model or chosen.training or chosen.defense or chosen.inner for chosen in trial.chosen)
        config = {
            **self._training_settings(trial),
            "teacher": teacher.hash if teacher else None,
            "seed": trial.seed,
            "validation": plain({**_versioned(ATTACKS, attack), "threat": threat}),
            "keep": trial.line.name == TEACHER.name and not trial.line.options and not changed,
        }
        return self._step("validate", config, {"teacher": teacher.hash} if teacher else {}, trial.suite)

    def _train(self, trial: Trial) -> Step:
        """Return the training of a trial, which several steps of it may ask for."""
        tags = DEFENSES.entry(trial.line.name).tags
        teacher = self._train(trial.teacher) if "needs-teacher" in tags else None
        config = {**self._training_settings(trial), "teacher": teacher.hash if teacher else None, "seed": trial.seed}
        return self._step("train", config, {"teacher": teacher.hash} if teacher else {}, trial.suite)

    def _training_settings(self, trial: Trial) -> dict[str, Any]:
        """Return what decides a training and is the same for all seeds.

        What a line names itself is what makes it a line of its own, and stays whatever a search has chosen.
        """
        suite, line, settings = trial.suite, trial.line, trial.settings
        options = {**settings["defense"], **line.options}
        # What tells the content of the graph: checksums of its files, options of its generator, a digest.
        declared = DATASETS[trial.dataset]
        source = {
            "files": [[file.path, file.sha256] for file in declared.files],
            "options": dict(declared.options),
            **({"content": self.contents[trial.dataset]} if trial.dataset in self.contents else {}),
        }
        content: dict[str, Any] = {
            "task": _versioned(TASKS, trial.task),
            "dataset": {
                **_versioned(DATASETS, trial.dataset),
                **({"split": suite.split} if suite.split != "transductive" else {}),
                **({"score": trial.score} if trial.score else {}),
                "source": source,
            },
            "model": {**_versioned(MODELS, trial.model), "options": {**suite.model, **settings["model"]}},
            "defense": {**_versioned(DEFENSES, line.name), "options": options},
            "training": _merged(Training, suite.training.model_dump(), settings["training"]),
            "inner": _inner(trial) if "needs-inner" in DEFENSES.entry(line.name).tags else None,
        }
        return {key: plain(value) for key, value in content.items()}

    def _attack(self, trial: Trial, attack: AttackLine, trained: Step) -> Step | None:
        """Return the attack on a trained model; None if it would transfer to the model it was crafted on."""
        inputs: dict[str, str] = {}
        tags = ATTACKS.entry(attack.name).tags
        if attack.transfer or "uses-surrogate" in tags:
            inputs["teacher"] = self._train(trial.teacher).hash
        if inputs.get("teacher") == trained.hash:  # nothing transfers from a model to itself
            if attack.transfer:
                return None
            del inputs["teacher"]
        config = {
            "attack": plain({**_versioned(ATTACKS, attack.name), "options": attack.options}),
            "attack_tags": sorted(tags),
            "threat": plain(_threat(trial, attack)),
            "crafted_on": inputs["teacher"] if attack.transfer else None,
            "surrogate": inputs.get("teacher"),
        }
        return self._measured("attack", trial.suite, trained, config, **inputs)

    def _explain_all(self, trial: Trial, attack: AttackLine, trained: Step, attacked: Step) -> None:
        """Add the true effects of edges under an attack, and every explainer of the suite to be held against them."""
        suite, inputs = trial.suite, {"attacked": attacked.hash}
        config = {**inputs, "nodes": suite.explained_nodes}
        effects = self._measured("effect", suite, trained, config, **inputs)
        self.members.append(trial.member(effects, attack.name, attack.title))
        for explainer in suite.explainers:
            asked = {**config, "explainer": _versioned(EXPLAINERS, explainer), "effects": effects.hash}
            explained = self._measured("explain", suite, trained, asked, **inputs, effects=effects.hash)
            self.members.append(trial.member(explained, attack.name, attack.title, explainer))

    def _measured(self, kind: Kind, suite: Suite, trained: Step, config: Mapping[str, Any], **inputs: str) -> Step:
        """Return a measurement of a trained model; its configuration names the model and its problem."""
        shared = {key: trained.config[key] for key in ("task", "dataset", "model", "defense", "seed")}
        config = {**shared, "trained": trained.hash, **config}
        return self._step(kind, config, {"model": trained.hash, **inputs}, suite, trained.hash)

    def _step(
        self, kind: Kind, config: dict[str, Any], inputs: dict[str, str], suite: Suite, trial: str | None = None
    ) -> Step:
        content = {**config, "threads": suite.threads, "device": self.device}
        if suite.exclusive:
            content["exclusive"] = plain({"time_limit": suite.time_limit})
        step = step_of(kind, content, inputs, trial, suite.time_limit, suite.exclusive)
        return self.steps.setdefault(step.hash, step)


def _has_its_aim(trial: Trial, attack: AttackLine) -> bool:
    """Tell whether a trial has what an attack is aimed at: not every model has an attention."""
    if "attention" not in ATTACKS.entry(attack.name).tags:
        return True
    defense = DEFENSES.entry(trial.line.name).tags
    attends = "replaces-model" in defense or "attention" in MODELS.entry(trial.model).tags
    return attends and "no-attention" not in defense


def _is_explained(trial: Trial, attack: AttackLine) -> bool:
    """Tell whether explainers are asked: the task has explanations, the suite names graph, model and attack or none.

    A network that a defense brings in place of the model is none that a suite names. The attack has no label and is no
    control; it has the suite's budget unless the suite names it.
    """
    suite = trial.suite
    replaced = "replaces-model" in DEFENSES.entry(trial.line.name).tags
    limits = (
        (trial.dataset, suite.explained_datasets),
        ("" if replaced else trial.model, suite.explained_models),
        (attack.name, suite.explained_attacks),
    )
    named = all(not limit or name in limit for name, limit in limits)
    own_threat = attack.threat and attack.name not in suite.explained_attacks
    of_the_suite = not (attack.label or attack.transfer or attack.seeds or own_threat)
    explained = "explained" in TASKS.entry(trial.task).tags
    return named and of_the_suite and explained and "control" not in ATTACKS.entry(attack.name).tags


def _versioned(registry: Registry[Any], name: str) -> dict[str, Any]:
    return {"name": name, "version": registry.entry(name).version}


def _inner(trial: Trial) -> dict[str, Any]:
    inner = trial.line.inner or trial.suite.inner
    scenario = {"scenario": scenario_of(inner.attack)}
    threat = _merged(ThreatModel, scenario, trial.suite.inner.threat, trial.settings["inner"])
    return {
        "attack": inner.attack,
        "version": ATTACKS.entry(inner.attack).version,
        "options": inner.options,
        "threat": threat,
    }


def _threat(trial: Trial, attack: AttackLine) -> dict[str, Any]:
    """Merge the budgets of suite, trial and attack; the scenario is the attack's own unless its line sets another."""
    suite = trial.suite.threat.model_dump()
    scenario = {"scenario": scenario_of(attack.name, suite["scenario"])}
    released = {}
    if attack.budgets == "released":
        cell = (trial.task, trial.dataset, trial.model, trial.line.released or trial.line.name)
        if not (configured := released_settings(*cell)):
            raise SuiteError("the released program has no configuration of {3} with {2} on {1}".format(*cell))
        released = configured[0].inner
    return _merged(ThreatModel, suite, scenario, released, trial.settings["threat"], attack.threat)


def _merged(model: type[BaseModel], *layers: Mapping[str, Any]) -> dict[str, Any]:
    """Return all fields of ``model``, where later layers override earlier ones; raise if the values are invalid."""
    values = {key: value for layer in layers for key, value in layer.items()}
    try:
        return model(**values).model_dump()
    except ValidationError as error:
        raise SuiteError(sentence(error, model)) from None
