"""What the kernel knows about processes: their descendants, and how long they have waited for a processor.

On systems without ``/proc`` nothing is known: no descendant is found, and no waiting is counted.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PROC = Path("/proc")


def end_with_parent() -> None:
    """Let the kernel kill this process when its parent dies, and give it the orphans of its own descendants.

    A thread could watch the parent, but not while a step holds the interpreter's lock.
    """
    with contextlib.suppress(OSError, AttributeError):
        control = ctypes.CDLL(None).prctl
        control(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        control(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def has_children() -> bool:
    """Tell whether this process has children that have not ended."""
    with contextlib.suppress(OSError):
        for thread in os.listdir(PROC / "self" / "task"):
            children = (PROC / "self" / "task" / thread / "children").read_text().split()
            if any((status := _status(pid)) is not None and status[0] != "Z" for pid in children):
                return True
    return False


def descendants(pid: int) -> list[int]:
    """Return the children of a process, their children and so on, and what else is left of its session."""
    found = {entry: status for entry in _processes() if (status := _status(entry)) is not None}
    wanted = {str(pid)}
    while True:
        more = {
            entry
            for entry, (_, parent, session) in found.items()
            if entry not in wanted and (parent in wanted or session == str(pid))
        }
        if not more:
            return [int(entry) for entry in wanted if entry != str(pid)]
        wanted |= more


def waited(pid: int) -> float:
    """Return the seconds for which a process was ready to run and no processor was free."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int((PROC / str(pid) / "schedstat").read_text().split()[1]) / 1e9
    return 0.0


def _processes() -> list[str]:
    try:
        return [entry for entry in os.listdir(PROC) if entry.isdigit()]
    except OSError:
        return []


def _status(pid: str) -> tuple[str, str, str] | None:
    """Return state, parent and session of a process; None if there is none. Its name may hold spaces and brackets."""
    try:
        state, parent, _, session = (PROC / pid / "stat").read_text().rpartition(")")[2].split()[:4]
    except (OSError, ValueError):
        return None
    return state, parent, session
