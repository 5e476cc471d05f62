"""Run a suite into a folder, resume an interrupted run, and read the records of a run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

from fgai_bench.data import DATASETS, Dataset
from fgai_bench.records.errors import EmptyStore, RequestError
from fgai_bench.records.lock import RunLock
from fgai_bench.records.result import RETRIED
from fgai_bench.records.store import FILE, Store, StoreReader, place_of
from fgai_bench.run.estimate import Estimate
from fgai_bench.run.executors.local import Executor, Inline, Processes, WorkerSettings
from fgai_bench.run.plan import Member, Plan, Step, plan, undeclared
from fgai_bench.run.preflight import (
    check_data,
    check_options,
    checked_data_root,
    checked_folder,
    resolved_device,
    visible_devices,
)
from fgai_bench.run.progress import Observer
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
        """Return one row per step, metric and place in a suite; :mod:`fgai_bench.records.frames` lists the columns."""
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
    hashes = dict.fromkeys(member["step"] for member in store.members())
    return dict(Counter(statuses.get(hash, "waiting") for hash in hashes))


def known_times(folder: Path) -> tuple[set[str], Estimate]:
    """Return the hashes of the steps that a folder holds, and the time estimates learned from them."""
    estimate = Estimate()
    if not (folder / FILE).is_file():
        return set(), estimate
    try:
        with StoreReader(folder) as store:
            for step in store.steps():
                if step["status"] == "ok":
                    estimate.learn(step["config"], step["seconds"])
            return set(store.statuses()), estimate
    except EmptyStore:
        return set(), estimate


def planned(
    suite: str | os.PathLike[str] | Suite | Mapping[str, Any] = "quick",
    device: str = "auto",
    data_root: str | None = None,
    **overrides: Any,
) -> Plan:
    """Return the plan of a suite on a device; overrides as in :func:`run`. Graphs of a user's own are read for it."""
    suites = resolve(suite, **overrides)
    return plan(suites, resolved_device(device), contents_of(suites, data_root))


def contents_of(suites: Iterable[Suite], data_root: str | None) -> dict[str, str]:
    """Return the digests of the graphs whose content no declaration tells, by dataset; these are read for it."""
    if not (own := undeclared(suites)):
        return {}
    from fgai_bench.data import content_sha256

    return {name: content_sha256(name, data_root) for name in own}


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
        overrides: ``datasets``, ``models``, ``defenses``, ``attacks``, ``seeds``, ``settings``, ``assignments`` of
            :func:`fgai_bench.suites.resolve`.
    """
    checked_request(jobs, executor, address)
    loaded = load_suite(suite)
    root = checked_data_root(data_root)
    steps = planned(loaded, device, root, **overrides)
    folder = checked_folder(Path(out) if out is not None else Path("runs") / loaded.name)
    settings = WorkerSettings(tuple(plugins), root, datasets=graphs_in_memory(steps.members))
    return run_plan(steps, folder, settings, jobs, executor, address, retry_failed, observer)


def graphs_in_memory(members: Iterable[Member]) -> dict[str, Dataset]:
    """Return the datasets of a plan that are graphs of this process, which its workers cannot read from files."""
    names = dict.fromkeys(member.dataset for member in members)
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
    checked_request(jobs, executor, address)
    finished = _finished(folder, retry_failed)
    todo = [step for hash, step in steps.steps.items() if hash not in finished]
    with closing(executor_for(executor, address, jobs, settings, todo)) as made:
        if todo:
            made.start()
            check_options(todo)
            check_data(todo, settings.data_root)
        folder.mkdir(parents=True, exist_ok=True)
        with RunLock(folder), closing(Store(folder)) as store:
            for sentence in store.repair():
                observer.said(f"{sentence}; done")
            for sentence in given_up(steps, store):
                observer.said(sentence)
            store.place(member.plain() for member in steps.members)
            if retry_failed:
                statuses = store.statuses()
                store.forget([hash for hash in steps.steps if statuses.get(hash) in RETRIED])
            executed = _carry_out(steps, store, observer, made)
    return Run(folder, executed)


# Of a configuration: what follows from other parts of it, or from the steps that it builds on.
FOLLOWS = ("code", "trained", "teacher", "attacked", "other", "crafted_on", "surrogate", "dataset")


def given_up(steps: Plan, store: StoreReader) -> list[str]:
    """Return a sentence about recorded steps whose places this plan gives to others: by new code, or on new data."""
    if not store.statuses().keys() - steps.steps.keys():
        return []  # everything that is recorded stands in this plan
    places = {place_of(member): member["step"] for member in store.members()}
    recorded = store.headers()
    code: set[str] = set()
    data: set[str] = set()
    for member in steps.members:
        earlier = places.get(place_of(member.plain()), member.step)
        if earlier == member.step or earlier not in recorded:
            continue
        old, new = recorded[earlier]["config"], steps.steps[member.step].config
        if all(old.get(key) == new.get(key) for key in new if key not in FOLLOWS):
            (code if old.get("dataset") == new.get("dataset") else data).add(earlier)
    kept = "they stay in the store and are not mixed with the new ones"
    return [
        f"{len(hashes)} recorded steps were made {how}; {kept}"
        for hashes, how in ((data, "on data that has changed since"), (code, "by other code"))
        if hashes
    ]


def checked_request(jobs: int | None, executor: str, address: str | None) -> None:
    """Raise if the number of jobs or the executor is not possible."""
    if jobs is not None and not 1 <= jobs <= 1024:
        raise RequestError(f"--jobs must lie between 1 and 1024, not {jobs}")
    if executor not in EXECUTORS:
        raise RequestError(f"unknown executor {executor!r}; possible are {', '.join(EXECUTORS)}")
    if address is not None and executor != "ray":
        raise RequestError("--address is the address of a Ray cluster; add --executor ray")


def _finished(folder: Path, retry_failed: bool) -> set[str]:
    """Return the hashes of the steps that a folder holds and that are not to be run again."""
    if not (folder / FILE).exists():
        return set()
    try:
        with StoreReader(folder) as store:
            statuses = store.statuses()
    except EmptyStore:
        return set()
    return {hash for hash, status in statuses.items() if not (retry_failed and status in RETRIED)}


def _carry_out(steps: Plan, store: Store, observer: Observer, made: Executor) -> int:
    """Run the waiting steps and return their number."""
    from fgai_bench.run.schedule import Schedule

    schedule = Schedule(steps, store, made, observer)
    count = len(schedule.waiting)
    if count:
        observer.begin(steps, schedule.done, made.slots)
        try:
            schedule.work()
        finally:
            observer.end()
    return count


def executor_for(
    kind: str,
    address: str | None,
    jobs: int | None,
    settings: WorkerSettings,
    todo: Sequence[Step],
    more: bool = False,
) -> Executor:
    """Return the executor for these steps; a Ray cluster is contacted at once, so that a wrong address fails early.

    ``more`` says that other steps of their kind will follow, so that more workers than steps may be needed.
    """
    device = todo[0].config["device"] if todo else "cpu"
    threads = max((step.config["threads"] for step in todo), default=1)
    settings = replace(settings, threads=threads)
    slots = jobs or (max(1, (os.cpu_count() or 1) // threads) if device == "cpu" else 1)
    if kind == "inline" or not todo:
        return Inline(settings)
    if kind == "ray":
        from fgai_bench.run.executors.ray import RayExecutor

        return RayExecutor(address, slots, settings, gpu=device == "cuda")
    if device == "cuda":
        settings = replace(settings, devices=visible_devices())
    return Processes(slots if more else min(slots, len(todo)), settings)
