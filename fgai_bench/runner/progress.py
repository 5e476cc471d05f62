"""Progress for the person who waits: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Any, TextIO

from fgai_bench.runner.estimate import Estimate, spoken
from fgai_bench.runner.plan import Plan, Step
from fgai_bench.runner.result import Result


class Observer:
    """Hears what happens during a run; this one keeps it to itself."""

    def begin(self, plan: Plan, done: Iterable[str], slots: int) -> None:
        """A run starts; ``done`` is what the store holds already."""

    def started(self, step: Step) -> None:
        """A step was handed to a worker."""

    def advanced(self, hash: str, epoch: int, epochs: int) -> None:
        """A training went on."""

    def finished(self, step: Step, result: Result) -> None:
        """A result was written."""

    def said(self, sentence: str) -> None:
        """Something that the person should know."""

    def tick(self) -> None:
        """Time has passed."""

    def end(self) -> None:
        """The run is over, one way or the other."""


class PlainLines(Observer):
    """One line per finished step."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stdout
        self.total = self.count = 0
        self.slots = 1
        self.estimate = Estimate()
        self.left: dict[str, Step] = {}

    def begin(self, plan: Plan, done: Iterable[str], slots: int) -> None:
        self.left = {hash: step for hash, step in plan.steps.items() if hash not in set(done)}
        self.total, self.slots = len(plan.steps), slots
        self.count = self.total - len(self.left)
        if self.left:
            self._print(f"{len(self.left)} of {self.total} steps to run, {slots} at a time")

    def finished(self, step: Step, result: Result) -> None:
        self.left.pop(step.hash, None)
        self.count += 1
        if result.status == "ok":
            self.estimate.learn(step.config, result.seconds)
        self._print(f"[{self.count}/{self.total}] {title(step)}: {outcome(result)} ({spoken(self.time_left())} left)")

    def said(self, sentence: str) -> None:
        self._print(f"note: {sentence}")

    def time_left(self) -> float | None:
        """Seconds until the end, if the steps to come are like those that were."""
        times = [self.estimate.seconds(step.config) for step in self.left.values()]
        known = [seconds for seconds in times if seconds is not None]
        return sum(known) / len(known) * len(times) / self.slots if known else None if times else 0.0

    def _print(self, line: str) -> None:
        print(line, file=self.stream, flush=True)


class Live(PlainLines):
    """A display that stays in place: the bar of all steps, the running ones with their epoch, the last result."""

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        from rich.console import Console
        from rich.live import Live as Display

        self.console = Console(file=self.stream)
        self.display = Display(console=self.console, refresh_per_second=4, transient=True)
        self.running: dict[str, tuple[Step, str, float]] = {}
        self.last = ""

    def begin(self, plan: Plan, done: Iterable[str], slots: int) -> None:
        super().begin(plan, done, slots)
        self.display.start()

    def started(self, step: Step) -> None:
        self.running[step.hash] = (step, "", time.monotonic())

    def advanced(self, hash: str, epoch: int, epochs: int) -> None:
        if hash in self.running:
            step, _, since = self.running[hash]
            self.running[hash] = (step, f"epoch {epoch}/{epochs}", since)

    def finished(self, step: Step, result: Result) -> None:
        self.running.pop(step.hash, None)
        self.last = f"{title(step)}: {outcome(result)}"
        self.left.pop(step.hash, None)
        self.count += 1
        if result.status == "ok":
            self.estimate.learn(step.config, result.seconds)
        else:
            self.console.print(self.last, markup=False, highlight=False)
        self.tick()

    def tick(self) -> None:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        head = f"{self.count}/{self.total} steps, {spoken(self.time_left())} left"
        lines: list[Any] = [Text(head, style="bold"), ProgressBar(total=max(self.total, 1), completed=self.count)]
        for step, epoch, since in self.running.values():
            lines.append(Text(f"  {title(step)}  {epoch}  {spoken(time.monotonic() - since)}"))
        self.display.update(Group(*lines, Text(self.last, style="dim")))

    def end(self) -> None:
        self.display.stop()

    def _print(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False)


def title(step: Step) -> str:
    """A step in a few words."""
    config = step.config
    names = [config[key]["name"] for key in ("task", "dataset", "model", "defense")]
    what = [config[key]["name"] for key in ("attack", "explainer") if key in config]
    return " ".join([step.kind, *names, f"seed {config['seed']}", *what])


def outcome(result: Result) -> str:
    """A result in a few words: the score, else the cost, else why there is none."""
    if result.status != "ok":
        return f"{result.status}: {result.reason}"
    shown = [f"{name} {result.metrics[name]:.4f}" for name in ("f1", "roc_auc", "g_jsd") if name in result.metrics]
    return ", ".join([*shown, f"{result.seconds:.1f} s"])


def observer_for(stream: TextIO) -> Observer:
    """The display that suits where the output goes."""
    return Live(stream) if stream.isatty() else PlainLines(stream)
