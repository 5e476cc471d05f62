"""Audit a finished run against Definition 1: one more step per trial and its vanilla model, added to the records."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fgai_bench.options import sentence
from fgai_bench.records.canonical import plain
from fgai_bench.records.errors import RequestError
from fgai_bench.records.store import StoreReader
from fgai_bench.run.options import Execution
from fgai_bench.run.plan import Member, Plan, Step, step_of
from fgai_bench.run.resume import Run, run_plan

KEPT = ("task", "dataset", "model", "defense", "seed", "threads")


def audit_run(
    folder: str | os.PathLike[str],
    options: Mapping[str, Any] | None = None,
    *,
    only: Mapping[str, Sequence[str]] | None = None,
    **execution: Any,
) -> Run:
    """Check every trained model of a run, and each vanilla model against itself, against Definition 1.

    Args:
        folder: the run folder.
        options: fields of :class:`fgai_bench.tasks.definition1.AuditOptions`.
        only: which models to audit: names by ``suite``, ``dataset``, ``model`` and ``label``; a missing key means all.
        execution: fields of :class:`fgai_bench.run.options.Execution`: ``device``, ``jobs``, ...
    """
    from fgai_bench.tasks.definition1 import AuditOptions

    how = Execution(**execution)
    try:
        validated = AuditOptions(**(options or {})).model_dump()
    except ValidationError as error:
        raise RequestError(f"the audit: {sentence(error, AuditOptions)}") from None
    with StoreReader(folder) as store:
        steps = audit_plan(store, validated, how.resolved_device, only or {})
    return run_plan(steps, Path(folder), how)


def audit_plan(store: StoreReader, options: Mapping[str, Any], device: str, only: Mapping[str, Sequence[str]]) -> Plan:
    """Return one audit step per trial and its vanilla model, after the two recorded trainings that it builds on."""
    steps: dict[str, Step] = {}
    members: list[Member] = []
    for key, names in only.items():
        there = sorted({str(member[key]) for member in store.members()})
        for name in names:
            if name not in there:
                raise RequestError(f"{store.folder} has no {key} {name!r}; it has {', '.join(there)}")
    for member, trained, teacher in _pairs(store, only):
        config = {
            **{key: trained.config[key] for key in KEPT},
            "trained": trained.hash,
            "teacher": teacher.hash,
            "audit": plain(dict(options)),
            "device": device,
        }
        step = step_of("audit", config, {"model": trained.hash, "teacher": teacher.hash}, trained.hash)
        steps |= {own.hash: own for own in (teacher, trained, step)}
        members.append(Member(**{**member, "kind": "audit", "step": step.hash, "flags": ()}))
    if not members:
        chosen = "".join(f" of {key} {', '.join(names)}" for key, names in only.items())
        raise RequestError(f"{store.folder} holds no trained node classifier{chosen} together with its vanilla model")
    return Plan(steps, tuple(members))


def _pairs(store: StoreReader, only: Mapping[str, Sequence[str]]) -> Iterator[tuple[dict[str, Any], Step, Step]]:
    """Yield member, training and vanilla training of every trial for which both trainings are recorded."""
    trained = [member for member in store.members() if member["kind"] == "train" and member["task"] == "node"]
    ready = store.ready()
    vanilla = {_cell(member): member["step"] for member in trained if member["defense"] == "vanilla"}
    for member in trained:
        if member["step"] not in ready or any(member[key] not in names for key, names in only.items()):
            continue
        own = _training(store, member["step"])
        teacher = own.inputs.get("teacher") or vanilla.get(_cell(member))
        if teacher in ready:
            yield member, own, _training(store, teacher)


def _cell(member: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(member[key] for key in ("suite", "task", "dataset", "model", "seed"))


def _training(store: StoreReader, hash: str) -> Step:
    config = store.step(hash)["config"]
    inputs = {"teacher": config["teacher"]} if config["teacher"] else {}
    return Step(hash, "train", config, inputs, hash)
