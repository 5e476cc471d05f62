"""Estimate how long steps will take from the times of similar steps that have finished."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

Key = tuple[str, ...]


class Estimate:
    """Mean seconds of finished steps, grouped by how closely they resemble the step to be estimated."""

    def __init__(self) -> None:
        self._seconds: dict[Key, float] = defaultdict(float)
        self._count: Counter[Key] = Counter()

    def learn(self, config: Mapping[str, Any], seconds: float) -> None:
        """Add the time of a finished step."""
        for key in _prefixes(similarity_key(config)):
            self._seconds[key] += seconds
            self._count[key] += 1

    def seconds(self, key: Key) -> float | None:
        """Return the estimated seconds of a step with this key; None while no similar step has finished."""
        return next((self._seconds[part] / self._count[part] for part in _prefixes(key) if part in self._count), None)

    def sums(self, steps: Mapping[Key, int]) -> tuple[float, int]:
        """Return the estimated seconds of steps, counted by key, and how many of them have no estimate."""
        times = {key: self.seconds(key) for key in steps}
        known = sum(seconds * steps[key] for key, seconds in times.items() if seconds is not None)
        return known, sum(steps[key] for key, seconds in times.items() if seconds is None)

    def total(self, configs: Iterable[Mapping[str, Any]]) -> str:
        """Return in words the estimated time of all steps together, and the number of steps without an estimate."""
        steps = Counter(map(similarity_key, configs))
        known, unknown = self.sums(steps)
        if unknown == steps.total():
            return spoken(None if unknown else 0.0)
        return spoken(known) + (f", and {unknown} steps of which nothing is known" if unknown else "")


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
