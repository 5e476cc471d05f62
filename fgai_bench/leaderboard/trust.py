"""How far a board trusts a row: what is added is measured again from its model and attacked graph, or only reported.

``measured here``     trained and attacked by the program that shows it: everything that was not added
``measured again``    added; clean score, attacked score, ledger and floor were computed anew at the merge
``reported``          added as numbers; shown below the others, without a rank

A sample measures one seed of every (graph, model, defense), drawn when it is added, each with the same chance. What was
measured again takes the place of what was recorded. What joins a row that the board has, as an attack that lowers it or
a further seed, is measured in any case, and what cannot be measured joins none: no explanation and no gap.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fgai_bench.records.artifacts import MissingArtifact
from fgai_bench.records.errors import StoreError
from fgai_bench.records.names import place_in_words
from fgai_bench.records.result import AGAIN, REPORTED, SAMPLED
from fgai_bench.records.store import StoreReader, place_of
from fgai_bench.records.verify import KINDS, RecordedRow, doubts, misplaced_value
from fgai_bench.statistics.results import ReportError

Trust = Literal["all", "sample", "none"]
Block = tuple[str, ...]
BLOCK = ("suite", "task", "dataset", "model", "label")


@dataclass
class Known:
    """What a board holds before something is added: its rows, their trainings, its places, the trust in each step."""

    blocks: set[Block] = field(default_factory=set)
    trials: set[str] = field(default_factory=set)
    places: set[str] = field(default_factory=set)
    steps: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, store: StoreReader) -> Known:
        ready = {step["hash"]: step["trial"] for step in store.steps() if step["status"] == "ok"}
        members = [member for member in store.members() if member["step"] in ready]
        trust = {member["step"]: member.get("trust", "") for member in members}
        places = {place_of(member) for member in store.members()}
        return cls({_block(member) for member in members}, {ready[hash] for hash in trust}, places, trust)


def judged(
    store: StoreReader,
    known: Known,
    trust: Trust = "sample",
    data_root: str | None = None,
    say: Callable[[str], object] = lambda sentence: None,
) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """Return the trust in each step of a run that is added to a board, and those that were measured again, as they are.

    With the trust ``all`` everything that is new is measured, with ``sample`` one seed of each row, with ``none``
    nothing; ``say`` receives how much that is and how long it takes. Raises :class:`ReportError` if a step is not what
    it says.
    """
    ready = store.ready()
    members = {m["step"]: m for m in store.members() if m["step"] in ready and not m.get("metric")}
    labels = {hash: known.steps.get(hash, REPORTED) for hash in ready}
    for member in store.members():
        _refuse_unmeasurable(store, member, member["step"] in ready, known)
    for hash, flag in store.below_floors().items():
        raise ReportError(f"{place_in_words(members[hash])}: {flag}")
    blocks: dict[Block, list[dict[str, Any]]] = {}
    for hash, member in members.items():
        if hash not in known.steps and member["kind"] in KINDS:
            blocks.setdefault(_block(member), []).append(member)
    waiting: list[dict[str, Any]] = []
    for own in blocks.values():
        lacking = next((member for member in own if not _held(store, member["step"])), None)
        joins = any(_joins(store, member, True, known) for member in own)
        if joins and (lacking or trust == "none"):
            raise ReportError(
                f"{place_in_words(lacking or own[0])} joins a row of the board; that needs its model and its attacked "
                "graph, measured again, so export with `--with models,graphs` and leave out --trust none"
            )
        if trust != "none":
            seed = random.SystemRandom().choice(sorted({member["seed"] for member in own}))
            chosen = [member for member in own if joins or trust == "all" or member["seed"] == seed]
            waiting += chosen
            if not lacking:
                labels |= {member["step"]: SAMPLED for member in own} | {member["step"]: AGAIN for member in chosen}
    return labels, _measured(store, waiting, data_root, say)


def _refuse_unmeasurable(store: StoreReader, member: Mapping[str, Any], ready: bool, known: Known) -> None:
    """Raise if a step has a value that its kind does not have, or joins a row of the board and cannot be measured."""
    if member["step"] in known.steps:
        return
    if ready and member["kind"] != "audit" and (sentence := misplaced_value(store.step(member["step"]))):
        raise ReportError(f"{place_in_words(member)}: {sentence}")
    if ready and member["kind"] in KINDS and not member.get("metric"):
        return
    if _joins(store, member, ready, known) and place_of(member) not in known.places:
        raise ReportError(
            f"{place_in_words(member)} joins a row of the board, which nothing may do that is not measured again: no "
            "explanation, further metric or gap; export the run without it (`records export --defenses`)"
        )


def _joins(store: StoreReader, member: Mapping[str, Any], ready: bool, known: Known) -> bool:
    """Tell whether a step is about a row or a training that the board has."""
    return _block(member) in known.blocks or (ready and store.step(member["step"])["trial"] in known.trials)


def _measured(
    store: StoreReader, members: list[dict[str, Any]], data_root: str | None, say: Callable[[str], object]
) -> dict[str, dict[str, Any]]:
    """Return the steps whose model and graph are there as measured again; raise at the first that differs."""
    began, done = time.monotonic(), dict[str, dict[str, Any]]()
    trials: dict[str, list[dict[str, Any]]] = {}
    for member in members:
        trials.setdefault(store.step(member["step"])["trial"], []).append(member)
    trials = {trial: own for trial, own in trials.items() if _held(store, trial)}
    for number, own in enumerate(trials.values(), 1):
        for member in own:
            row = RecordedRow(store, store.step(member["step"]), data_root)
            try:
                if not (sentence := next(doubts(row), "")):
                    done[member["step"]] = row.measured_step
            except MissingArtifact:  # its graph stayed elsewhere: it is shown as reported
                continue
            except Exception as error:  # a forged file may make any reader fail
                sentence = " ".join(str(error).split()) or type(error).__name__
            if sentence:
                raise ReportError(f"{place_in_words(member)}, row {member['step'][:12]}: {sentence}")
        if number == 1 and len(trials) > 1:
            seconds = (time.monotonic() - began) * (len(trials) - 1)
            say(f"results of {len(trials)} models are measured again; about {seconds:.0f} s more")
    if done:
        say(f"{len(done)} results measured again in {time.monotonic() - began:.0f} s")
    return done


def _block(member: Mapping[str, Any]) -> Block:
    return tuple(member[key] for key in BLOCK)


def _held(store: StoreReader, hash: str) -> bool:
    """Tell whether a run holds the model and, of an attack, the attacked graph of a step; raise if one is damaged."""
    try:
        return bool(RecordedRow(store, store.step(hash)).contents)
    except (MissingArtifact, StoreError):
        return False
