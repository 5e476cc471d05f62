"""Estimate how long steps will take from the times of similar steps that have finished."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import mean
from typing import Any

Key = tuple[str, ...]


class Estimate:
    """Mean seconds of finished steps, grouped by how closely they resemble the step to be estimated."""

    def __init__(self) -> None:
        self._seen: dict[Key, list[float]] = defaultdict(list)

    def learn(self, config: Mapping[str, Any], seconds: float) -> None:
        """Add the time of a finished step."""
        for key in _similarity_keys(config):
            self._seen[key].append(seconds)

    def seconds(self, config: Mapping[str, Any]) -> float | None:
        """Return the estimated seconds of a step; None while no similar step has finished."""
        return next((mean(self._seen[key]) for key in _similarity_keys(config) if key in self._seen), None)

    def total(self, configs: Iterable[Mapping[str, Any]]) -> str:
        """Return in words the estimated time of all steps together, and the number of steps without an estimate."""
        times = [self.seconds(config) for config in configs]
        known = [seconds for seconds in times if seconds is not None]
        if not times or not known:
            return spoken(None if times else 0.0)
        unknown = len(times) - len(known)
        return spoken(sum(known)) + (f", and {unknown} steps of which nothing is known" if unknown else "")


def _similarity_keys(config: Mapping[str, Any]) -> list[Key]:
    """Return descriptions of a step, from the most specific to the most general."""
    method = (config.get("attack") or config["defense"])["name"]
    task, dataset, model = (config[key]["name"] for key in ("task", "dataset", "model"))
    kind = config["kind"]
    return [(kind, task, dataset, model, method), (kind, task, dataset, model), (kind, task, dataset), (kind, task)]


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
