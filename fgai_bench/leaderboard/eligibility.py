"""Which runs may enter a leaderboard: those that are what their suites say.

A run conforms if every row was trained, attacked and searched for as the registered suite of its name plans it, on the
same data, by the code of this program, with the seeds of the suite.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fgai_bench.records.canonical import canonical
from fgai_bench.records.names import is_changed, titles
from fgai_bench.records.store import StoreReader
from fgai_bench.registry import RegistryError
from fgai_bench.run.identity import is_present
from fgai_bench.run.plan import plan
from fgai_bench.suites import SUITES, SuiteError, resolve
from fgai_bench.suites.schema import RELEASED, TUNED

KINDS = ("train", "clean", "attack")
SEARCH_EFFORT = ("step", "steps", "restarts")  # the part of a threat model that says how long to search
COMPARED = ("dataset", "training", "model", "defense", "inner", "threads", "threat", "attack")
PLACE = ("kind", "task", "dataset", "model", "label", "attack_label", "seed")

Headers = Mapping[str, Mapping[str, Any]]


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
    reasons = [f"{title} is not the suite as it is declared" for title in titles(members).values() if is_changed(title)]
    used = {member["step"]: headers[member["step"]] for member in placed}
    if others := [step for step in used.values() if not is_present(step["kind"], step["config"])]:
        reasons.append(f"{len(others)} of its steps were made by other code than this program's, or its plugins'")
    for suite in dict.fromkeys(member["suite"] for member in placed):
        if suite in SUITES:
            own = [member for member in placed if member["suite"] == suite]
            reasons += dict.fromkeys(_about_settings(suite, own, headers))
    return reasons


def _about_settings(suite: str, members: Sequence[Mapping[str, Any]], headers: Headers) -> Iterator[str]:
    """Yield where recorded settings are not those that the registered suite has for the same place."""
    try:
        planned = _planned(suite, members, headers)
    except (SuiteError, RegistryError) as error:
        yield f"the suite {suite!r} does not plan it: {error}"
        return
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


def _planned(
    suite: str, members: Iterable[Mapping[str, Any]], headers: Headers
) -> dict[tuple[Any, ...], Mapping[str, Any]]:
    """Return the configurations that a registered suite has for the places of a run, by place."""

    def names(key: str) -> list[str]:
        return list(dict.fromkeys(member[key] for member in members if member[key] != ""))

    defenses = list(dict.fromkeys(label.removesuffix(TUNED).removesuffix(RELEASED) for label in names("label")))
    overrides: dict[str, Any] = {"datasets": names("dataset"), "models": names("model"), "defenses": defenses}
    attacks = names("attack_label")
    overrides |= {"seeds": names("seed"), **({"attacks": attacks} if attacks else {})}
    released = ["released"] if any(label.endswith(RELEASED) for label in names("label")) else []
    kinds = ["both" if any(member.get("trials") for member in members) else "published", *released]
    resolved = [part for kind in kinds for part in resolve(suite, **overrides, settings=kind)]
    recorded = [headers[member["step"]]["config"].get("dataset", {}) for member in members]
    contents = {data["name"]: data["source"]["content"] for data in recorded if "content" in data.get("source", {})}
    expected = plan(resolved, contents=contents)
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
    return {"threat": "another threat model", "dataset": "other data"}.get(head, "other training settings")
