"""Start a run folder from exported records, so that a later piece of a study goes on from the same checkpoints."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from fgai_bench.records.artifacts import DamagedArtifact
from fgai_bench.records.errors import RequestError
from fgai_bench.records.result import result_of
from fgai_bench.records.store import RecordedStep, Store, StoreReader


def start_from(records: str | os.PathLike[str], out: str | os.PathLike[str]) -> tuple[int, int]:
    """Make a run folder of exported records; return how many steps it holds, and how many it lacks something of.

    A step whose model or attacked graph was not exported is left out: a run of the folder computes it again. With
    models no training is repeated, and with graphs nothing at all.
    """
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RequestError(f"{folder} is not empty; name a new folder with --out")
    kept = lacking = 0
    with StoreReader(records) as source, closing(Store(folder)) as store:
        for step in source.steps():
            try:
                contents = {row["role"]: source.artifacts.read(row["sha256"]) for row in step["artifacts"]}
            except DamagedArtifact:
                lacking += 1
                continue
            recorded = RecordedStep(*(step[key] for key in ("hash", "kind", "trial", "config")))
            store.record(recorded, replace(result_of(step), artifacts=contents))
            kept += 1
        store.place(source.members())
    return kept, lacking
