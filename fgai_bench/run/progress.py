"""Show how far a run has come: a live display on a terminal, plain lines elsewhere, both with the time that is left."""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from fgai_bench.records.result import Result
from fgai_bench.run.plan import Plan, Step

if TYPE_CHECKING:
    from rich.progress import TaskID

Key = tuple[str, ...]


class SimilarSteps:
    """Estimate how long steps will take: the mean seconds of the finished steps that resemble them most."""

    def __init__(self) -> None:
        self._seconds: dict[Key, list[float]] = defaultdict(lambda: [0.0, 0.0])  # their sum, their number

    def learn(self, config: Mapping[str, Any], seconds: float) -> None:
        """Add the time of a finished step."""
        for key in _prefixes(similarity_key(config)):
            self._seconds[key][0] += seconds
            self._seconds[key][1] += 1

    def seconds(self, key: Key) -> float | None:
        """Return the estimated seconds of a step with this key; None while no similar step has finished."""
        sums = next((self._seconds[part] for part in _prefixes(key) if part in self._seconds), None)
        return sums[0] / sums[1] if sums else None


def similarity_key(config: Mapping[str, Any]) -> Key:
    """Return a description of a step, from the most general word to the most specific."""
    method = (config.get("attack") or config["defense"])["name"]
    return (config["kind"], *(config[key]["name"] for key in ("task", "dataset", "model")), method)


def _prefixes(key: Key) -> list[Key]:
    """Return a key and its more general forms, down to kind and task."""
    return [key[:length] for length in range(len(key), 1, -1)]


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


def where_time_went(took: float, workers: int, kinds: Mapping[str, float]) -> str:
    """Return in one line how long a run took and which kinds of steps kept its workers busy.

    >>> where_time_went(40.0, 2, {"train": 24.0, "attack": 6.0})
    'took 40 s with 2 workers: 30% train, 8% attack, 62% start and waiting'
    """
    whole = max(workers * took, 1e-9)
    parts = {**kinds, "start and waiting": max(whole - sum(kinds.values()), 0.0)}
    shares = ", ".join(f"{seconds / whole:.0%} {kind}" for kind, seconds in parts.items())
    return f"took {spoken(took)} with {workers} worker{'s' * (workers > 1)}: {shares}"


class Observer:
    """Receive the events of a run; this class ignores them, and its subclasses show them."""

    def begin(self, plan: Plan, done: Iterable[str], slots: int) -> None:
        """Receive all steps when a run starts, the hashes of recorded ones, and how many steps run at a time."""

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
        self.total, self.slots = 0, 1
        self.estimate = SimilarSteps()
        self.left: dict[str, Key] = {}  # the steps that are not done, by hash
        self.left_by_key: Counter[Key] = Counter()
        self.seconds_by_kind: defaultdict[str, float] = defaultdict(float)
        self._began = time.perf_counter()

    @property
    def count(self) -> int:
        """Return how many steps are done."""
        return self.total - len(self.left)

    def begin(self, plan: Plan, done: Iterable[str], slots: int) -> None:
        self.slots = slots
        self.extended(plan.steps.values(), done)
        if self.left:
            self._print(f"{len(self.left)} of {self.total} steps to run, {slots} at a time")

    def extended(self, steps: Iterable[Step], done: Iterable[str]) -> None:
        known = set(done)
        for step in steps:
            self.total += 1
            if step.hash not in known:
                self._add(step)

    def started(self, step: Step) -> None:
        if step.hash not in self.left:  # its artifact was lost, so it is done again
            self._add(step)

    def finished(self, step: Step, result: Result) -> None:
        if step.hash in self.left:
            self.left_by_key[self.left.pop(step.hash)] -= 1
        if result.status == "ok":
            self.estimate.learn(step.config, result.seconds)
        self.seconds_by_kind[step.kind] += result.seconds
        self._show(step, result)

    def said(self, sentence: str) -> None:
        self._print(f"note: {sentence}")

    def time_left(self) -> float | None:
        """Return the estimated seconds until the run is complete; None while no similar step has finished."""
        times = {key: self.estimate.seconds(key) for key in +self.left_by_key}
        known = {key: seconds for key, seconds in times.items() if seconds is not None}
        if not known:
            return None if self.left else 0.0
        mean = sum(seconds * self.left_by_key[key] for key, seconds in known.items())
        return mean / sum(self.left_by_key[key] for key in known) * len(self.left) / self.slots

    def summary(self) -> str:
        """Return in one line where the time of the run went."""
        return where_time_went(time.perf_counter() - self._began, self.slots, self.seconds_by_kind)

    def _add(self, step: Step) -> None:
        self.left[step.hash] = similarity_key(step.config)
        self.left_by_key[self.left[step.hash]] += 1

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
        self.display.reset(self.overall)
        self.tick()
        self.display.start()

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
        self.display.update(self.overall, completed=self.count, total=self.total, state=state)

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
