"""Decide which step may start next and record each result; a single process decides and writes."""

import heapq
import json
import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from fgai_bench.records.artifacts import DamagedArtifact
from fgai_bench.records.result import Result, blocked, storable
from fgai_bench.records.store import Store
from fgai_bench.run.executors.base import Event, Executor, Job
from fgai_bench.run.forecast import memory_of
from fgai_bench.run.plan import Plan, Step
from fgai_bench.run.progress import Observer

TICK = 0.5  # seconds to wait for events before the observer's clock is updated
# By the role of an input, the name of the artifact that is read from it.
ARTIFACTS = {"teacher": "model", "model": "model", "other": "model", "attacked": "attacked", "effects": "effects"}

# What may share the machine first, then measurements, then the largest trainings, then by the plan.
Priority = tuple[bool, bool, float, int]


class Schedule:
    """Run the steps of a plan that the store does not hold, as far as inputs are there.

    One by one they run in the order of the plan. Where several run at a time, a measurement comes before any training,
    so that cells are completed, and the largest training (or the one that it waits for) before smaller ones, so that
    the last ones are short and no worker waits long for another. One of unknown size counts as the largest.
    """

    def __init__(self, plan: Plan, store: Store, executor: Executor, observer: Observer) -> None:
        self.plan, self.store, self.executor, self.observer = plan, store, executor, observer
        self.done = set(store.statuses())
        self.waiting: dict[str, Step] = {}
        self.running: dict[str, Step] = {}
        self.alone: set[str] = set()
        self.lost: dict[str, dict[str, str]] = {}  # hashes of what a step made whose file was lost, by role
        self._position: dict[str, int] = {}
        self._bytes: dict[str, float] = {}  # of a training that waits, or of a larger one that builds on it
        self._followers: dict[str, list[Step]] = defaultdict(list)
        self._ready: list[tuple[Priority, str]] = []  # a heap of steps that may be ready, by hash
        self.wait_for(plan.steps.values())

    def wait_for(self, steps: Iterable[Step]) -> None:
        """Take up steps, after those that wait already; what the store holds is not run again."""
        new = list(steps)
        for step in new:
            self._position[step.hash] = len(self._position)
            for source in step.inputs.values():
                self._followers[source].append(step)
        self.waiting |= {step.hash: step for step in new if step.hash not in self.done}
        for step in reversed(new) if self.executor.slots > 1 else ():
            if step.hash in self.waiting and step.kind in ("train", "validate"):
                own = memory_of(step.config)
                after = (self._bytes.get(follower.hash, 0.0) for follower in self._followers[step.hash])
                self._bytes[step.hash] = max([math.inf if own is None else own, *after])
        for step in new:
            self._consider(step)

    def work(self) -> None:
        """Run until no step waits or runs; every result is written before the next step is chosen."""
        while self.waiting or self.running:
            while (step := self._next()) is not None:
                self._start(step)
            for event in self.executor.events(TICK) if self.running else ():
                self._receive(event)
            self.observer.tick()

    def _receive(self, event: Event) -> None:
        if event.hash not in self.running:
            return  # a process that a step left behind may still speak of it
        if event.result is None:
            self.observer.advanced(event.hash, event.epoch, event.epochs)
        else:
            self._finish(self.running.pop(event.hash), event.result)

    def _consider(self, step: Step) -> None:
        """Remember a step that may start if it waits and its inputs are there."""
        if self._may_start(step.hash):
            size = self._bytes.get(step.hash, 0.0)
            priority = self._is_alone(step), size > 0, -size, self._position[step.hash]
            heapq.heappush(self._ready, (priority, step.hash))

    def _may_start(self, hash: str) -> bool:
        return hash in self.waiting and self.done.issuperset(self.waiting[hash].inputs.values())

    def _next(self) -> Step | None:
        """Return the next step that may start now; steps that must run alone come when nothing else can run."""
        if any(self._is_alone(step) for step in self.running.values()):
            return None
        while self._ready:
            (alone, *_), hash = self._ready[0]
            if self._may_start(hash) and alone == self._is_alone(self.waiting[hash]):
                room = 1 if alone else self.executor.slots
                return self.waiting[hash] if len(self.running) < room else None
            heapq.heappop(self._ready)  # it was started, or its input was lost, or it has to run alone by now
        return None

    def _is_alone(self, step: Step) -> bool:
        return step.exclusive or step.hash in self.alone

    def _start(self, step: Step) -> None:
        inputs = {}
        for role, source in step.inputs.items():
            try:
                inputs[role] = self.store.artifact(source, ARTIFACTS[role])
            except DamagedArtifact as error:
                self._handle_missing_input(step, role, source, error)
                return
        if step.kind == "measure":
            sources = [self.store.result(hash).cost for hash in step.inputs.values()]  # for metrics of cost
            inputs["costs"] = json.dumps({name: value for cost in sources for name, value in cost.items()}).encode()
        del self.waiting[step.hash]
        self.running[step.hash] = step
        self.observer.started(step)
        self.executor.submit(Job(step.hash, step.config, inputs, step.time_limit, self._is_alone(step)))

    def _handle_missing_input(self, step: Step, role: str, source: str, error: DamagedArtifact) -> None:
        """Run the input's step again if its file was lost; if it never made one, record this step as blocked."""
        cause = self.store.step(source)
        if any(row["role"] == ARTIFACTS[role] for row in cause["artifacts"]):
            self.observer.said(f"{error}; its step is run again")
            self.lost[source] = self._made(source)
            self.done.discard(source)
            self.waiting[source] = self.plan.steps[source]
            self._consider(self.waiting[source])
        else:
            del self.waiting[step.hash]
            self._record(step, blocked(role, self.store.result(source)))

    def _made(self, hash: str) -> dict[str, str]:
        """Return the hashes of what a step has made for others, by role."""
        used = ARTIFACTS.values()
        return {row["role"]: row["sha256"] for row in self.store.step(hash)["artifacts"] if row["role"] in used}

    def _run_again(self, steps: Iterable[Step]) -> None:
        """Forget recorded steps with all that builds on them, and let them wait."""
        for step in steps:
            if step.hash in self.done:
                self.store.forget([step.hash])
                self.done.discard(step.hash)
                self.waiting[step.hash] = step
                self._run_again(self._followers[step.hash])

    def _finish(self, step: Step, result: Result) -> None:
        if result.status == "oom" and self.running and step.hash not in self.alone:
            self.observer.said(f"step {step.hash[:12]} ran out of memory beside others; it is run again alone")
            self.alone.add(step.hash)
            self.waiting[step.hash] = step
            self._consider(step)
            return
        if not result.environment:
            from fgai_bench.records.provenance import environment

            where = environment(step.config["device"], step.config["threads"])  # it died before it could report its own
            result = replace(result, environment=where)
        self._record(step, result)

    def _record(self, step: Step, result: Result) -> None:
        result = storable(result)
        self.store.record(step, result)
        self.done.add(step.hash)
        before = self.lost.pop(step.hash, None)
        if before is not None and result.status == "ok" and before != self._made(step.hash):
            self.observer.said(f"step {step.hash[:12]} made something else than before; what builds on it is run again")
            self._run_again(self._followers[step.hash])
        for follower in self._followers[step.hash]:
            self._consider(follower)
        self.observer.finished(step, result)
