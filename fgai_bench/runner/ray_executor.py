"""Run steps on a Ray cluster; inputs and results travel through Ray, so nodes need no disk in common."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

from fgai_bench.runner.executors import Event, Job, WorkerSettings
from fgai_bench.store.result import Result

RETRIES = 5  # when the node or worker of a step is lost
PATIENCE = 10.0  # seconds for a cluster to answer at its address
STARTING = 60.0  # seconds of grace for a worker to start, which Ray does not tell apart from running


class ExecutorError(ValueError):
    """Raised when an executor cannot be started; the message says what is missing."""


class RayExecutor:
    """Run steps as Ray tasks, as many at a time as the cluster has room for.

    Args:
        address: address of a running cluster; None starts one on this machine.
        slots: number of steps at a time on a cluster that is started here.
        settings: settings of the workers.
        gpu: whether a step needs a GPU; ``slots`` of them then share the machine's GPUs.
    """

    def __init__(self, address: str | None, slots: int, settings: WorkerSettings, gpu: bool = False) -> None:
        self._ray = _import_ray()
        self.settings = settings
        self._refs: dict[Any, tuple[Job, float]] = {}
        self._started_here = not self._ray.is_initialized()
        if self._started_here:
            self._connect(address, slots)
        needs = {"num_cpus": settings.threads, "num_gpus": 1 if gpu else 0, "max_retries": RETRIES}
        self._remote = self._ray.remote(**needs)(run_remotely)
        self._key = "GPU" if gpu else "CPU"
        self._units_per_step = 1 if gpu else settings.threads

    def _connect(self, address: str | None, slots: int) -> None:
        quiet = {"log_to_driver": False, "logging_level": "error"}
        _check_reachable(address)
        try:
            if address is None:
                self._ray.init(num_cpus=slots * self.settings.threads, include_dashboard=False, **quiet)
            else:
                self._ray.init(address=address, **quiet)
        except (ConnectionError, RuntimeError, ValueError) as error:
            message = " ".join(str(error).split())
            raise ExecutorError(f"no Ray cluster at {address or 'this machine'}: {message[:200]}") from None

    @property
    def slots(self) -> int:
        """Return how many steps fit on the cluster now; nodes may come and go."""
        return max(1, int(self._ray.cluster_resources().get(self._key, 0) // self._units_per_step))

    def submit(self, job: Job) -> None:
        inputs = {role: self._ray.put(content) for role, content in job.inputs.items()}
        ref = self._remote.remote(dict(job.config), list(inputs), self.settings, *inputs.values())
        self._refs[ref] = (job, time.monotonic())

    def events(self, timeout: float) -> list[Event]:
        if not self._refs:
            return []
        ready, _ = self._ray.wait(list(self._refs), num_returns=1, timeout=timeout)
        events = [Event(self._refs.pop(ref)[0].hash, result=self._result(ref)) for ref in ready]
        for ref, (job, since) in list(self._refs.items()):
            if job.time_limit is not None and time.monotonic() - since > job.time_limit + STARTING:
                self._ray.cancel(ref, force=True)
                del self._refs[ref]
                reason = f"stopped after its time limit of {job.time_limit:g} s"
                events.append(Event(job.hash, result=Result("timeout", reason)))
        return events

    def _result(self, ref: Any) -> Result:
        """Return the result of a task; a node or worker that is lost after all retries gives a failure."""
        lost = self._ray.exceptions
        try:
            return self._ray.get(ref)
        except lost.OutOfMemoryError as error:
            return Result("oom", _first_line(error))
        except lost.RayError as error:
            return Result("failed", f"lost on the Ray cluster after {RETRIES} retries: {_first_line(error)}")

    def close(self) -> None:
        for ref in self._refs:
            self._ray.cancel(ref, force=True)
        self._refs.clear()
        if self._started_here:
            self._ray.shutdown()


def run_remotely(config: Mapping[str, Any], roles: Sequence[str], settings: WorkerSettings, *contents: bytes) -> Result:
    """Run one step inside a Ray task, in the same way as every other executor."""
    from fgai_bench.runner.execute import execute

    settings.prepare()
    return execute(config, dict(zip(roles, contents, strict=True)), settings.data_root)


def _check_reachable(address: str | None) -> None:
    """Raise if nothing answers at ``host:port``; Ray itself would wait for minutes and ignore Ctrl-C."""
    if address in (None, "auto") or "://" in str(address):
        return
    host, _, port = str(address).rpartition(":")
    if not host or not port.isdigit():
        raise ExecutorError(f"{address!r} is no address of a Ray cluster; write host:port, auto or ray://host:port")
    try:
        socket.create_connection((host, int(port)), timeout=PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise ExecutorError(f"no Ray cluster at {address}: {error}") from None


def _import_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise ExecutorError("--executor ray needs Ray: pip install 'fgai-bench[ray]'") from None
    return ray


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__
