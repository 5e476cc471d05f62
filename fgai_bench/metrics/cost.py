"""Measure the wall time and the peak memory of a block of code."""

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import psutil
import torch

_MIB = 2**20


@dataclass
class Cost:
    """The wall time and the peak memory that a block of code took; both are NaN until the block ends.

    The GPU finishes its queued work before the clock starts and before it stops.
    """

    memory: Literal["gpu", "rss"]  # that torch allocated on the GPU; the resident set of the whole process
    seconds: float = math.nan
    peak_mib: float = math.nan


@contextmanager
def measure(device: torch.device | str = "cpu", every: float = 0.005) -> Iterator[Cost]:
    """Measure the block; the yielded :class:`Cost` is filled in when the block ends, also when it ends by an exception.

    On a GPU the peak is the one that torch counts. The count starts anew with the block, so measured blocks on one
    device must not lie inside each other. The workspace that the matrix library keeps for every stream it has worked
    on, 32 MiB on recent cards, is given back first. On a CPU a thread reads the resident set of the process every
    ``every`` seconds: a shorter spike can be missed, and memory that the process held before the block counts.

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
    """Write the peak of the memory that torch allocates on a GPU during the block into the yielded cost."""
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
    """Write the peak of this process's resident set during the block into the yielded cost."""
    process = psutil.Process()  # not at import: a forked worker would go on reading its parent
    cost, done, peak = Cost("rss"), threading.Event(), [process.memory_info().rss]

    def watch() -> None:
        while not done.wait(every):
            peak.append(max(peak.pop(), process.memory_info().rss))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield cost
    finally:
        done.set()
        watcher.join()
        cost.peak_mib = max(peak[0], process.memory_info().rss) / _MIB
