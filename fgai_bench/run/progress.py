"""Show how far a run has come: a live display on a terminal, plain lines elsewhere, both with the time that is left."""

import sys
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TextIO

from fgai_bench.records.result import Result
from fgai_bench.run.plan import Plan, Step

if TYPE_CHECKING:
    from rich.progress import TaskID


def spoken(seconds: float | None) -> str:
    """Return a duration in words.

    >>> spoken(41.7), spoken(60 * 65), spoken(None)
    ('42 s', '1 h 05 min', 'unknown')
    """
    if seconds is None:
        return "unknown"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 2:
        return f"{round(seconds)} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


class Observer:
    """Receive the events of a run; this class ignores them, and its subclasses show them."""

    def begin(self, plan: Plan, done: Iterable[str], slots: int) -> None:
        """Receive all steps when a run starts, the hashes of recorded ones, and how many steps run at a time."""

    def extended(self, steps: Iterable[Step], done: Iterable[str], words: Mapping[str, str]) -> None:
        """Receive steps that were added to the plan, and by hash what to add to their titles: the number of a trial."""

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
        self.total, self.slots = 0, 1
        self.left: set[str] = set()  # hashes of the steps that are not done
        self.finished_steps, self.busy_seconds = 0, 0.0
        self.words: dict[str, str] = {}  # hash to what its title ends with
        self._began = time.perf_counter()

    @property
    def count(self) -> int:
        return self.total - len(self.left)

    def begin(self, plan: Plan, done: Iterable[str], slots: int) -> None:
        self.slots = slots
        self.extended(plan.steps.values(), done, {})
        if self.left:
            self._print(f"{len(self.left)} of {self.total} steps to run, {slots} at a time")

    def extended(self, steps: Iterable[Step], done: Iterable[str], words: Mapping[str, str]) -> None:
        new = [step.hash for step in steps]
        self.total += len(new)
        self.left |= {*new} - {*done}
        self.words.update(words)

    def _title(self, step: Step) -> str:
        return " ".join(filter(None, (title(step), self.words.get(step.hash))))

    def started(self, step: Step) -> None:
        self.left.add(step.hash)  # one whose artifact was lost is done again

    def finished(self, step: Step, result: Result) -> None:
        self.left.discard(step.hash)
        self.finished_steps += 1
        self.busy_seconds += result.seconds
        self._show(step, result)

    def said(self, sentence: str) -> None:
        self._print(f"note: {sentence}")

    def time_left(self) -> float | None:
        """Return the seconds that the other steps take if they take as long as the finished ones; None without any."""
        if not self.finished_steps:
            return None
        return self.busy_seconds / self.finished_steps * len(self.left) / self.slots

    def summary(self) -> str:
        """Return in one line how long the run took, and for which part of it its workers were busy."""
        took = time.perf_counter() - self._began
        busy = self.busy_seconds / max(self.slots * took, 1e-9)
        return f"took {spoken(took)} with {self.slots} worker{'s' * (self.slots > 1)}, which were busy {busy:.0%} of it"

    def _show(self, step: Step, result: Result) -> None:
        self._print(
            f"[{self.count}/{self.total}] {self._title(step)}: {outcome(result)} ({spoken(self.time_left())} left)"
        )

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
        self.display.reset(self.overall)
        self.tick()
        self.display.start()

    def started(self, step: Step) -> None:
        super().started(step)
        self._remove(step)  # a step that ran out of memory beside others starts a second time
        self.running[step.hash] = self.display.add_task(self._title(step), total=None, state="")

    def advanced(self, hash: str, epoch: int, epochs: int) -> None:
        if hash in self.running:
            state = f"epoch {epoch}/{epochs}"
            self.display.update(self.running[hash], completed=epoch, total=epochs, state=state)

    def tick(self) -> None:
        state = f"{self.count}/{self.total}, {spoken(self.time_left())} left"
        self.display.update(self.overall, completed=self.count, total=self.total, state=state)

    def end(self) -> None:
        self.display.stop()

    def _show(self, step: Step, result: Result) -> None:
        self._remove(step)
        if result.status != "ok":
            self._print(f"{self._title(step)}: {outcome(result)}")
        self.tick()

    def _remove(self, step: Step) -> None:
        if step.hash in self.running:
            self.display.remove_task(self.running.pop(step.hash))

    def _print(self, line: str) -> None:
        self.display.console.print(line, markup=False, highlight=False)


def title(step: Step) -> str:
    """Return a few words that name a step: its kind, the names of its parts, and its seed."""
    config = step.config
    names = [config[key]["name"] for key in ("task", "dataset", "model", "defense")]
    methods = [config[key]["name"] for key in ("attack", "certificate", "explainer", "metric") if key in config]
    return " ".join([step.kind, *names, f"seed {config['seed']}", *methods])


def outcome(result: Result) -> str:
    """Return a few words about a result: its scores and seconds, or its status and the reason for it."""
    if result.status != "ok":
        return f"{result.status}: {result.reason}"
    shown = ("f1", "roc_auc", "g_jsd", "certified_f1", "validation_clean", "validation_attacked")
    scores = [f"{name} {result.metrics[name]:.4f}" for name in shown if name in result.metrics]
    return ", ".join([*scores, f"{result.seconds:.1f} s"])


def observer_for(stream: TextIO) -> PlainLines:
    """Return the live display if the stream is a terminal, else the observer that prints plain lines."""
    return Live(stream) if stream.isatty() else PlainLines(stream)
