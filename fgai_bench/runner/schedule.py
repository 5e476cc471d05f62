"""Decide which step may start next and record each result; a single process decides and writes."""

from __future__ import annotations

import json
from dataclasses import replace

from fgai_bench.runner.executors import Executor, Job
from fgai_bench.runner.plan import Plan, Step
from fgai_bench.runner.progress import Observer
from fgai_bench.store.artifacts import DamagedArtifact
from fgai_bench.store.result import Result, blocked
from fgai_bench.store.sqlite import Store

PATIENCE = 0.5  # seconds to wait for events before the observer's clock is updated
# The name of the artifact that a step reads from each of its inputs, by the role of the input.
TAKEN = {"teacher": "model", "model": "model", "other": "model", "attacked": "attacked", "effects": "effects"}


class Schedule:
    """Run the steps of a plan that the store does not hold."""

    def __init__(self, plan: Plan, store: Store, executor: Executor, observer: Observer) -> None:
        self.plan, self.store, self.executor, self.observer = plan, store, executor, observer
        self.done = set(store.statuses())
        self.waiting = {hash: step for hash, step in plan.steps.items() if hash not in self.done}
        self.running: dict[str, Step] = {}
        self.alone: set[str] = set()

    def work(self) -> None:
        """Run until no step waits or runs; every result is written before the next step is chosen."""
        while self.waiting or self.running:
            while (step := self._next()) is not None:
                self._start(step)
            for event in self.executor.events(PATIENCE) if self.running else ():
                if event.result is None:
                    self.observer.advanced(event.hash, event.epoch, event.epochs)
                else:
                    self._finish(self.running.pop(event.hash), event.result)
            self.observer.tick()

    def _next(self) -> Step | None:
        """Return the next step that may start now; steps that must run alone come when nothing else can run."""
        if any(self._is_alone(step) for step in self.running.values()):
            return None
        ready = [step for step in self.waiting.values() if self.done.issuperset(step.inputs.values())]
        shared = [step for step in ready if not self._is_alone(step)]
        if shared:
            return shared[0] if len(self.running) < self.executor.slots else None
        return ready[0] if ready and not self.running else None

    def _is_alone(self, step: Step) -> bool:
        return step.exclusive or step.hash in self.alone

    def _start(self, step: Step) -> None:
        inputs = {}
        for role, source in step.inputs.items():
            try:
                inputs[role] = self.store.artifact(source, TAKEN[role])
            except DamagedArtifact as error:
                self._handle_missing_input(step, role, source, error)
                return
        if step.kind == "measure":
            inputs["costs"] = json.dumps(self._costs(step)).encode()
        del self.waiting[step.hash]
        self.running[step.hash] = step
        self.observer.started(step)
        self.executor.submit(Job(step.hash, step.config, inputs, step.time_limit, self._is_alone(step)))

    def _costs(self, step: Step) -> dict[str, float]:
        """Return seconds and memory of the steps that a step builds on, for metrics of cost."""
        return {name: value for hash in step.inputs.values() for name, value in self.store.result(hash).cost.items()}

    def _handle_missing_input(self, step: Step, role: str, source: str, error: DamagedArtifact) -> None:
        """Run the input's step again if its file was lost; if it never made one, record this step as blocked."""
        cause = self.store.step(source)
        if any(row["role"] == TAKEN[role] for row in cause["artifacts"]):
            self.observer.said(f"{error}; its step is run again")
            self.store.forget([source])
            self.done.discard(source)
            self.waiting = {source: self.plan.steps[source], **self.waiting}
        else:
            del self.waiting[step.hash]
            self._record(step, blocked(role, self.store.result(source)))

    def _finish(self, step: Step, result: Result) -> None:
        if result.status == "oom" and self.running and step.hash not in self.alone:
            self.observer.said(f"step {step.hash[:12]} ran out of memory beside others; it is run again alone")
            self.alone.add(step.hash)
            self.waiting[step.hash] = step
            return
        if not result.environment:
            result = replace(result, environment=self._environment(step))
        self._record(step, result)

    def _record(self, step: Step, result: Result) -> None:
        self.store.record(step, result)
        self.done.add(step.hash)
        self.observer.finished(step, result)

    @staticmethod
    def _environment(step: Step) -> dict[str, object]:
        """Return the environment of a step that died before it could report its own."""
        from fgai_bench.runner.provenance import environment

        return environment("cpu" if step.config["device"] == "cpu" else step.config["device"], step.config["threads"])
