"""Decide when the CPU kernels apply, and share their loops among threads; Numba is imported only if they apply."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

WORTH_A_THREAD = 2**14
NOTHING = np.empty(0, bool)  # a mask that excludes no node
Values: TypeAlias = "Tensor | NDArray[Any]"


def runs_compiled(values: Tensor) -> bool:
    """Tell whether a CPU kernel takes these values: single or double precision on a CPU."""
    return values.device.type == "cpu" and values.dtype in (torch.float32, torch.float64)


def over_rows(loop: Callable[..., None], pointer: Values, *arguments: Values | float) -> None:
    """Run ``loop(start, stop, *arguments)`` on ranges of rows that hold about equally many entries, one per thread.

    Uses as many threads as torch does, fewer for little work. They live for one call, so that no thread or lock remains
    that could block a fork or a second caller. The entries of a row begin at its ``pointer``, ``(N + 1,)``; tensors
    among the ``arguments`` become arrays that share their memory.
    """
    arrays = [_array(x) for x in arguments]
    begins = _array(pointer)
    rows, entries = len(begins) - 1, int(begins[-1])
    threads = min(torch.get_num_threads(), entries // WORTH_A_THREAD)
    if threads <= 1:
        return loop(0, rows, *arrays)
    inner = np.searchsorted(begins, [entries * part // threads for part in range(1, threads)])
    bounds = [0, *inner.tolist(), rows]
    with ThreadPoolExecutor(threads - 1) as pool:
        others = [pool.submit(loop, *bounds[part : part + 2], *arrays) for part in range(1, threads)]
        loop(*bounds[:2], *arrays)
        for other in others:
            other.result()
    return None


def _array(x: Any) -> Any:
    """Return the array that shares the memory of a tensor, anything else as it is.

    On small graphs this is a notable part of the time of a kernel, so a tensor is detached only where it has to be.
    """
    if not isinstance(x, Tensor):
        return x
    return (x.detach() if x.requires_grad else x).numpy()
