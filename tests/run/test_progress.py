"""Observers of a run: plain lines for files and pipes, a display with bars for terminals."""

from __future__ import annotations

import io
import re

import pytest

from fgai_bench.records.result import Result
from fgai_bench.run.plan import Kind, Plan, Step
from fgai_bench.run.progress import observer_for


class Terminal(io.StringIO):
    """Collect what is written to a terminal."""

    def isatty(self) -> bool:
        return True

    def frames(self) -> list[str]:
        """Return the text without control sequences, cut before each drawing of the display."""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.getvalue()).split("all steps")


def step(hash: str, kind: Kind, **methods: str) -> Step:
    names = {"task": "node", "dataset": "cora", "model": "gat", "defense": "fgai", **methods}
    config = {"kind": kind, "seed": 0} | {key: {"name": name} for key, name in names.items()}
    return Step(hash, kind, config, {}, hash)


TRAIN, CLEAN, ATTACK = step("a", "train"), step("b", "clean"), step("c", "attack", attack="injection")
PLAN = Plan({step.hash: step for step in (TRAIN, CLEAN, ATTACK)}, ())


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    return Terminal()


def test_a_file_gets_one_line_per_finished_step() -> None:
    stream = io.StringIO()
    observer = observer_for(stream)
    observer.said("one file was repaired")
    observer.begin(PLAN, {"b"}, 2)
    observer.started(TRAIN)
    observer.advanced("a", 3, 20)
    observer.tick()
    observer.finished(TRAIN, Result(metrics={"f1": 0.81234, "g_jsd": 1e-3, "g_tvd": 0.5}, seconds=2.04))
    observer.finished(ATTACK, Result("oom", "too large"))
    observer.end()
    assert stream.getvalue().splitlines() == [
        "note: one file was repaired",
        "2 of 3 steps to run, 2 at a time",
        "[2/3] train node cora gat fgai seed 0: f1 0.8123, g_jsd 0.0010, 2.0 s (1 s left)",
        "[3/3] attack node cora gat fgai seed 0 injection: oom: too large (0 s left)",
    ]


def test_the_time_left_is_that_of_the_finished_steps_shared_by_the_slots() -> None:
    stream = io.StringIO()
    observer = observer_for(stream)
    observer.begin(Plan({hash: step(hash, "train") for hash in "abcde"}, ()), (), 2)
    observer.finished(step("a", "train"), Result(seconds=20.0))
    assert stream.getvalue().endswith("20.0 s (40 s left)\n")


def test_a_terminal_shows_all_steps_and_the_running_ones(terminal: Terminal) -> None:
    observer = observer_for(terminal)
    observer.begin(PLAN, {"b"}, 2)
    observer.started(TRAIN)
    observer.advanced("a", 3, 20)
    observer.started(ATTACK)
    overall, train, attack = terminal.frames()[-1].splitlines()
    assert "1/3, unknown left" in overall
    assert "train node cora gat fgai seed 0 " in train
    assert "epoch 3/20" in train
    assert "attack node cora gat fgai seed 0 injection" in attack
    observer.finished(TRAIN, Result(metrics={"f1": 0.8}, seconds=2.0))
    observer.finished(ATTACK, Result(seconds=2.0))
    observer.end()
    final = terminal.frames()[-1]
    assert "3/3, 0 s left" in final
    assert "cora" not in final


def test_a_terminal_keeps_notes_and_failures_but_not_values(terminal: Terminal) -> None:
    observer = observer_for(terminal)
    observer.begin(PLAN, (), 1)
    observer.said("[a] was repaired")
    observer.finished(TRAIN, Result(metrics={"f1": 0.8}, seconds=2.0))
    observer.finished(CLEAN, Result("failed", "no such file"))
    observer.end()
    text = "".join(terminal.frames())
    assert "note: [a] was repaired" in text
    assert "clean node cora gat fgai seed 0: failed: no such file" in text
    assert "0.8000" not in text


def test_a_step_that_starts_again_has_one_bar(terminal: Terminal) -> None:
    observer = observer_for(terminal)
    observer.begin(PLAN, (), 1)
    observer.started(TRAIN)
    observer.started(TRAIN)
    assert terminal.frames()[-1].count("train node") == 1
    observer.end()


def test_a_step_that_is_done_again_is_counted_once() -> None:
    """The training was done, its checkpoint is lost: what is left grows, and the count never exceeds the total."""
    stream = io.StringIO()
    observer = observer_for(stream)
    observer.begin(PLAN, {"a", "b"}, 1)
    for again in (TRAIN, ATTACK):
        observer.started(again)
        observer.finished(again, Result(seconds=1.0))
    counts = [line.partition("]")[0] for line in stream.getvalue().splitlines()[1:]]
    assert counts == ["[2/3", "[3/3"]
