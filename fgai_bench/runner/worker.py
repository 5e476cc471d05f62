"""Serve as a worker process: receive jobs through a connection, run them, send back progress and results."""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from multiprocessing.connection import Connection
from typing import Any

from fgai_bench.runner.executors import Event, Job, WorkerSettings

EVERY = 0.2  # seconds between two reports of progress


def serve() -> None:
    """Run jobs until the connection closes; its file descriptor is the first argument of the process."""
    connection: Connection[Any, Any] = Connection(int(sys.argv[1]))
    inbox: queue.Queue[tuple[str, Any]] = queue.Queue()
    threading.Thread(target=_listen, args=(connection, inbox), daemon=True).start()
    _, settings = inbox.get()
    settings.prepare()
    while True:
        _, job = inbox.get()
        connection.send(("started", job.hash))
        connection.send(("event", _run(job, settings, connection)))


def _listen(connection: Connection[Any, Any], inbox: queue.Queue[tuple[str, Any]]) -> None:
    """Put received messages into the inbox; end the process when the other side has closed the connection."""
    while True:
        try:
            inbox.put(connection.recv())
        except (EOFError, OSError):
            os._exit(0)


def _run(job: Job, settings: WorkerSettings, connection: Connection[Any, Any]) -> Event:
    from fgai_bench.runner.execute import execute

    last = time.monotonic()

    def progress(epoch: int, epochs: int) -> None:
        nonlocal last
        if time.monotonic() - last > EVERY:
            last = time.monotonic()
            connection.send(("event", Event(job.hash, epoch, epochs)))

    return Event(job.hash, result=execute(job.config, job.inputs, settings.data_root, progress))
