"""Measure what a run costs beside its steps: planning, recording, resuming, status, export and report.

The store is made through the public names, with results that take no time to compute. Processor seconds hold on a
shared machine; the seconds of the clock stand beside them, with the load of the last minute.

    python -m benchmarks.many_steps 50000 200000 --folder /dev/shm/many_steps --csv benchmarks/measured/many_steps.csv
"""

from __future__ import annotations

import argparse
import csv
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from fgai_bench.records.result import Result
from fgai_bench.records.store import Store
from fgai_bench.run.plan import Plan, Step
from fgai_bench.run.resume import planned

DEFENSES = ("vanilla", "ln", "row-norm", "at", "fgai")
STEPS_PER_SEED = len(DEFENSES) * (1 + 1 + 2)  # a training, a clean evaluation and two attacks of every defense


def suite_of(steps: int) -> dict[str, Any]:
    """Return a suite of that many steps, a multiple of twenty."""
    return {
        "name": "many",
        "datasets": ["csbm-1e3"],
        "models": ["gat"],
        "defenses": list(DEFENSES),
        "attacks": ["injection", "random-injection"],
        "seeds": list(range(steps // STEPS_PER_SEED)),
        "training": {"epochs": 1},
    }


def result_of(step: Step) -> Result:
    """Return a small result of the kind that a step gives, other values for every step."""
    value = int(step.hash[:8], 16) / 2**32
    names = ("f1", "g_tvd", "g_jsd", "node_jsd", "topk_overlap") if step.kind != "train" else ("validation",)
    return Result(
        metrics={name: value / (1 + place) for place, name in enumerate(names)},
        cost={f"{step.kind}_seconds": value, f"{step.kind}_peak_mib": 100 * value},
        ledger={"nodes": 20.0, "edges": 400.0, "max_feature": 1.0} if step.kind == "attack" else {},
        facts={"checksum": "0" * 64, "nodes": 1000, "edges": 5000},
        artifacts={"model": step.hash.encode()} if step.kind == "train" else {},
        environment={"package": "0", "device": "none", "threads": 1, "commit": None, "dirty": None},
        started=1.8e9 + value,
        seconds=value,
    )


def fill(folder: Path, plan: Plan) -> list[tuple[float, float]]:
    """Record a result for every step of a plan; return the processor and clock seconds of each tenth."""
    marks, tenth = [], max(1, len(plan.steps) // 10)
    with closing(Store(folder)) as store:
        store.place(member.plain() for member in plan.members)
        for number, step in enumerate(plan.steps.values(), 1):
            if number % tenth == 1 or tenth == 1:
                marks.append(now())
            store.record(step, result_of(step))
        marks.append(now())
    return [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(marks)]


def now() -> tuple[float, float]:
    """Return processor and clock seconds."""
    return time.process_time(), time.monotonic()


PROGRAM = """
import resource, sys
from fgai_bench.cli import main
code = main(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, file=sys.stderr)
sys.exit(code)
"""


def command(*arguments: str) -> tuple[float, float, float]:
    """Return the processor and clock seconds of a command of the program, and its peak memory in MiB."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True)
    after, ended = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    if done.returncode:
        raise RuntimeError(done.stderr)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, ended - began, float(done.stderr.splitlines()[-1])


def measured(steps: int, folder: Path, report: bool) -> Iterator[tuple[str, float, float, float]]:
    """Yield what was done with a run of so many steps: processor seconds, clock seconds, peak MiB (0: not measured)."""
    suite, run = folder / "many.yaml", folder / "run"
    suite.write_text(yaml.safe_dump(suite_of(steps)))
    began = now()
    plan = planned(str(suite), "cpu")
    ended = now()
    yield "plan", ended[0] - began[0], ended[1] - began[1], 0
    tenths = fill(run, plan)
    yield "record the first tenth", *tenths[0], 0
    yield "record the last tenth", *tenths[9], 0
    del plan
    yield "resume, nothing to do", *command("run", "--suite", str(suite), "--out", str(run), "--device", "cpu")
    yield "status", *command("status", str(run))
    yield "export", *command("records", "export", str(run), "--out", str(folder / "records"))
    if report:
        yield "report", *command("report", str(run), "--out", str(folder / "report"), "--format", "csv")


def main() -> None:
    """Print one line for each number of steps and each thing that is done with them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", type=int, nargs="+", help="multiples of 200")
    parser.add_argument("--folder", type=Path, default=Path("runs/many_steps"))
    parser.add_argument("--report", type=int, default=50_000, help="the most steps that a report is made of")
    parser.add_argument("--csv", type=Path)
    arguments = parser.parse_args()
    lines = [("steps", "what", "processor_s", "clock_s", "peak_mib", "load")]
    for steps in arguments.steps:
        folder = arguments.folder / str(steps)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for what, processor, clock, peak in measured(steps, folder, steps <= arguments.report):
            load = f"{os.getloadavg()[0]:.1f}"
            lines.append((str(steps), what, f"{processor:.1f}", f"{clock:.1f}", f"{peak:.0f}" if peak else "", load))
            print(*lines[-1], sep=", ", flush=True)
        shutil.rmtree(folder)
    if arguments.csv:
        with arguments.csv.open("w", newline="") as stream:
            csv.writer(stream, lineterminator="\n").writerows(lines)


if __name__ == "__main__":
    main()
