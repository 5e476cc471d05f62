"""Lower a recorded row by an attacked graph that somebody else found: valid, stronger, and recorded with their name.

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
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks import ThreatModel
from fgai_bench.attacks.budget import Ledger, check_budget
from fgai_bench.records.canonical import plain, sha256
from fgai_bench.records.errors import RequestError
from fgai_bench.records.flags import SUBMITTED, attacked_score, change_budget, ranking_score
from fgai_bench.records.lock import RunLock
from fgai_bench.records.packing import changed_graph, clean_of, graph_digest, pack_attacked
from fgai_bench.records.provenance import environment
from fgai_bench.records.result import RecordedStep, Result
from fgai_bench.records.store import Store, StoreReader, is_export
from fgai_bench.records.verify import CodeCheck, RecordedRow
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
    content = _content(Path(attacked))
    with StoreReader(folder) as store:
        step, member = row_named(store, row)
        if is_present("attack", step["config"]) is False:
            raise RequestError(
                f"the row {row} was made by other code than this program's; their scores are not put together, so use "
                "the program that made it"
            )
        victim = RecordedRow(store, step, data_root)
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


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RequestError(f"{path} cannot be read: {error.strerror}") from None


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
