"""Many steps: planning, resuming and recording cost about the same per step, however many there are."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchmarks.many_steps import fill, suite_of
from fgai_bench.records.result import Result
from fgai_bench.records.store import Store, StoreReader
from fgai_bench.report.write import write_report
from fgai_bench.run.executors.local import Event, Executor, Job
from fgai_bench.run.progress import PlainLines
from fgai_bench.run.resume import planned, run
from fgai_bench.run.schedule import Schedule

FEW, MANY = 100, 1000
SLACK = 1.5  # ten times the steps may take up to fifteen times as long; what is quadratic takes more


def cpu_seconds(work: Callable[[], Any]) -> float:
    """Return the least processor time of two calls."""
    times = []
    for _ in range(2):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Two finished runs, one of ten times the steps of the other."""
    folders = {steps: tmp_path_factory.mktemp("many") / str(steps) for steps in (FEW, MANY)}
    for steps, folder in folders.items():
        fill(folder, planned(suite_of(steps), "cpu"))
    return folders


def test_resuming_is_linear(runs: dict[int, Path]) -> None:
    def resume(steps: int) -> None:
        assert run(suite_of(steps), runs[steps], device="cpu").executed == 0

    few, many = (cpu_seconds(lambda steps=steps: resume(steps)) for steps in (FEW, MANY))
    assert many < SLACK * MANY / FEW * few


def test_reading_is_linear(runs: dict[int, Path]) -> None:
    def read(steps: int) -> None:
        with StoreReader(runs[steps]) as store:
            assert len(store.members()) == steps
            assert store.damaged() == {}
            assert len(store.provenance()) == steps
            assert set(store.records()["step"]) == set(store.statuses())

    few, many = (cpu_seconds(lambda steps=steps: read(steps)) for steps in (FEW, MANY))
    assert many < SLACK * MANY / FEW * few


class AtOnce:
    """An executor whose steps take no time."""

    slots = 2

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def submit(self, job: Job) -> None:
        self.jobs.append(job)

    def events(self, timeout: float) -> list[Event]:
        jobs, self.jobs = self.jobs, []
        results = [Result(artifacts={"model": b"m"} if job.config["kind"] == "train" else {}) for job in jobs]
        return [Event(job.hash, result=result) for job, result in zip(jobs, results, strict=True)]

    def close(self) -> None:
        pass


def test_a_step_costs_as_much_at_the_end_of_a_run_as_at_its_beginning(tmp_path: Path) -> None:
    finished: list[float] = []

    class Watch(PlainLines):
        def finished(self, step: Any, result: Result) -> None:
            super().finished(step, result)
            finished.append(time.process_time())

    executor: Executor = AtOnce()
    plan = planned(suite_of(MANY), "cpu")
    with closing(Store(tmp_path)) as store, (tmp_path / "said").open("w") as stream:
        observer = Watch(stream)
        schedule = Schedule(plan, store, executor, observer)
        observer.begin(plan, schedule.done, executor.slots)
        schedule.work()
    part = MANY // 4
    first, last = finished[part] - finished[0], finished[-1] - finished[-1 - part]
    assert len(finished) == MANY
    assert last < 2 * first


def test_planning_is_linear_and_shares_what_steps_have_in_common() -> None:
    few, many = (cpu_seconds(lambda steps=steps: planned(suite_of(steps), "cpu")) for steps in (FEW, MANY))
    assert many < SLACK * MANY / FEW * few
    steps = planned(suite_of(FEW), "cpu").steps
    for step in steps.values():
        if step.kind != "train":
            assert all(step.config[key] is steps[step.trial].config[key] for key in ("task", "dataset", "model"))


def test_a_report_needs_no_fact_that_a_task_may_leave_out(runs: dict[int, Path], tmp_path: Path) -> None:
    """These steps say how many edges their graph has, and not its name."""
    done = write_report(runs[FEW], tmp_path)
    assert (tmp_path / "index.md").is_file()
    assert "fig8_scale" in done.absent
