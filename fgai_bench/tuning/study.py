"""Run a study: every cell of a suite gets the same number of trials; finished steps are in the store, none is lost.

The store holds what was measured, by the hash of its configuration; what is suggested next follows from it. So a study
that was killed goes on where it was, with the same trials, and ends with the same choice as one that was not.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

from fgai_bench.data import MissingDataError
from fgai_bench.options import SuiteError
from fgai_bench.records.errors import RequestError
from fgai_bench.records.result import RETRIED, Result
from fgai_bench.records.store import Store
from fgai_bench.run.executors.base import Executor
from fgai_bench.run.options import Execution
from fgai_bench.run.plan import Plan, Step, Trial, validation_plan
from fgai_bench.run.preflight import check_data, check_options, checked_folder
from fgai_bench.run.progress import Observer
from fgai_bench.run.resume import contents_of, repaired
from fgai_bench.run.schedule import Schedule
from fgai_bench.seeds import derive
from fgai_bench.suites import Suite, resolve
from fgai_bench.tuning.cells import FINAL_ATTACK, FINAL_SEEDS, FINALISTS, TUNING_SEEDS, SearchCell, cells_of
from fgai_bench.tuning.outcome import SCORES, SearchOutcome, Tried
from fgai_bench.tuning.sampling import BATCH, suggest
from fgai_bench.tuning.write import write_outcomes


def tune(
    suite: str | os.PathLike[str] | Suite | Mapping[str, Any] = "node",
    out: str | os.PathLike[str] | None = None,
    *,
    trials: int = 32,
    seeds: Sequence[int] = TUNING_SEEDS,
    finals: Sequence[int] = FINAL_SEEDS,
    repeat: int = 1,
    **options: Any,
) -> list[SearchOutcome]:
    """Search the settings of every cell of a suite and return the outcomes; files are written to the folder ``out``.

    Args:
        suite: a name of ``SUITES``, the path of a YAML file, or its content; its own settings are trial 0.
        out: the run folder; ``runs/tune-NAME`` if not given. A study that it holds already is gone on with.
        trials: settings that are tried in each cell, the same number for every defense.
        seeds: split seeds that a trial is averaged over; those of evaluations are refused.
        finals: further ones, on which the four best trials of a cell and the suite's own settings meet the standard
            attack; the choice is made by these alone.
        repeat: how often each cell is searched, with other suggestions; the first search is the one that chooses.
        options: fields of :class:`fgai_bench.run.options.Execution`, and ``datasets``, ``models``, ``defenses`` and
            ``assignments`` of :func:`fgai_bench.suites.resolve`.
    """
    if find_spec("optuna") is None:
        raise RequestError("a search for settings needs Optuna: pip install optuna")
    execution, overrides = Execution.split(options)
    cells = cells_to_search(suite, trials, seeds, finals, repeat, **overrides)
    searched = cells[0].suite
    contents, device, observer = contents_of([searched], execution.root), execution.resolved_device, execution.observer
    folder = checked_folder(Path(out) if out is not None else Path("runs") / f"tune-{searched.name}")
    known = [trial for cell in cells for trial in (*cell.reference(), *cell.trained(0, {}))]
    first = list(validation_plan(known, device, contents).steps.values())  # all that is known before anything has run
    check_options(first)
    for reason in check_data(first, execution.root).values():
        raise MissingDataError(reason)
    with closing(execution.executor_for(first, more=True)) as executor, repaired(folder, observer) as store:
        if execution.retry_failed:
            store.forget([hash for hash, status in store.statuses().items() if status in RETRIED])
        outcomes: list[SearchOutcome] = []
        for _, group in groupby(cells, key=lambda cell: (cell.dataset, cell.task)):  # workers keep its graph
            searches = [CellSearch(cell, store, device, contents) for cell in group]
            SearchSchedule(searches, store, executor, observer).run()
            outcomes += [search.outcome() for search in searches]
        write_outcomes(folder, outcomes)
    return outcomes


def cells_to_search(
    suite: str | os.PathLike[str] | Suite | Mapping[str, Any],
    trials: int,
    seeds: Sequence[int],
    finals: Sequence[int],
    repeat: int,
    **overrides: Any,
) -> list[SearchCell]:
    """Return the cells that a study searches; arguments as in :func:`tune`."""
    parts = resolve(suite, **overrides)
    if len(parts) != 1:
        raise SuiteError(f"settings are searched for one suite at a time, not for {', '.join(p.name for p in parts)}")
    cells = cells_of(parts[0], trials, seeds, finals, repeat)
    if not cells:
        raise SuiteError("nothing to tune: no dataset of the suite is for one of its tasks, or no defense for them")
    return cells


@dataclass
class CellSearch:
    """The search of one cell: the settings suggested so far, in order, and the steps that measure them."""

    cell: SearchCell
    store: Store
    device: str
    contents: Mapping[str, str] = field(default_factory=dict)
    values: list[dict[str, Any]] = field(default_factory=list)
    steps: list[dict[int, str]] = field(default_factory=list)
    reference: dict[int, str] = field(default_factory=dict)
    complete: bool = False

    def next_batch(self, done: set[str]) -> Plan | None:
        """Suggest the next batch if all earlier trials are done, and return its plan; None if not, or at the end."""
        waiting = [hash for steps in (*self.steps, self.reference) for hash in steps.values() if hash not in done]
        if waiting or self.complete:
            return None
        outcome = self.outcome() if self.values else None
        if len(self.values) >= self.cell.trials:
            return self._confirmation(outcome)
        history = [(tried.values, outcome.value(tried)) for tried in outcome.tried] if outcome else []
        numbers = range(len(self.values), min(len(self.values) + BATCH, self.cell.trials))
        seed = derive(0, f"search {self.cell.name}")
        self.values += [suggest(self.cell.space, history, seed, number) for number in numbers]
        self.steps += [{} for _ in numbers]
        trained = [(self.steps[number], self.cell.trained(number, self.values[number])) for number in numbers]
        reference = [] if self.reference else [(self.reference, self.cell.reference())]
        return self._planned([*reference, *trained], "validation")

    def _confirmation(self, outcome: SearchOutcome | None) -> Plan | None:
        """Return the plan of the final, best trials and suite's own under the standard attack; None at the end."""
        seeds, finalists = self.cell.finals, []
        if outcome is not None and not self.reference.keys() >= {*seeds}:
            best = outcome.best(FINALISTS)
            finalists = [*best, *(own for own in outcome.tried[:1] if own.ok and own not in best)]
        if len(finalists) < 2:
            self.complete = True
            return None
        trained = [(self.steps[t.number], self.cell.trained(t.number, t.values, seeds)) for t in finalists]
        return self._planned([(self.reference, self.cell.reference(seeds)), *trained], FINAL_ATTACK)

    def _planned(self, groups: Sequence[tuple[dict[int, str], list[Trial]]], attack: str) -> Plan:
        """Return the plan of some trials; the hash of each goes to the steps beside it, by its seed."""
        plan = validation_plan([trial for _, trials in groups for trial in trials], self.device, self.contents, attack)
        hashes = (member.step for member in plan.members)
        for steps, trials in groups:
            steps.update({trial.seed: next(hashes) for trial in trials})
        return plan

    def outcome(self) -> SearchOutcome:
        tried = [self._tried(number) for number in range(len(self.values))]
        scores = {seed: self.store.result(hash).metrics for seed, hash in self.reference.items()}
        references = {seed: own["validation_clean"] for seed, own in scores.items() if "validation_clean" in own}
        return SearchOutcome(self.cell, tried, references)

    def _tried(self, number: int) -> Tried:
        results = {seed: self.store.result(hash) for seed, hash in self.steps[number].items()}
        failed = [f"{result.status}: {result.reason}" for result in results.values() if result.status != "ok"]
        scores = {seed: {name: r.metrics[name] for name in SCORES if name in r.metrics} for seed, r in results.items()}
        final = {seed: scores.pop(seed) for seed in self.cell.finals if seed in scores}
        seconds = sum(r.seconds for r in results.values())
        return Tried(number, self.values[number], scores, failed[0] if failed else "", seconds, final)


class SearchSchedule(Schedule):
    """Searches that share their workers: whenever a batch of one is complete, its next batch is added."""

    def __init__(self, searches: Sequence[CellSearch], store: Store, executor: Executor, observer: Observer) -> None:
        super().__init__(Plan({}, ()), store, executor, observer)
        self.searches = searches

    def run(self) -> None:
        """Run all trials that the store does not hold."""
        self.observer.begin(self.plan, (), self.executor.slots)
        try:
            self._add_batches()
            self.work()
        finally:
            self.observer.end()

    def _record(self, step: Step, result: Result) -> None:
        super()._record(step, result)
        self._add_batches()

    def _add_batches(self) -> None:
        for search in self.searches:
            while (plan := search.next_batch(self.done)) is not None:
                self.store.place(member.plain() for member in plan.members)
                new = {hash: step for hash, step in plan.steps.items() if hash not in self.plan.steps}
                self.plan.steps.update(new)
                self.wait_for(new.values())
                numbers = {m.step: int(m.label.rpartition("#")[2]) for m in plan.members if "#" in m.label}
                words = {hash: search.cell.words_for(number) for hash, number in numbers.items()}
                self.observer.extended(new.values(), self.done, words)
