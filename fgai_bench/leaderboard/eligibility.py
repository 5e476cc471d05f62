"""Which runs may enter a leaderboard: those that are what their suites say.

A run conforms if every row was trained, attacked and searched for as the registered suite of its name plans it, on the
same data, by the code of this program, with the seeds of the suite. A defense of a plugin is judged without its code:
by its settings outside the defense, and by the version or commit that it names.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fgai_bench.defenses import DEFENSES
from fgai_bench.records.canonical import canonical
from fgai_bench.records.names import is_changed, spans, titles
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


def objections(run: str | os.PathLike[str], private: bool = False) -> list[str]:
    """Return why a run may not be ranked beside others, a sentence for each reason; none if it may.

    With ``private`` it is for a board of its own, whose suites need not be registered.
    """
    with StoreReader(run) as store:
        members, headers = store.members(), store.headers()
    placed = [
        member
        for member in members
        if member["kind"] in KINDS and member["step"] in headers and not member.get("metric")
        if not headers[member["step"]]["config"].get("attack", {}).get("by")  # submitted, not run
    ]
    declared = {suite: spans(tuple(resolve(suite)[0].seeds)) for suite in {m["suite"] for m in members} & {*SUITES}}
    named = [{**m, "suite_seeds": declared.get(m["suite"], m.get("suite_seeds", ""))} for m in members]
    reasons = [f"{title} is not the suite as it is declared" for title in titles(named).values() if is_changed(title)]
    for suite in dict.fromkeys(m["suite"] for m in members if not private and m["suite"] not in SUITES):
        reasons.append(
            f"{suite!r} is no registered suite, and only these enter a public board; --private makes another"
        )
    used = {member["step"]: headers[member["step"]] for member in placed}
    if others := [step for step in used.values() if not _made_by_this_program(step)]:
        reasons.append(f"{len(others)} of its steps were made by other code than this program's, or its plugins'")
    plugins = {name: v for step in used.values() for name, v in step["environment"].get("plugins", {}).items()}
    foreign = {step["config"]["defense"]["name"] for step in used.values() if _is_foreign(step["config"])}
    reasons += [f"the plugin {name!r} names neither a version nor a commit" for name, v in plugins.items() if not v]
    if foreign and not plugins:
        reasons.append(f"the defense {min(foreign)!r} is of a plugin, and its records do not name the package")
    for suite in dict.fromkeys(member["suite"] for member in placed):
        if suite in SUITES:
            own = [member for member in placed if member["suite"] == suite]
            reasons += dict.fromkeys(_about_settings(suite, own, headers))
    return reasons


def _is_foreign(config: Mapping[str, Any]) -> bool:
    """Tell whether the defense of a step is of a plugin that is not here."""
    return "defense" in config and config["defense"]["name"] not in DEFENSES


def _made_by_this_program(step: Mapping[str, Any]) -> bool:
    """Tell whether a step was made by the code that is here, whatever a plugin's defense did that is not here."""
    config = dict(step["config"])
    if _is_foreign(config):
        del config["defense"]
        config["code"] = {part: own for part, own in config.get("code", {}).items() if part != "defense"}
    return bool(is_present(step["kind"], config))


def _about_settings(suite: str, members: Sequence[Mapping[str, Any]], headers: Headers) -> Iterator[str]:
    """Yield where recorded settings are not those that the registered suite has for the same place."""
    try:
        planned = _planned(suite, members, headers)
    except (SuiteError, RegistryError) as error:
        yield f"the suite {suite!r} does not plan it: {error}"
        return
    for member in members:
        recorded = headers[member["step"]]["config"]
        foreign = _is_foreign(recorded)
        expected = planned.get(_place({**member, "label": "vanilla"} if foreign else member))
        if expected is None:
            yield f"the suite {suite!r} does not plan {member['label']} on {member['dataset']} with {member['model']}"
            continue
        for key in (part for part in COMPARED if not (foreign and part in ("defense", "inner"))):
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

    labels = [label.removesuffix(TUNED).removesuffix(RELEASED) for label in names("label")]
    foreign = {member["label"] for member in members if _is_foreign(headers[member["step"]]["config"])}
    defenses = list(dict.fromkeys("vanilla" if label in foreign else label for label in labels))
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
