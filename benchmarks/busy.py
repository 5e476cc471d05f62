"""Time a card and a part of `quick` while other processes keep every core busy: seconds of clock and processor.

    python -m benchmarks.busy 0 6 --csv benchmarks/measured/busy.csv
    python -m benchmarks.busy 6 --program FOLDER    # another version of the package, from its checkout

The busy processes share the terminal's session with what is timed, so the system treats all of them alike.
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

NETWORK = """
import fgai_bench as fb
def both():
    data = fb.load_dataset("cora", seed=0)
    return fb.fit("vanilla", fb.build_model("gat", data, seed=0), data, seed=0, epochs=20), data
"""
WORK = {
    "card": "evaluate ./network.py:both --attacks injection --device cpu",
    "quick": "run --suite quick --models gat --defenses vanilla,at --attacks injection --seeds 1 --device cpu --out run",
}
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_WAIT_POLICY")  # as a user has them: unset


def timed(work: str, busy: int, program: str) -> tuple[float, float, float]:
    """Return clock and processor seconds of a command while so many processes compute, and the load at its end."""
    variables = {name: value for name, value in os.environ.items() if name not in THREADS}
    variables |= {"PYTHONPATH": program} if program else {}
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
    try:
        if busy:
            time.sleep(30)  # until the load of the last minute says so
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "network.py").write_text(NETWORK)
            before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            line = [sys.executable, "-m", "fgai_bench.cli", *work.split()]
            subprocess.run(line, check=True, stdout=subprocess.DEVNULL, cwd=folder, env=variables)
            clock, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        load = os.getloadavg()[0]
    finally:
        for other in others:
            other.kill()
            other.wait()
    return clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, load


def main() -> None:
    """Print one line for each number of busy processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("busy", type=int, nargs="+")
    parser.add_argument("--only", choices=WORK)
    parser.add_argument("--program", default="")
    parser.add_argument("--csv", type=Path)
    arguments = parser.parse_args()
    lines = [("what", "busy", "clock_s", "processor_s", "ratio", "load")]
    for name in [arguments.only] if arguments.only else WORK:
        for busy in arguments.busy:
            clock, processor, load = timed(WORK[name], busy, arguments.program)
            figures = (f"{clock:.1f}", f"{processor:.1f}", f"{clock / processor:.2f}", f"{load:.1f}")
            lines.append((name, str(busy), *figures))
            print(*lines[-1], sep=", ", flush=True)
    if arguments.csv:
        with arguments.csv.open("w", newline="") as stream:
            csv.writer(stream, lineterminator="\n").writerows(lines)


if __name__ == "__main__":
    main()
