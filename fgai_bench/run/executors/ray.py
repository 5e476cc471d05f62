"""Run steps on a Ray cluster; inputs and results travel through Ray, so nodes need no disk in common."""

import os
import socket
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fgai_bench.records.result import Result
from fgai_bench.run.executors.base import Event, Job, WorkerSettings
from fgai_bench.run.executors.processes import Processes

GIVE_UP_AFTER = 300.0  # seconds without any node, until a run ends instead of waiting
RETRIES = 5  # when the node or worker of a step is lost
ANSWER_LIMIT = 10.0  # seconds for a cluster to answer at its address
VARIABLE_PREFIX = "FGAI_BENCH_"  # begins the names of the variables that nodes get from here


class ExecutorError(ValueError):
    """Raised when an executor cannot be started or has lost its machines; the message says what is missing."""


class RayExecutor:
    """Run steps as Ray tasks, as many at a time as the cluster has room for.

    Args:
        address: address of a running cluster; None starts one on this machine, whatever else runs there.
        slots: number of steps at a time on a cluster that is started here.
        gpu: whether a step needs a GPU; ``slots`` of them then share the machine's GPUs.
    """

    def __init__(self, address: str | None, slots: int, settings: WorkerSettings, gpu: bool) -> None:
        try:
            import ray
        except ImportError:
            raise ExecutorError("--executor ray needs Ray: pip install ray") from None
        self._ray: Any = ray
        handed_over = {name: value for name, value in os.environ.items() if name.startswith(VARIABLE_PREFIX)}
        self.settings = replace(settings, variables=handed_over)
        self._refs: dict[Any, Job] = {}
        self._last_seen = time.monotonic()
        self._started_here = not self._ray.is_initialized()
        if self._started_here:
            _check_reachable(address)
            size = {"num_cpus": slots * settings.threads, "include_dashboard": False} if address is None else {}
            try:
                self._ray.init(address=address or "local", **size, log_to_driver=False, logging_level="error")
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise ExecutorError(f"no Ray cluster at {address or 'this machine'}: {_words(error)}") from None
        needs = {"num_cpus": settings.threads, "num_gpus": 1 if gpu else 0, "max_retries": RETRIES}
        self._remote = self._ray.remote(**needs)(run_remotely)
        self._key = "GPU" if gpu else "CPU"
        self._units_per_step = 1 if gpu else settings.threads

    @property
    def slots(self) -> int:
        """Return how many steps fit on the cluster now; nodes may come and go."""
        return max(1, self._room())

    def _room(self) -> int:
        return int(self._ray.cluster_resources().get(self._key, 0) // self._units_per_step)

    def start(self) -> None:
        pass  # a worker starts where its first step is sent

    def submit(self, job: Job) -> None:
        inputs = {role: self._ray.put(content) for role, content in job.inputs.items()}
        bare = replace(job, config=dict(job.config), inputs={})
        self._refs[self._remote.remote(bare, list(inputs), self.settings, *inputs.values())] = job

    def events(self, timeout: float) -> list[Event]:
        if not self._refs:
            return []
        ready, _ = self._ray.wait(list(self._refs), num_returns=1, timeout=timeout)
        if ready or self._room():
            self._last_seen = time.monotonic()
        elif time.monotonic() - self._last_seen > GIVE_UP_AFTER:
            raise ExecutorError(
                f"the Ray cluster has had no node for a step for {GIVE_UP_AFTER:.0f} s; what was recorded stays, and "
                "the same request goes on with it"
            )
        return [Event(self._refs.pop(ref).hash, result=self._result(ref)) for ref in ready]

    def _result(self, ref: Any) -> Result:
        """Return the result of a task; a node or worker that is lost after all retries gives a failure."""
        lost = self._ray.exceptions
        try:
            return self._ray.get(ref)
        except lost.OutOfMemoryError as error:
            return Result("oom", _words(error))
        except lost.RayTaskError as error:  # the node was there, but lacks something, as this package itself
            return Result("failed", f"its node cannot run it: {_words(getattr(error, 'cause', None) or error)}")
        except lost.RayError as error:
            return Result("failed", f"lost on the Ray cluster after {RETRIES} retries: {_words(error)}")

    def close(self) -> None:
        for ref in self._refs:
            self._ray.cancel(ref, force=True)
        self._refs.clear()
        if self._started_here:
            self._ray.shutdown()


_processes: dict[str, Processes] = {}  # of this Ray worker: the process that runs its steps, by its settings


def run_remotely(job: Job, roles: Sequence[str], settings: WorkerSettings, *contents: bytes) -> Result:
    """Run one step inside a Ray task, in a worker process like those of a run on one machine.

    So the time limit counts from where the step begins on its node, and a step that dies is a failure with its cause.
    """
    processes = _processes.setdefault(repr(settings), Processes(1, settings))
    processes.submit(replace(job, inputs=dict(zip(roles, contents, strict=True))))
    while True:
        for event in processes.events(timeout=1.0):
            if event.result is not None:
                return event.result


def _check_reachable(address: str | None) -> None:
    """Raise if nothing answers at ``host:port``; Ray itself would wait for minutes and ignore Ctrl-C."""
    if address in (None, "auto") or "://" in str(address):
        return
    host, _, port = str(address).rpartition(":")
    if not host or not port.isdigit():
        raise ExecutorError(f"{address!r} is no address of a Ray cluster; write host:port, auto or ray://host:port")
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER_LIMIT).close()
    except (OSError, OverflowError) as error:
        raise ExecutorError(f"no Ray cluster at {address}: {error}") from None


def _words(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
