"""Run a suite into a folder, resume an interrupted run, and read the records of a run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

from fgai_bench.data import DATASETS, Dataset
from fgai_bench.runner.estimate import Estimate
from fgai_bench.runner.executors import Executor, Inline, Processes, WorkerSettings
from fgai_bench.runner.lock import RunLock
from fgai_bench.runner.plan import Plan, Step, plan
from fgai_bench.runner.preflight import (
    check_data,
    check_options,
    checked_data_root,
    checked_folder,
    resolved_device,
    visible_devices,
)
from fgai_bench.runner.progress import Observer
from fgai_bench.store.errors import RequestError
from fgai_bench.store.result import RETRIED
from fgai_bench.store.sqlite import FILE, Store, StoreReader
from fgai_bench.suites import Suite, load_suite, resolve

if TYPE_CHECKING:
    import pandas as pd

EXECUTORS = ("local", "inline", "ray")


class Run:
    """The records of a run folder; they can be read at any time, also while the run is going on.

    Attributes:
        folder: the run folder.
        executed: how many steps the call that returned this object carried out.
    """

    def __init__(self, folder: str | os.PathLike[str], executed: int = 0) -> None:
        self.folder = Path(folder)
        self.executed = executed
        with StoreReader(self.folder):
            pass

    def records(self) -> pd.DataFrame:
        """Return one row per step, metric and place in a suite; :mod:`fgai_bench.store.records` lists the columns."""
        with StoreReader(self.folder) as store:
            return store.records()

    def curves(self) -> pd.DataFrame:
        """Return one row per point of every curve."""
        with StoreReader(self.folder) as store:
            return store.curves()

    def provenance(self) -> pd.DataFrame:
        """Return one row per recorded step: configuration, data, environment, times, artifacts."""
        with StoreReader(self.folder) as store:
            return store.provenance()

    def counts(self) -> dict[str, int]:
        """Return how many planned steps have each status; ``waiting`` counts those not recorded yet."""
        with StoreReader(self.folder) as store:
            return counts(store)


def counts(store: StoreReader) -> dict[str, int]:
    """Return how many planned steps have each status; ``waiting`` counts those not recorded yet."""
    statuses = store.statuses()
    step_statuses = [
        statuses.get(hash, "waiting") for hash in dict.fromkeys(member["step"] for member in store.members())
    ]
    return {status: step_statuses.count(status) for status in dict.fromkeys(step_statuses)}


def known_times(folder: Path) -> tuple[set[str], Estimate]:
    """Return the hashes of the steps that a folder holds, and the time estimates learned from them."""
    estimate = Estimate()
    if not (folder / FILE).is_file():
        return set(), estimate
    with StoreReader(folder) as store:
        for step in store.steps():
            if step["status"] == "ok":
                estimate.learn(step["config"], step["seconds"])
        return set(store.statuses()), estimate


def planned(
    suite: str | os.PathLike[str] | Suite | Mapping[str, Any] = "quick", device: str = "auto", **overrides: Any
) -> Plan:
    """Return the plan of a suite on a device; overrides as in :func:`run`."""
    return plan(resolve(suite, **overrides), resolved_device(device))


def run(
    suite: str | os.PathLike[str] | Suite | Mapping[str, Any] = "quick",
    out: str | os.PathLike[str] | None = None,
    *,
    device: str = "auto",
    jobs: int | None = None,
    executor: str = "local",
    address: str | None = None,
    data_root: str | os.PathLike[str] | None = None,
    plugins: Sequence[str] = (),
    retry_failed: bool = False,
    observer: Observer | None = None,
    **overrides: Any,
) -> Run:
    """Run the steps of a suite that the run folder does not hold yet, and return the run.

    Args:
        suite: a name of ``SUITES``, the path of a YAML file, or its content.
        out: the run folder; ``runs/NAME`` if not given.
        device: ``auto``, ``cpu`` or ``cuda``.
        jobs: steps at a time; every processor on a CPU, one on a GPU if not given. Results do not depend on it.
        executor: ``local`` worker processes, ``inline`` in this process, or ``ray``.
        address: address of a Ray cluster; None starts one on this machine.
        data_root: folder of raw datasets.
        plugins: modules that workers import first.
        retry_failed: run again what failed, timed out or ran out of memory.
        observer: receives the events of the run.
        overrides: ``datasets``, ``models``, ``defenses``, ``attacks``, ``seeds``, ``assignments`` of
            :func:`fgai_bench.suites.resolve`.
    """
    _check_request(jobs, executor, address)
    loaded = load_suite(suite)
    root = checked_data_root(data_root)
    steps = planned(loaded, device, **overrides)
    folder = checked_folder(Path(out) if out is not None else Path("runs") / loaded.name)
    settings = WorkerSettings(tuple(plugins), root, datasets=graphs_in_memory(steps))
    return run_plan(steps, folder, settings, jobs, executor, address, retry_failed, observer)


def graphs_in_memory(steps: Plan) -> dict[str, Dataset]:
    """Return the datasets of a plan that are graphs of this process, which its workers cannot read from files."""
    names = dict.fromkeys(member.dataset for member in steps.members)
    return {name: DATASETS[name] for name in names if not isinstance(DATASETS[name].reader, str | FunctionType)}


def run_plan(
    steps: Plan,
    folder: Path,
    settings: WorkerSettings,
    jobs: int | None = None,
    executor: str = "local",
    address: str | None = None,
    retry_failed: bool = False,
    observer: Observer | None = None,
) -> Run:
    """Run the steps of a plan that the folder does not hold yet; arguments as in :func:`run`."""
    observer = observer or Observer()
    _check_request(jobs, executor, address)
    todo = [step for hash, step in steps.steps.items() if hash not in _finished(folder, retry_failed)]
    if todo:
        check_options(todo)
        check_data(todo, settings.data_root)
    with closing(_executor(executor, address, jobs, settings, todo)) as made:
        folder.mkdir(parents=True, exist_ok=True)
        with RunLock(folder), closing(Store(folder)) as store:
            for sentence in store.repair():
                observer.said(f"{sentence}; done")
            store.place(member.plain() for member in steps.members)
            if retry_failed:
                statuses = store.statuses()
                store.forget([hash for hash in steps.steps if statuses.get(hash) in RETRIED])
            executed = _carry_out(steps, store, observer, made)
    return Run(folder, executed)


def _check_request(jobs: int | None, executor: str, address: str | None) -> None:
    if jobs is not None and not 1 <= jobs <= 1024:
        raise RequestError(f"--jobs must lie between 1 and 1024, not {jobs}")
    if executor not in EXECUTORS:
        raise RequestError(f"unknown executor {executor!r}; possible are {', '.join(EXECUTORS)}")
    if address is not None and executor != "ray":
        raise RequestError("--address is the address of a Ray cluster; add --executor ray")


def _finished(folder: Path, retry_failed: bool) -> set[str]:
    """Return the hashes of the steps that a folder holds and that are not to be run again."""
    if not (folder / FILE).exists() or not (folder / FILE).stat().st_size:
        return set()
    with StoreReader(folder) as store:
        statuses = store.statuses()
    return {hash for hash, status in statuses.items() if not (retry_failed and status in RETRIED)}


def _carry_out(steps: Plan, store: Store, observer: Observer, made: Executor) -> int:
    """Run the waiting steps and return their number."""
    from fgai_bench.runner.schedule import Schedule

    schedule = Schedule(steps, store, made, observer)
    count = len(schedule.waiting)
    if count:
        observer.begin(steps, schedule.done, made.slots)
        try:
            schedule.work()
        finally:
            observer.end()
    return count


def _executor(
    kind: str, address: str | None, jobs: int | None, settings: WorkerSettings, todo: Sequence[Step]
) -> Executor:
    """Return the executor for these steps; a Ray cluster is contacted at once, so that a wrong address fails early."""
    device = todo[0].config["device"] if todo else "cpu"
    threads = max((step.config["threads"] for step in todo), default=1)
    settings = replace(settings, threads=threads)
    slots = jobs or (max(1, (os.cpu_count() or 1) // threads) if device == "cpu" else 1)
    if kind == "inline" or not todo:
        return Inline(settings)
    if kind == "ray":
        from fgai_bench.runner.ray_executor import RayExecutor

        return RayExecutor(address, slots, settings, gpu=device == "cuda")
    if device == "cuda":
        settings = replace(settings, devices=visible_devices())
    return Processes(min(slots, len(todo)), settings)
