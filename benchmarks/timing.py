"""Timing of alternatives: they take turns in one process, so that noise falls on all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Timed:
    """Milliseconds per call (median and half the interquartile range) and the peak of allocated MiB on CUDA."""

    median: float
    spread: float
    peak_mib: float


def alternate(
    alternatives: Mapping[str, Callable[[], object]], device: str, rounds: int = 15, warm_up: int = 3
) -> dict[str, Timed]:
    """Call each alternative ``rounds`` times, in turn, after ``warm_up`` calls that do not count."""
    for call in alternatives.values():
        for _ in range(warm_up):
            call()
    samples: dict[str, list[float]] = {name: [] for name in alternatives}
    peaks = dict.fromkeys(alternatives, 0.0)
    for _ in range(rounds):
        for name, call in alternatives.items():
            samples[name].append(1e3 * _seconds(call, device))
            peaks[name] = max(peaks[name], _peak(device))
    return {name: Timed(statistics.median(s), _spread(s), peaks[name]) for name, s in samples.items()}


def _seconds(call: Callable[[], object], device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    call()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def _peak(device: str) -> float:
    return torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else 0.0


def _spread(samples: list[float]) -> float:
    if len(samples) < 4:
        return max(samples) - min(samples)
    low, _, high = statistics.quantiles(samples, n=4)
    return (high - low) / 2
