"""Executors: where steps run. Inline, in worker processes, or on a Ray cluster; the results are the same.

An executor takes jobs and gives events. It never touches the store: what a job needs travels with it, and what it made
comes back with its result.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, Protocol

from fgai_bench.store.result import Result

SERVE = "import sys, json; sys.path[:] = json.loads(sys.argv[2]); from fgai_bench.runner.worker import serve; serve()"
# Set before torch is imported, so that idle threads of its libraries are never made.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Job:
    """A step on its way to where it runs."""

    hash: str
    config: Mapping[str, Any]
    inputs: Mapping[str, bytes]
    time_limit: float | None = None
    alone: bool = False


@dataclass(frozen=True)
class Event:
    """What is known about a job: its progress, or its result."""

    hash: str
    epoch: int = 0
    epochs: int = 0
    result: Result | None = None


@dataclass(frozen=True)
class WorkerSettings:
    """What every worker needs to know: modules to import first, the data root, threads per step, devices."""

    plugins: Sequence[str] = ()
    data_root: str | None = None
    threads: int = 1
    devices: Sequence[str] = ()


class Executor(Protocol):
    """Runs up to ``slots`` jobs at a time."""

    @property
    def slots(self) -> int: ...

    def submit(self, job: Job) -> None:
        """Take a job; it starts at once or soon."""

    def events(self, timeout: float) -> list[Event]:
        """What happened, waiting at most ``timeout`` seconds for something to happen."""

    def close(self) -> None:
        """Stop everything that still runs."""


class Inline:
    """Steps run one after the other in this process: for debugging, since nothing protects the run from a crash."""

    slots = 1

    def __init__(self, settings: WorkerSettings) -> None:
        self.settings = settings
        self._jobs: list[Job] = []

    def submit(self, job: Job) -> None:
        self._jobs.append(job)

    def events(self, timeout: float) -> list[Event]:
        from fgai_bench.runner.execute import execute

        if not self._jobs:
            return []
        job = self._jobs.pop(0)
        return [Event(job.hash, result=execute(job.config, job.inputs, self.settings.data_root))]

    def close(self) -> None:
        self._jobs.clear()


@dataclass
class _Worker:
    """A process, the connection to it, the job that it has and the last that it was given."""

    process: subprocess.Popen[bytes]
    connection: Connection[Any, Any]
    job: Job | None = None
    started: float = field(default=0.0)
    last: Job | None = None

    def suits(self, job: Job) -> bool:
        """Whether nothing that this process has done weighs on the job.

        On a job whose cost is the result everything would: libraries in memory, other data. It may follow another such
        job on the same data on a GPU, where what is counted is the memory allocated during the job.
        """
        if not job.alone or self.last is None:
            return True
        same = all(self.last.config.get(what) == job.config.get(what) for what in ("dataset", "device"))
        return self.last.alone and same and str(job.config.get("device")).startswith("cuda")

    @property
    def overdue(self) -> bool:
        """Whether the job has run longer than it may; the start of the process does not count."""
        limit = self.job.time_limit if self.job is not None else None
        return bool(self.started and limit is not None and time.monotonic() - self.started > limit)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.connection.close()


class Processes:
    """Steps run in worker processes, each with its own interpreter; a worker that dies takes only its own step along.

    Workers live in sessions of their own, so that Ctrl-C reaches this process only, and end when it ends.
    """

    def __init__(self, slots: int, settings: WorkerSettings) -> None:
        self.slots = slots
        self.settings = settings
        self._workers: list[_Worker] = []
        self._made = 0

    def submit(self, job: Job) -> None:
        for worker in [worker for worker in self._workers if worker.job is None and not worker.suits(job)]:
            self._retire(worker)
        worker = next((worker for worker in self._workers if worker.job is None), None) or self._start()
        worker.job, worker.last, worker.started = job, job, 0.0
        with contextlib.suppress(OSError):  # it died while idle; the next look at it says how
            worker.connection.send(("job", job))

    def events(self, timeout: float) -> list[Event]:
        found: list[Event] = []
        for connection in wait([worker.connection for worker in self._workers], timeout):
            worker = next(worker for worker in self._workers if worker.connection is connection)
            found += self._heard(worker)
        for worker in [worker for worker in self._workers if worker.overdue]:
            assert worker.job is not None
            reason = f"stopped after its time limit of {worker.job.time_limit:g} s"
            found.append(Event(worker.job.hash, result=Result("timeout", reason)))
            self._retire(worker)
        return found

    def close(self) -> None:
        for worker in list(self._workers):
            self._retire(worker)

    def _start(self) -> _Worker:
        here, there = Pipe()
        devices = self.settings.devices
        variables = {name: str(self.settings.threads) for name in THREAD_VARIABLES}
        if devices:
            variables["CUDA_VISIBLE_DEVICES"] = devices[self._made % len(devices)]
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", SERVE, str(there.fileno()), json.dumps(sys.path)],
            pass_fds=[there.fileno()],
            stdin=subprocess.DEVNULL,
            env={**os.environ, **variables},
            start_new_session=True,
        )
        there.close()
        here.send(("settings", self.settings))
        worker = _Worker(process, here)
        self._workers.append(worker)
        self._made += 1
        return worker

    def _heard(self, worker: _Worker) -> list[Event]:
        """The next message of a worker, or the result of its death."""
        try:
            word, content = worker.connection.recv()
        except (EOFError, OSError):
            return self._died(worker)
        if word == "started":
            worker.started = time.monotonic()
            return []
        assert isinstance(content, Event)
        if content.result is not None:
            worker.job, worker.started = None, 0.0
        return [content]

    def _died(self, worker: _Worker) -> list[Event]:
        job = worker.job
        self._retire(worker)
        if job is None:
            return []
        return [Event(job.hash, result=Result("failed", death(worker.process.returncode)))]

    def _retire(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        if worker.job is None or worker.process.poll() is None:
            worker.stop()
        else:
            worker.connection.close()


def death(code: int | None) -> str:
    """How a worker ended, in words.

    >>> death(-9)
    'its worker was killed by SIGKILL, as the system does when memory runs out'
    >>> death(3)
    'its worker ended with exit code 3'
    """
    if code is None or code >= 0:
        return f"its worker ended with exit code {code}"
    name = signal.Signals(-code).name
    return f"its worker was killed by {name}" + (", as the system does when memory runs out" if code == -9 else "")
