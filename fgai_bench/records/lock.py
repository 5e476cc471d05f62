"""Lock a run folder, so that only one process writes to it and a second one learns which process that is.

The operating system holds the lock and releases it when its holder dies for any reason; the file only names the holder.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
from pathlib import Path
from typing import IO

FILE = "run.lock"


class RunLocked(ValueError):
    """Raised when another process writes to the run; the message names it."""


class RunLock:
    """Hold the lock of ``folder`` for the time of a ``with`` block."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._stream: IO[str] | None = None

    def __enter__(self) -> RunLock:
        stream = self.path.open("a+")
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            stream.close()
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            raise RunLocked(
                f"{self.path.parent} is being written by {_describe(self.path)}; wait for it or stop it"
            ) from None
        stream.truncate(0)
        stream.write(json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}))
        stream.flush()
        self._stream = stream
        return self

    def __exit__(self, *error: object) -> None:
        assert self._stream is not None
        self._stream.truncate(0)
        self._stream.close()


def holder(folder: Path) -> str | None:
    """Return in words which process writes to the run in ``folder`` now; None when none does."""
    path = folder / FILE
    try:
        with path.open() as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return None
    except OSError:
        return _describe(path)
    return None


def _describe(path: Path) -> str:
    """Return the holder that a lock file names, in words."""
    try:
        holder = json.loads(path.read_text())
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(holder["since"]))
        return f"process {holder['pid']} on {holder['host']} since {since}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
