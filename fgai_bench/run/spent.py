"""Say where the time of a run went: in the steps, by kind, before the first of them, and in waiting."""

from __future__ import annotations

import time
from collections.abc import Callable

from fgai_bench.run.estimate import spoken


class TimeSpent:
    """Collect the seconds of a run's steps; the clock starts when the object is made.

    >>> ticks = iter([0.0, 30.0, 40.0])  # made, first step recorded, asked
    >>> spent = TimeSpent(clock=lambda: next(ticks))
    >>> spent.workers = 2
    >>> spent.add("train", 24.0)  # so the worker was ready after six seconds
    >>> spent.add("attack", 6.0)
    >>> spent.rows()
    ('took 40 s with 2 workers', [['start', '', '12.0', '15%'], ['train', '1', '24.0', '30%'],
    ['attack', '1', '6.0', '8%'], ['waiting', '', '38.0', '48%']])
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._began = clock()
        self._ready: float | None = None
        self._kinds: dict[str, list[float]] = {}
        self.workers = 1

    def add(self, kind: str, seconds: float) -> None:
        """Take up a step that has just been recorded; the first one tells when the workers were ready."""
        if self._ready is None:
            self._ready = max(self._clock() - self._began - seconds, 0.0)
        self._kinds.setdefault(kind, []).append(seconds)

    def rows(self) -> tuple[str, list[list[str]]]:
        """Return the whole time in words and one row per kind: steps, seconds of all workers together, their share.

        ``start`` is the time before the workers were ready, ``waiting`` what is left: for inputs, for the last steps
        of others, for results to be written.
        """
        took = self._clock() - self._began
        workers = f"{self.workers} workers" if self.workers > 1 else "one worker"
        parts = {"start": (0, self.workers * (self._ready or 0.0))}
        parts |= {kind: (len(seconds), sum(seconds)) for kind, seconds in self._kinds.items()}
        whole = self.workers * took
        parts["waiting"] = 0, max(whole - sum(seconds for _, seconds in parts.values()), 0.0)
        rows = [
            [name, str(steps or ""), f"{seconds:.1f}", f"{seconds / whole:.0%}"]
            for name, (steps, seconds) in parts.items()
        ]
        return f"took {spoken(took)} with {workers}", rows
