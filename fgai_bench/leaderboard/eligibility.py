"""Which runs may enter a leaderboard: those that are what their suites say.

A run conforms if the registered suite of its name plans every place of it, and the configuration of the step there:
on the same data, by the code of this program, with the seeds of the suite. A defense of a plugin is judged without its
code: by its settings outside the defense, and by the version or commit that it names. A graph that somebody submitted
is judged by the attack whose budget it has.
"""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from fgai_bench.defenses import DEFENSES
from fgai_bench.records.canonical import canonical, sha256
from fgai_bench.records.flags import SUBMITTED
from fgai_bench.records.names import is_changed, place_in_words, spans, titles
from fgai_bench.records.store import StoreReader
from fgai_bench.records.submit import submitted_config
from fgai_bench.registry import RegistryError
from fgai_bench.run.identity import is_present
from fgai_bench.run.plan import Member, plan
from fgai_bench.statistics.labels import TITLES
from fgai_bench.suites import SUITES, SuiteError, resolve
from fgai_bench.suites.schema import INDUCTIVE, RELEASED, TUNED, Suite

CELL = ("task", "dataset", "model", "label", "seed")
PLACE = ("kind", *CELL, "defense", "attack", "attack_label", "explainer", "metric")
SHOWN = ("score", "trials", "flags", "suite_seeds")  # of a place: boards rank and show by them
# Of a configuration: what only a plugin knows, what is judged by itself or free, and what changes no setting.
OF_A_DEFENSE, APART, FREE = ("defense", "inner", "teacher"), ("code", "device"), ("sanity", "exclusive")
TEACHERS = ("teacher", "surrogate", "crafted_on")  # of a configuration: steps that need no place in the run
# Of a configuration: steps of the same model, and where they stand.
ATTACKED = {"explainer": "", "metric": ""}
BUILDS_ON = {
    "trained": {**ATTACKED, "kind": "train", "attack": "", "attack_label": ""},
    "attacked": {**ATTACKED, "kind": "attack"},
    "effects": {**ATTACKED, "kind": "effect"},
}
VANILLA, BY, DEVICES = "vanilla", f"{SUBMITTED} by ", ("cpu", "cuda")

Labels = Mapping[str, Any]  # of a place
Config = Mapping[str, Any]
Headers = Mapping[str, Mapping[str, Any]]
Place = tuple[Any, ...]


def objections(run: str | os.PathLike[str], private: bool = False) -> list[str]:
    """Return why a run may not be ranked beside others, a sentence for each reason; none if it may.

    With ``private`` it is for a board of its own, whose suites need not be registered.
    """
    with StoreReader(run) as store:
        members, headers = store.members(), store.headers()
    reasons: list[str] = []
    try:
        reasons.extend(_objections(members, headers, private))
    except (AttributeError, KeyError, TypeError) as error:  # a forged place or configuration may hold anything
        reasons.append(f"a place or a configuration of it is not one of a run ({type(error).__name__}: {error})")
    return reasons


def _objections(members: Sequence[Labels], headers: Headers, private: bool) -> Iterator[str]:
    declared = {suite: spans(tuple(resolve(suite)[0].seeds)) for suite in {m["suite"] for m in members} & {*SUITES}}
    named = [{**m, "suite_seeds": declared.get(m["suite"], m.get("suite_seeds", ""))} for m in members]
    yield from (f"{title} is not the suite as it is declared" for title in titles(named).values() if is_changed(title))
    suites = list(dict.fromkeys(member["suite"] for member in members))
    for suite in suites if not private else ():
        if suite not in SUITES or not SUITES.entry(suite).ours:
            yield f"{suite!r} is no suite of this package, and only these enter a public board; --private makes another"
    used = {member["step"]: headers[member["step"]] for member in members if member["step"] in headers}
    if others := {hash for hash, step in used.items() if not _made_by_this_program(step)}:
        yield f"{len(others)} of its steps were made by other code than this program's, or its plugins'"
    plugins = {name: v for step in used.values() for name, v in step["environment"].get("plugins", {}).items()}
    foreign = {step["config"]["defense"]["name"] for step in used.values() if _is_foreign(step["config"])}
    yield from (f"the plugin {name!r} names neither a version nor a commit" for name, v in plugins.items() if not v)
    if foreign and not plugins:
        yield f"the defense {min(foreign)!r} is of a plugin, and its records do not name the package"
    for suite in suites:
        if suite in SUITES:
            own = [member for member in members if member["suite"] == suite]
            yield from dict.fromkeys(_about_suite(suite, own, used, others))
    yield from _about_hashes(used)


def _is_foreign(config: Config) -> bool:
    """Tell whether the defense of a step is of a plugin that is not here."""
    return "defense" in config and config["defense"]["name"] not in DEFENSES


def _made_by_this_program(step: Mapping[str, Any]) -> bool:
    """Tell whether a step was made by the code that is here, whatever a plugin's defense did that is not here."""
    config = dict(step["config"])
    if _is_foreign(config):
        del config["defense"]
        config["code"] = {part: own for part, own in config.get("code", {}).items() if part != "defense"}
    return bool(is_present(step["kind"], config))


def _about_hashes(used: Headers) -> Iterator[str]:
    """Yield what a step says of itself beside its configuration and is otherwise there."""
    for hash, step in used.items():
        config = step["config"]
        if sha256(config) != hash or step["kind"] != config["kind"] or step["trial"] != config.get("trained", hash):
            yield f"the step {hash[:12]} is not the one of its configuration: its hash, kind or training is another"
            return


def _about_suite(suite: str, members: Sequence[Labels], headers: Headers, others: Collection[str]) -> Iterator[str]:
    """Yield where places and configurations are not those that the registered suite has; ``others`` have other code."""
    defenses = {m["label"]: headers[m["step"]]["config"]["defense"]["name"] for m in members if m["step"] in headers}
    foreign = {label: name for label, name in defenses.items() if name not in DEFENSES}
    try:
        expected = _Expected(suite, members, headers, foreign)
    except (SuiteError, RegistryError) as error:
        yield f"the suite {suite!r} does not plan it: {error}"
        return
    taken = {*DEFENSES, *TITLES, *TITLES.values(), *(line.title for part in resolve(suite) for line in part.defenses)}
    for label, name in foreign.items():
        if name != label or label.casefold() in map(str.casefold, taken):
            yield f"the defense {name!r} of a plugin stands under the label {label!r}; a label must be its own name"
    seen: set[Place] = set()
    for member in members:
        where, step = place_in_words(member), headers.get(member["step"])
        if (place := _place(member)) in seen:
            yield f"two steps stand at {where}"
        seen.add(place)
        if (planned := expected.member(member)) is None:
            yield f"the suite {suite!r} does not plan {where}"
        elif other := next((key for key in SHOWN if _shown(member, key) != _shown(planned, key)), ""):
            due = planned.get(other) or "none"
            yield f"{where} has the {other} {member.get(other)!r}; the suite {suite!r} plans {due}"
        elif step is not None and member["kind"] != "audit":  # no board shows an audit
            config = expected.config(member, step["config"])
            if setting := _other_setting(step["config"], config, member["step"] in others):
                yield f"{member['label']} on {member['dataset']}: {setting} in the suite {suite!r}"


class _Expected:
    """What a registered suite plans at the places of a run, found by them.

    ``foreign`` has the defenses of plugins, label to name; the suite's vanilla line tells the rest of their steps.
    """

    def __init__(self, suite: str, members: Sequence[Labels], headers: Headers, foreign: Mapping[str, str]) -> None:
        self.foreign = foreign
        self.recorded = {_place(member): member["step"] for member in members}
        parts, contents = _resolved(suite, members, headers, foreign)
        self.members: dict[Place, dict[str, Any]] = {}
        self.configs: dict[tuple[str, Place], Config] = {}
        self.seeds: dict[str, int] = {}  # of a training, by its hash
        for device in DEVICES:
            planned = plan(parts, device, contents)
            for member in map(Member.plain, planned.members):
                self.members[_place(member)] = member
                self.configs[device, _place(member)] = planned.steps[member["step"]].config
                if member["kind"] == "train":
                    self.members[_place({**member, "kind": "audit"})] = {**member, "kind": "audit", "flags": ()}
                    self.seeds[member["step"]] = member["seed"]
        self.attacks: dict[Place, list[Place]] = {}  # of a cell
        for place, member in self.members.items():
            if member["kind"] == "attack" and not member.get("metric"):
                self.attacks.setdefault(_place(member, CELL), []).append(place)

    def member(self, member: Labels) -> dict[str, Any] | None:
        """Return the planned place of a recorded one; None if there is none."""
        return next((self.members[place] for place in self._places(member)), None)

    def config(self, member: Labels, recorded: Config) -> Config:
        """Return the configuration that a recorded step at a place should have."""
        device = DEVICES[recorded.get("device") == DEVICES[1]]
        options = [dict(self.configs[device, place]) for place in self._places(member)]
        expected = next((option for option in options if option.get("threat") == recorded.get("threat")), options[0])
        vanilla = expected.get("trained")
        for key, at in BUILDS_ON.items():
            if expected.get(key) is not None:
                expected[key] = self.recorded.get(_place({**member, **at}), expected[key])
        if "other" in expected:
            first = {**member, **BUILDS_ON["trained"], "seed": self.seeds[expected["other"]]}
            expected["other"] = self.recorded.get(_place(first), expected["other"])
        if member["label"] in self.foreign:
            expected |= {key: recorded[key] for key in OF_A_DEFENSE if key in recorded}
            if "uses-surrogate" in expected.get("attack_tags", ()):
                expected["surrogate"] = vanilla
        if member["attack"] == SUBMITTED:
            by = member["attack_label"].removeprefix(BY)
            expected = submitted_config(expected, recorded["attack"].get("graph"), by)
        return {**expected, **{key: recorded[key] for key in FREE if key in recorded and key in expected}}

    def _places(self, member: Labels) -> list[Place]:
        """Return the planned places that tell what belongs at a recorded one: one, or the attacks of a cell."""
        if member["label"] in self.foreign:
            member = {**member, "label": VANILLA, "defense": VANILLA}
        if _place(member, ("kind", "attack", "metric")) == ("attack", SUBMITTED, ""):
            return self.attacks.get(_place(member, CELL), []) if member["attack_label"].startswith(BY) else []
        return [place] if (place := _place(member)) in self.members else []


def _resolved(
    suite: str, members: Sequence[Labels], headers: Headers, foreign: Collection[str]
) -> tuple[list[Suite], dict[str, str]]:
    """Return the grids of a registered suite as far as a run has them, and the digests of graphs of users."""

    def names(key: str, kinds: Collection[str] = ()) -> list[Any]:
        own = (m.get(key, "") for m in members if (not kinds or m["kind"] in kinds) and m["attack"] != SUBMITTED)
        return [name for name in dict.fromkeys(own) if name != ""]

    labels = names("label")
    defenses = [VANILLA if name in foreign else name.removesuffix(TUNED).removesuffix(RELEASED) for name in labels]
    overrides: dict[str, Any] = {"models": names("model"), "defenses": list(dict.fromkeys(defenses))}
    overrides["datasets"] = list(dict.fromkeys(name.removesuffix(INDUCTIVE) for name in names("dataset")))
    overrides |= {"seeds": names("seed"), **({"attacks": attacks} if (attacks := names("attack_label")) else {})}
    measured: dict[str, Any] = {"explainers": names("explainer", ["explain"])}
    measured |= {"certificates": names("explainer", ["certify"])}
    measured |= {"metrics": names("metric"), "agreement": bool(names("label", ["agree"]))}
    overrides["assignments"] = [f"{key}={canonical(value)}" for key, value in measured.items() if value]
    tuned = any(label.endswith(TUNED) for label in labels)
    released = ["released"] if any(label.endswith(RELEASED) for label in labels) else []
    kinds = ["both" if tuned else "published", *released]
    recorded = [headers[member["step"]]["config"]["dataset"] for member in members if member["step"] in headers]
    contents = {data["name"]: data["source"]["content"] for data in recorded if "content" in data.get("source", {})}
    return [part for kind in kinds for part in resolve(suite, **overrides, settings=kind)], contents


def _place(member: Labels, keys: Sequence[str] = PLACE) -> Place:
    return tuple(member.get(key, "") for key in keys)


def _shown(member: Labels, key: str) -> Any:
    """Return what a place shows; older places lack it, or have seeds as a list."""
    value = member.get(key) or ""
    if key == "suite_seeds" and not isinstance(value, str):
        return spans(tuple(value))
    return list(value) if key == "flags" else value


def _other_setting(recorded: Config, expected: Config, other_code: bool) -> str:
    """Return the first setting that is not the planned one, in words; other code may plan other hashes and versions."""
    for key in sorted({*recorded, *expected} - {*APART} - ({*TEACHERS} if other_code else set())):
        if setting := difference(key, recorded.get(key), expected.get(key)):
            return setting
    same = canonical({**recorded, **dict.fromkeys(APART)}) == canonical({**expected, **dict.fromkeys(APART)})
    return "" if other_code or same else "the version of an entry is not the one"


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
