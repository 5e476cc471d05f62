"""Choose where steps run: inline, in worker processes, or on a Ray cluster; the results are the same.

An executor accepts jobs and returns events. It never touches the store: a job carries its input artifacts, and its
result carries the artifacts it made.
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

from fgai_bench.data import DATASETS
from fgai_bench.registry import load_plugins
from fgai_bench.store.result import Result

SERVE = "import sys, json; sys.path[:] = json.loads(sys.argv[2]); from fgai_bench.runner.worker import serve; serve()"
# Set before torch is imported, so that idle threads of its libraries are never made.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Job:
    """A step together with its input artifacts, as an executor receives it."""

    hash: str
    config: Mapping[str, Any]
    inputs: Mapping[str, bytes]
    time_limit: float | None = None
    alone: bool = False


@dataclass(frozen=True)
class Event:
    """News about a job: its progress, or its result."""

    hash: str
    epoch: int = 0
    epochs: int = 0
    result: Result | None = None


@dataclass(frozen=True)
class WorkerSettings:
    """Settings of every worker: modules to import first, the data root, threads per step, devices, graphs in memory."""

    plugins: Sequence[str] = ()
    data_root: str | None = None
    threads: int = 1
    devices: Sequence[str] = ()
    datasets: Mapping[str, Any] = field(default_factory=dict)

    def prepare(self) -> None:
        """Make the names of the main process known in a worker: its plugins, and the graphs that it holds in memory."""
        load_plugins(self.plugins)
        for name, dataset in self.datasets.items():
            if name not in DATASETS:
                DATASETS.add(name, dataset)


class Executor(Protocol):
    """Run up to ``slots`` jobs at a time."""

    @property
    def slots(self) -> int: ...

    def submit(self, job: Job) -> None:
        """Accept a job and start it at once or soon."""

    def events(self, timeout: float) -> list[Event]:
        """Return the new events, after waiting at most ``timeout`` seconds for one."""

    def close(self) -> None:
        """Stop all jobs that still run."""


class Inline:
    """Run steps one after the other in this process: for debugging, since a crash of a step ends the run."""

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
    """A worker process, the connection to it, its current job and the last job that it was given."""

    process: subprocess.Popen[bytes]
    connection: Connection[Any, Any]
    job: Job | None = None
    started: float = field(default=0.0)
    last: Job | None = None

    def suits(self, job: Job) -> bool:
        """Tell whether earlier jobs of this process leave the measured cost of the job unaffected.

        A job whose cost is the result needs a fresh process: loaded libraries and other data would count as its memory.
        It may follow another such job on the same data on a GPU, where only memory allocated during the job counts.
        """
        if not job.alone or self.last is None:
            return True
        same = all(self.last.config.get(key) == job.config.get(key) for key in ("dataset", "device"))
        return self.last.alone and same and str(job.config.get("device")).startswith("cuda")

    @property
    def overdue(self) -> bool:
        """Tell whether the job has run longer than its time limit, not counting the start of the process."""
        limit = self.job.time_limit if self.job is not None else None
        return bool(self.started and limit is not None and time.monotonic() - self.started > limit)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.connection.close()


class Processes:
    """Run steps in worker processes, each with its own interpreter; a worker that dies fails only its own step.

    Workers live in sessions of their own, so that Ctrl-C reaches only this process, and they end when it ends.
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
        with contextlib.suppress(OSError):  # a worker that died while idle is reported by the next call of events()
            worker.connection.send(("job", job))

    def events(self, timeout: float) -> list[Event]:
        events: list[Event] = []
        for connection in wait([worker.connection for worker in self._workers], timeout):
            worker = next(worker for worker in self._workers if worker.connection is connection)
            events += self._receive(worker)
        for worker in [worker for worker in self._workers if worker.overdue]:
            assert worker.job is not None
            reason = f"stopped after its time limit of {worker.job.time_limit:g} s"
            events.append(Event(worker.job.hash, result=Result("timeout", reason)))
            self._retire(worker)
        return events

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

    def _receive(self, worker: _Worker) -> list[Event]:
        """Return the event that a worker has sent, or the failure of its job if the worker has died."""
        try:
            word, content = worker.connection.recv()
        except (EOFError, OSError):
            return self._report_death(worker)
        if word == "started":
            worker.started = time.monotonic()
            return []
        assert isinstance(content, Event)
        if content.result is not None:
            worker.job, worker.started = None, 0.0
        return [content]

    def _report_death(self, worker: _Worker) -> list[Event]:
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
    """Return in words how a worker process ended.

    >>> death(-9)
    'its worker was killed by SIGKILL, as the system does when memory runs out'
    >>> death(3)
    'its worker ended with exit code 3'
    """
    if code is None or code >= 0:
        return f"its worker ended with exit code {code}"
    name = signal.Signals(-code).name
    return f"its worker was killed by {name}" + (", as the system does when memory runs out" if code == -9 else "")
