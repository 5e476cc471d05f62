"""Run a suite into a folder, resume an interrupted run, and read the records of a run.

A run resumes by itself: every step has a hash (:func:`fgai_bench.run.plan.step_of`), and a step whose hash the folder
holds is not run again. :func:`run_plan` is where that is decided.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fgai_bench.records.errors import EmptyStore
from fgai_bench.records.lock import run_lock
from fgai_bench.records.result import RETRIED
from fgai_bench.records.store import FILE, Store, StoreReader, place_of
from fgai_bench.run.options import Execution
from fgai_bench.run.plan import Plan, plan, undeclared
from fgai_bench.run.preflight import check_data, check_options, checked_folder, resolved_device
from fgai_bench.run.progress import Observer
from fgai_bench.run.schedule import Schedule
from fgai_bench.suites import Suite, load_suite, resolve

if TYPE_CHECKING:
    import pandas as pd

# Of a configuration: what follows from other parts of it, or from the steps that it builds on.
DERIVED = ("code", "trained", "teacher", "attacked", "other", "crafted_on", "surrogate", "dataset")
DATA, CODE, SETTINGS = "on data that has changed since", "by other code", "with other settings"  # what steps were made


class Run:
    """The records of a run folder; they can be read at any time, also while the run is going on.

    Attributes:
        folder: the run folder.
        executed: how many steps the call that returned this object carried out.
        absent: the datasets that it left out because their files could not be had.
    """

    def __init__(self, folder: str | os.PathLike[str], executed: int = 0, absent: Sequence[str] = ()) -> None:
        self.folder = Path(folder)
        self.executed, self.absent = executed, tuple(absent)
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
            statuses = store.statuses()
            hashes = dict.fromkeys(member["step"] for member in store.members())
        return dict(Counter(statuses.get(hash, "waiting") for hash in hashes))


def run(
    suite: str | os.PathLike[str] | Suite | Mapping[str, Any] = "quick",
    out: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Run:
    """Run the steps of a suite that the run folder does not hold yet, and return the run.

    Args:
        suite: a name of ``SUITES``, the path of a YAML file, or its content.
        out: the run folder; ``runs/NAME`` if not given.
        options: how it is carried out, the fields of :class:`fgai_bench.run.options.Execution` (``device``, ``jobs``,
            ``executor``, ``address``, ``data_root``, ``plugins``, ``retry_failed``, ``observer``); and what is changed
            of the suite, as in :func:`fgai_bench.suites.resolve` (``datasets``, ``models``, ``defenses``, ``attacks``,
            ``seeds``, ``split``, ``settings``, ``assignments``).
    """
    execution, overrides = Execution.split(options)
    loaded = load_suite(suite)
    steps = planned(loaded, execution.device, execution.root, **overrides)
    folder = checked_folder(Path(out) if out is not None else Path("runs") / loaded.name)
    return run_plan(steps, folder, execution)


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
    """Return the digests of the graphs whose content no declaration tells, by dataset; these are read for it.

    A graph whose files cannot be had has none; the run leaves it out.
    """
    if not (own := undeclared(suites)):
        return {}
    from fgai_bench.data import MissingDataError, content_sha256

    digests = {}
    for name in own:
        with suppress(MissingDataError):
            digests[name] = content_sha256(name, data_root)
    return digests


def run_plan(steps: Plan, folder: Path, execution: Execution) -> Run:
    """Run the steps of a plan that the folder does not hold yet.

    A run that is there is repaired first, so that what was damaged is checked and run like the rest. Nothing else is
    written before all checks have passed.
    """
    observer = execution.observer
    absent: dict[str, str] = {}
    with ExitStack() as stack:
        held = stack.enter_context(repaired(folder, observer)) if statuses_in(folder) else None
        known = held.statuses() if held else {}
        todo = [step for hash, step in steps.steps.items() if hash not in known or _is_retried(known[hash], execution)]
        executor = stack.enter_context(closing(execution.executor_for(todo)))
        if todo:
            executor.start()
            check_options(todo)
            absent = check_data(todo, execution.root)
            steps = steps.without(absent)
        store = held or stack.enter_context(repaired(folder, observer))
        for sentence in (*superseded(steps, store), *steps.left_out):
            observer.said(sentence)
        store.place(member.plain() for member in steps.members)
        statuses = store.statuses()
        store.forget([hash for hash in steps.steps if _is_retried(statuses.get(hash), execution)])
        schedule = Schedule(steps, store, executor, observer)
        executed = len(schedule.waiting)
        if executed:
            observer.begin(steps, schedule.done, executor.slots)
            try:
                schedule.work()
            finally:
                observer.end()
    return Run(folder, executed, tuple(absent))


@contextmanager
def repaired(folder: Path, observer: Observer) -> Iterator[Store]:
    """Hold the lock of a run folder and open its store, after dropping what is damaged."""
    folder.mkdir(parents=True, exist_ok=True)
    with run_lock(folder), Store(folder) as store:
        for fault in store.repair():
            observer.said(f"{fault}; done")
        yield store


def _is_retried(status: str | None, execution: Execution) -> bool:
    return execution.retry_failed and status in RETRIED


def statuses_in(folder: Path) -> Mapping[str, str]:
    """Return the status of every step that a folder holds, by hash; nothing where it holds no run yet."""
    if not (folder / FILE).is_file():
        return {}
    try:
        with StoreReader(folder) as store:
            return store.statuses()
    except EmptyStore:
        return {}


def superseded(steps: Plan, store: StoreReader) -> list[str]:
    """Return a sentence about recorded steps whose places this plan gives to others: new data, code or settings."""
    if not store.statuses().keys() - steps.steps.keys():
        return []  # everything that is recorded stands in this plan
    places = {place_of(member): member["step"] for member in store.members()}
    recorded = store.headers()
    made: dict[str, set[str]] = {how: set() for how in (DATA, CODE, SETTINGS)}
    for member in steps.members:
        earlier = places.get(place_of(member.plain()), member.step)
        if earlier == member.step or earlier not in recorded:
            continue
        old, new = recorded[earlier]["config"], steps.steps[member.step].config
        pairs = [(old, new)]
        if old.get("trained") in recorded and new.get("trained") in steps.steps:
            pairs += [(recorded[old["trained"]]["config"], steps.steps[new["trained"]].config)]
        if any(was.get(key) != now.get(key) for was, now in pairs for key in now if key not in DERIVED):
            made[SETTINGS].add(earlier)
        else:
            made[CODE if old.get("dataset") == new.get("dataset") else DATA].add(earlier)
    kept = "they stay in the store and are not mixed with the new ones"
    return [f"{len(hashes)} recorded steps were made {how}; {kept}" for how, hashes in made.items() if hashes]
