"""How steps are carried out: the options that ``run``, ``tune`` and ``audit`` share, declared once.

None of them changes a result; what does is part of a step's configuration.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from types import FunctionType
from typing import Any

from fgai_bench.data import DATASETS
from fgai_bench.fast.threads import cores, free_cores
from fgai_bench.records.errors import RequestError
from fgai_bench.run.executors.base import Executor, WorkerSettings
from fgai_bench.run.executors.inline import Inline
from fgai_bench.run.executors.processes import Processes
from fgai_bench.run.plan import Step
from fgai_bench.run.preflight import checked_data_root, resolved_device, visible_devices
from fgai_bench.run.progress import Observer

EXECUTORS = ("local", "inline", "ray")


@dataclass(frozen=True)
class Execution:
    """The options of a run that change no result.

    Attributes:
        device: ``auto``, ``cpu`` or ``cuda``.
        jobs: steps at a time; if not given, as many as a CPU has free cores, one on a GPU.
        executor: ``local`` worker processes, ``inline`` in this process, or ``ray``.
        address: address of a Ray cluster; None starts one on this machine.
        data_root: folder of raw datasets.
        plugins: modules that workers import first.
        retry_failed: run again what failed, timed out or ran out of memory.
        observer: receives the events of the run.
    """

    device: str = "auto"
    jobs: int | None = None
    executor: str = "local"
    address: str | None = None
    data_root: str | os.PathLike[str] | None = None
    plugins: Sequence[str] = ()
    retry_failed: bool = False
    observer: Observer = field(default_factory=Observer)

    def __post_init__(self) -> None:
        if self.jobs is not None and not 1 <= self.jobs <= 1024:
            raise RequestError(f"--jobs must lie between 1 and 1024, not {self.jobs}")
        if self.executor not in EXECUTORS:
            raise RequestError(f"unknown executor {self.executor!r}; possible are {', '.join(EXECUTORS)}")
        if self.address is not None and self.executor != "ray":
            raise RequestError("--address is the address of a Ray cluster; add --executor ray")

    @classmethod
    def split(cls, options: Mapping[str, Any]) -> tuple[Execution, dict[str, Any]]:
        """Return the execution that keyword arguments ask for, and the arguments that are about something else."""
        own = {field.name for field in fields(cls)} & options.keys()
        return cls(**{name: options[name] for name in own}), {n: v for n, v in options.items() if n not in own}

    @cached_property
    def resolved_device(self) -> str:
        return resolved_device(self.device)

    @cached_property
    def root(self) -> str | None:
        """Return the folder of raw datasets as an absolute path; raise if it is not there."""
        return checked_data_root(self.data_root)

    def executor_for(self, steps: Sequence[Step], more: bool = False) -> Executor:
        """Return the executor for these steps; a Ray cluster is contacted at once, so that a wrong address fails early.

        ``more`` says that other steps of their kind will follow, so that more workers than steps may be needed.
        """
        device = steps[0].config["device"] if steps else "cpu"
        threads = max((step.config["threads"] for step in steps), default=1)
        known = {name: DATASETS[name] for name in dict.fromkeys(step.config["dataset"]["name"] for step in steps)}
        # Workers cannot read these from files.
        graphs = {name: graph for name, graph in known.items() if not isinstance(graph.reader, str | FunctionType)}
        devices = visible_devices() if device == "cuda" and self.executor == "local" else ()
        settings = WorkerSettings(tuple(self.plugins), self.root, threads, devices, datasets=graphs)
        slots = self.jobs or (max(1, free_cores(cores(), os.getloadavg()[0]) // threads) if device == "cpu" else 1)
        if self.executor == "inline" or not steps:
            return Inline(settings)
        if self.executor == "ray":
            from fgai_bench.run.executors.ray import RayExecutor

            return RayExecutor(self.address, slots, settings, gpu=device == "cuda")
        return Processes(slots if more else min(slots, len(steps)), settings)
