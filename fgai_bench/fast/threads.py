"""Choose threads by what is free: on a busy machine, threads that wait for each other cost more than they bring."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# Of OpenMP, read when torch is imported: a thread without work sleeps, and does not keep a core busy by asking for it.
PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE"}


def cores() -> int:
    """Return how many cores this process may use, which may be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_cores(cores: int, load: float) -> int:
    """Return how many cores nobody uses, at least one, from the number of processes that have wanted one of late.

    >>> free_cores(8, 0.4), free_cores(8, 5.6), free_cores(2, 8.0)
    (8, 2, 1)
    """
    return max(1, cores - round(load))


@contextmanager
def free_threads() -> Iterator[None]:
    """Let torch use no more threads in the block than there are free cores; afterwards as many as before."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(min(before, free_cores(cores(), os.getloadavg()[0])))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def side_by_side(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Return ``work`` of every item, in order. As many run at once as torch may use threads, each on one thread.

    That pays where a piece is too small to be shared among threads. No piece may change what another one reads.
    The threads live for one call, so that none is left that a fork could lose.
    """
    import torch

    threads = torch.get_num_threads()
    if threads < 2:
        return [work(item) for item in items]
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return list(pool.map(work, items))
    finally:
        torch.set_num_threads(threads)  # else threads that begin later would have one
