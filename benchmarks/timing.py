"""Timing of alternatives: they take turns in one process, so that noise falls on all of them alike."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from fgai_bench.metrics import measure


@dataclass(frozen=True)
class Timed:
    """Milliseconds per call: the median and half the interquartile range."""

    median: float
    spread: float


def alternate(
    alternatives: Mapping[str, Callable[[], object]],
    device: str,
    rounds: int = 15,
    warm_up: int = 3,
    repeat: int = 1,
    per: int = 1,
) -> dict[str, Timed]:
    """Time each alternative ``rounds`` times, in turn, after ``warm_up`` calls that do not count.

    Args:
        alternatives: by name.
        device: ``cpu`` or ``cuda``.
        rounds: samples of each.
        warm_up: calls before the first sample.
        repeat: calls in one sample; on a GPU, several short calls follow each other without a wait between them.
        per: what a sample is divided by besides: epochs in a call, for a time per epoch.
    """
    for call in alternatives.values():
        for _ in range(warm_up):
            call()
    samples: dict[str, list[float]] = {name: [] for name in alternatives}
    for _ in range(rounds):
        for name, call in alternatives.items():
            samples[name].append(1e3 * _seconds(call, device, repeat) / per)
    return {name: Timed(statistics.median(s), _spread(s)) for name, s in samples.items()}


def peak_mib(call: Callable[[], object], device: str) -> float | None:
    """The most memory that was allocated on the GPU during a call, what was there before included; on a CPU, None."""
    if device != "cuda":
        return None
    gc.collect()
    with measure(device) as cost:
        call()
    return cost.peak_mib


def _seconds(call: Callable[[], object], device: str, repeat: int) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeat):
        call()
    if device == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / repeat


def _spread(samples: list[float]) -> float:
    if len(samples) < 4:
        return max(samples) - min(samples)
    low, _, high = statistics.quantiles(samples, n=4)
    return (high - low) / 2
