"""Run steps in worker processes on this machine; a worker that dies fails only its own step."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

import psutil

from fgai_bench.fast.threads import PASSIVE
from fgai_bench.records.result import Result
from fgai_bench.run.executors.base import Event, Job, WorkerSettings

SERVE = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[2]); "
    "from fgai_bench.run.executors.worker import serve; serve()"
)
START_LIMIT = 600.0  # seconds for a worker to import its libraries and plugins
ENDING = 20.0  # seconds for a worker to end after it has closed its connection
# Set before torch is imported, so that idle threads of its libraries are never made.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass
class _Worker:
    """A worker process, the connection to it, its GPU, its current job and the last job that it was given.

    A job is sent when the worker is ready to read it. A pipe takes in little of a job that nobody reads: sent at once,
    it would hold up the sender, and with it the start of other workers, until this one has imported its libraries.
    """

    process: subprocess.Popen[bytes]
    connection: Connection[Any, Any]
    device: str = ""
    job: Job | None = None
    last: Job | None = None
    ready: bool = False  # its libraries and plugins are imported
    deadline: float = math.inf  # of the job, or of the start of the worker before it, by the monotonic clock

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
        self.job, self.last = job, job or self.last
        self.deadline = time.monotonic() + START_LIMIT
        if self.ready:
            self.begin()

    def begin(self) -> None:
        """Send the job, if there is one, to the worker, which is ready for it, and start the clock of the job."""
        self.ready = True
        if self.job is not None:
            with contextlib.suppress(OSError):  # a worker that died while idle is reported by the next call of events()
                self.connection.send(self.job)
            limit = self.job.time_limit
            self.deadline = math.inf if limit is None else time.monotonic() + limit

    def overdue(self) -> Result | None:
        """Return the result of a job that has run longer than its time limit, or whose worker does not get ready."""
        if self.job is None or time.monotonic() <= self.deadline:
            return None
        if not self.ready:
            return Result("failed", f"its worker was not ready after {START_LIMIT:g} s")
        return Result("timeout", f"stopped after its time limit of {self.job.time_limit:g} s")

    def stop(self) -> None:
        """End the worker and everything that its steps have left running; orphans of its steps are its children."""
        left: list[psutil.Process] = []
        with contextlib.suppress(psutil.Error):
            left = psutil.Process(self.process.pid).children(recursive=True)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
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

    def start(self) -> None:
        while len(self._workers) < self.slots:
            self._start()

    def submit(self, job: Job) -> None:
        for worker in [worker for worker in self._workers if worker.job is None and not worker.suits(job)]:
            self._retire(worker)
        worker = next((worker for worker in self._workers if worker.job is None), None) or self._start()
        worker.give(job)

    def events(self, timeout: float) -> list[Event]:
        ready = wait([worker.connection for worker in self._workers], timeout)
        events: list[Event] = []
        for worker in list(self._workers):
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
        used = [worker.device for worker in self._workers]
        device = min(self.settings.devices, key=used.count, default="")
        variables = {name: str(self.settings.threads) for name in THREAD_VARIABLES}
        if device:
            variables["CUDA_VISIBLE_DEVICES"] = device
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", SERVE, str(there.fileno()), json.dumps(sys.path)],
            pass_fds=[there.fileno()],
            stdin=subprocess.DEVNULL,
            env={**PASSIVE, **self.settings.variables, **os.environ, **variables},
            start_new_session=True,
        )
        there.close()
        worker = _Worker(process, here, device)
        self._workers.append(worker)
        with contextlib.suppress(OSError):  # and so is a worker that died at its start
            here.send(self.settings)
        return worker

    def _receive(self, worker: _Worker) -> list[Event]:
        """Return the events that a worker has sent, and the failure of its job if the worker has died."""
        events: list[Event] = []
        try:
            while worker.connection.poll():
                word, content = worker.connection.recv()
                if word == "ready":
                    worker.begin()
                    continue
                events.append(content)
                if content.result is not None:
                    worker.give(None)
                if word == "last":  # the step has left processes behind, which end with the worker
                    self._retire(worker)
                    return events
        except (EOFError, OSError):  # the connection closes before the worker has ended by itself
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.process.wait(ENDING)
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
