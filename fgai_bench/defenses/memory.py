"""Memory: what a dense method would need, held against what the device has, before anything is built."""

from __future__ import annotations

import os
from pathlib import Path

import torch

_GIB = 2**30
_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


class OutOfMemory(Exception):
    """A method needs more memory than the device has; the runner records it as the typed cell ``oom``.

    Attributes:
        what: the method and the size of its problem.
        needed, available: bytes.

    >>> str(OutOfMemory("pro-gnn on 169343 nodes", 574 * 2**30, 20 * 2**30))
    'pro-gnn on 169343 nodes needs about 574.0 GiB, 20.0 GiB are available'
    """

    def __init__(self, what: str, needed: int, available: int) -> None:
        super().__init__(f"{what} needs about {needed / _GIB:,.1f} GiB, {available / _GIB:,.1f} GiB are available")
        self.what, self.needed, self.available = what, needed, available

    def __reduce__(self) -> tuple[type[OutOfMemory], tuple[str, int, int]]:
        return type(self), (self.what, self.needed, self.available)  # crosses process borders with its figures


def dense_bytes(num_nodes: int, matrices: float, num_features: int = 0, copies: float = 1) -> int:
    """Bytes of ``matrices`` N x N and ``copies`` N x F arrays of single precision.

    >>> dense_bytes(1000, matrices=2, num_features=500)
    10000000
    """
    return int(4 * (matrices * num_nodes**2 + copies * num_nodes * num_features))


def require_memory(what: str, needed: int, device: torch.device | str) -> None:
    """Raise :class:`OutOfMemory` if ``needed`` bytes are more than the device can give.

    >>> require_memory("a small method", 1024, "cpu")
    """
    available = available_bytes(device)
    if needed > available:
        raise OutOfMemory(what, needed, available)


def available_bytes(device: torch.device | str) -> int:
    """Bytes that this process could still allocate on the device.

    On a GPU: what is free, and what torch keeps in reserve. On the CPU: what the system calls available, within the
    limit of the control group that the process runs in.
    """
    device = torch.device(device)
    if device.type == "cuda":
        reserve = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0] + reserve)
    return min(_system_bytes(), _group_bytes())


def _system_bytes() -> int:
    if _MEMINFO.is_file():
        for line in _MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _group_bytes() -> int:
    """What the control group (a container, a batch job) still allows; without a limit, no bound at all."""
    try:
        limit, used = ((_CGROUP / name).read_text().strip() for name in ("memory.max", "memory.current"))
        return max(int(limit) - int(used), 0)
    except (OSError, ValueError):  # no such group, or its limit reads "max"
        return 2**63
