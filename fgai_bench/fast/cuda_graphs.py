"""Capture work as a CUDA graph and replay it, so that repeated launches of small kernels cost nothing.

An epoch on a small graph is hundreds of kernels of a few microseconds each, and launching one takes longer than running
it. Work that can be captured reads nothing back from the device, and neither its shapes nor its steps depend on values.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from weakref import WeakMethod

import torch

WARM_UP = 1
"""Rounds before the capture: kernels compile, and what is computed once per graph is computed."""


def capturing() -> bool:
    """Tell whether work is being captured now: it does not run, and nothing can be read from the device."""
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """Run a block on a stream of its own, which a capture needs; on another device than CUDA, run it as it is."""
    if device.type != "cuda":
        yield
        return
    with torch.cuda.device(device):
        caller, stream = torch.cuda.current_stream(), _stream(torch.cuda.current_device(), "own")
        stream.wait_stream(caller)
        try:
            with torch.cuda.stream(stream):
                yield
        finally:
            caller.wait_stream(stream)
            stream.synchronize()
        for check in _checks:
            if (alive := check()) is not None:
                alive()


def check_when_left(check: Callable[[], None]) -> None:
    """Have a method called whenever :func:`own_stream` is left, as long as its object lives.

    Recorded work cannot look at its own values; what it must not leave unseen is looked at then, and raised.
    """
    _checks[:] = [known for known in _checks if known() is not None] + [WeakMethod(check)]


_checks: list[WeakMethod[Callable[[], None]]] = []


def side_by_side(first: Callable[[], object], second: Callable[[], object], device: torch.device) -> None:
    """Launch two independent pieces of work, on CUDA so that they run at the same time."""
    if device.type != "cuda":
        first()
        second()
        return
    current, side = torch.cuda.current_stream(device), _stream(torch.cuda.current_device(), "side")
    side.wait_stream(current)
    with torch.cuda.stream(side):
        first()
    second()
    current.wait_stream(side)


@cache
def _stream(index: int, name: str) -> torch.cuda.Stream:
    """Return the stream of this name, always the same: each one that multiplies matrices costs tens of MiB."""
    return torch.cuda.Stream(index)


class Replayed:
    """Run ``work`` as it is for the first rounds, then capture it, then replay it; use inside :func:`own_stream`.

    From the capture on, every call returns the same tensors with new values: clone what must outlive the next call.
    Random draws go on from round to round, as they would without a capture.
    """

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work, self._left = work, WARM_UP
        self._graph: torch.cuda.CUDAGraph | None = None
        self._result: Any = None

    def __call__(self) -> Any:
        if self._left:
            self._left -= 1
            return self._work()
        if self._graph is None:
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph, stream=torch.cuda.current_stream()):
                self._result = self._work()
        self._graph.replay()
        return self._result
