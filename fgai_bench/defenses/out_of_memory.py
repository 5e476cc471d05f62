"""Compare the memory that a dense method would need with the memory of the device, before anything is built."""

from __future__ import annotations

import math
from pathlib import Path

import psutil
import torch

_GIB = 2**30
_CGROUP = Path("/sys/fs/cgroup")


class OutOfMemory(Exception):
    """Raised when a method needs more memory than the device has; the runner records such a step as ``oom``.

    ``method`` is its name and the size of its problem; ``needed`` and ``available`` are bytes.

    >>> str(OutOfMemory("pro-gnn on 169343 nodes", 574 * 2**30, 20 * 2**30))
    'pro-gnn on 169343 nodes needs about 574.0 GiB, 20.0 GiB are available: it would take 29 such devices'
    """

    def __init__(self, method: str, needed: int, available: int) -> None:
        figures = f"{method} needs about {needed / _GIB:,.1f} GiB, {available / _GIB:,.1f} GiB are available"
        devices = math.ceil(needed / available) if available > 0 else 0
        super().__init__(f"{figures}: it would take {devices} such devices" if devices > 1 else figures)
        self.method, self.needed, self.available = method, needed, available

    def __reduce__(self) -> tuple[type[OutOfMemory], tuple[str, int, int]]:
        # Without this, pickling would keep only the message, and workers must send the figures, too.
        return type(self), (self.method, self.needed, self.available)


def dense_bytes(num_nodes: int, matrices: float, num_features: int = 0, copies: float = 1) -> int:
    """Return the bytes of ``matrices`` N x N arrays and ``copies`` N x F arrays in single precision.

    >>> dense_bytes(1000, matrices=2, num_features=500)
    10000000
    """
    return int(4 * (matrices * num_nodes**2 + copies * num_nodes * num_features))


def require_memory(method: str, needed: int, device: torch.device | str, doubt: float = 1.0) -> None:
    """Raise :class:`OutOfMemory` if ``method`` needs more bytes than the process can still allocate on the device.

    ``doubt`` is the factor by which ``needed`` may be too high: what could fit is left to try.

    >>> require_memory("a small method", 1024, "cpu")
    """
    available = available_bytes(device)
    if needed > doubt * available:
        raise OutOfMemory(method, needed, available)


def available_bytes(device: torch.device | str) -> int:
    """Return the bytes that this process can still allocate on the device.

    On a GPU these are the free bytes and those that torch holds in reserve. On a CPU they are the bytes that the system
    calls available, or fewer if the control group of the process (a container, a batch job) has a lower limit.
    """
    device = torch.device(device)
    if device.type == "cuda":
        reserve = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0] + reserve)
    return min(psutil.virtual_memory().available, _group_bytes())


def _group_bytes() -> int:
    """Return the bytes that the control group of this process still allows; 2**63 if the group has no limit."""
    try:
        limit, used = ((_CGROUP / name).read_text().strip() for name in ("memory.max", "memory.current"))
        return max(int(limit) - int(used), 0)
    except (OSError, ValueError):  # no such group, or its limit reads "max"
        return 2**63
