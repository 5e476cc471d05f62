"""Run steps in worker processes on this machine; a worker that dies fails only its own step."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any

import psutil

from fgai_bench.records.result import Result
from fgai_bench.run.executors.base import Event, Job, WorkerSettings

SERVE = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[2]); "
    "from fgai_bench.run.executors.worker import serve; serve()"
)
START_LIMIT = 600.0  # seconds for a worker to import its libraries and plugins
WAIT_SLACK = 1.0  # seconds by which a wait may last too long; beyond them this process itself was stopped
# Set before torch is imported, so that idle threads of its libraries are never made.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


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
        self.began, self.ran, self.had_waited = True, 0.0, seconds_without_processor(self.process.pid)

    def overdue(self) -> Result | None:
        """Return the result of a job that has run longer than its time limit, or whose worker does not get ready.

        Time in which the worker was ready to run but had no processor, as where many share a few, is not counted.
        """
        if self.job is None:
            return None
        if not self.began:
            late = self.ran > START_LIMIT
            return Result("failed", f"its worker was not ready after {START_LIMIT:g} s") if late else None
        limit = self.job.time_limit
        if limit is None or self.ran <= limit:
            return None
        waited = seconds_without_processor(self.process.pid) - self.had_waited
        return Result("timeout", f"stopped after its time limit of {limit:g} s") if self.ran - waited > limit else None

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
        passed = min(self._clock - earlier, timeout + WAIT_SLACK)
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


def descendants(pid: int) -> set[int]:
    """Return the processes of a worker's session and all their children, without the worker itself."""
    family: set[int] = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if os.getsid(process.pid) == pid:
                family |= {process.pid, *(child.pid for child in process.children(recursive=True))}
    return family - {pid}


def seconds_without_processor(pid: int) -> float:
    """Return how long a process was ready to run while no processor was free; 0 where the system does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    return 0.0


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
