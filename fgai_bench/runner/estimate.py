"""Estimates of time: what similar steps took is what the next ones will take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import mean
from typing import Any

Key = tuple[str, ...]


class Estimate:
    """Mean seconds of the steps seen so far, by how alike they are to the one that is asked about."""

    def __init__(self) -> None:
        self._seen: dict[Key, list[float]] = defaultdict(list)

    def learn(self, config: Mapping[str, Any], seconds: float) -> None:
        """Take note of a step that ran."""
        for key in _likeness(config):
            self._seen[key].append(seconds)

    def seconds(self, config: Mapping[str, Any]) -> float | None:
        """What a step will take; None while nothing of its kind was seen."""
        return next((mean(self._seen[key]) for key in _likeness(config) if key in self._seen), None)

    def total(self, configs: Iterable[Mapping[str, Any]]) -> str:
        """What all of them will take, in words; those of which nothing is known are counted."""
        times = [self.seconds(config) for config in configs]
        known = [seconds for seconds in times if seconds is not None]
        if not times or not known:
            return spoken(None if times else 0.0)
        unknown = len(times) - len(known)
        return spoken(sum(known)) + (f", and {unknown} steps of which nothing is known" if unknown else "")


def _likeness(config: Mapping[str, Any]) -> list[Key]:
    """Descriptions of a step, from the closest to the widest."""
    method = (config.get("attack") or config["defense"])["name"]
    task, dataset, model = (config[key]["name"] for key in ("task", "dataset", "model"))
    kind = config["kind"]
    return [(kind, task, dataset, model, method), (kind, task, dataset, model), (kind, task, dataset), (kind, task)]


def spoken(seconds: float | None) -> str:
    """A duration as one says it.

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
