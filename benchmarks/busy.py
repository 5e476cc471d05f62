"""Time a card while other processes keep every core busy: wall and processor seconds, alone and among them.

python -m benchmarks.busy 0 6
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

CARD = """
import os
from fgai_bench.cli import main
open("card_of_gat.py", "w").write('''
import fgai_bench as fb
def both():
    data = fb.load_dataset("cora", seed=0)
    return fb.fit("vanilla", fb.build_model("gat", data, seed=0), data, seed=0, epochs=20), data
''')
raise SystemExit(main(["evaluate", "./card_of_gat.py:both", "--attacks", "injection", "--device", "cpu"]))
"""


def timed(busy: int, folder: str) -> tuple[float, float]:
    """Return wall and processor seconds of a card while so many processes compute."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
    try:
        if busy:
            time.sleep(30)  # until the load of the last minute says so
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        subprocess.run([sys.executable, "-c", CARD], check=True, stdout=subprocess.DEVNULL, cwd=folder)
        wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    finally:
        for other in others:
            other.kill()
            other.wait()
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print one line for each number of busy processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("busy", type=int, nargs="+")
    parser.add_argument("--folder", default=".")
    arguments = parser.parse_args()
    print("| busy processes | wall s | processor s |\n|---|---|---|", flush=True)
    for busy in arguments.busy:
        wall, processor = timed(busy, arguments.folder)
        print(f"| {busy} | {wall:.1f} | {processor:.1f} |", flush=True)


if __name__ == "__main__":
    main()
