"""Results: the content of a store arranged by place (suite, task, dataset, model, defense, attack) and seed.

Come here for what every table, figure and verdict reads.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from fgai_bench.defenses import DEFENSES
from fgai_bench.metrics import METRICS
from fgai_bench.records import frames
from fgai_bench.records.artifacts import MissingArtifact
from fgai_bench.records.frames import LEDGER, PlacedStep
from fgai_bench.records.merge import made_by_other_code
from fgai_bench.records.names import is_changed, titles
from fgai_bench.records.result import REPORTED
from fgai_bench.records.store import DRAWN_ROLES, StoreReader
from fgai_bench.statistics.labels import ordered

if TYPE_CHECKING:
    import pandas as pd

Better = Literal["higher", "lower", "none"]
MISSING = "not run yet; the same `fgai-bench run` goes on with it"
MAIN_SUITES = ("node", "quick", "definition", "stress")  # the first of them that holds a graph is asked about it
SIDE_SUITES = ("ablation", "cost", "scale", "published-budgets", "deviations")  # of other settings, budgets or aims
PLACE = ("suite", "kind", "task", "dataset", "model", "label", "attack_label", "explainer")
UNCHECKED = "reported: nobody has measured it again"
OTHER_CODE = "made by other code or settings than the rest of its suite; `fgai-bench run` makes it anew"


class ReportError(ValueError):
    """What was asked cannot be reported; the message says what can."""


class Place(NamedTuple):
    """Where measurements stand, whatever their seed."""

    suite: str
    kind: str
    task: str
    dataset: str
    model: str
    label: str
    attack: str = ""
    explainer: str = ""


@dataclass(frozen=True)
class Measurement:
    """One step at one place and seed: its values, or why there are none."""

    # ok, oom, timeout, failed, not-applicable, or missing for a planned step that has not been run
    status: str
    reason: str = ""
    values: Mapping[str, float] = field(default_factory=dict)  # metric to value, costs included
    # metric to the status and the reason of one that has no value here
    reasons: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    ledger: Mapping[str, float] = field(default_factory=dict)  # what the attack spent
    threat: str = ""  # the budget it was given, as canonical JSON
    step: str = ""
    device: str = ""
    commit: str | None = None
    package: str = ""  # with the version of each plugin that it used
    trials: int = 0  # how many settings were tried to choose those of its training; 0 for the suite's own settings
    score: str = ""  # the metric that ranks it, where its dataset declares one; empty for the task's own
    trust: str = ""  # of the board that it was added to; empty for what was measured here


@dataclass(frozen=True, eq=False)
class Results:
    """All measurements of a run, read once; hashed by identity, so that what is computed from them can be cached."""

    places: Mapping[Place, Mapping[int, Measurement]]  # place to seed to measurement, in the order of the plan
    defenses: Mapping[str, str]  # label to the registered name of its defense
    curves: pd.DataFrame  # one row per point, as the store gives it
    provenance: pd.DataFrame  # one row per step, as the store gives it
    # step and role to the content of what figures are drawn from, as far as it is there
    artifacts: Mapping[tuple[str, str], bytes]
    # suite to what to call it: its name, and what was changed of it
    titles: Mapping[str, str] = field(default_factory=dict)
    # steps that were made by other code or settings than the rest of their suite; they count as not run
    other_code: frozenset[str] = frozenset()

    @classmethod
    def read(cls, folder: str | os.PathLike[str], suite: str | None = None) -> Results:
        """Read everything that a run folder or an export holds, or what stands in one of its suites."""
        with StoreReader(folder) as store:
            members, steps = store.members(), store.by_hash()
            told = list(frames.placed_steps(members, steps))
            artifacts = _drawn(store, {each.step["hash"]: each.step for each in told}.values())
        if not told:
            raise ReportError(f"{folder} has no recorded step of its plan yet; the command that began its run goes on")
        curves = frames.curves(members, steps)
        names = ordered(member["suite"] for member in members)
        if suite is not None and suite not in names:
            raise ReportError(f"the run {folder} has no suite {suite!r}; it has: {', '.join(names) or 'none'}")
        kept = [member for name in names if suite in (None, name) for member in members if member["suite"] == name]
        others = made_by_other_code(members, steps)
        if others:
            curves = curves[~curves["step"].isin(others)]
        return cls(
            _arranged(kept, told, curves, others),
            {member["label"]: member["defense"] for member in kept},
            curves[curves["suite"].isin([member["suite"] for member in kept])],
            frames.provenance(steps),
            artifacts,
            titles(members),
            frozenset(others),
        )

    def replaces_model(self, label: str) -> bool:
        """Tell whether the defense of a label trains a network of its own in place of the model."""
        name = self.defenses.get(label, label)
        return name in DEFENSES and "replaces-model" in DEFENSES.entry(name).tags

    def title(self, suite: str) -> str:
        """Return what to call a suite: its name, and what was changed of it."""
        return self.titles.get(suite, suite)

    def score(self, task: str, dataset: str) -> str:
        """Return the metric that ranks a dataset of a task: what it declares, else F1."""
        return self.scores.get((task, dataset), "f1")

    @cached_property
    def scores(self) -> dict[tuple[str, str], str]:
        """Return the metric that ranks a task and dataset, for datasets that declare one."""
        every = self.places.items()
        return {(place.task, place.dataset): m.score for place, seeds in every for m in seeds.values() if m.score}

    @property
    def remarks(self) -> list[str]:
        """Return what a reader of any table of these records should know, a sentence for each."""
        sentences = [
            f"{title} is another experiment than the suite as it is declared; leaderboards and the paper's numbers do "
            "without it"
            for title in map(self.title, self.suites)
            if is_changed(title)
        ]
        if self.other_code:
            number = len(self.other_code)
            sentences.append(
                f"{number} recorded steps were made by other code or settings than the rest and are not mixed with it"
            )
        return sentences

    @property
    def suites(self) -> list[str]:
        """Return the suites that the run holds: those of the paper's tables first, others in the order of the plan."""
        return list(dict.fromkeys(place.suite for place in self.places))

    def at(self, place: Place) -> Mapping[int, Measurement]:
        """Return the measurements at a place by seed; none where nothing was planned."""
        return self.places.get(place, {})

    def select(self, **wanted: str) -> Iterator[tuple[Place, Mapping[int, Measurement]]]:
        """Yield the places with these names, in the order of the plan."""
        near = self.places
        if {"suite", "kind"} <= wanted.keys():
            near = self._by_suite_and_kind.get((wanted.pop("suite"), wanted.pop("kind")), {})
        for place, seeds in near.items():
            if all(getattr(place, key) == value for key, value in wanted.items()):
                yield place, seeds

    @cached_property
    def _by_suite_and_kind(self) -> dict[tuple[str, str], dict[Place, Mapping[int, Measurement]]]:
        """Return the places of each suite and kind, which most questions name."""
        groups: dict[tuple[str, str], dict[Place, Mapping[int, Measurement]]] = {}
        for place, seeds in self.places.items():
            groups.setdefault((place.suite, place.kind), {})[place] = seeds
        return groups

    def names(self, key: str, **wanted: str) -> list[str]:
        """Return the distinct values of one part of a place."""
        return list(dict.fromkeys(getattr(place, key) for place, _ in self.select(**wanted)))

    @cached_property
    def identity(self) -> str:
        """Return a short hash over every recorded value: the same content has the same one."""
        content = [
            [list(place), seed, m.step, m.status, sorted(m.values.items())]
            for place, seeds in self.places.items()
            for seed, m in seeds.items()
        ]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]

    @cached_property
    def version(self) -> str:
        """Return the commits and package versions that gave the results, in words."""
        return _versions(self.provenance)

    def version_of(self, suite: str) -> str:
        """Return the commits and package versions of one suite; of all where no suite is called so."""
        steps = {step.step for place, seeds in self.select(suite=suite) for step in seeds.values()}
        frame = self.provenance
        return _versions(frame[frame["hash"].isin(steps)] if steps else frame)

    @cached_property
    def own_metrics(self) -> dict[str, Better]:
        """Return the metrics that suites of this run name beyond the built-in ones, with the way that is better."""
        frame = self.provenance
        texts = frame[frame["kind"] == "measure"]["config"] if len(frame) else ()
        declared = [json.loads(text)["metric"] for text in texts]
        own = [metric for metric in declared if metric["name"] not in METRICS or not METRICS.entry(metric["name"]).ours]
        return {metric["name"]: metric["direction"] for metric in sorted(own, key=lambda metric: metric["name"])}

    def artifact(self, step: str, role: str) -> dict[str, Any] | None:
        """Return the arrays of an artifact of a step, by name; None where the step has none, or left it behind."""
        from safetensors.numpy import load

        content = self.artifacts.get((step, role))
        return None if content is None else load(content)


def main_suite(results: Results, kind: str = "attack") -> str:
    """Return the suite that the paper's figures are drawn from: the first known one, else the user's own, if any."""
    held = results.names("suite", kind=kind, task="node")
    own = [suite for suite in held if suite not in SIDE_SUITES]
    return next((suite for suite in (*MAIN_SUITES, *own) if suite in held), "")


def _drawn(store: StoreReader, steps: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], bytes]:
    """Return the content of the artifacts that figures are drawn from, by step and role, if they are here."""
    contents = {}
    for step in steps:
        for row in step["artifacts"]:
            if row["role"] in DRAWN_ROLES:
                with suppress(MissingArtifact):
                    contents[step["hash"], row["role"]] = store.artifacts.read(row["sha256"])
    return contents


def _arranged(
    members: Iterable[Mapping[str, Any]], told: Iterable[PlacedStep], curves: pd.DataFrame, others: Collection[str]
) -> dict[Place, dict[int, Measurement]]:
    """Return measurements by place and seed; a planned step without a record is there as ``missing``."""
    places: dict[Place, dict[int, Measurement]] = {}
    for member in members:
        if member.get("metric"):
            continue  # it stands where the step stands that it measures more of
        reason = OTHER_CODE if member["step"] in others else MISSING
        known = {"trials": member.get("trials", 0), "score": member.get("score", ""), "trust": member.get("trust", "")}
        missing = Measurement("missing", reason, step=member["step"], flags=tuple(member["flags"]), **known)
        places.setdefault(_place(member), {})[member["seed"]] = missing
    standing: dict[tuple[Place, int], list[PlacedStep]] = {}
    for each in told:
        if each.rows and each.step["hash"] not in others:
            standing.setdefault((_place(each.member), each.member["seed"]), []).append(each)
    for (place, seed), group in standing.items():
        if place in places:
            places[place][seed] = _measured(places[place][seed], group)
    for row in curves[curves["kind"] == "audit"].to_dict("records"):
        if (place := _place(row)) in places:  # a value of its own: ``beta_2_mean@0.5`` for the radius 0.5
            step = places[place][row["seed"]]
            values = {**step.values, f"{row['curve']}@{row['x']:g}": row["y"]}
            places[place][row["seed"]] = replace(step, values=values)
    return {**places, **_best_floors(places)}


def _best_floors(places: Mapping[Place, Mapping[int, Measurement]]) -> dict[Place, dict[int, Measurement]]:
    """Return the highest floor of each trial, at the place of its certificates without the name of one."""
    best: dict[Place, dict[int, Measurement]] = {}
    for place, seeds in places.items():
        for seed, step in seeds.items() if place.kind == "certify" else ():
            known = best.setdefault(place._replace(explainer=""), {})
            proven = f"certified_{step.score or 'f1'}"
            if known.get(seed, step).values.get(proven, -1) <= step.values.get(proven, -1):
                known[seed] = step
    return best


def _place(row: Mapping[str, Any]) -> Place:
    return Place(*(row[name] for name in PLACE))


def _measured(planned: Measurement, group: Sequence[PlacedStep]) -> Measurement:
    """Return what is told at one place: by the step that stands there, and by those that measure more of it."""
    first, rows = group[0], [row for each in group for row in each.rows]
    own = [row for row in rows if row.metric]
    whole = "ok" if any(row.status == "ok" for row in own) else rows[0].status
    where = first.step["environment"]
    plugins = [f"{name} {version}".strip() for name, version in where.get("plugins", {}).items()]
    return replace(
        planned,
        status=whole,
        reason="" if whole == "ok" else rows[0].reason,
        values={row.metric: row.value for row in own if row.status == "ok"},
        reasons={row.metric: (row.status, row.reason) for row in own if row.status != "ok"},
        flags=(*first.flags, *([UNCHECKED] if planned.trust == REPORTED else [])),
        ledger={name: first.ledger[name] for name in LEDGER if not math.isnan(first.ledger.get(name, math.nan))},
        threat=first.threat,
        step=first.step["hash"],
        device=where.get("device") or "",
        commit=where.get("commit"),
        package=" + ".join([where.get("package") or "", *plugins]),
    )


def _versions(provenance: pd.DataFrame) -> str:
    """Return the programs behind some steps, each once."""
    known = set(provenance[["commit", "dirty", "package"]].itertuples(index=False, name=None))
    programs = [
        f"commit {commit[:7]}{' with changes' if dirty is True else ''}"
        if isinstance(commit, str)
        else f"fgai-bench {package}"
        for commit, dirty, package in sorted(known, key=str)
    ]
    return ", ".join(dict.fromkeys(programs)) or "no commit"
