"""How far a board trusts a row: what is added is measured again from its model and attacked graph, or only reported.

``measured here``     trained and attacked by the program that shows it: everything that was not added
``measured again``    added; clean score, attacked score, ledger and floor were computed anew at the merge
``reported``          added as numbers; shown below the others, without a rank

A sample measures one seed of every (graph, model, defense), drawn when it is added, so that nobody knows it before.
What joins a row that the board has, as an attack that lowers it or a further seed, is measured in any case.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fgai_bench.records.artifacts import MissingArtifact
from fgai_bench.records.errors import StoreError
from fgai_bench.records.flags import below_floors
from fgai_bench.records.names import place_in_words
from fgai_bench.records.result import AGAIN, REPORTED, SAMPLED
from fgai_bench.records.store import StoreReader
from fgai_bench.records.submit import doubts
from fgai_bench.records.verify import KINDS, RecordedRow
from fgai_bench.statistics.results import ReportError

Trust = Literal["all", "sample", "none"]
Block = tuple[str, ...]
BLOCK = ("suite", "task", "dataset", "model", "label")


@dataclass
class Known:
    """What a board holds before something is added: its rows, their trainings, and the trust in each step."""

    blocks: set[Block] = field(default_factory=set)
    trials: set[str] = field(default_factory=set)
    steps: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, store: StoreReader) -> Known:
        """Read what a board holds."""
        ready = {step["hash"]: step["trial"] for step in store.steps() if step["status"] == "ok"}
        members = [member for member in store.members() if member["step"] in ready]
        trust = {member["step"]: member.get("trust", "") for member in members}
        return cls({_block(member) for member in members}, {ready[hash] for hash in trust}, trust)


def judged(
    store: StoreReader,
    known: Known,
    trust: Trust = "sample",
    data_root: str | None = None,
    say: Callable[[str], object] = lambda sentence: None,
) -> dict[str, str]:
    """Return the trust in each step of a run that is added to a board; raise if one is not what it says.

    Args:
        store: the run.
        known: what the board holds.
        trust: ``all`` measures everything that is new, ``sample`` one seed of each row, ``none`` nothing.
        data_root: folder of raw datasets.
        say: receives how much is measured and how long it takes.
    """
    ready = {hash for hash, status in store.statuses().items() if status == "ok"}
    members = {m["step"]: m for m in store.members() if m["step"] in ready and not m.get("metric")}
    labels = {hash: known.steps.get(hash, REPORTED) for hash in ready}
    for hash, flag in below_floors(members.values(), ready, store.step).items():
        raise ReportError(f"{place_in_words(members[hash])}: {flag}")
    blocks: dict[Block, list[dict[str, Any]]] = {}
    for hash, member in members.items():
        if hash not in known.steps and member["kind"] in KINDS:
            blocks.setdefault(_block(member), []).append(member)
    waiting: list[dict[str, Any]] = []
    for block, own in blocks.items():
        lacking = next((member for member in own if not _held(store, member["step"])), None)
        joins = block in known.blocks or any(store.step(member["step"])["trial"] in known.trials for member in own)
        if joins and (lacking or trust == "none"):
            raise ReportError(
                f"{place_in_words(lacking or own[0])} joins a row of the board; that needs its model and its attacked "
                "graph, measured again, so export with `--with models,graphs` and leave out --trust none"
            )
        if trust != "none":
            seed = random.SystemRandom().choice([member["seed"] for member in own])
            chosen = [member for member in own if joins or trust == "all" or member["seed"] == seed]
            waiting += chosen
            if not lacking:
                labels |= {member["step"]: SAMPLED for member in own} | {member["step"]: AGAIN for member in chosen}
    _measure(store, waiting, data_root, say)
    return labels


def _measure(
    store: StoreReader, members: list[dict[str, Any]], data_root: str | None, say: Callable[[str], object]
) -> None:
    """Measure rows again whose model and graph are there, trial by trial; raise at the first that differs."""
    began, done = time.monotonic(), 0
    trials: dict[str, list[dict[str, Any]]] = {}
    for member in members:
        trials.setdefault(store.step(member["step"])["trial"], []).append(member)
    trials = {trial: own for trial, own in trials.items() if _held(store, trial)}
    for number, own in enumerate(trials.values(), 1):
        for member in own:
            try:
                sentence = next(doubts(RecordedRow(store, store.step(member["step"]), data_root)), "")
            except MissingArtifact:  # its graph stayed elsewhere: it is shown as reported
                continue
            except Exception as error:  # a forged file may make any reader fail
                sentence = " ".join(str(error).split()) or type(error).__name__
            if sentence:
                raise ReportError(f"{place_in_words(member)}, row {member['step'][:12]}: {sentence}")
            done += 1
        if number == 1 and len(trials) > 1:
            seconds = (time.monotonic() - began) * (len(trials) - 1)
            say(f"results of {len(trials)} models are measured again; about {seconds:.0f} s more")
    if done:
        say(f"{done} results measured again in {time.monotonic() - began:.0f} s")


def _block(member: Mapping[str, Any]) -> Block:
    return tuple(member[key] for key in BLOCK)


def _held(store: StoreReader, hash: str) -> bool:
    """Tell whether a run holds the model and, of an attack, the attacked graph of a step; raise if one is damaged."""
    try:
        return bool(RecordedRow(store, store.step(hash)).contents)
    except (MissingArtifact, StoreError):
        return False
