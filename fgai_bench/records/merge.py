"""Merge the stores of one study's pieces: choose the result that holds for a step and the step that holds a place.

An ``ok`` result holds over one without values, ``not-applicable`` over a failure, and the latest of several failures.
Two results with values must agree: the same metrics, ledger and flags, every value to a relative 1e-5 (pieces run on
machines that round differently). Then the earliest holds, whatever the order of the runs; on a board, that of the
board, since an added run may name any date. Refused are results that do not agree, a place with results of two steps,
two trainings of one trial with different weights, and a result that was measured on another training than the one that
holds: nothing that is about one model is put beside another. A later piece that is started from an export of the
earlier one, models included, goes on from the same checkpoints. What gives way is listed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fgai_bench.records.names import place_in_words, titles
from fgai_bench.records.store import StoreReader, place_of

RELATIVE, ABSOLUTE = 1e-5, 1e-9
MEASURED = 1e-3, 2e-3  # the same of what a board measured again, maybe on another machine than the run that is added
GOOD = ("ok", "not-applicable")
WAITING = "waiting"
SETTINGS = ("model", "defense", "training", "inner", "threat")  # of a configuration: the same for every seed of a row


class MergeError(ValueError):
    """Runs that contradict each other; the message says where, and what can be done."""


@dataclass(frozen=True)
class StoredResult:
    """One recorded result of a step, and the store that it is from."""

    store: StoreReader
    step: Mapping[str, Any]

    @property
    def rank(self) -> int:
        """Return 0 for values, 1 for ``not-applicable``, 2 for a failure; the smaller one holds."""
        status = self.step["status"]
        return GOOD.index(status) if status in GOOD else len(GOOD)


@dataclass(frozen=True)
class Merged:
    """The results that hold after a merge, by hash, the places, and the steps that do not hold, with the reason."""

    steps: dict[str, StoredResult]
    members: list[dict[str, Any]]
    superseded: list[dict[str, str]]

    def by_suite(self) -> dict[str, dict[str, int]]:
        """Return how many steps of each suite have each status, by the title of the suite."""
        return counts_by_suite(self.members, {hash: result.step["status"] for hash, result in self.steps.items()})


def counts_by_suite(members: Iterable[Mapping[str, Any]], statuses: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """Return how many steps of each suite have each status, by the title of the suite; :data:`WAITING` if not run."""
    placed = list(members)
    named, suites = titles(placed), dict[str, dict[str, int]]()
    for suite, hash in {(named[member["suite"]], member["step"]): None for member in placed}:
        counts, status = suites.setdefault(suite, {}), statuses.get(hash, WAITING)
        counts[status] = counts.get(status, 0) + 1
    return suites


def in_words(counts: Mapping[str, int]) -> str:
    """Return counts by status in words.

    >>> in_words({"oom": 1, "ok": 3})
    '3 ok, 1 oom'
    """
    return ", ".join(f"{number} {status}" for status, number in sorted(counts.items()))


def merge(stores: Sequence[StoreReader], first_holds: bool = False) -> Merged:
    """Merge the steps and places of all stores, or raise :class:`MergeError` where they contradict each other.

    With ``first_holds``, as on a board, results that agree are taken from the first store that has them.
    """
    recorded: dict[str, list[StoredResult]] = {}
    places: dict[str, list[dict[str, Any]]] = {}
    for store in stores:
        for step in store.steps():
            recorded.setdefault(step["hash"], []).append(StoredResult(store, step))
        for member in store.members():
            places.setdefault(place_of(member), []).append(member)
    words = {member["step"]: place_in_words(member) for members in places.values() for member in members}
    superseded: list[dict[str, str]] = []
    steps = {}
    for hash, results in sorted(recorded.items()):
        kept = steps[hash] = _holding_result(results, words.get(hash, hash[:12]), first_holds)
        for result in results:
            if any(result.step[key] != kept.step[key] for key in ("status", "reason", "started", "environment")):
                same = result.rank == kept.rank < len(GOOD)
                why = "the same values" if same else f"{result.step['status']} gave way to {kept.step['status']}"
                superseded.append({"step": hash, "why": why})
    members = []
    for candidates in places.values():
        members.append(_holding_member(candidates, steps))
        lost = {candidate["step"] for candidate in candidates} - {members[-1]["step"]}
        why = f"another step stands at {place_in_words(members[-1])}"
        superseded += [{"step": step, "why": why} for step in sorted(lost)]
    for hash, result in steps.items() if len(stores) > 1 else ():
        _refuse_orphan(result, steps.get(result.step["trial"]), words.get(hash, hash[:12]))
    return Merged(steps, members, superseded)


def _refuse_orphan(result: StoredResult, training: StoredResult | None, words: str) -> None:
    """Raise if a result says that it was measured on a model which is not that of the training that holds."""
    own = result.step["facts"].get("trained_model")
    if own is None or (training is not None and _model_hash(training.step) == own):
        return
    held = f"{training.store.folder} has" if training is not None else "none of the runs has"
    which = "another model than the one that" if training is not None else "a model that"
    raise MergeError(
        f"{result.store.folder} measured {words} on {which} {held}; results of different trainings are not put "
        "together, so leave one of the runs out, or start the later one from an export of the earlier one with its "
        "models (`fgai-bench records import`)"
    )


def _holding_result(results: Sequence[StoredResult], words: str, first_holds: bool) -> StoredResult:
    """Return the result that holds for one step, or raise :class:`MergeError` where results contradict each other."""
    best = min(result.rank for result in results)
    equals = [result for result in results if result.rank == best]
    if best >= len(GOOD):
        return max(equals, key=lambda result: result.step["started"])
    for first, second in pairwise(equals):
        if difference := differing(first.step, second.step, *(MEASURED if first_holds else ())):
            raise MergeError(
                f"{first.store.folder} and {second.store.folder} have different results for {words}: {difference}; "
                "leave one of them out"
            )
    return equals[0] if first_holds else min(equals, key=lambda result: result.step["started"])


def differing(
    step: Mapping[str, Any], other: Mapping[str, Any], relative: float = RELATIVE, absolute: float = ABSOLUTE
) -> str:
    """Return the first value on which two results of a step differ, in words; empty if they agree. Costs may differ."""
    values, other_values = _compared_values(step), _compared_values(other)
    for name in sorted(values.keys() | other_values.keys()):
        a, b = values.get(name), other_values.get(name)
        close = isinstance(a, float) and isinstance(b, float) and are_close(a, b, relative, absolute)
        if a != b and not close:
            return f"{name} is {a} and {b}"
    return ""


def are_close(a: float, b: float, relative: float, absolute: float) -> bool:
    """Tell whether two values differ by no more than is allowed; NaN is the same as NaN."""
    return math.isclose(a, b, rel_tol=relative, abs_tol=absolute) or (math.isnan(a) and math.isnan(b))


def _compared_values(step: Mapping[str, Any]) -> dict[str, float | str]:
    """Return everything on which two results of a step must agree, by name: status, measures, ledger, flags, model."""
    rows: Iterable[Mapping[str, Any]] = [row for row in step["metrics"] if row["family"] == "measure"]
    values = {row["name"]: row["reason"] if row["value"] is None else float(row["value"]) for row in rows}
    spent = {f"ledger {row['name']}": float(row["value"]) for row in step["ledgers"]}
    flags, model = "; ".join(row["reason"] for row in step["flags"]), _model_hash(step)
    return {"status": step["status"], **values, **spent, "flags": flags, **({"model": model} if model else {})}


def _model_hash(step: Mapping[str, Any]) -> str | None:
    """Return the hash of a training's model: trainings may agree in every value and differ in their weights."""
    return next((row["sha256"] for row in step["artifacts"] if row["role"] == "model"), None)


def _holding_member(candidates: Sequence[dict[str, Any]], steps: Mapping[str, StoredResult]) -> dict[str, Any]:
    """Return the member that holds a place: that of the better result, of the latest plan among failures."""
    ranks = [steps[member["step"]].rank if member["step"] in steps else len(GOOD) + 1 for member in candidates]
    equals = [member for member, its_rank in zip(candidates, ranks, strict=True) if its_rank == min(ranks)]
    if min(ranks) >= len(GOOD):
        return equals[-1]
    if len({member["step"] for member in equals}) > 1:
        raise MergeError(
            f"two different steps have results for {place_in_words(equals[0])}, as when it ran on two kinds of device "
            "or by two versions of the code; leave one of the runs out"
        )
    return equals[0]


def made_by_other_code(members: Iterable[Mapping[str, Any]], steps: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return the recorded steps that do not belong with the latest ones, or whose training does not.

    They were made by other code than the latest of their suite, or with other settings than the latest of their row, as
    where a suite file was changed between the runs of two seeds.
    """
    made: dict[tuple[str, str], dict[str, Any]] = {}  # by suite and step: the code by its parts, the settings by row
    for member in sorted((m for m in members if m["step"] in steps), key=lambda m: steps[m["step"]]["started"]):
        step = steps[member["step"]]
        parts = made.setdefault((member["suite"], member["step"]), fingerprints(step))
        parts[place_of({**member, "seed": ""})] = [step["config"].get(key) for key in SETTINGS]
    latest = {(suite, part): own for (suite, _), parts in made.items() for part, own in parts.items()}
    stale = {place for place, parts in made.items() if any(latest[place[0], part] != parts[part] for part in parts)}
    return {hash for suite, hash in made if {(suite, hash), (suite, steps[hash]["trial"])} & stale}


def fingerprints(step: Mapping[str, Any]) -> dict[str, str]:
    """Return the fingerprints of the code that decided a step, by the part and the name of what it computes."""
    kind, config, task = step["kind"], step["config"], step["config"].get("task", {}).get("name", "")
    named = {part: entry for part, entry in config.items() if isinstance(entry, dict)}
    names = {part: entry.get("name") or entry.get("attack") for part, entry in named.items()}
    names |= {"task": f"{task} {task}", "measure": f"{kind} {task}", "audit": f"{kind} {task}"}  # in earlier records
    return {f"{part} {names.get(part, kind)}": own for part, own in config.get("code", {}).items()}
