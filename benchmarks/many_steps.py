"""Measure what a run costs beside its steps: planning, resuming, status, reports and recording, by number of steps.

The store is made through the public names, with results that take no time to compute; times are of the processor,
so that they hold on a machine that is shared:

    python -m benchmarks.many_steps 2500 10000 50000 --folder runs/many_steps
    python -m benchmarks.many_steps 200000 --folder /dev/shm/many_steps    # no disk to wait for
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
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


def fill(folder: Path, plan: Plan) -> list[float]:
    """Record a result for every step of a plan; return the processor seconds that each took."""
    seconds = []
    with closing(Store(folder)) as store:
        store.place(member.plain() for member in plan.members)
        for step in plan.steps.values():
            began = time.process_time()
            store.record(step, result_of(step))
            seconds.append(time.process_time() - began)
    return seconds


def command(*arguments: str) -> tuple[float, float]:
    """Return the processor seconds of a command of the program, and its peak memory in MiB."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(done.stderr)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, float(done.stderr.splitlines()[-1])


PROGRAM = """
import resource, sys
from fgai_bench.cli import main
code = main(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, file=sys.stderr)
sys.exit(code)
"""


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a call returns, and the processor seconds that it took."""
    began = time.process_time()
    return work(), time.process_time() - began


def main() -> None:
    """Print one line of a table for each number of steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", type=int, nargs="+")
    parser.add_argument("--folder", type=Path, default=Path("runs/many_steps"))
    parser.add_argument("--no-report", action="store_true", help="leave the report out")
    arguments = parser.parse_args()
    heads = [
        "steps",
        "plan s, MiB",
        "record ms, first and last tenth",
        "resume s, MiB",
        "status s, MiB",
        "export s, MiB",
        "report s, MiB",
    ]
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|", flush=True)
    for steps in arguments.steps:
        folder = arguments.folder / str(steps)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        suite = folder / "many.yaml"
        suite.write_text(yaml.safe_dump(suite_of(steps)))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        plan, planning = timed(lambda: planned(str(suite), "cpu"))  # noqa: B023
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before
        run = folder / "run"
        seconds = fill(run, plan)
        tenth = max(1, len(seconds) // 10)
        first, last = (1e3 * sum(part) / tenth for part in (seconds[:tenth], seconds[-tenth:]))
        line = ["run", "--suite", str(suite), "--out", str(run), "--device", "cpu"]
        exported = ["records", "export", str(run), "--out", str(folder / "records")]
        costs = [command(*line), command("status", str(run)), command(*exported)]
        if not arguments.no_report:
            costs.append(command("report", str(run), "--out", str(folder / "report"), "--format", "csv"))
        cells = [f"{took:.1f}, {peak:.0f}" for took, peak in [(planning, memory), *costs]]
        cells.insert(1, f"{first:.2f}, {last:.2f}")
        print(f"| {len(plan.steps):,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
