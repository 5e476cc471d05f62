"""Judge a graph that somebody else made: does it lower a recorded row?

The graph comes as a file of what it changes, as :func:`fgai_bench.records.packing.pack_attacked` writes it. What it
spends is counted on the graph itself. A valid, stronger graph is recorded with the name of who found it.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fgai_bench.attacks.budget import Ledger
from fgai_bench.bounded import MIB, read_bounded
from fgai_bench.records.canonical import plain, sha256
from fgai_bench.records.errors import RequestError
from fgai_bench.records.flags import SUBMITTED, attacked_score, change_budget, ranking_score
from fgai_bench.records.lock import run_lock
from fgai_bench.records.packing import pack_attacked
from fgai_bench.records.provenance import environment
from fgai_bench.records.result import RecordedStep, Result
from fgai_bench.records.store import Store, StoreReader, is_export
from fgai_bench.records.verify import CodeCheck, RecordedRow
from fgai_bench.tasks.measurement import measured


@dataclass(frozen=True)
class Submission:
    """A submitted graph: the score that it leaves, the lowest before it, and its step if it is the stronger one."""

    score: float
    lowest: float
    ledger: Ledger
    step: str = ""


def submit(
    run: str | os.PathLike[str],
    row: str,
    attacked: str | os.PathLike[str],
    by: str,
    is_present: CodeCheck,
    data_root: str | None = None,
) -> Submission:
    """Score an attacked graph against a row of a run; record it if it leaves less than any attack of the same budget.

    ``row`` is the first digits of the hash of a recorded attack, ``attacked`` a safetensors file, ``by`` the name of
    who found it. ``is_present`` tells whether a step of a kind and configuration was made by the code that is here.

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
        limits, width = victim.threat.limits(), victim.problem.data.x.shape[1]
        rows = limits["nodes"] + limits["changed_nodes"]
        # A graph inside the row's budget has at most so many bytes, every number with eight of them.
        content = read_bounded(attacked, MIB + 8 * int(rows * (width + 1) + 4 * limits["edges"]))
        graph, ledger = victim.judged(content)
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
    config = submitted_config(victim.config, sha256(result.artifacts["attacked"]), name)
    made = RecordedStep(sha256(config), "attack", config, {}, step["trial"])
    place = {**member, "step": made.hash, "attack": SUBMITTED, "attack_label": f"{SUBMITTED} by {name}"}
    with run_lock(folder), Store(folder) as writer:
        writer.record(made, result)
        writer.place([place])
    return Submission(score, lowest, ledger, made.hash)


def row_named(store: StoreReader, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the recorded attack whose hash begins with ``name``, and its place."""
    members = {member["step"]: member for member in store.members() if member["kind"] == "attack"}
    known = members.keys() & store.ready() if len(name) >= 4 else set()
    matching = [hash for hash in known if hash.startswith(name.lower())]
    if len(matching) != 1:
        reason = f"{len(matching)} attacks begin with it" if matching else "no recorded attack begins with it"
        raise RequestError(
            f"{name!r} is no row of {store.folder}: {reason}; `fgai-bench verify {store.folder} --list` names them"
        )
    return store.step(matching[0]), members[matching[0]]


def submitted_config(attack: Mapping[str, Any], graph: str, by: str) -> dict[str, Any]:
    """Return the configuration of a submitted graph, given by its SHA-256: an attack of somebody, of a row's budget.

    No code of ours searched for it, and it was measured by the code that measured the row, whose configuration
    ``attack`` is.
    """
    keys = ("task", "dataset", "model", "defense", "seed", "trained", "threat", "threads")
    config = {
        **{key: attack[key] for key in keys},
        "kind": "attack",
        "attack": {"name": SUBMITTED, "version": "1", "options": {}, "by": by, "graph": graph},
        "attack_tags": [attack["threat"]["scenario"], SUBMITTED],
        "crafted_on": None,
        "device": "cpu",
        "code": {part: digest for part, digest in attack["code"].items() if part.split()[0] != "attack"},
    }
    return dict(plain(config))
