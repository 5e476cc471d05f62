"""Serve as a worker process: receive jobs through a connection, run them, send back progress and results."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import os
import signal
import socket
import sys
import time
from multiprocessing.connection import Connection
from typing import Any

import psutil

from fgai_bench.records.result import Result, storable
from fgai_bench.run.executors.base import Event, Job, WorkerSettings

PROGRESS_INTERVAL = 0.2  # seconds between two reports
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # of Linux


def serve() -> None:
    """Run jobs until the connection closes; its file descriptor is the first argument of the process."""
    end_with_parent()
    connection: Connection[Any, Any] = Connection(int(sys.argv[1]))
    os.set_inheritable(connection.fileno(), False)
    with contextlib.suppress(EOFError, OSError):  # the other side has closed the connection
        settings = connection.recv()
        broken = _prepare(settings)
        connection.send(("ready", None))
        while True:
            job = connection.recv()
            event = Event(job.hash, result=broken) if broken else _run(job, settings, connection)
            connection.send(("event" if _can_go_on(job, event) else "last", event))


def end_with_parent() -> None:
    """Let the kernel kill this process when its parent dies, and give it the orphans of its own descendants.

    A thread could watch the parent, but not while a step holds the interpreter's lock.
    """
    with contextlib.suppress(OSError, AttributeError):
        control = ctypes.CDLL(None).prctl
        control(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        control(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _prepare(settings: WorkerSettings) -> Result | None:
    """Import plugins and libraries before the clock of a step starts; return the failure of all steps if one fails."""
    try:
        settings.prepare()
        import fgai_bench.run.execute  # noqa: F401
    except (Exception, SystemExit) as error:
        reason = " ".join(str(error).split())
        return storable(Result("failed", f"its worker on {socket.gethostname()} cannot start: {reason}"))
    return None


def _run(job: Job, settings: WorkerSettings, connection: Connection[Any, Any]) -> Event:
    from fgai_bench.run.execute import execute

    last, process = time.monotonic(), os.getpid()

    def progress(epoch: int, epochs: int) -> None:
        nonlocal last
        if time.monotonic() - last > PROGRESS_INTERVAL and os.getpid() == process:
            last = time.monotonic()
            connection.send(("event", Event(job.hash, epoch, epochs)))

    if job.config["device"] != "cpu":
        free_circles()
    return Event(job.hash, result=execute(job.config, job.inputs, settings.data_root, progress))


def _can_go_on(job: Job, event: Event) -> bool:
    """Tell whether the process can be given another job, or whether this one may have left it broken.

    After work that fails while it is recorded no random numbers can be drawn on the device, in the whole process.
    """
    failed = event.result is not None and event.result.status in ("failed", "oom")
    return not _has_children() and not (failed and job.config["device"] != "cpu")


def _has_children() -> bool:
    """Tell whether this process has children that have not ended."""
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if child.status() != psutil.STATUS_ZOMBIE:
                return True
    return False


def free_circles() -> None:
    """Free objects that refer to each other in a circle, as the offers of a measurement do to what they were made from.

    Python gets to them when it likes, and until then their memory on a GPU counts as that of the next step. What is
    alive when this is first called, libraries above all, is not looked at again: else it would take 0.2 s.
    """
    gc.collect()
    _freeze_once()


@functools.cache
def _freeze_once() -> None:
    gc.freeze()
