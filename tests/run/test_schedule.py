"""In which order the steps of a plan run: by the plan one at a time, else so that nobody waits for the longest one."""

from __future__ import annotations

import io
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fgai_bench.records.result import Result
from fgai_bench.records.store import Store
from fgai_bench.run import options
from fgai_bench.run.executors.base import Event, Job
from fgai_bench.run.options import Execution
from fgai_bench.run.plan import Step, plan
from fgai_bench.run.progress import PlainLines
from fgai_bench.run.resume import planned
from fgai_bench.run.schedule import Schedule
from fgai_bench.suites import resolve

SUITE = {
    "name": "some",
    "datasets": ["csbm-1e3", "csbm-1e5"],
    "models": ["gat", "gt"],
    "defenses": ["vanilla", "ln", "fgai"],
    "seeds": 1,
    "attacks": ["injection"],
}


class Noting:
    """Ends every job at once, one at a time, and notes in which order they came."""

    def __init__(self, slots: int) -> None:
        self.slots, self.jobs, self.came = slots, [], []

    def start(self) -> None:
        pass

    def submit(self, job: Job) -> None:
        self.jobs.append(job)
        self.came.append(job.hash)

    def events(self, timeout: float) -> list[Event]:
        made = Result(artifacts={"model": b"a model", "history": b"", "attacked": b""})
        return [Event(self.jobs.pop(0).hash, result=made)]

    def close(self) -> None:
        pass


def came(slots: int, folder: Path, suite: dict[str, Any] = SUITE) -> tuple[list[Step], list[Step]]:
    """The steps of the plan, and in the order in which they were run."""
    plan, executor = planned(suite, "cpu"), Noting(slots)
    with closing(Store(folder)) as store:
        observer = PlainLines(io.StringIO())
        schedule = Schedule(plan, store, executor, observer)
        observer.begin(plan, schedule.done, executor.slots)
        schedule.work()
    return list(plan.steps.values()), [plan.steps[hash] for hash in executor.came]


def test_one_at_a_time_they_run_in_the_order_of_the_plan(tmp_path: Path) -> None:
    plan, order = came(1, tmp_path)
    assert order == plan


@pytest.mark.parametrize("slots", [2, 3])
def test_the_longest_training_with_what_waits_for_it_is_started_first(slots: int, tmp_path: Path) -> None:
    plan, order = came(slots, tmp_path)
    assert sorted(step.hash for step in order) == sorted(step.hash for step in plan)
    trained = [step for step in order if step.kind == "train"]
    names = [tuple(step.config[key]["name"] for key in ("dataset", "model", "defense")) for step in trained]
    assert names[0] == ("csbm-1e5", "gt", "vanilla")  # its FGAI waits for it, and is the longest of all
    assert names.index(("csbm-1e5", "gt", "fgai")) <= slots  # as soon as it may
    assert names[-1] == ("csbm-1e3", "gat", "ln")


def test_what_is_trained_is_measured_before_more_is_trained(tmp_path: Path) -> None:
    _, order = came(2, tmp_path)
    waiting = 0
    for step in order:
        waiting += {"train": 2, "clean": -1, "attack": -1}[step.kind]
        assert waiting <= 2 * 2 + 2  # of the two that ran, and of the one that starts


def test_a_defense_of_which_nothing_is_known_comes_first(tmp_path: Path) -> None:
    _, order = came(2, tmp_path, {**SUITE, "defenses": ["vanilla", "fgai", "gnnguard"]})
    assert order[0].config["defense"]["name"] == "gnnguard"


def test_a_run_has_as_many_workers_as_there_are_free_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "cores", lambda: 8)
    steps = list(plan(resolve("quick", models=["gat"])).steps.values())
    for load, workers in ((0.2, 8), (5.6, 2), (20.0, 1)):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0.0, 0.0))
        assert Execution(device="cpu").executor_for(steps).slots == workers
    assert Execution(device="cpu", jobs=3).executor_for(steps).slots == 3
