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
from fgai_bench.plugins import load_plugins
from fgai_bench.records.result import Result
from fgai_bench.run.executors.process_tree import descendants, waited

SERVE = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[2]); "
    "from fgai_bench.run.executors.worker import serve; serve()"
)
STARTING = 600.0  # seconds for a worker to import its libraries and plugins
HASTE = 1.0  # seconds that a wait may last too long; what goes beyond is time in which this process was stopped
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
    """News about a job, its progress or its result; or, without a job, a note for the person who started the run."""

    hash: str
    epoch: int = 0
    epochs: int = 0
    result: Result | None = None
    note: str = ""


@dataclass(frozen=True)
class WorkerSettings:
    """Settings of every worker.

    Attributes:
        plugins: modules to import first.
        data_root: where the datasets lie.
        threads: per step.
        devices: GPUs to share among the workers.
        variables: of the environment, where the worker's machine does not set them itself.
        datasets: graphs in memory, by name.
    """

    plugins: Sequence[str] = ()
    data_root: str | None = None
    threads: int = 1
    devices: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
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

    def start(self) -> None:
        """Let workers get ready, if there will be any, while the request is still being checked."""

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

    def start(self) -> None:
        pass

    def submit(self, job: Job) -> None:
        self._jobs.append(job)

    def events(self, timeout: float) -> list[Event]:
        from fgai_bench.run.execute import execute

        if not self._jobs:
            return []
        job = self._jobs.pop(0)
        return [Event(job.hash, result=execute(job.config, job.inputs, self.settings.data_root))]

    def close(self) -> None:
        self._jobs.clear()


@dataclass
class _Worker:
    """A worker process, the connection to it, its current job and the last job that it was given.

    Attributes:
        began: whether the worker has begun the job: it is up, and its libraries are imported.
        ran: seconds since then, without those in which this process itself did not run.
        had_waited: how long the worker had waited for a processor when it began the job.
    """

    process: subprocess.Popen[bytes]
    connection: Connection[Any, Any]
    job: Job | None = None
    last: Job | None = None
    began: bool = False
    ran: float = 0.0
    had_waited: float = 0.0

    def suits(self, job: Job) -> bool:
        """Tell whether earlier jobs of this process leave the measured cost of the job unaffected.

        A job whose cost is the result needs a fresh process: loaded libraries and other data would count as its memory.
        It may follow another such job on the same data on a GPU, where only memory allocated during the job counts.
        """
        if not job.alone or self.last is None:
            return True
        same = all(self.last.config.get(key) == job.config.get(key) for key in ("dataset", "device"))
        return self.last.alone and same and str(job.config.get("device")).startswith("cuda")

    def give(self, job: Job | None) -> None:
        """Set the job that the worker has now."""
        self.job, self.last = job, job or self.last
        self.began, self.ran = False, 0.0

    def begin(self) -> None:
        """Start the clock of the job."""
        self.began, self.ran, self.had_waited = True, 0.0, waited(self.process.pid)

    def overdue(self) -> Result | None:
        """Return the result of a job that has run longer than its time limit, or whose worker does not get ready.

        Time in which the worker was ready to run but had no processor, as where many share a few, is not counted.
        """
        if self.job is None:
            return None
        if not self.began:
            return Result("failed", f"its worker was not ready after {STARTING:g} s") if self.ran > STARTING else None
        limit = self.job.time_limit
        if limit is None or self.ran <= limit or self.ran - (waited(self.process.pid) - self.had_waited) <= limit:
            return None
        return Result("timeout", f"stopped after its time limit of {limit:g} s")

    def stop(self) -> None:
        """End the worker and everything that its steps have left running."""
        left = descendants(self.process.pid)
        if self.process.poll() is None:
            self.process.kill()
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
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
        self._clock = time.monotonic()

    def start(self) -> None:
        while len(self._workers) < self.slots:
            self._start()

    def submit(self, job: Job) -> None:
        for worker in [worker for worker in self._workers if worker.job is None and not worker.suits(job)]:
            self._retire(worker)
        worker = next((worker for worker in self._workers if worker.job is None), None) or self._start()
        worker.give(job)
        with contextlib.suppress(OSError):  # a worker that died while idle is reported by the next call of events()
            worker.connection.send(("job", job))

    def events(self, timeout: float) -> list[Event]:
        ready = wait([worker.connection for worker in self._workers], timeout)
        earlier, self._clock = self._clock, time.monotonic()
        passed = min(self._clock - earlier, timeout + HASTE)
        events: list[Event] = []
        for worker in list(self._workers):
            worker.ran += passed
            if worker.connection in ready or worker.process.poll() is not None:
                events += self._receive(worker)
        for worker in list(self._workers):
            if worker.job is not None and (result := worker.overdue()) is not None:
                events.append(Event(worker.job.hash, result=result))
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
            env={**self.settings.variables, **os.environ, **variables},
            start_new_session=True,
        )
        there.close()
        here.send(("settings", self.settings))
        worker = _Worker(process, here)
        self._workers.append(worker)
        self._made += 1
        return worker

    def _receive(self, worker: _Worker) -> list[Event]:
        """Return the events that a worker has sent, and the failure of its job if the worker has died."""
        events: list[Event] = []
        try:
            while worker.connection.poll():
                word, content = worker.connection.recv()
                if word == "began":
                    worker.begin()
                    continue
                events.append(content)
                if content.result is not None:
                    worker.give(None)
                if word == "last":  # the step has left processes behind, which end with the worker
                    self._retire(worker)
                    return events
        except (EOFError, OSError):
            return [*events, *self._report_death(worker)]
        except Exception as error:  # a step can write to the connection: whatever it is, it is no event
            return [*events, *self._report_death(worker, f"its worker sent what is no event ({type(error).__name__})")]
        if worker.process.poll() is not None:  # and a process that its step has left keeps the connection open
            events += self._report_death(worker)
        return events

    def _report_death(self, worker: _Worker, reason: str = "") -> list[Event]:
        job = worker.job
        self._retire(worker)
        if job is None:
            return []
        return [Event(job.hash, result=Result("failed", reason or death(worker.process.returncode)))]

    def _retire(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.stop()


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
