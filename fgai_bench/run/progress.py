"""Show how far a run has come: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO

from fgai_bench.records.result import Result
from fgai_bench.run.estimate import Estimate, Key, similarity_key, spoken
from fgai_bench.run.plan import Plan, Step
from fgai_bench.run.spent import TimeSpent

if TYPE_CHECKING:
    from rich.progress import TaskID


class Observer:
    """Receive the events of a run; this class ignores them, and its subclasses show them."""

    def begin(self, plan: Plan, done: Iterable[str], slots: int) -> None:
        """Receive the plan when a run starts.

        Args:
            plan: all steps of the run.
            done: hashes of the steps that the store holds already.
            slots: how many steps run at a time.
        """

    def extended(self, steps: Iterable[Step], done: Iterable[str]) -> None:
        """Receive steps that were added to the plan, and the hashes of those that the store holds already."""

    def started(self, step: Step) -> None:
        """Receive a step that was given to a worker."""

    def advanced(self, hash: str, epoch: int, epochs: int) -> None:
        """Receive the number of epochs that the training with this hash has completed, and how many it will take."""

    def finished(self, step: Step, result: Result) -> None:
        """Receive a step whose result was written to the store."""

    def said(self, sentence: str) -> None:
        """Receive a sentence for the person who started the run."""

    def tick(self) -> None:
        """Update what depends on the clock; called about twice per second."""

    def end(self) -> None:
        """Close the display; called when the run is complete, interrupted or broken."""


class PlainLines(Observer):
    """Print one line per finished step."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stdout
        self.total = 0
        self.slots = 1
        self.estimate = Estimate()
        self.spent = TimeSpent()
        self.left: set[str] = set()
        self.left_by_key: Counter[Key] = Counter()

    @property
    def count(self) -> int:
        """Return how many steps are done."""
        return self.total - len(self.left)

    def begin(self, plan: Plan, done: Iterable[str], slots: int) -> None:
        self.left = set(plan.steps).difference(done)
        self.left_by_key = Counter(similarity_key(plan.steps[hash].config) for hash in self.left)
        self.total, self.slots = len(plan.steps), slots
        self.spent.workers = slots
        if self.left:
            self._print(f"{len(self.left)} of {self.total} steps to run, {slots} at a time")

    def extended(self, steps: Iterable[Step], done: Iterable[str]) -> None:
        known = set(done)
        for step in steps:
            self.total += 1
            if step.hash not in known:
                self.left.add(step.hash)
                self.left_by_key[similarity_key(step.config)] += 1

    def started(self, step: Step) -> None:
        if step.hash not in self.left:  # its artifact was lost: what was done is done again
            self.left.add(step.hash)
            self.left_by_key[similarity_key(step.config)] += 1

    def finished(self, step: Step, result: Result) -> None:
        if step.hash in self.left:
            self.left.remove(step.hash)
            self.left_by_key[similarity_key(step.config)] -= 1
        if result.status == "ok":
            self.estimate.learn(step.config, result.seconds)
        self.spent.add(step.kind, result.seconds)
        self._show(step, result)

    def said(self, sentence: str) -> None:
        self._print(f"note: {sentence}")

    def time_left(self) -> float | None:
        """Return the estimated seconds until the run is complete; None while no similar step has finished."""
        seconds, unknown = self.estimate.sums(+self.left_by_key)
        known = len(self.left) - unknown
        return seconds / known * len(self.left) / self.slots if known else None if unknown else 0.0

    def _show(self, step: Step, result: Result) -> None:
        """Print the result of a step that was just counted."""
        self._print(f"[{self.count}/{self.total}] {title(step)}: {outcome(result)} ({spoken(self.time_left())} left)")

    def _print(self, line: str) -> None:
        print(line, file=self.stream, flush=True)


class Live(PlainLines):
    """Show a bar for all steps and one for every running step; print only notes and steps without a value."""

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.table import Column

        self.display = Progress(
            TextColumn("{task.description}", markup=False, table_column=Column(ratio=3)),
            BarColumn(bar_width=None, table_column=Column(ratio=1)),
            TextColumn("{task.fields[state]}", markup=False),
            TimeElapsedColumn(),
            console=Console(file=self.stream),
            refresh_per_second=4,
            transient=True,
            expand=True,
        )
        self.overall = self.display.add_task("all steps", state="")
        self.running: dict[str, TaskID] = {}

    def begin(self, plan: Plan, done: Iterable[str], slots: int) -> None:
        super().begin(plan, done, slots)
        self.display.reset(self.overall, total=self.total)
        self.tick()
        self.display.start()

    def extended(self, steps: Iterable[Step], done: Iterable[str]) -> None:
        super().extended(steps, done)
        self.display.update(self.overall, total=self.total)

    def started(self, step: Step) -> None:
        super().started(step)
        self._remove(step)  # a step that ran out of memory beside others starts a second time
        self.running[step.hash] = self.display.add_task(title(step), total=None, state="")

    def advanced(self, hash: str, epoch: int, epochs: int) -> None:
        if hash in self.running:
            state = f"epoch {epoch}/{epochs}"
            self.display.update(self.running[hash], completed=epoch, total=epochs, state=state)

    def tick(self) -> None:
        state = f"{self.count}/{self.total}, {spoken(self.time_left())} left"
        self.display.update(self.overall, completed=self.count, state=state)

    def end(self) -> None:
        self.display.stop()

    def _show(self, step: Step, result: Result) -> None:
        self._remove(step)
        if result.status != "ok":
            self._print(f"{title(step)}: {outcome(result)}")
        self.tick()

    def _remove(self, step: Step) -> None:
        """Remove the bar of a step, if it has one."""
        if step.hash in self.running:
            self.display.remove_task(self.running.pop(step.hash))

    def _print(self, line: str) -> None:
        self.display.console.print(line, markup=False, highlight=False)


def title(step: Step) -> str:
    """Return a few words that name a step: its kind, the names of its parts, and its seed."""
    config = step.config
    names = [config[key]["name"] for key in ("task", "dataset", "model", "defense")]
    methods = [config[key]["name"] for key in ("attack", "explainer", "metric") if key in config]
    return " ".join([step.kind, *names, f"seed {config['seed']}", *methods])


def outcome(result: Result) -> str:
    """Return a few words about a result: its scores and seconds, or its status and the reason for it."""
    if result.status != "ok":
        return f"{result.status}: {result.reason}"
    shown = ("f1", "roc_auc", "g_jsd", "validation_clean", "validation_attacked")
    scores = [f"{name} {result.metrics[name]:.4f}" for name in shown if name in result.metrics]
    return ", ".join([*scores, f"{result.seconds:.1f} s"])


def observer_for(stream: TextIO) -> PlainLines:
    """Return the live display if the stream is a terminal, else the observer that prints plain lines."""
    return Live(stream) if stream.isatty() else PlainLines(stream)
