"""Apply overrides to a suite: fewer or other names, ``--set key=value``, and settings of another kind.

Kinds are those that a search has chosen (``settings/*.yaml``) and those of the authors' released program:
``baselines/fgai/released_settings.csv`` has the numbers, ``released.yaml`` beside it what its code decides.
"""

import csv
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import yaml
from pydantic import ValidationError

from fgai_bench.attacks import ATTACKS
from fgai_bench.baselines import text_of
from fgai_bench.certificates import CERTIFICATES
from fgai_bench.data import DATASETS
from fgai_bench.defenses import DEFENSES
from fgai_bench.explainers import EXPLAINERS
from fgai_bench.metrics import METRICS
from fgai_bench.models import MODELS
from fgai_bench.options import SuiteError, by_section, finite, sentence
from fgai_bench.registry import Registry
from fgai_bench.suites.load import grids, load_suite, parse
from fgai_bench.suites.schema import RELEASED, DefenseLine, Setting, Suite, TunedSetting, When
from fgai_bench.tasks import TASKS

# The first part of a key of --set, and the field of a setting that it changes; attack is an alias of threat.
SECTIONS = {"threat": "threat", "attack": "threat", "training": "training", "model": "model", "inner": "inner"}
# Keys of --set without a dot; the first say what is measured, or how long it may take, and change no setting.
MEASUREMENT_KEYS = ("agreement", "certificates", "explainers", "metrics", "sanity", "time_limit")
SUITE_KEYS = tuple(sorted((*MEASUREMENT_KEYS, "exclusive", "split", "threads", "unequal_budgets")))

Settings = Literal["published", "tuned", "both", "released"]


def resolve(
    suite: str | os.PathLike[str] | Suite | Mapping[str, Any],
    *,
    datasets: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    defenses: Sequence[str] | None = None,
    attacks: Sequence[str] | None = None,
    seeds: int | Sequence[int] | None = None,
    split: str | None = None,
    settings: str = "published",
    assignments: Sequence[str] = (),
) -> tuple[Suite, ...]:
    """Return the grids of a suite with overrides applied; raise if a name is not registered.

    A name that the suite lists keeps the suite's settings for it; other registered names are possible, too. Neither
    makes it another experiment; an assignment that changes a setting does, and its title says so. With the ``settings``
    ``tuned`` or ``both``, lines with settings that a search has chosen take the place of the suite's own lines or stand
    beside them; with ``released``, lines as the authors' released program has them take their place.

    >>> [part.models for part in resolve("quick", models=["gt"], seeds=1)]
    [('gt',)]
    """
    parts = grids(load_suite(suite))
    parts = _narrowed(parts, "datasets", datasets, DATASETS)
    parts = _narrowed(parts, "models", models, MODELS)
    parts = _narrowed(parts, "defenses", defenses, DEFENSES)
    parts = _narrowed(parts, "attacks", attacks, ATTACKS)
    if seeds is not None:
        parts = tuple(changed(part, seeds=seeds) for part in parts)
    if split is not None and any(part.split != split for part in parts):
        assignments = (*assignments, f"split={split}")
    keys = [assignment.partition("=")[0].strip() for assignment in assignments]
    if twice := [key for key in keys if keys.count(key) > 1]:
        raise SuiteError(f"--set {twice[0]} stands twice; name it once")
    for assignment in assignments:
        parts = _assigned(parts, assignment)
    parts = tuple(with_settings(part, settings) for part in parts)
    for part in parts:
        check_names(part)
    return parts


def changed(suite: Suite, **changes: Any) -> Suite:
    finite(changes)
    try:
        return Suite(**{**dict(suite), **changes}).derived_from(suite)
    except ValidationError as error:
        raise SuiteError(f"suite {suite.name!r}: {sentence(error, Suite)}") from None


def check_names(suite: Suite) -> None:
    """Raise if a name of the suite is not registered."""
    inners = [suite.inner, *(line.inner for line in suite.defenses if line.inner)]
    named: list[tuple[Registry[Any], Iterable[str]]] = [
        (TASKS, suite.tasks),
        (DATASETS, (*suite.datasets, *suite.explained_datasets)),
        (MODELS, (*suite.models, *suite.explained_models)),
        (DEFENSES, (line.name for line in suite.defenses)),
        (ATTACKS, (line.name for line in suite.attacks)),
        (ATTACKS, (*(inner.attack for inner in inners), *suite.explained_attacks)),
        (METRICS, suite.metrics),
        (CERTIFICATES, suite.certificates),
        (EXPLAINERS, suite.explainers),
    ]
    for registry, names in named:
        for name in names:
            registry.entry(name)


def _title(line: Any) -> set[str]:
    return {line} if isinstance(line, str) else {line.name, line.title}


def _narrowed(
    parts: tuple[Suite, ...], key: str, wanted: Sequence[str] | None, registry: Registry[Any]
) -> tuple[Suite, ...]:
    """Return the parts with the wanted lines only; a part that has none of them is left out."""
    if wanted is None:
        return parts
    if not wanted:
        raise SuiteError(f"--{key} needs at least one name")
    known = {title for part in parts for entry in getattr(part, key) for title in _title(entry)}
    strangers = [name for name in wanted if name not in known]
    for name in strangers:
        registry.entry(name)
    if strangers and len(parts) > 1:
        names = ", ".join(part.name for part in parts)
        raise SuiteError(f"{key} {', '.join(strangers)}: in no part of the suite; run one of {names} alone")
    selected = [(part, _selected(getattr(part, key), wanted, strangers)) for part in parts]
    return tuple(changed(part, **{key: lines}) for part, lines in selected if lines)


def _selected(lines: Sequence[Any], wanted: Sequence[str], strangers: Sequence[str]) -> list[Any]:
    chosen: list[Any] = []
    for name in wanted:
        exact = [entry for entry in lines if not isinstance(entry, str) and entry.title == name]
        matching = [name] if name in strangers else exact or [entry for entry in lines if name in _title(entry)]
        chosen += [entry for entry in matching if entry not in chosen]
    return chosen


def _assigned(parts: tuple[Suite, ...], assignment: str) -> tuple[Suite, ...]:
    """Return the parts with one ``key=value`` applied; raise if none of them has the key."""
    key, equals, text = assignment.partition("=")
    if not equals or not key.strip():
        raise SuiteError(f"--set {assignment!r}: write key=value, for example --set attack.steps=50")
    try:
        value = parse(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SuiteError(f"--set {key}: {' '.join(str(error).split())}") from None
    try:
        finite(value, key)
        applied = [_applied(part, key.strip(), value) for part in parts]
    except ValidationError as error:
        raise SuiteError(f"--set {key}: {sentence(error, Setting)}") from None
    if all(part is None for part in applied):
        names = {title for p in parts for line in (*p.models, *p.defenses, *p.attacks) for title in _title(line)}
        heads = [f"{name}.OPTION" for name in (*SECTIONS, *sorted(names - set(SECTIONS)))]
        raise SuiteError(f"--set {key}: no such key; possible are {', '.join([*heads, *SUITE_KEYS])}")
    head, dot, option = key.strip().partition(".")
    change = () if head in MEASUREMENT_KEYS else (f"{SECTIONS.get(head, head)}{dot}{option}={' '.join(text.split())}",)
    return tuple(new.derived_from(new, *change) if new else part for new, part in zip(applied, parts, strict=True))


def _applied(suite: Suite, key: str, value: Any) -> Suite | None:
    """Return the suite with ``key=value`` applied; None if the suite has no such key."""
    if key in SUITE_KEYS:
        return changed(suite, **{key: value})
    head, dot, option = key.partition(".")
    if not dot or not option:
        return None
    if head in SECTIONS:
        setting = Setting(**{SECTIONS[head]: {option: value}})
    elif head in suite.models:
        setting = Setting(when=When(model=(head,)), model={option: value})
    elif any(head in _title(line) for line in suite.defenses):
        # Options on a defense's own line come before all settings, so they are changed there, too.
        own = [_with_option(line, head, option, value) if option in line.options else line for line in suite.defenses]
        suite, setting = changed(suite, defenses=own), Setting(when=When(defense=(head,)), defense={option: value})
    elif any(head in _title(line) for line in suite.attacks):
        return changed(suite, attacks=[_with_option(line, head, option, value) for line in suite.attacks])
    else:
        return None
    return changed(suite, assigned=(*suite.assigned, setting))


def _with_option(line: Any, head: str, option: str, value: Any) -> Any:
    """Return a line with another value of an option, if ``head`` is its name or label."""
    if head not in _title(line):
        return line
    return line.model_copy(update={"options": {**line.options, option: value}})


@cache
def committed_settings() -> tuple[TunedSetting, ...]:
    """Return the settings that travel with the package, chosen by the study whose trials lie beside them."""
    paths = sorted(Path(__file__).with_name("settings").glob("*.yaml"))
    return tuple(
        TunedSetting(**setting) for path in paths for setting in parse(path.read_text(encoding="utf-8"))["tuned"]
    )


@cache
def program() -> dict[str, Any]:
    """Return what the program does: its ``methods``, the ``columns`` of its configurations, and ``settings``."""
    content: dict[str, Any] = yaml.safe_load(text_of("released.yaml"))
    return content


@cache
def _configurations() -> tuple[Setting, ...]:
    stand_ins = yaml.safe_load(text_of("paper.yaml"))["stand_ins"]
    settings = []
    for row in csv.DictReader(text_of("released_settings.csv").splitlines()):
        datasets = [row["dataset"], *(known["stand_in"] for known in stand_ins if known["dataset"] == row["dataset"])]
        when = {"task": row["task"], "dataset": datasets, "model": row["model"], "defense": row["used_for"].split(", ")}
        values = {}
        for column, target in program()["columns"].items():
            if numbers := [yaml.safe_load(part) for part in row[column].split()]:
                values[target] = numbers if target.endswith(".heads") else numbers[0]
        settings.append(Setting(**{"when": when, **by_section(values)}))
    return tuple(settings)


@cache
def released_settings(task: str, dataset: str, model: str, method: str) -> tuple[Setting, ...]:
    """Return the settings of a method in one cell, later ones override; none where there is no configuration.

    The first is the configuration; the budget of its ``inner`` is also the one that it is evaluated with.

    >>> configured, *decided = released_settings("node", "amazon-photo", "gat", "at")
    >>> configured.training, configured.inner["edges_per_node"], decided[0].training
    ({'epochs': 200, 'lr': 0.001, 'weight_decay': 0.0005}, 40, {'keep': 'last'})
    """
    cell = (task, dataset, model, DefenseLine(name=method))
    configured = [setting for setting in _configurations() if setting.when.matches(*cell)]
    decided = [Setting(**setting) for setting in program()["settings"]] if configured else []
    return (*configured, *(setting for setting in decided if setting.when.matches(*cell)))


def with_settings(suite: Suite, settings: str) -> Suite:
    """Return a suite with its own settings (``published``), chosen ones (``tuned``), ``both``, or ``released`` ones."""
    if settings not in get_args(Settings):
        raise SuiteError(f"unknown settings {settings!r}; possible are {', '.join(get_args(Settings))}")
    if settings == "published":
        return suite
    if settings == "released":
        methods = program()["methods"]
        own = {line.title: line.models for line in suite.defenses if line.title in methods}
        if not own:
            names = ", ".join(methods)
            raise SuiteError(f"{suite.name} has no line of the released program, whose methods are {names}")
        lines = [DefenseLine(name=methods[n], label=n + RELEASED, models=m, released=n) for n, m in own.items()]
        return suite.model_copy(update={"defenses": tuple(lines)})
    known = tuple(setting for setting in suite.tuned or committed_settings() if setting.split == suite.split)
    untuned = [line for line in suite.defenses if not line.tuned]
    if not any(line.name in setting.when.defense for line in untuned for setting in known):
        raise SuiteError(
            f"no settings have been chosen for a defense of {suite.name} under the {suite.split} split; "
            "`fgai-bench tune` searches them"
        )
    shown = (*(untuned if settings == "both" else ()), *(line.as_tuned() for line in untuned))
    return suite.model_copy(update={"defenses": shown, "tuned": known})
