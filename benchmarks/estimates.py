"""Hold forecasts of memory against what a run has measured: ``python -m benchmarks.estimates RUN...``.

Run ``cost``, ``node`` and ``scale`` on a GPU first, alone on it: ``fgai-bench run --suite cost --out runs/cost``. On a
CPU a record holds the memory of the whole process, libraries included, so those are left out.
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict

from fgai_bench.records.store import StoreReader
from fgai_bench.run.forecast import MEMORY_TOLERANCE, MIB, memory_of
from fgai_bench.run.plan import Step
from fgai_bench.run.progress import title


def main(folders: list[str]) -> None:
    """Print forecast and measurement of every training, and the ratios of all by model."""
    ratios: dict[str, list[float]] = defaultdict(list)
    for folder in folders:
        with StoreReader(folder) as store:
            for step in store.steps():
                config, measured = step["config"], step["kind"] == "train" and step["status"] == "ok"
                if measured and config["device"] != "cpu" and (needed := memory_of(config)) is not None:
                    peak = store.result(step["hash"]).cost["train_peak_mib"]
                    ratios[config["model"]["name"]].append(needed / MIB / peak)
                    name = title(Step(step["hash"], "train", config, {}, step["trial"]))
                    print(f"{name}: {needed / MIB:,.0f} MiB forecast, {peak:,.0f} MiB measured")
    for model, of_model in ratios.items():
        right = sum(1 / MEMORY_TOLERANCE <= ratio <= MEMORY_TOLERANCE for ratio in of_model)
        middle, low, high = statistics.median(of_model), min(of_model), max(of_model)
        within = f"{right} of {len(of_model)} within {MEMORY_TOLERANCE:g}"
        print(f"trainings of {model}: {within}; median {middle:.2f}, from {low:.2f} to {high:.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
