"""Write the scores of a run by seed: ``python -m benchmarks.floors RUN FILE.csv``.

One row per graph, model, defense and seed: the clean score, the highest floor that a certificate proves, the lowest
score that an attack left, the share of test nodes whose attention provably stays, and what ``injection`` and ``worst``
left. The score is the one that ranks the graph. A graph with an inductive split has it in its name.
"""

from __future__ import annotations

import sys

import fgai_bench as fb
from fgai_bench.suites.schema import INDUCTIVE

KEYS = ["dataset", "model", "label", "seed"]


def main(run: str, file: str) -> None:
    """Write the table of a run."""
    records = fb.Run(run).records()
    values = records[(records["status"] == "ok") & (records["task"] == "node")]
    score = values["dataset"].str.removesuffix(INDUCTIVE).map(lambda name: fb.DATASETS[name].score)
    scores, proven = values[values["metric"] == score], values[values["metric"] == "certified_" + score]
    attacked = scores[scores["kind"] == "attack"]
    parts = {
        "clean": (scores[scores["kind"] == "clean"], "max"),
        "floor": (proven, "max"),
        "worst_case": (attacked, "min"),
        "explanations": (values[values["metric"] == "certified_explanations"], "max"),
        **{name: (attacked[attacked["attack_label"] == name], "min") for name in ("injection", "worst")},
    }
    columns = {name: rows.groupby(KEYS)["value"].agg(how) for name, (rows, how) in parts.items()}
    table = columns["clean"].to_frame("clean").assign(**{name: columns[name] for name in parts if name != "clean"})
    table.round(6).reset_index().to_csv(file, index=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
