"""What every executor takes and gives: jobs, events, the settings of workers, and the protocol of an executor.

An executor never touches the store: a job carries its input artifacts, and its result carries the artifacts it made.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from fgai_bench.data import DATASETS
from fgai_bench.plugins import load_plugins
from fgai_bench.records.result import Result


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
    """News about a job: its progress or its result."""

    hash: str
    epoch: int = 0
    epochs: int = 0
    result: Result | None = None


@dataclass(frozen=True)
class WorkerSettings:
    """Settings of every worker: ``devices`` are GPUs that are shared, ``datasets`` graphs in memory.

    ``variables`` of the environment hold where a worker's machine does not set them itself.
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
