"""Time a card and a part of `quick` while other processes keep every core busy: seconds of clock and processor.

    python -m benchmarks.busy 0 6 --csv benchmarks/measured/busy.csv
    python -m benchmarks.busy 6 --program FOLDER    # another version of the package, from its checkout

The busy processes are of another session, as of another user; with `--together` of this one. Linux shares the cores
among sessions first where it groups by them. `one_process` is clock over processor seconds of a busy process
meanwhile, which never waits: the ratio of a program with one thread cannot be better.
"""

from __future__ import annotations

import argparse
import csv
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

NETWORK = """
import fgai_bench as fb
def both():
    data = fb.load_dataset("cora", seed=0)
    return fb.fit("vanilla", fb.build_model("gat", data, seed=0), data, seed=0, epochs=20), data
"""
WORK = {
    "card": "evaluate ./network.py:both --attacks injection --device cpu",
    "quick": "run --suite quick --models gat --defenses vanilla,at --attacks injection --seeds 1 "
    "--set training.epochs=20 --device cpu --out run",
}
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_WAIT_POLICY")  # as a user has them: unset


SPINNERS = """
import os, sys, time
for _ in range(int(sys.argv[1])):
    if not os.fork():
        while True:
            pass
time.sleep(10**6)
"""


def timed(work: str, busy: int, program: str, together: bool) -> tuple[float, float, float]:
    """Return clock and processor seconds of a command while so many processes compute, and the ratio of one of them."""
    variables = {name: value for name, value in os.environ.items() if name not in THREADS}
    variables |= {"PYTHONPATH": program} if program else {}
    parent = subprocess.Popen([sys.executable, "-c", SPINNERS, str(busy)], start_new_session=not together)
    try:
        time.sleep(30 if busy else 1)  # until the load of the last minute says so
        others = psutil.Process(parent.pid).children()
        computed = sum(other.cpu_times().user for other in others)
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "network.py").write_text(NETWORK)
            before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            line = [sys.executable, "-m", "fgai_bench.cli", *work.split()]
            subprocess.run(line, check=True, stdout=subprocess.DEVNULL, cwd=folder, env=variables)
            clock, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        computed = sum(other.cpu_times().user for other in others) - computed
    finally:
        for process in (*psutil.Process(parent.pid).children(), parent):
            process.kill()
        parent.wait()
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return clock, processor, clock * busy / computed if busy else 1.0


def main() -> None:
    """Print one line for each number of busy processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("busy", type=int, nargs="+")
    parser.add_argument("--only", choices=WORK)
    parser.add_argument("--program", default="")
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--csv", type=Path)
    arguments = parser.parse_args()
    lines = [("what", "busy", "clock_s", "processor_s", "ratio", "one_process", "load")]
    for name in [arguments.only] if arguments.only else WORK:
        for busy in arguments.busy:
            clock, processor, one = timed(WORK[name], busy, arguments.program, arguments.together)
            figures = [f"{clock:.1f}", f"{processor:.1f}", f"{clock / processor:.2f}", f"{one:.2f}"]
            figures.append(f"{os.getloadavg()[0]:.1f}")
            lines.append((name, str(busy), *figures))
            print(*lines[-1], sep=", ", flush=True)
    if arguments.csv:
        with arguments.csv.open("w", newline="") as stream:
            csv.writer(stream, lineterminator="\n").writerows(lines)


if __name__ == "__main__":
    main()
