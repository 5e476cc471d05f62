"""Cost: wall seconds and peak memory of a block."""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

_MIB = 2**20
_STATM = Path("/proc/self/statm")


@dataclass
class Cost:
    """What a block took; both numbers are NaN until it ends.

    Attributes:
        seconds: wall time, with the GPU's queue emptied at both ends.
        peak_mib: peak memory in MiB: what torch allocated on the GPU, or the resident set of the whole process.
        memory: which of the two.
    """

    memory: Literal["gpu", "rss"]
    seconds: float = math.nan
    peak_mib: float = math.nan


@contextmanager
def measure(device: torch.device | str = "cpu", every: float = 0.005) -> Iterator[Cost]:
    """Measure the block; the yielded :class:`Cost` is filled in when it ends, by an exception too.

    On a GPU the block's peak is torch's own, reset at its start, so blocks on one device do not nest; what the matrix
    library keeps for each stream that it has ever worked on, 32 MiB on recent cards, is given back first. Elsewhere a
    thread reads the resident set every ``every`` seconds: a spike shorter than that can be missed, and memory that the
    process held before the block counts.

    >>> with measure() as cost:
    ...     total = sum(range(1000))
    >>> cost.seconds > 0 and cost.peak_mib > 1
    True
    """
    device = torch.device(device)
    with _gpu_peak(device) if device.type == "cuda" else _rss_peak(every) as cost:
        start = time.perf_counter()
        try:
            yield cost
        finally:
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            cost.seconds = time.perf_counter() - start


@contextmanager
def _gpu_peak(device: torch.device) -> Iterator[Cost]:
    cost = Cost("gpu")
    torch.cuda.synchronize(device)
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.reset_peak_memory_stats(device)
    try:
        yield cost
    finally:
        cost.peak_mib = torch.cuda.max_memory_allocated(device) / _MIB


@contextmanager
def _rss_peak(every: float) -> Iterator[Cost]:
    cost, done, peak = Cost("rss"), threading.Event(), [_rss_mib()]

    def watch() -> None:
        while not done.wait(every):
            peak.append(max(peak.pop(), _rss_mib()))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield cost
    finally:
        done.set()
        watcher.join()
        cost.peak_mib = max(peak[0], _rss_mib())


def _rss_mib() -> float:
    """Resident set of this process; without ``/proc`` the largest of its life, which is all the system tells."""
    if _STATM.exists():
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / _MIB
    import resource  # not on every platform

    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest / _MIB if sys.platform == "darwin" else largest / 1024
