"""Hold forecasts of time and memory against what a run has measured: ``python -m benchmarks.estimates RUN...``.

Run ``cost``, ``node`` and ``scale`` on the machine first, alone on it: ``fgai-bench run --suite cost --out runs/cost``.
Peaks are compared where they are those of a GPU: on a CPU a record holds the memory of the whole process, libraries
included.
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from fgai_bench.runner.forecast import MIB, Forecast, calibration_of, forecast
from fgai_bench.runner.progress import title
from fgai_bench.store.sqlite import StoreReader

TIME, MEMORY = 2.0, 1.25  # factors within which a forecast counts as right


def compared(folder: Path) -> list[tuple[dict[str, Any], Forecast]]:
    """Return the finished steps of a run, each with its forecast."""
    with StoreReader(folder) as store:
        steps = [{**step, "cost": store.result(step["hash"]).cost} for step in store.steps() if step["status"] == "ok"]
    return [(step, forecast(step["config"], calibration_of(step["config"]["device"]))) for step in steps]


def within(ratios: list[float], factor: float) -> str:
    """Return in words how many ratios lie within a factor of one, and their median and extremes."""
    right = sum(1 / factor <= ratio <= factor for ratio in ratios)
    middle, low, high = statistics.median(ratios), min(ratios), max(ratios)
    return f"{right} of {len(ratios)} within {factor:g}; median {middle:.2f}, from {low:.2f} to {high:.2f}"


def main(folders: list[str]) -> None:
    """Print forecast, measurement and ratio of every training, and the ratios of all steps by kind."""
    times: dict[str, list[float]] = defaultdict(list)
    peaks: list[float] = []
    total = [0.0, 0.0]
    for folder in folders:
        for step, expected in compared(Path(folder)):
            name = title(_Titled(step))  # type: ignore[arg-type]
            if expected.seconds is None:
                continue
            total[0], total[1] = total[0] + expected.seconds, total[1] + step["seconds"]
            times[step["kind"]].append(expected.seconds / step["seconds"])
            if step["kind"] == "train":
                print(f"{name}: {expected.seconds:.1f} s forecast, {step['seconds']:.1f} s measured", end="")
                if expected.bytes is not None and step["config"]["device"] != "cpu":
                    peak = step["cost"]["train_peak_mib"]
                    peaks.append(expected.bytes / MIB / peak)
                    print(f"; {expected.bytes / MIB:,.0f} MiB forecast, {peak:,.0f} MiB measured", end="")
                print()
    for kind, ratios in times.items():
        print(f"time of {kind}: {within(ratios, TIME)}")
    print(f"time of all steps together: {total[0]:.0f} s forecast, {total[1]:.0f} s measured")
    if peaks:
        print(f"memory of trainings: {within(peaks, MEMORY)}")


class _Titled:
    """A recorded step in the form that :func:`title` reads."""

    def __init__(self, step: dict[str, Any]) -> None:
        self.kind, self.config = step["kind"], step["config"]


if __name__ == "__main__":
    main(sys.argv[1:])
