"""Many steps: planning, resuming and recording cost about the same per step, however many there are."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.many_steps import fill, suite_of
from fgai_bench.records.result import Result
from fgai_bench.records.store import Store, StoreReader
from fgai_bench.report.write import write_report
from fgai_bench.run.executors.base import Event, Job
from fgai_bench.run.progress import PlainLines
from fgai_bench.run.resume import planned, run
from fgai_bench.run.schedule import Schedule
from tests.counting import calls_of

FEW, MANY = 20, 100
SLACK = 1.2  # five times the steps may take up to six times the calls; what is quadratic takes more


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

    resume(FEW)  # what is imported or read at the first call
    few, many = (calls_of(lambda steps=steps: resume(steps)) for steps in (FEW, MANY))
    assert many < SLACK * MANY / FEW * few


def test_reading_is_linear(runs: dict[int, Path]) -> None:
    def read(steps: int) -> None:
        with StoreReader(runs[steps]) as store:
            assert len(store.members()) == steps
            assert store.damaged() == {}
            assert len(store.provenance()) == steps
            assert set(store.records()["step"]) == set(store.statuses())

    read(FEW)
    few, many = (calls_of(lambda steps=steps: read(steps)) for steps in (FEW, MANY))
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


def test_running_is_linear(tmp_path: Path) -> None:
    """A step costs as much at the end of a run as at its beginning."""

    def work(steps: int, folder: str) -> None:
        plan, executor = planned(suite_of(steps), "cpu"), AtOnce()
        with closing(Store(tmp_path / folder)) as store, (tmp_path / "said").open("w") as stream:
            observer = PlainLines(stream)
            schedule = Schedule(plan, store, executor, observer)
            observer.begin(plan, schedule.done, executor.slots)
            schedule.work()
            assert observer.count == steps

    work(FEW, "first")  # what is imported or read at the first call
    few, many = (calls_of(lambda steps=steps: work(steps, str(steps))) for steps in (FEW, MANY))
    assert many < SLACK * MANY / FEW * few


def test_planning_is_linear_and_shares_what_steps_have_in_common() -> None:
    planned(suite_of(FEW), "cpu")
    few, many = (calls_of(lambda steps=steps: planned(suite_of(steps), "cpu")) for steps in (FEW, MANY))
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
