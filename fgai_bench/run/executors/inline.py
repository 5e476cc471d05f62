"""Run steps one after the other in this process."""

from fgai_bench.run.executors.base import Event, Job, WorkerSettings


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
