"""Which runs may enter a leaderboard: those that are what their suites say.

A run conforms if every row was trained, attacked and searched for as the registered suite of its name plans it, by one
known code, without uncommitted changes of it, on data of known content, with the seeds of the suite.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from fgai_bench.data import DATASETS
from fgai_bench.records.canonical import canonical
from fgai_bench.records.merge import made_by_other_code
from fgai_bench.records.names import is_changed, titles
from fgai_bench.records.store import StoreReader
from fgai_bench.registry import RegistryError
from fgai_bench.run.plan import plan
from fgai_bench.suites import SUITES, SuiteError, resolve
from fgai_bench.suites.schema import TUNED

KINDS = ("train", "clean", "attack")
SEARCH_EFFORT = ("step", "steps", "restarts")  # the part of a threat model that says how long to search
COMPARED = ("training", "model", "defense", "inner", "threads", "threat", "attack")
PLACE = ("kind", "task", "dataset", "model", "label", "attack_label", "seed")

Headers = Mapping[str, Mapping[str, Any]]
Planned = Mapping[tuple[Any, ...], Mapping[str, Any]]


def objections(run: str | os.PathLike[str]) -> list[str]:
    """Return why a run may not be ranked beside others, a sentence for each reason; none if it may."""
    with StoreReader(run) as store:
        members, headers = store.members(), store.headers()
    placed = [
        member
        for member in members
        if member["kind"] in KINDS and member["step"] in headers and not member.get("metric")
        if not headers[member["step"]]["config"].get("attack", {}).get("by")  # submitted, not run
    ]
    used = {member["step"]: headers[member["step"]] for member in placed}
    others = made_by_other_code(members, headers)
    reasons = [f"{title} is not the suite as it is declared" for title in titles(members).values() if is_changed(title)]
    if others:
        reasons.append(f"{len(others)} of its steps were made by other code than the rest")
    ours, about_settings = set[str](), list[str]()
    for suite in dict.fromkeys(member["suite"] for member in placed):
        if suite in SUITES:
            own = [member for member in placed if member["suite"] == suite]
            try:
                planned = _planned(suite, own)
            except (SuiteError, RegistryError) as error:
                about_settings.append(f"the suite {suite!r} does not plan it: {error}")
                continue
            ours |= {member["step"] for member in own if _is_by_this_program(headers, planned, member)}
            about_settings += dict.fromkeys(_about_settings(suite, own, headers, planned))
    return [*reasons, *_about_provenance(used, ours), *_about_data(used), *about_settings]


def _about_provenance(used: Headers, ours: Collection[str]) -> Iterator[str]:
    """Yield what is not known, or not good, about the program that made the steps.

    Uncommitted changes do not count where all code that decides a step is this program's, ``ours``: those of a page of
    text, say.
    """
    where = {step: header["environment"] for step, header in used.items()}
    without_code = [header for header in used.values() if "code" not in header["config"]]
    if without_code:
        yield f"{len(without_code)} of its steps carry no fingerprint of their code: an earlier program made them"
    if missing := [step for step, each in where.items() if not each.get("package")]:
        yield f"{len(missing)} of its steps do not say which program made them"
    if dirty := [step for step, each in where.items() if each.get("dirty") and step not in ours]:
        yield f"{len(dirty)} of its steps were made by a program with uncommitted changes"


def _about_data(used: Headers) -> Iterator[str]:
    """Yield the datasets whose content neither a checksum nor a digest tells."""
    sources = {canonical(header["config"].get("dataset")): header["config"].get("dataset") for header in used.values()}
    for dataset in filter(None, sources.values()):
        source, name = dataset.get("source", {}), dataset["name"]
        generated = not source.get("files") and name in DATASETS and DATASETS.entry(name).ours
        summed = bool(source.get("files")) and all(sha256 for _, sha256 in source["files"])
        if not (generated or summed or source.get("content")):
            yield f"the content of its dataset {name!r} is not known: there is neither a checksum nor a digest of it"


def _is_by_this_program(headers: Headers, planned: Planned, member: Mapping[str, Any]) -> bool:
    """Tell whether every fingerprint of the code that decided a step is that of the code which is running."""
    recorded = headers[member["step"]]["config"].get("code")
    return bool(recorded) and recorded == planned.get(_place(member), {}).get("code")


def _about_settings(
    suite: str, members: Iterable[Mapping[str, Any]], headers: Headers, planned: Planned
) -> Iterator[str]:
    """Yield where recorded settings are not those that the registered suite has for the same place."""
    for member in members:
        expected = planned.get(_place(member))
        if expected is None:
            yield f"the suite {suite!r} does not plan {member['label']} on {member['dataset']} with {member['model']}"
            continue
        recorded = headers[member["step"]]["config"]
        for key in COMPARED:
            if setting := difference(key, recorded.get(key), expected.get(key)):
                kind = _kind_of(setting)
                yield f"{member['label']} on {member['dataset']} has {kind}: {setting} in the suite {suite!r}"
                break


def _planned(suite: str, members: Sequence[Mapping[str, Any]]) -> Planned:
    """Return the configurations that a registered suite has for the places of a run, by place."""

    def names(key: str) -> list[str]:
        return list(dict.fromkeys(member[key] for member in members if member[key] != ""))

    defenses = list(dict.fromkeys(label.removesuffix(TUNED) for label in names("label")))
    overrides: dict[str, Any] = {"datasets": names("dataset"), "models": names("model"), "defenses": defenses}
    overrides["settings"] = "both" if any(member.get("trials") for member in members) else "published"
    attacks = names("attack_label")
    resolved = resolve(suite, **overrides, **({"attacks": attacks} if attacks else {}), seeds=names("seed"))  # type: ignore[arg-type]
    expected = plan(resolved)
    return {_place(member.plain()): expected.steps[member.step].config for member in expected.members}


def _place(member: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(member[key] for key in PLACE)


def difference(key: str, recorded: Any, expected: Any) -> str:
    """Return the first setting that differs, in words; empty where none does.

    >>> difference("training", {"epochs": 5}, {"epochs": 200})
    'training.epochs is 5 and not 200 as'
    """
    if canonical(recorded) == canonical(expected):
        return ""
    if isinstance(recorded, Mapping) and isinstance(expected, Mapping):
        for name in sorted({*recorded, *expected}):
            if name != "version" and (inner := difference(f"{key}.{name}", recorded.get(name), expected.get(name))):
                return inner
        return ""
    return f"{key} is {canonical(recorded)} and not {canonical(expected)} as"


def _kind_of(setting: str) -> str:
    """Return which kind of setting differs."""
    head, _, rest = setting.split()[0].partition(".")
    if head == "attack" or (head == "threat" and rest in SEARCH_EFFORT):
        return "another search effort"
    return "another threat model" if head == "threat" else "other training settings"
