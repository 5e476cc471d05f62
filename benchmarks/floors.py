"""Write the floors of a run beside its worst cases: ``python -m benchmarks.floors RUN FILE.csv``.

One row per graph, model, defense and seed: the clean score, the highest floor that a certificate proves, the lowest
score that an attack left, and the share of test nodes whose attention provably stays.
"""

from __future__ import annotations

import sys

import fgai_bench as fb

KEYS = ["dataset", "model", "label", "seed"]


def main(run: str, file: str) -> None:
    """Write the table of a run."""
    records = fb.Run(run).records()
    values = records[records["status"] == "ok"]
    parts = {
        "clean": ("clean", "f1", "max"),
        "floor": ("certify", "certified_f1", "max"),
        "worst_case": ("attack", "f1", "min"),
        "explanations": ("certify", "certified_explanations", "max"),
    }
    columns = {
        name: values[(values["kind"] == kind) & (values["metric"] == metric)].groupby(KEYS)["value"].agg(how)
        for name, (kind, metric, how) in parts.items()
    }
    table = columns["clean"].to_frame("clean").assign(**{name: columns[name] for name in parts if name != "clean"})
    table.round(6).reset_index().to_csv(file, index=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
