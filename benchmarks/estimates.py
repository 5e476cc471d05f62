"""Hold forecasts of time and memory against what a run has measured: ``python -m benchmarks.estimates RUN...``.

Run ``cost``, ``node`` and ``scale`` on the machine first, alone on it: ``fgai-bench run --suite cost --out runs/cost``.
Peaks are compared where they are those of a GPU: on a CPU a record holds the memory of the whole process, libraries
included. Records of a GPU on a machine without one: peaks alone.
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch

from fgai_bench.records.store import StoreReader
from fgai_bench.run.forecast import MIB, Forecast, calibration_of, forecast
from fgai_bench.run.progress import title

TIME, MEMORY = 2.0, 1.25  # factors within which a forecast counts as right


def compared(folder: Path) -> list[tuple[dict[str, Any], Forecast]]:
    """Return the finished steps of a run, each with its forecast."""
    with StoreReader(folder) as store:
        steps = [{**step, "cost": store.result(step["hash"]).cost} for step in store.steps() if step["status"] == "ok"]
    devices = {step["config"]["device"] for step in steps}
    known = {
        device: calibration_of(device) if device == "cpu" or torch.cuda.is_available() else None for device in devices
    }
    return [(step, forecast(step["config"], known[step["config"]["device"]])) for step in steps]


def within(ratios: list[float], factor: float) -> str:
    """Return in words how many ratios lie within a factor of one, and their median and extremes."""
    right = sum(1 / factor <= ratio <= factor for ratio in ratios)
    middle, low, high = statistics.median(ratios), min(ratios), max(ratios)
    return f"{right} of {len(ratios)} within {factor:g}; median {middle:.2f}, from {low:.2f} to {high:.2f}"


def main(folders: list[str]) -> None:
    """Print forecast, measurement and ratio of every training, and the ratios of all steps by kind."""
    times: dict[str, list[float]] = defaultdict(list)
    peaks: dict[str, list[float]] = defaultdict(list)
    total = [0.0, 0.0]
    for folder in folders:
        for step, expected in compared(Path(folder)):
            said = []
            if expected.seconds is not None:
                total[0], total[1] = total[0] + expected.seconds, total[1] + step["seconds"]
                times[step["kind"]].append(expected.seconds / step["seconds"])
                said.append(f"{expected.seconds:.1f} s forecast, {step['seconds']:.1f} s measured")
            if step["kind"] == "train" and expected.bytes is not None and step["config"]["device"] != "cpu":
                peak = step["cost"]["train_peak_mib"]
                peaks[step["config"]["model"]["name"]].append(expected.bytes / MIB / peak)
                said.append(f"{expected.bytes / MIB:,.0f} MiB forecast, {peak:,.0f} MiB measured")
            if step["kind"] == "train":
                print(f"{title(_Titled(step))}: {'; '.join(said)}")  # type: ignore[arg-type]
    for kind, ratios in times.items():
        print(f"time of {kind}: {within(ratios, TIME)}")
    if times:
        print(f"time of all steps together: {total[0]:.0f} s forecast, {total[1]:.0f} s measured")
    for model, ratios in peaks.items():
        print(f"memory of trainings of {model}: {within(ratios, MEMORY)}")


class _Titled:
    """A recorded step in the form that :func:`title` reads."""

    def __init__(self, step: dict[str, Any]) -> None:
        self.kind, self.config = step["kind"], step["config"]


if __name__ == "__main__":
    main(sys.argv[1:])
