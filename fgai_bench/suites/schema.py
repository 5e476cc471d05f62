"""Define the schema of a suite: the keys that its YAML file may have, and their meaning.

A suite is a grid (tasks x datasets x models x defenses x seeds), one threat model, and a list of attacks. ``settings``
change options for the cells that ``when`` selects; later settings override earlier ones, and the options on a defense's
own line override all settings.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, PrivateAttr, ValidationError, field_validator, model_validator

from fgai_bench.attacks import ThreatModel
from fgai_bench.options import Options, Training, sentence

PAPER, LINKS = {"nodes": 20, "edges_per_node": 20, "features": "range"}, {"nodes": 15, "edges_per_node": 25}
THREATS: dict[str, dict[str, Any]] = {"paper": PAPER, "links": LINKS, "in-domain": {"features": "in-domain"}}
INNER_THREAT = {"step": 0.05, "steps": 10}
TUNED = " tuned"  # ends the label of a row whose settings a search has chosen
INDUCTIVE = " inductive"  # ends the name of a dataset whose test nodes no training sees
RELEASED = " released"  # ends the label of a row that is trained as the authors' released program does


def partial(model: type[BaseModel], value: dict[str, Any]) -> dict[str, Any]:
    """Return some fields of ``model``, checked and in their proper types.

    >>> partial(ThreatModel, {"steps": "50"})
    {'steps': 50}
    """
    try:
        checked = model(**value)
        return {key: getattr(checked, key) for key in value}
    except ValidationError as error:
        raise ValueError(sentence(error, model)) from None


def threat_named(value: Any) -> Any:
    """Expand the name of a threat model to its fields; fields stay as they are."""
    if isinstance(value, str) and value not in THREATS:
        raise ValueError(f"unknown threat model {value!r}; possible are {', '.join(THREATS)} or its own fields")
    return THREATS[value] if isinstance(value, str) else value


ThreatChanges = Annotated[dict[str, Any], AfterValidator(lambda value: partial(ThreatModel, value))]
TrainingChanges = Annotated[dict[str, Any], AfterValidator(lambda value: partial(Training, value))]


class InnerLine(Options):
    """The attack inside adversarial training: its own budget, never that of the evaluation.

    Attributes:
        attack: a name of ``ATTACKS``.
        options: options of that attack.
        threat: what differs from the paper's threat model.
    """

    attack: str = "injection"
    options: dict[str, Any] = Field(default_factory=dict)
    threat: ThreatChanges = Field(default_factory=dict)


class Line(Options):
    """One line of a suite's list: a registered name, which may stand alone, or more about it.

    Attributes:
        name: the registered name.
        label: name of the row in tables; the registered name if empty.
        options: options of what is registered.
    """

    name: str
    label: str = ""
    options: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, line: Any) -> Any:
        return {"name": line} if isinstance(line, str) else line

    @property
    def title(self) -> str:
        return self.label or self.name


class DefenseLine(Line):
    """One row of a suite: a defense, its label in tables, its options, and the models and datasets it is limited to.

    A ``tuned`` line takes the settings that a search has chosen for its cell (the key ``tuned`` of the suite), a
    ``released`` line those of the authors' program (:mod:`fgai_bench.suites.overrides`); neither has trials in cells
    without them. A teacher is trained with the line's ``released``, ``model`` and ``training``.

    Attributes:
        name: a name of ``DEFENSES``.
        inner: the attack inside its training, where it differs from the suite's.
        model: options of the model.
        training: settings of the optimiser.
        models, datasets: those that it is run with; all of the suite if empty.
        tuned: take the chosen settings.
        released: the method of the released program whose settings it takes: vanilla, ln, at or fgai.
    """

    inner: InnerLine | None = None
    model: dict[str, Any] = Field(default_factory=dict)
    training: TrainingChanges = Field(default_factory=dict)
    models: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    tuned: bool = False
    released: str = ""

    def as_tuned(self) -> DefenseLine:
        """Return the line of the same defense with chosen settings.

        >>> DefenseLine(name="fgai").as_tuned().title
        'fgai tuned'
        """
        return self.model_copy(update={"label": f"{self.title}{TUNED}", "tuned": True})


class AttackLine(Line):
    """One attack of a suite.

    Attributes:
        name: a name of ``ATTACKS``.
        label: name of the row in tables; the attack's name if empty, with that of its own threat model if it has one.
        threat: what differs from the suite's threat model, as in a sweep over budgets; or the name of a threat model.
        budgets: whose nodes, edges and steps it has: those of the ``suite``, or for each method those of the authors'
            ``released`` configurations, which needs ``unequal_budgets``.
        transfer: craft the attack on the vanilla model and apply it to the defended one.
        seeds: the seeds of the suite on which it is run; all of them if empty.
    """

    threat: ThreatChanges = Field(default_factory=dict)
    budgets: Literal["suite", "released"] = "suite"
    transfer: bool = False
    seeds: tuple[int, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _threat_by_name(cls, line: Any) -> Any:
        if not isinstance(line, dict) or not isinstance(threat := line.get("threat"), str):
            return line
        return {**line, "threat": threat_named(threat), "label": line.get("label") or f"{line.get('name')} {threat}"}


class When(Options):
    """The cells that a setting is for; a key that is left out matches everything.

    Attributes:
        task: one name or several.
        dataset: one name or several.
        model: one name or several.
        defense: one name or label, or several.
    """

    task: tuple[str, ...] = ()
    dataset: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    defense: tuple[str, ...] = ()

    @field_validator("*", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    def matches(self, task: str, dataset: str, model: str, defense: DefenseLine) -> bool:
        """Tell whether the setting applies to a cell; a defense is matched by its name or its label."""
        given = {"task": {task}, "dataset": {dataset}, "model": {model}, "defense": {defense.name, defense.label}}
        return all(not wanted or given[key] & set(wanted) for key, wanted in self)


class Setting(Options):
    """Options for the cells that ``when`` selects.

    Attributes:
        when: the cells.
        model: options of the model.
        training: settings of the optimiser.
        defense: options of the defense.
        inner: options and budget of the attack inside its training.
        threat: what differs from the suite's threat model.
    """

    when: When = When()
    model: dict[str, Any] = Field(default_factory=dict)
    training: TrainingChanges = Field(default_factory=dict)
    defense: dict[str, Any] = Field(default_factory=dict)
    inner: ThreatChanges = Field(default_factory=dict)
    threat: ThreatChanges = Field(default_factory=dict)

    @model_validator(mode="after")
    def _options_belong_to_a_defense(self) -> Setting:
        if self.defense and not self.when.defense:
            raise ValueError("the key 'defense' needs 'when: {defense: NAME}', because options differ between defenses")
        return self


class TunedSetting(Setting):
    """The settings that a search chose for one cell, for the tuned line of its defense; no threat model is among them.

    Attributes:
        split: the split that was searched; with the other one, other nodes and edges are seen in training.
        trials: how many settings were tried; rows of different numbers are not ranked together.
        trial: the number of the chosen one; 0 is the suite's own settings.
        feasible: whether it keeps the clean validation score within the tolerance of the vanilla model's.
        space, evidence: hashes of the space that was searched and of all trials with their scores.
    """

    split: Literal["transductive", "inductive"] = "transductive"
    trials: int = Field(ge=1)
    trial: int = Field(0, ge=0)
    feasible: bool = True
    space: str = ""
    evidence: str = ""

    @model_validator(mode="after")
    def _is_for_one_cell(self) -> TunedSetting:
        if any(len(names) != 1 for _, names in self.when):
            raise ValueError("chosen settings are for one task, one dataset, one model and one defense")
        if self.threat:
            raise ValueError("a threat model belongs to the suite; chosen settings have none")
        return self


class Suite(Options):
    """A suite as written: a grid with its settings, or a list of other suites.

    Attributes:
        name: what it is called in commands and tables; the file's name, if not said.
        summary: one line for ``fgai-bench ls suites``.
        include: names or paths of suites that this one is made of; then it has no grid of its own.
        tasks: names of tasks, ``node`` and ``link``.
        datasets: names of ``DATASETS``.
        models: names of ``MODELS``.
        defenses: names of ``DEFENSES``, or lines with a label and options.
        attacks: names of ``ATTACKS``, or lines with a label, options and a budget of their own.
        inner: the attack inside adversarial trainings.
        training: settings of the optimiser, the same for every defense.
        model: options of every model.
        settings: options for some of the cells; later ones override earlier ones.
        assigned: options of ``--set``, which override the suite's and the released program's.
        seeds: a number of seeds, counted from 0, or a list of them.
        split: ``transductive``, or ``inductive``: training and validation see the graph without the test nodes.
        threat: the name of a threat model, or its fields.
        version: changes when the meaning of the suite changes; shown with its records.
        metrics: names of ``METRICS`` that are measured beside the built-in ones, which always are.
        certificates: names of ``CERTIFICATES``, whose floors are proven for the suite's threat model.
        explainers: names of ``EXPLAINERS``, asked under the attacks without a label that have the suite's own budget or
            are named by ``explained_attacks``.
        explained_nodes: how many test nodes are explained, the same for all models; 8 where each is searched for.
        explained_datasets, explained_models, explained_attacks: names to which explainers are limited; all that they
            can be asked about if empty. A model that looks at the whole graph, as GT does, is run once for every edge
            that is left out.
        agreement: compare the attention of models trained with different seeds.
        sanity: also rank edges at random, by degree, uniformly and by an untrained model, for the F-slopes.
        threads: number of threads of a step on the CPU; fixed, because the last bits of a result depend on it.
        time_limit: seconds that a step may take.
        exclusive: a step runs alone on the machine, because its time and memory are the result.
        tuned: settings that a search has chosen, for the lines that ask for them.
        unequal_budgets: settings may give each defense another threat model; such rows are never ranked.
    """

    name: str
    summary: str = ""
    version: str = "1"
    include: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ("node",)
    datasets: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    defenses: tuple[DefenseLine, ...] = ()
    attacks: tuple[AttackLine, ...] = ()
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    split: Literal["transductive", "inductive"] = "transductive"
    threat: ThreatModel = ThreatModel()
    inner: InnerLine = InnerLine(threat=INNER_THREAT)
    training: Training = Training()
    model: dict[str, Any] = Field(default_factory=dict)
    settings: tuple[Setting, ...] = ()
    assigned: tuple[Setting, ...] = ()
    tuned: tuple[TunedSetting, ...] = ()
    metrics: tuple[str, ...] = ()
    certificates: tuple[str, ...] = ()
    explainers: tuple[str, ...] = ()
    explained_nodes: int = Field(256, ge=1)
    explained_datasets: tuple[str, ...] = ()
    explained_models: tuple[str, ...] = ()
    explained_attacks: tuple[str, ...] = ()
    agreement: bool = False
    sanity: bool = False
    threads: int = Field(1, ge=1, le=1024)
    time_limit: float | None = Field(None, gt=0, le=1e9)
    exclusive: bool = False
    unequal_budgets: bool = False

    _changes: tuple[str, ...] = PrivateAttr(())  # assignments that make it another experiment than its name says
    _own_seeds: tuple[int, ...] = PrivateAttr(())  # the seeds before overrides

    @property
    def title(self) -> str:
        """Return the name in records, and what was changed: ``node, changed: training.epochs=5``."""
        return f"{self.name}, changed: {', '.join(self._changes)}" if self._changes else self.name

    @property
    def declared_seeds(self) -> tuple[int, ...]:
        """Return the seeds that the suite itself has, whatever part of them is run."""
        return self._own_seeds or self.seeds

    def derived_from(self, suite: Suite, *changes: str) -> Suite:
        """Return this suite as an override of another one, whose seeds and changes it remembers."""
        derived = self.model_copy()
        derived._own_seeds, derived._changes = suite.declared_seeds, (*suite._changes, *changes)
        return derived

    @field_validator("name")
    @classmethod
    def _name_names_a_folder(cls, value: str) -> str:
        if not re.fullmatch(r"(?![.~-])[^/\\]{1,100}", value) or not value.strip() or not value.isprintable():
            raise ValueError(
                "a suite's name is that of its folder under runs/: at most 100 printable characters without slashes, "
                f"not beginning with a dot, a hyphen or a tilde, not {value[:40]!r}"
            )
        return value

    @field_validator("seeds", mode="before")
    @classmethod
    def _seeds(cls, value: Any) -> Any:
        if not isinstance(value, int):
            return value
        if isinstance(value, bool) or not 1 <= value <= 10_000:
            raise ValueError(f"a number of seeds lies between 1 and 10000, not {value}")
        return range(value)

    @field_validator("seeds")
    @classmethod
    def _seeds_are_natural(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not value or min(value) < 0 or max(value) >= 2**31:
            raise ValueError(f"seeds are whole numbers from 0 to {2**31 - 1}, at least one, not {list(value)}")
        return value

    @field_validator("threat", mode="before")
    @classmethod
    def _threat(cls, value: Any) -> Any:
        return threat_named(value)

    @field_validator("inner", mode="before")
    @classmethod
    def _inner(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {**value, "threat": {**INNER_THREAT, **(value.get("threat") or {})}}
        return value

    @model_validator(mode="after")
    def _makes_sense(self) -> Suite:
        empty = [key for key in ("datasets", "models", "defenses", "tasks") if not getattr(self, key)]
        if self.include and len(empty) < 3:
            raise ValueError("a suite has either 'include' or a grid of its own, not both")
        if not self.include and empty:
            raise ValueError(f"the key {empty[0]!r} must name at least one thing")
        for key in ("tasks", "datasets", "models", "seeds"):
            _distinct(key, getattr(self, key))
        _distinct("defenses", [line.title for line in self.defenses])
        _distinct("attacks", [line.title for line in self.attacks])
        unequal = [setting for setting in self.settings if setting.threat and setting.when.defense]
        if not self.unequal_budgets and (unequal or any(line.budgets == "released" for line in self.attacks)):
            raise ValueError(
                "a threat model belongs to the suite, never to a defense, unless 'unequal_budgets' is true"
            )
        return self


def _distinct(key: str, values: Any) -> None:
    twice = [value for value in values if list(values).count(value) > 1]
    if twice:
        raise ValueError(f"{key} names {twice[0]!r} twice; give one of them another label or leave it out")
