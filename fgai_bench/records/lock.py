"""Lock a run folder, so that only one process writes to it and a second one learns which process that is.

The operating system holds the lock and releases it when its holder dies for any reason; the file only names the holder.
"""

import fcntl
import json
import os
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from fgai_bench.bounded import open_bounded, read_bounded

FILE, LARGEST = "run.lock", 4096
TRIES, PAUSE = 100, 0.01  # to take the lock, and seconds between: who asks for its holder has it for a moment


class RunLocked(ValueError):
    """Raised when another process writes to the run; the message names it."""


@contextmanager
def run_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a run folder for the time of the block, or raise :class:`RunLocked`."""
    path = folder / FILE
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o666)
    with os.fdopen(handle, "a") as stream:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise RunLocked(f"{path} is no regular file; delete it")
        if not any(_is_taken(stream) for _ in range(TRIES)):
            raise RunLocked(f"{folder} is being written by {_describe(path)}; wait for it or stop it")
        stream.truncate(0)
        stream.write(json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}))
        stream.flush()
        try:
            yield
        finally:
            stream.truncate(0)


def holder(folder: Path) -> str | None:
    """Return in words which process writes to the run in ``folder`` now; None when none does."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        with open_bounded(path, LARGEST) as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _describe(path)
    return None


def _is_taken(stream: TextIO) -> bool:
    """Take the lock of a file, or wait a moment; tell whether it is held now."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # the second from a network file system
        time.sleep(PAUSE)
        return False
    return True


def _describe(path: Path) -> str:
    try:
        holder = json.loads(read_bounded(path, LARGEST))
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(holder["since"]))
        return f"process {holder['pid']} on {holder['host']} since {since}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
