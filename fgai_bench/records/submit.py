"""Judge what somebody else made: a graph that lowers a recorded row (:func:`submit`), or a whole row (:func:`doubts`).

A valid, stronger graph is recorded with the name of who found it.

The graph comes as a safetensors file of what it changes, as :func:`fgai_bench.records.packing.pack_attacked` writes it:

====================  =====================================================================================
``edges``             ``(2, E)`` new edges, each in both directions; injected nodes are numbered after the others
``features``          ``(n, F)`` features of the injected nodes
``changed``           ``(m,)`` existing nodes whose features change; ``changed_features`` ``(m, F)``: theirs
====================  =====================================================================================

Its metadata name the clean graph by its digest. What it spends is counted on the graph itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks import ATTACKS, ThreatModel
from fgai_bench.attacks.budget import Ledger, check_budget
from fgai_bench.bounded import MIB, read_bounded
from fgai_bench.certificates import best_floor
from fgai_bench.metrics import NotApplicable
from fgai_bench.records.canonical import plain, sha256
from fgai_bench.records.errors import RequestError
from fgai_bench.records.flags import BEATEN, SUBMITTED, attacked_score, change_budget, ranking_score
from fgai_bench.records.lock import RunLock
from fgai_bench.records.packing import changed_graph, clean_of, graph_digest, pack_attacked
from fgai_bench.records.provenance import environment
from fgai_bench.records.result import RecordedStep, Result
from fgai_bench.records.store import Store, StoreReader, is_export
from fgai_bench.records.verify import SHARE, CodeCheck, RecordedRow, differences
from fgai_bench.tasks.measurement import measured

PARTS = ("edges", "features", "changed", "changed_features")


@dataclass(frozen=True)
class Submission:
    """What became of a submitted graph: the score that it leaves, the lowest before it, and where it was recorded."""

    score: float
    lowest: float
    ledger: Ledger
    step: str = ""

    @property
    def accepted(self) -> bool:
        """Tell whether it is stronger than everything that was recorded."""
        return bool(self.step)


def submit(
    run: str | os.PathLike[str],
    row: str,
    attacked: str | os.PathLike[str],
    by: str,
    is_present: CodeCheck,
    data_root: str | None = None,
) -> Submission:
    """Score an attacked graph against a row of a run; record it if it leaves less than any attack of the same budget.

    Args:
        run: the run folder.
        row: the first digits of the hash of a recorded attack.
        attacked: the safetensors file.
        by: the name of who found it.
        is_present: tells whether a step of a kind and configuration was made by the code that is here.
        data_root: folder of raw datasets.

    Raises :class:`RequestError` or :class:`BudgetExceeded` where the graph is not one that the row's attacker may make.
    """
    folder, name = Path(run), " ".join(by.split())
    if not name or len(name) > 80:
        raise RequestError("--by needs the name of who found the graph, at most 80 characters")
    if is_export(folder):
        raise RequestError(f"{folder} is an export; `fgai-bench records import {folder} --out RUN` makes a run of it")
    with StoreReader(folder) as store:
        step, member = row_named(store, row)
        if is_present("attack", step["config"]) is False:
            raise RequestError(
                f"the row {row} was made by other code than this program's; their scores are not put together, so use "
                "the program that made it"
            )
        victim = RecordedRow(store, step, data_root)
        content = read_bounded(attacked, _largest(victim))
        graph, ledger = checked_graph(victim, content)
        found = measured(victim.problem.attack_offers(victim.model, graph))
        rivals = [other for other in store.steps() if other["kind"] == "attack" and other["trial"] == step["trial"]]
        model = sha256(store.artifact(step["trial"], "model"))
    same = [other for other in rivals if change_budget(other) == change_budget(step)]
    lowest = min(score for other in same if (score := attacked_score(other)) is not None)
    score = ranking_score(step["config"], found.metrics)
    assert score is not None, "an attack is measured by what ranks it"
    if not score < lowest:
        return Submission(score, lowest, ledger)
    result = Result(
        metrics=found.metrics,
        not_applicable=found.not_applicable,
        curves=found.curves,
        ledger={key: float(value) for key, value in asdict(ledger).items()},
        facts={**victim.problem.provenance, "trained_model": model},
        artifacts={"attacked": pack_attacked(victim.problem.data, graph)},
        environment=environment("cpu", victim.config["threads"]),
        started=time.time(),
    )
    made = _step(victim, result.artifacts["attacked"], name)
    place = {**member, "step": made.hash, "attack": SUBMITTED, "attack_label": f"{SUBMITTED} by {name}"}
    with RunLock(folder), closing(Store(folder)) as writer:
        writer.record(made, result)
        writer.place([place])
    return Submission(score, lowest, ledger, made.hash)


def row_named(store: StoreReader, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the recorded attack whose hash begins with ``name``, and its place."""
    members = {member["step"]: member for member in store.members() if member["kind"] == "attack"}
    ready = {hash for hash, status in store.statuses().items() if status == "ok"}
    found = [hash for hash in members if hash.startswith(name.lower()) and hash in ready] if len(name) >= 4 else []
    if len(found) != 1:
        reason = f"{len(found)} attacks begin with it" if found else "no recorded attack begins with it"
        raise RequestError(
            f"{name!r} is no row of {store.folder}: {reason}; `fgai-bench verify {store.folder} --list` names them"
        )
    return store.step(found[0]), members[found[0]]


def _largest(victim: RecordedRow) -> int:
    """Return the bytes that a graph inside the row's budget has at most, every number with eight of them."""
    limits, width = ThreatModel(**victim.config["threat"]).limits(), victim.problem.data.x.shape[1]
    rows = limits["nodes"] + limits["changed_nodes"]
    return MIB + 8 * int(rows * (width + 1) + 4 * limits["edges"])


def checked_graph(victim: RecordedRow, content: bytes) -> tuple[Data, Ledger]:
    """Return the attacked graph of a file and what it spends; raise if the row's attacker may not make it."""
    clean = victim.problem.data
    try:
        parts = load(content)
    except (SafetensorError, ValueError) as error:
        raise RequestError(f"the file is no safetensors file: {' '.join(str(error).split())}") from None
    if parts.get("removed", torch.empty(0)).numel():
        raise RequestError("the graph removes edges; in every threat model the original edges stay")
    for name in parts:
        if name not in (*PARTS, "removed"):
            raise RequestError(f"the file has a tensor {name!r}; possible are {', '.join(PARTS)}")
    if clean_of(content) != graph_digest(clean):
        raise RequestError("the file is a difference from another clean graph than the row's, or names none")
    _check_shapes(clean, parts)
    for name in ("features", "changed_features"):
        if not bool(torch.isfinite(parts[name]).all()):
            raise RequestError(f"{name} has a value that is NaN or infinite")
    graph = changed_graph(clean, parts)
    return graph, check_budget(clean, graph, ThreatModel(**victim.config["threat"]), victim.targets)


def _check_shapes(clean: Data, parts: dict[str, Tensor]) -> None:
    """Fill in parts that are absent, and raise if one has another shape or type than it must have."""
    width, nodes = clean.x.shape[1], clean.x.shape[0]
    empty = {
        "edges": torch.empty(2, 0, dtype=torch.long),
        "features": torch.empty(0, width),
        "changed": torch.empty(0, dtype=torch.long),
        "changed_features": torch.empty(0, width),
    }
    for name in PARTS:
        part = parts.setdefault(name, empty[name])
        whole = name in ("edges", "changed")
        if part.is_floating_point() == whole or part.dim() != empty[name].dim():
            kind = "whole" if whole else "floating-point"
            raise RequestError(f"{name} must have {kind} numbers along {empty[name].dim()} axes")
        parts[name] = part.long() if whole else part.float()
    wide = parts["features"].shape[1] == width == parts["changed_features"].shape[1]
    if parts["edges"].shape[0] != 2 or not wide or len(parts["changed"]) != len(parts["changed_features"]):
        raise RequestError(f"edges must have two rows, features {width} columns, each changed node a row of features")
    for name, limit in (("edges", nodes + len(parts["features"])), ("changed", nodes)):
        if parts[name].numel() and not 0 <= int(parts[name].min()) <= int(parts[name].max()) < limit:
            raise RequestError(f"{name} names a node that is not there; nodes are numbered from 0 to {limit - 1}")


def _step(victim: RecordedRow, graph: bytes, by: str) -> RecordedStep:
    """Return the step of a submitted graph: an attack of the row's budget that somebody found.

    No code of ours searched for it, and it was measured by the code that measured the row.
    """
    keys = ("task", "dataset", "model", "defense", "seed", "trained", "threat", "threads")
    config: dict[str, Any] = {
        **{key: victim.config[key] for key in keys},
        "kind": "attack",
        "attack": {"name": SUBMITTED, "version": "1", "options": {}, "by": by, "graph": sha256(graph)},
        "attack_tags": [victim.config["threat"]["scenario"], SUBMITTED],
        "crafted_on": None,
        "device": "cpu",
        "code": {part: digest for part, digest in victim.config["code"].items() if part.split()[0] != "attack"},
    }
    return RecordedStep(sha256(config), "attack", plain(config), {}, victim.step["trial"])


def doubts(row: RecordedRow) -> Iterator[str]:
    """Yield why a row is not what it says: held against its model, its graph, a proof and the published attack."""
    kind, recorded = row.step["kind"], attacked_score(dict(row.step))
    model = row.store.artifact(row.step["trial"], "model")
    if row.step["facts"].get("trained_model", sha256(model)) != sha256(model):
        yield "it was measured on another model than the one that is here"
    if kind == "attack" and recorded is not None and row.config["threat"]["scenario"] == "injection":
        yield from _below_floor(row, recorded)
    if kind == "attack":
        checked_graph(row, row.contents["attacked"])
    yield from differences(row)
    name = row.config["attack"]["name"] if kind == "attack" else ""
    if name in ATTACKS and "standard" in ATTACKS.entry(name).tags and recorded is not None:
        left = _published_attack(row)
        if left < recorded - BEATEN:
            yield f"the published attack leaves {left:.4f} where `{name}` is recorded as {recorded:.4f}"


def _below_floor(row: RecordedRow, recorded: float) -> Iterator[str]:
    problem, threat = row.problem, ThreatModel(**row.config["threat"])
    if row.config["task"]["name"] != "node" or row.targets is None:
        return
    try:
        floor = best_floor(row.model, problem.data, problem.targets, threat.resolved(problem.data))
    except NotApplicable:
        return
    if floor.score > recorded + (0 if row.is_exact else SHARE):
        yield f"{recorded:.4f} is recorded, below the floor {floor.score:.4f} that {floor.kind!r} proves for its model"


def _published_attack(row: RecordedRow) -> float:
    """Return the score that the published attack leaves, which the standard attack includes."""
    problem, threat = row.problem, ThreatModel(**row.config["threat"])
    attack = ATTACKS["injection"]()
    found = attack(row.model, problem.data, problem.targets, threat=threat, seed=0, readout=problem.readout)
    metrics = measured(problem.attack_offers(row.model, found.data)).metrics
    return next(metrics[name] for name in ("f1", "roc_auc") if name in metrics)
