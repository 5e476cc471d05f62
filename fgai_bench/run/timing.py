"""Time steps whose cost is the result: warm up before the clock starts, and stop trainings that take too long.

A training that would take longer than its share of the time limit is stopped, and its cost is extrapolated from the
epochs that were timed; the record says so and gives their number.
"""

import gc
import time
from collections.abc import Callable, Mapping
from typing import Any

from fgai_bench.defenses.training import Progress

SHARE_TIMED = 0.5  # share of the time limit, warm-up included; the rest is for start, data and one last epoch


class TimedEnough(Exception):
    """Raised to stop a training whose cost is known after ``epochs`` epochs, of which the first took ``first``."""

    def __init__(self, epochs: int, seconds: float, first: float) -> None:
        super().__init__(epochs, seconds, first)
        self.epochs, self.seconds, self.first = epochs, seconds, first

    def total(self, epochs: int) -> float:
        """Return the seconds that ``epochs`` epochs would take; the time before the second epoch is counted once.

        >>> TimedEnough(epochs=3, seconds=9.0, first=5.0).total(10)  # 5 + 9 * 2
        23.0
        """
        seconds_per_epoch = (self.seconds - self.first) / (self.epochs - 1) if self.epochs > 1 else self.seconds
        return self.seconds + (epochs - self.epochs) * seconds_per_epoch


def warm_up(config: Mapping[str, Any], once: Callable[[], object]) -> float:
    """Call ``once`` if cost is the result, so that libraries, kernels and caches are ready; return its seconds."""
    if "exclusive" not in config:
        return 0.0
    began = time.perf_counter()
    once()
    took = time.perf_counter() - began
    gc.collect()  # memory left by this and earlier steps would count as the measured step's
    return took


def stopwatch(config: Mapping[str, Any], progress: Progress | None, warming: float = 0.0) -> Progress | None:
    """Report progress and, if cost is the result, stop a training that takes more than its share of the time limit.

    ``warming`` are the seconds of that share that the warm-up took.
    """
    if "exclusive" not in config or config["exclusive"]["time_limit"] is None:
        return progress
    allowed = SHARE_TIMED * config["exclusive"]["time_limit"] - warming
    began, first = time.perf_counter(), 0.0

    def tick(epoch: int, epochs: int) -> None:
        nonlocal first
        if progress is not None:
            progress(epoch, epochs)
        elapsed = time.perf_counter() - began
        first = first or elapsed
        if epoch < epochs and elapsed > allowed:
            raise TimedEnough(epoch, elapsed, first)

    return tick
